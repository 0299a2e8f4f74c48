// The carried values of a loop, pass by pass, as the events recorded them: what each began with and what it handed on.
import type { LoopView } from "../state/view.ts";

/** A value that may be known, or known to have changed, or neither. */
export type Known = { value: unknown } | { changed: boolean };

export interface CarriedRow {
  key: string;
  /** What the first pass begins with. */
  initial: Known;
  /** One a pass: the value after it, and whether the pass changed it. */
  after: { known: Known; changed: boolean }[];
}

/** The values that a loop carries, after each of its passes. Runs of earlier versions recorded which ones changed only. */
export function carriedValues(loop: LoopView): CarriedRow[] {
  const first = loop.first ?? {};
  const keys = new Set(Object.keys(first));
  for (const pass of loop.passes) for (const key of pass.changed) keys.add(key);
  return [...keys].map((key) => {
    const initial: Known = key in first ? { value: first[key] } : { changed: false };
    let last = initial;
    const after = loop.passes.map((pass) => {
      const changed = pass.changed.includes(key);
      if (changed) last = pass.values !== undefined && key in pass.values ? { value: pass.values[key] } : { changed };
      return { known: last, changed };
    });
    return { key, initial, after };
  });
}

/** What became of a text: parts that stayed, went or came, word by word where it is short enough. */
export type Piece = { kind: "same" | "gone" | "new"; text: string };

const MAX_WORDS = 600;

export function textDifference(old: string, now: string): Piece[] {
  // What both begin and end with is the same whatever lies between.
  const [from, to] = [[...old], [...now]];
  const shortest = Math.min(from.length, to.length);
  let begin = 0;
  while (begin < shortest && from[begin] === to[begin]) begin += 1;
  let end = 0;
  while (end < shortest - begin && from[from.length - 1 - end] === to[to.length - 1 - end]) end += 1;
  const middle = wordDifference(from.slice(begin, from.length - end).join(""), to.slice(begin, to.length - end).join(""));
  const pieces: Piece[] = [{ kind: "same", text: from.slice(0, begin).join("") }, ...middle, { kind: "same", text: (end === 0 ? [] : from.slice(-end)).join("") }];
  return pieces.filter((piece) => piece.text !== "");
}

function wordDifference(old: string, now: string): Piece[] {
  const split = (text: string) => text.match(/\s+|[\p{Script=Han}]|[^\s\p{Script=Han}]+/gu) ?? [];
  const [a, b] = [split(old), split(now)];
  if (a.length > MAX_WORDS || b.length > MAX_WORDS) {
    return [
      { kind: "gone", text: old },
      { kind: "new", text: now },
    ];
  }
  const width = b.length + 1;
  const table = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      table[i * width + j] =
        a[i] === b[j]
          ? (table[(i + 1) * width + j + 1] as number) + 1
          : Math.max(table[(i + 1) * width + j] as number, table[i * width + j + 1] as number);
    }
  }
  const pieces: Piece[] = [];
  const add = (kind: Piece["kind"], text: string) => {
    const last = pieces.at(-1);
    if (last?.kind === kind) last.text += text;
    else pieces.push({ kind, text });
  };
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      add("same", a[i] as string);
      i += 1;
      j += 1;
    } else if (i < a.length && (j >= b.length || (table[(i + 1) * width + j] as number) >= (table[i * width + j + 1] as number))) {
      add("gone", a[i] as string);
      i += 1;
    } else {
      add("new", b[j] as string);
      j += 1;
    }
  }
  return pieces;
}
