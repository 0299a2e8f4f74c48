import assert from "node:assert/strict";
import { test } from "node:test";
import { around, diffLines } from "./diff.ts";

const told = (before: string, after: string): string =>
  diffLines(before, after)
    .map((line) => ({ same: " ", added: "+", removed: "-" })[line.kind] + line.text)
    .join("|");

test("lines that were added, taken away and changed are told", () => {
  assert.equal(told("a\nb\nc", "a\nb\nc"), " a| b| c");
  assert.equal(told("a\nc", "a\nb\nc"), " a|+b| c");
  assert.equal(told("a\nb\nc", "a\nc"), " a|-b| c");
  assert.equal(told("a\nb\nc\nd", "a\nx\nc\ny\nd"), " a|-b|+x| c|+y| d");
  assert.equal(told("", "a"), "-|+a");
});

test("both texts can be read back from what differs", () => {
  let seed = 7;
  const random = (below: number): number => (seed = (seed * 16807) % 2147483647) % below;
  for (let round = 0; round < 200; round += 1) {
    const text = (): string => Array.from({ length: random(12) }, () => "abc"[random(3)]).join("\n");
    const [before, after] = [text(), text()];
    const lines = diffLines(before, after);
    const without = (kind: string): string => lines.filter((line) => line.kind !== kind).map((line) => line.text).join("\n");
    assert.equal(without("added"), before);
    assert.equal(without("removed"), after);
  }
});

test("what is far from a change is left out", () => {
  const long = Array.from({ length: 20 }, (_, n) => String(n)).join("\n");
  const shown = around(diffLines(long, `${long}\nend`), 2);
  assert.deepEqual(shown.map((line) => line?.text), [undefined, "18", "19", "end"]);
});
