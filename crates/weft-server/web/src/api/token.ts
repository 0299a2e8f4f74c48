// The token stands behind the `#` of the address that `weft serve` prints. It moves to the tab's own storage, and out
// of the address, so that it is in no bookmark and on no screenshot. Tabs of one browser session hand it to each other.

const KEY = "weft.token";
/** How long a new tab waits for the token of another one, in milliseconds. */
const PATIENCE = 150;

type Word = { want: true } | { token: string };

// Outside of a browser it would keep the process.
const channel = typeof document === "undefined" ? undefined : new BroadcastChannel(KEY);
channel?.addEventListener("message", ({ data }: MessageEvent<Word>) => {
  if ("want" in data) {
    if (token() !== "") channel.postMessage({ token: token() } satisfies Word);
  } else if (data.token !== token()) {
    sessionStorage.setItem(KEY, data.token);
    for (const heard of listeners) heard();
  }
});

const listeners = new Set<() => void>();

/** Calls back when another tab has a token that this one did not know. */
export function onToken(heard: () => void): () => void {
  listeners.add(heard);
  return () => listeners.delete(heard);
}

/** Moves a token from the address into the tab's storage; without one, asks the other tabs. */
export async function takeToken(): Promise<void> {
  const fragment = location.hash.replace(/^#\/?/, "");
  const parameters = new URLSearchParams(fragment);
  const given = parameters.get("token");
  if (given !== null) {
    keepToken(given);
    parameters.delete("token");
    history.replaceState(null, "", `${location.pathname}${location.search}#/`);
    return;
  }
  if (token() !== "" || channel === undefined) return;
  channel.postMessage({ want: true } satisfies Word);
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, PATIENCE);
    const stop = onToken(() => {
      clearTimeout(timer);
      stop();
      resolve();
    });
  });
}

/** The token of this tab, or an empty text. */
export function token(): string {
  return sessionStorage.getItem(KEY) ?? "";
}

/** Keeps a token that the user typed, alone or in an address, and hands it to the other tabs. */
export function keepToken(text: string): void {
  const typed = text.trim();
  const inAddress = typed.includes("token=") ? typed.split("token=")[1] : undefined;
  const kept = inAddress ?? typed;
  sessionStorage.setItem(KEY, kept);
  if (kept !== "") channel?.postMessage({ token: kept } satisfies Word);
}

/** Forgets the token of this tab. */
export function dropToken(): void {
  sessionStorage.removeItem(KEY);
}
