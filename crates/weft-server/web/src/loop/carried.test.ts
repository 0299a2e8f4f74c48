import assert from "node:assert/strict";
import { test } from "node:test";
import type { TraceEvent } from "../api/types.gen.ts";
import { reduce, emptyView } from "../state/reducer.ts";
import { carriedValues, textDifference } from "./carried.ts";

const event = (seq: number, type: string, data: object, iteration?: number): TraceEvent =>
  ({ v: 1, run: "r", seq, ts: "2026-01-01T00:00:00.000Z", span: 0, path: "loop", type, data, ...(iteration === undefined ? {} : { iteration }) }) as unknown as TraceEvent;

test("carried values are those that the events recorded", () => {
  const view = reduce(emptyView("r"), [
    event(1, "loop.entered", { mode: "times", state: { n: 0, name: "a" } }),
    event(2, "loop.iter.started", {}, 0),
    event(3, "loop.iter.finished", { changed: ["n"], values: [1], decision: "next" }, 0),
    event(4, "loop.iter.started", { item: "x" }, 1),
    event(5, "loop.iter.finished", { changed: ["n", "late"], values: [2, null], decision: "condition" }, 1),
  ]);
  const loop = view.graphs[""]?.loops["loop"];
  assert.ok(loop);
  assert.deepEqual(loop.passes.map((pass) => [pass.item, pass.decision]), [[undefined, "next"], ["x", "condition"]]);
  assert.deepEqual(carriedValues(loop), [
    { key: "n", initial: { value: 0 }, after: [{ known: { value: 1 }, changed: true }, { known: { value: 2 }, changed: true }] },
    { key: "name", initial: { value: "a" }, after: [{ known: { value: "a" }, changed: false }, { known: { value: "a" }, changed: false }] },
    { key: "late", initial: { changed: false }, after: [{ known: { changed: false }, changed: false }, { known: { value: null }, changed: true }] },
  ]);
});

test("passes that run at once end each for itself", () => {
  const view = reduce(emptyView("r"), [
    event(1, "loop.entered", { mode: "each" }),
    event(2, "loop.iter.started", { item: 1 }, 0),
    event(3, "loop.iter.started", { item: 2 }, 1),
    event(4, "loop.iter.finished", { changed: ["n"] }, 0),
  ]);
  const loop = view.graphs[""]?.loops["loop"];
  assert.deepEqual(loop?.passes.map((pass) => pass.state), ["ok", "running"]);
  assert.deepEqual(loop && carriedValues(loop)[0]?.after[0], { known: { changed: true }, changed: true }, "a run of an earlier version");
});

test("what became of a text", () => {
  const said = (old: string, now: string) => textDifference(old, now).map((piece) => `${piece.kind[0]}:${piece.text}`);
  assert.deepEqual(said("a b c", "a x c"), ["s:a ", "g:b", "n:x", "s: c"]);
  assert.deepEqual(said("", "a"), ["n:a"]);
  assert.deepEqual(said("same", "same"), ["s:same"]);
  assert.deepEqual(said("今天好", "今天很好"), ["s:今天", "n:很", "s:好"]);
});
