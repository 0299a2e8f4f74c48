import assert from "node:assert/strict";
import { test } from "node:test";
import { brief } from "./brief.ts";

test("small values are whole", () => {
  const cases: [unknown, string][] = [
    [undefined, ""],
    [null, "null"],
    [" a\n b ", "a b"],
    [{ a: [1, "x"], b: null }, '{"a":[1,"x"],"b":null}'],
    [[], "[]"],
  ];
  for (const [value, text] of cases) assert.equal(brief(value), text);
});

test("of large values only the beginning is read", () => {
  let reads = 0;
  const many = new Proxy(Array.from({ length: 1_000_000 }, (_, index) => index), {
    get(list, key, receiver) {
      reads += 1;
      return Reflect.get(list, key, receiver) as unknown;
    },
  });
  const text = brief(many, 40);
  assert.equal(text.length, 40);
  assert.ok(text.endsWith("…"));
  assert.ok(reads < 200, `${reads} reads`);
  assert.equal(brief("x".repeat(5_000_000), 10), "xxxxxxxxx…");
});
