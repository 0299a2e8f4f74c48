// Values of any size in few words, without a walk through all of them.

/** A value on one line, of about so many characters; reads no more of it than it shows. */
export function brief(value: unknown, most = 120): string {
  const text = written(value, most);
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function written(value: unknown, most: number): string {
  if (value === undefined) return "";
  // Twice as much is read, since blanks fold.
  if (typeof value === "string") return value.slice(0, 2 * most + 1).replace(/\s+/g, " ").trim();
  return json(value, most);
}

function json(value: unknown, most: number): string {
  if (typeof value === "string") return JSON.stringify(value.slice(0, most));
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "";
  const isList = Array.isArray(value);
  let text = isList ? "[" : "{";
  const keys: Iterable<string> = isList ? indices(value) : Object.keys(value);
  for (const key of keys) {
    if (text.length > most) return `${text}…`;
    if (text.length > 1) text += ",";
    if (!isList) text += `${JSON.stringify(key)}:`;
    text += json((value as Record<string, unknown>)[key], most - text.length);
  }
  return text + (isList ? "]" : "}");
}

function* indices(list: readonly unknown[]): Iterable<string> {
  for (let index = 0; index < list.length; index += 1) yield String(index);
}
