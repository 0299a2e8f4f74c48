// Addresses behind the `#`: `#/runs/r1?at=12`. Pure functions; `route.svelte.ts` holds the current one.

export const PAGES = ["timeline", "chat", "canvas", "loop", "tools", "runs", "inbox"] as const;
export type PageName = (typeof PAGES)[number];

export interface Route {
  page: PageName;
  /** What stands behind the page's name, decoded. */
  parts: string[];
  query: Record<string, string>;
}

export function parseRoute(hash: string): Route {
  const [path = "", search = ""] = hash.replace(/^#?\/?/, "").split("?", 2);
  const [name = "", ...rest] = path.split("/");
  const page = PAGES.find((known) => known === name) ?? "timeline";
  const parts = rest.filter((text) => text !== "").map(decode);
  return { page, parts, query: Object.fromEntries(new URLSearchParams(search)) };
}

export function formatRoute(page: PageName, parts: string[] = [], query: Record<string, string> = {}): string {
  const path = [page, ...parts.map(encodeURIComponent)].join("/");
  const search = new URLSearchParams(query).toString();
  return `#/${path}${search === "" ? "" : `?${search}`}`;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
