import assert from "node:assert/strict";
import { test } from "node:test";
import { type Schema, fits, initial, limitsOf, othersOf, shapeOf, typeName, variantOf } from "./schema.ts";

const root: Schema = {
  $defs: {
    City: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
    Loop: { $ref: "#/$defs/Loop" },
    Tree: { type: "object", properties: { next: { $ref: "#/$defs/Tree" } } },
    "a/b": { type: "integer" },
    Circle: { type: "object", properties: { kind: { const: "circle" }, r: { type: "number" } }, required: ["kind", "r"] },
    Box: { type: "object", properties: { kind: { const: "box" }, w: { type: "number" } }, required: ["kind"] },
  },
};
const shapes = { oneOf: [{ $ref: "#/$defs/Circle" }, { $ref: "#/$defs/Box" }] };

test("each form of a schema is a kind of field", () => {
  const table: [unknown, string, boolean][] = [
    [{ type: "string" }, "text", false],
    [{ type: ["string", "null"] }, "text", true],
    [{ type: "integer", nullable: true }, "integer", true],
    [{ type: ["string", "number"] }, "union", false],
    [{ anyOf: [{ type: "string" }, { type: "null" }] }, "text", true],
    [{ anyOf: [{ $ref: "#/$defs/City" }, { type: "null" }] }, "object", true],
    [{ oneOf: [{ const: "a" }, { const: "b" }] }, "choice", false],
    [shapes, "union", false],
    [{ enum: ["a", null] }, "choice", true],
    [{ const: 1 }, "const", false],
    [{ $ref: "#/$defs/a~1b" }, "integer", false],
    [{ $ref: "#/$defs/Loop" }, "any", false],
    [{ $ref: "elsewhere.json" }, "any", false],
    [{ allOf: [{ $ref: "#/$defs/City" }, { properties: { zip: { type: "string" } } }] }, "object", false],
    [{ type: "array", prefixItems: [{ type: "string" }] }, "tuple", false],
    [{ items: {} }, "list", false],
    [{ properties: {} }, "object", false],
    [{}, "any", false],
    [true, "any", false],
  ];
  for (const [schema, kind, nullable] of table) {
    const shape = shapeOf(schema, root);
    assert.deepEqual([shape.kind, shape.nullable], [kind, nullable], JSON.stringify(schema));
  }
});

test("what stands beside a reference counts, and allOf puts members together", () => {
  assert.equal(shapeOf({ $ref: "#/$defs/City", description: "where" }, root).description, "where");
  const both = shapeOf({ allOf: [{ $ref: "#/$defs/City" }, { properties: { zip: {} }, required: ["zip"] }] }, root);
  assert.deepEqual(both.schema["required"], ["name", "zip"]);
  assert.deepEqual(Object.keys(both.schema["properties"] as object), ["name", "zip"]);
});

test("a value to begin with is the default, or as little as must be", () => {
  const table: [unknown, unknown][] = [
    [{ type: "string", default: "x" }, "x"],
    [{ type: "string" }, undefined],
    [{ type: "boolean" }, false],
    [{ type: "array", items: {} }, []],
    [{ $ref: "#/$defs/City" }, {}],
    [{ $ref: "#/$defs/Tree" }, {}],
    [{ $ref: "#/$defs/Circle" }, { kind: "circle" }],
    [shapes, { kind: "circle" }],
    [{ anyOf: [shapes, { type: "null" }] }, null],
    [{ type: "array", prefixItems: [{ const: 1 }, { type: "string" }] }, [1, null]],
  ];
  for (const [schema, value] of table) assert.deepEqual(initial(schema, root), value, JSON.stringify(schema));
});

test("a value says which variant of a union it is", () => {
  const { variants } = shapeOf(shapes, root);
  assert.equal(variantOf({ kind: "box" }, variants, root), 1);
  assert.equal(variantOf({ kind: "circle", r: 1 }, variants, root), 0);
  const plain = shapeOf({ type: ["string", "integer", "number"] }, root).variants;
  assert.deepEqual(["a", 1, 1.5].map((value) => variantOf(value, plain, root)), [0, 1, 2]);
  assert.equal(fits(null, { type: ["string", "null"] }, root), true);
  assert.equal(fits({ a: 1 }, { type: "object", properties: {}, additionalProperties: false }, root), false);
});

test("types and limits are told in short", () => {
  assert.equal(typeName({ type: "array", items: { enum: ["a", "b"] } }, root), '["a" | "b"]');
  assert.equal(typeName({ anyOf: [{ type: "string" }, { type: "integer" }, { type: "null" }] }, root), "text | integer | null");
  assert.deepEqual(limitsOf({ minimum: 1, maxLength: 5, pattern: "^a" }), ["≥ 1", "length ≤ 5", "/^a/"]);
  assert.deepEqual(othersOf({ type: "object" }), {});
  assert.equal(othersOf({ type: "object", properties: { a: {} } }), undefined);
});
