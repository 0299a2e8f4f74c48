// What the keys of the board mean.

export type Command =
  | "add"
  | "connect"
  | "move"
  | "details"
  | "remove"
  | "undo"
  | "redo"
  | "save"
  | "duplicate"
  | "all"
  | "none"
  | "layout"
  | "run"
  | "problems"
  | "frame"
  | "zone"
  | "group"
  | "enter"
  | "help"
  | "zoom-in"
  | "zoom-out"
  | "fit";

const PLAIN: Record<string, Command> = {
  n: "add",
  "/": "add",
  c: "connect",
  m: "move",
  Enter: "details",
  Delete: "remove",
  Backspace: "remove",
  Escape: "none",
  l: "layout",
  r: "run",
  p: "problems",
  f: "frame",
  z: "zone",
  g: "group",
  o: "enter",
  "?": "help",
  "+": "zoom-in",
  "=": "zoom-in",
  "-": "zoom-out",
  "0": "fit",
};

const WITH_CONTROL: Record<string, Command> = {
  z: "undo",
  y: "redo",
  s: "save",
  d: "duplicate",
  a: "all",
  k: "add",
};

/** What a key press asks for; `null` where it is nothing of ours. */
export function command(event: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey" | "shiftKey">): Command | null {
  if (event.altKey) return null;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (event.ctrlKey || event.metaKey) {
    if (key === "z" && event.shiftKey) return "redo";
    return WITH_CONTROL[key] ?? null;
  }
  return PLAIN[key] ?? null;
}

/** For the table of keys: the key as it is printed, and what it does. */
export const KEYS: readonly [string, string][] = [
  ["N", "add"],
  ["C", "connect"],
  ["← ↑ → ↓", "walk"],
  ["Shift + ←", "extend"],
  ["Alt + ←", "nudge"],
  ["Enter", "details"],
  ["M", "move"],
  ["Z", "zone"],
  ["F", "frame"],
  ["G", "group"],
  ["O", "enter"],
  ["Delete", "remove"],
  ["Ctrl + C / X / V", "copy"],
  ["Ctrl + D", "duplicate"],
  ["Ctrl + Z / Y", "undo"],
  ["Ctrl + S", "save"],
  ["L", "layout"],
  ["R", "run"],
  ["P", "problems"],
  ["+ − 0", "zoom"],
];
