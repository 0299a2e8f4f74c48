import { type PageName, type Route, formatRoute, parseRoute } from "./router.ts";

/** Asks whether the page may be left; false keeps it. */
type Guard = () => boolean;

class Current {
  route: Route = $state.raw(parseRoute(location.hash));
  private guard: Guard | undefined;
  private address = location.hash;

  constructor() {
    addEventListener("hashchange", () => {
      if (location.hash === this.address) return;
      if (this.guard && parseRoute(location.hash).page !== this.route.page && !this.guard()) {
        history.replaceState(null, "", this.address);
        return;
      }
      this.address = location.hash;
      this.route = parseRoute(location.hash);
    });
    addEventListener("beforeunload", (event) => {
      if (this.guard && !this.guard()) event.preventDefault();
    });
  }

  /** Keeps the page from being left unasked; the answer takes the guard away. */
  keep(guard: Guard): () => void {
    this.guard = guard;
    return () => {
      if (this.guard === guard) this.guard = undefined;
    };
  }
}

export const current = new Current();

export function go(page: PageName, parts: string[] = [], query: Record<string, string> = {}): void {
  location.hash = formatRoute(page, parts, query);
}

/** Changes the address without a new entry in the history. */
export function replace(page: PageName, parts: string[] = [], query: Record<string, string> = {}): void {
  location.replace(formatRoute(page, parts, query));
}
