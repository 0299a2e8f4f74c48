import assert from "node:assert/strict";
import { test } from "node:test";
import { JsonError, keysOf, objectOf, parseJson, printJson, sameJson, type JsonObject } from "./json.ts";

test("what is read and written again is the same text", () => {
  const texts = [
    `{"b":1,"a":[true,false,null],"2":"x","10":"y","1":"z"}`,
    `{"whole":1.0,"large":12345678901234567890,"small":1e-400,"exponent":1E5,"minus":-0}`,
    `{"escape":"a\\"b\\\\c","line":"\\n","中":"文"}`,
    `[]`,
    `{"__proto__":{"a":1},"constructor":2}`,
  ];
  for (const text of texts) assert.equal(printJson(parseJson(text)), text);
});

test("a copy made by spreading keeps the order of keys, and new keys come last", () => {
  const read = parseJson(`{"b":1,"7":2,"a":3}`) as JsonObject;
  assert.equal(printJson({ ...read, b: 4, c: 5 }), `{"b":4,"7":2,"a":3,"c":5}`);
  const { b: _, ...rest } = read;
  assert.deepEqual(keysOf({ ...rest }), ["7", "a"]);
  assert.equal(printJson(objectOf([["z", 1], ["3", 2]])), `{"z":1,"3":2}`);
});

test("indented as the server writes it", () => {
  assert.equal(printJson(parseJson(`{"a":[1,{}],"b":{"c":[]}}`), 2), `{\n  "a": [\n    1,\n    {}\n  ],\n  "b": {\n    "c": []\n  }\n}`);
});

test("faults have a place", () => {
  for (const [text, at] of [["{", 1], ["[1,]", 3], [`{"a" 1}`, 5], ["1 2", 2], [`"a`, 2], ["nul", 0], [`{"a":1,}`, 7]] as const) {
    assert.throws(
      () => parseJson(text),
      (error) => error instanceof JsonError && error.at === at,
      text,
    );
  }
});

test("the order of keys makes no difference, the spelling of numbers does", () => {
  assert.ok(sameJson(parseJson(`{"a":1,"b":[2]}`), parseJson(`{"b":[2],"a":1}`)));
  assert.ok(!sameJson(parseJson("1.0"), parseJson("1")));
  assert.ok(sameJson(parseJson("1.0"), parseJson("1.0")));
});
