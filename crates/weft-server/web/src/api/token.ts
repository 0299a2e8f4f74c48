// The token stands behind the `#` of the address that `weft serve` prints. It moves to the tab's own
// storage, and out of the address, so that it is in no bookmark and on no screenshot.

const KEY = "weft.token";

/** Moves a token from the address into the tab's storage. */
export function takeToken(): void {
  const fragment = location.hash.replace(/^#\/?/, "");
  const parameters = new URLSearchParams(fragment);
  const token = parameters.get("token");
  if (token === null) return;
  sessionStorage.setItem(KEY, token);
  parameters.delete("token");
  history.replaceState(null, "", `${location.pathname}${location.search}#/`);
}

/** The token of this tab, or an empty text. */
export function token(): string {
  return sessionStorage.getItem(KEY) ?? "";
}

/** Keeps a token that a person typed. */
export function keepToken(text: string): void {
  const typed = text.trim();
  const inAddress = typed.includes("token=") ? typed.split("token=")[1] : undefined;
  sessionStorage.setItem(KEY, inAddress ?? typed);
}
