import assert from "node:assert/strict";
import { test } from "node:test";
import { visible } from "./visible.ts";

const cases: [string, string][] = [
  ["\u001b[2J pay\u202e001", "\\u001b[2J pay\\u202e001"],
  ["pay\u200bpal\ufeff", "pay\\u200bpal\\ufeff"],
  ["x\u{e0041}", "x\\udb40\\udc41"],
  ["a\ufe0fb\u200dc", "a\\ufe0fb\\u200dc"],
  ["two\nlines\tand 中文 ❤\ufe0f 👩\u200d💻", "two\nlines\tand 中文 ❤\ufe0f 👩\u200d💻"],
];

test("n09: what cannot be seen is shown", () => {
  for (const [text, shown] of cases) assert.equal(visible(text), shown);
});
