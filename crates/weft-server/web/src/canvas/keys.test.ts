import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { en } from "../i18n/en-canvas.ts";
import { command, KEYS } from "./keys.ts";

const press = (key: string, held: Partial<Record<"ctrlKey" | "metaKey" | "altKey" | "shiftKey", boolean>> = {}) =>
  command({ key, ctrlKey: false, metaKey: false, altKey: false, shiftKey: false, ...held });

test("keys of the board", () => {
  assert.equal(press("n"), "add");
  assert.equal(press("N", { shiftKey: true }), "add");
  assert.equal(press("z"), "zone");
  assert.equal(press("z", { ctrlKey: true }), "undo");
  assert.equal(press("Z", { metaKey: true, shiftKey: true }), "redo");
  assert.equal(press("c", { ctrlKey: true }), null, "the browser copies");
  assert.equal(press("n", { altKey: true }), null);
  assert.equal(press("q"), null);
});

test("the guide has the same table of keys", () => {
  const guide = readFileSync(new URL("../../../../../docs/guide/canvas.md", import.meta.url), "utf8");
  const table = guide.split("## Keys")[1] ?? "";
  const rows = [...table.matchAll(/^\| (.+?) \| (.+?) \|$/gm)].slice(2).map((row) => [row[1], row[2]]);
  assert.deepEqual(
    rows,
    KEYS.map(([key, what]) => [key, en[`canvas.key.${what}` as "canvas.key.add"]]),
  );
});
