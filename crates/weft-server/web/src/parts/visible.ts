/** What acts on a reader or cannot be seen: control, bidi, zero-width, filler and tag characters. */
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb]|\udb40[\udc00-\udfff]/g;

/** Joiners and selectors that scripts and emoji need. */
const JOINED =
  /(?<=[\p{Extended_Pictographic}\ufe0f])\u200d(?=\p{Extended_Pictographic})|(?<=\p{Extended_Pictographic})\ufe0f|(?<=[0-9#*])\ufe0f(?=\u20e3)|(?<=[\u0620-\u0dff\u1780-\u17b3])[\u200c\u200d](?=[\u0620-\u0dff\u1780-\u17b3])/gu;

/** A foreign text as a person may decide on it: what cannot be seen is written as an escape. The terminal shows the same. */
export function visible(text: string): string {
  const kept = new Set(Array.from(text.matchAll(JOINED), (match) => match.index));
  return text.replace(HIDDEN, (found, at: number) => {
    if (kept.has(at)) return found;
    return Array.from({ length: found.length }, (_, unit) => `\\u${found.charCodeAt(unit).toString(16).padStart(4, "0")}`).join("");
  });
}
