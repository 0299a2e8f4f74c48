import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { TraceEvent } from "../api/types.gen.ts";
import { type CallEntry, type RunView, emptyView, reduce, viewOf } from "./reducer.ts";
import { treeOf } from "./tree.ts";

function eventsOf(name: string): TraceEvent[] {
  const file = new URL(`../../tests/fixtures/${name}.events.json`, import.meta.url);
  return JSON.parse(readFileSync(file, "utf8")) as TraceEvent[];
}

const RUNS = ["desk", "boss"];

const frozen = (view: RunView): RunView => {
  const freeze = (value: unknown): void => {
    if (typeof value !== "object" || value === null || Object.isFrozen(value)) return;
    Object.freeze(value);
    Object.values(value).forEach(freeze);
  };
  freeze(view);
  return view;
};

for (const name of RUNS) {
  const events = eventsOf(name);
  const whole = viewOf("r1", events);

  test(`${name}: the view does not depend on how events are cut into batches, and old views stay as they are`, () => {
    for (const size of [1, 2, 7, 40]) {
      let view = frozen(emptyView("r1"));
      for (let at = 0; at < events.length; at += size) {
        view = frozen(reduce(view, events.slice(at, at + size)));
      }
      assert.deepEqual(view, whole, `batches of ${size}`);
    }
  });

  test(`${name}: events that come again change nothing`, () => {
    const again = reduce(reduce(whole, events.slice(3)), events);
    assert.deepEqual(again, whole);
  });

  test(`${name}: every entry has a name of its own, and all are in the tree`, () => {
    const ids = whole.entries.map((entry) => entry.id);
    assert.equal(new Set(ids).size, ids.length);
    const count = (items: ReturnType<typeof treeOf>): number =>
      items.reduce((sum, item) => sum + 1 + count(item.children), 0);
    assert.equal(count(treeOf(whole.entries)), ids.length);
  });
}

test("a run reads as what happened in it", () => {
  const view = viewOf("r1", eventsOf("boss"));
  assert.equal(view.status, "ok");
  assert.equal(view.answer, "The clerk counted to 2.");
  const root = treeOf(view.entries);
  const shape = (items: ReturnType<typeof treeOf>): unknown[] =>
    items.map(({ entry, children }) => {
      const name = entry.kind === "call" ? `call ${entry.tool} ${entry.state}` : entry.kind;
      return children.length === 0 ? name : [name, ...shape(children)];
    });
  assert.deepEqual(shape(root), [
    "said",
    ["turn", "rewrite"],
    ["turn", "call system:get_current_time ok"],
    ["turn", ["call skill:clerk ok", ["turn", ["call workflow:count ok", "step", "step", "step"]], "turn"]],
    "turn",
    "end",
  ]);
});

test("a call is told from its first letter to its observation", () => {
  const events = eventsOf("boss");
  const call = (upTo: number): CallEntry => {
    const view = viewOf("r1", events.filter((event) => event.seq <= upTo));
    const found = view.entries.find((entry): entry is CallEntry => entry.id === "call:c2");
    assert(found);
    return found;
  };
  assert.deepEqual([call(18).state, call(18).written], ["writing", { "/timezone": "Asia/Shanghai" }]);
  assert.deepEqual([call(21).state, call(21).arguments], ["ready", { timezone: "Asia/Shanghai" }]);
  assert.equal(call(25).state, "asked");
  assert.equal(viewOf("r1", events.slice(0, 25)).asks.length, 1);
  assert.equal(call(29).state, "running");
  assert.equal(call(31).state, "ok");
  assert.match(call(31).observation ?? "", /executed successfully/);
});

test("a question is asked as what it is about", () => {
  const asks = [
    { ask: "c1/q", kind: "question", tool: "workflow:x", arguments: {}, prompt: "Really?" },
    { ask: "c2~1", kind: "outcome", tool: "pay", arguments: {} },
    { ask: "c3", kind: "approval", tool: "pay", arguments: { to: "x" } },
  ];
  const event = { v: 1, run: "r1", seq: 1, ts: "2026-01-01T00:00:00.000Z", span: 0, type: "run.waiting", data: { asks } };
  const view = viewOf("r1", [event as unknown as TraceEvent]);
  const asked = view.entries.flatMap((entry) => (entry.kind === "ask" ? [[entry.ask, entry.tool ?? "", entry.unknownEffect]] : []));
  assert.deepEqual(asked, [
    ["c1/q", "", false],
    ["c2~1", "", true],
    ["c3", "pay", false],
  ]);
});

test("loops are seen with their passes", () => {
  const view = viewOf("r1", eventsOf("boss"));
  const graph = view.graphs["c3.1"];
  assert(graph);
  const loop = graph.loops["loop"];
  assert.deepEqual(loop?.exited, { passes: 2, why: "condition" });
  assert.deepEqual(loop?.passes.map((pass) => [pass.iteration, pass.state, pass.changed]), [
    [0, "ok", ["i"]],
    [1, "ok", ["i"]],
  ]);
  assert.equal(graph.latest["loop/add"], "loop[1]/add");
  assert.equal(graph.nodes["loop[1]/add"]?.value, 2);
});

test("silence is told", () => {
  const events = eventsOf("desk").map((event) => ({ ...event }));
  const late = events.at(-1);
  assert(late);
  late.ts = new Date(Date.parse(late.ts) + 90_000).toISOString();
  const gap = viewOf("r1", events).entries.find((entry) => entry.kind === "gap");
  assert(gap?.kind === "gap" && gap.ms >= 90_000);
});

test("a thousand passes are reduced in one go", () => {
  const pass = (n: number): TraceEvent[] => {
    const at = { v: 1, run: "r1", ts: "2026-01-01T00:00:00.000Z", span: 1, path: "loop", iteration: n };
    return [
      { ...at, seq: 2 * n + 1, type: "loop.iter.started", data: {} },
      { ...at, seq: 2 * n + 2, type: "loop.iter.finished", data: { changed: [] } },
    ];
  };
  const events = Array.from({ length: 1000 }, (_, n) => pass(n)).flat();
  const view = viewOf("r1", events);
  assert.equal(view.graphs[""]?.loops["loop"]?.passes.length, 1000);
});
