import assert from "node:assert/strict";
import { test } from "node:test";
import { en } from "./en.ts";
import { fill, languageOf } from "./index.ts";
import { zh } from "./zh.ts";

test("both languages say the same things", () => {
  assert.deepEqual(Object.keys(zh).sort(), Object.keys(en).sort());
});

test("no text is empty, and both name the same values", () => {
  const names = (text: string): string[] => [...text.matchAll(/\{(\w+)\}/g)].map((match) => match[1] ?? "").sort();
  for (const [key, text] of Object.entries(en)) {
    const other = zh[key as keyof typeof en];
    assert(text.trim() !== "" && other.trim() !== "", key);
    assert.deepEqual(names(other), names(text), key);
  }
});

test("the language is the kept one, else the browser's", () => {
  assert.equal(languageOf("zh", ["en-GB"]), "zh");
  assert.equal(languageOf(null, ["fr-FR", "zh-TW", "en"]), "zh");
  assert.equal(languageOf("xx", ["de"]), "en");
  assert.equal(fill("{a} and {b}", { a: 1 }), "1 and {b}");
});
