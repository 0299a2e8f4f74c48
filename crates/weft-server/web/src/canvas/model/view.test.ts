import assert from "node:assert/strict";
import { test } from "node:test";
import { carriedValues, textDifference } from "./carried.ts";
import { nodeAt, readProblems, byNode } from "./problems.ts";
import { COUNTER, graph, world } from "./sample.ts";
import { namesIn } from "./slots.ts";
import { viewOf } from "./view.ts";

const ts = "2026-01-01T00:00:00.000Z";

test("carried values come from what the nodes of each pass gave", () => {
  const loop = {
    path: "loop",
    mode: "until",
    passes: [0, 1, 2].map((iteration) => ({ iteration, state: "ok" as const, started: ts, changed: iteration < 2 ? ["n"] : [], from: 1, to: 2 })),
  };
  const nodes = Object.fromEntries(
    [1, 2].map((value) => [`loop[${value - 1}]/add`, { path: `loop[${value - 1}]/add`, state: "ok" as const, attempt: 1, chunks: {}, value }]),
  );
  const run = { call: "", nodes, latest: {}, loops: { loop } };
  const [row] = carriedValues({ graph: graph(COUNTER), world, run, inputs: {}, before: "" }, "loop", loop);
  assert.deepEqual([row?.initial, ...(row?.after ?? [])], [
    { value: 0 },
    { known: { value: 1 }, changed: true },
    { known: { value: 2 }, changed: true },
    { known: { value: 2 }, changed: false },
  ]);
});

test("carried values come from any output, from one another and from outside", () => {
  const file = `{"nodes": [
    {"id": "before", "type": "core:Http"},
    {"id": "loop", "type": "core:LoopZone", "configValues": {"mode": "times", "times": 2, "state": [
      {"key": "old", "dataFlowType": "INTEGER", "initial": 0}, {"key": "now", "dataFlowType": "INTEGER", "initial": 1},
      {"key": "fixed", "dataFlowType": "INTEGER"}, {"key": "pass", "dataFlowType": "INTEGER"}]}},
    {"id": "state", "type": "core:LoopState", "parentNode": "loop"},
    {"id": "ask", "type": "core:Http", "parentNode": "loop"},
    {"id": "next", "type": "core:LoopNext", "parentNode": "loop"}],
   "edges": [
    {"source": "state", "sourceHandle": "now", "target": "next", "targetHandle": "old"},
    {"source": "ask", "sourceHandle": "status", "target": "next", "targetHandle": "now"},
    {"source": "before", "sourceHandle": "status", "target": "next", "targetHandle": "fixed"},
    {"source": "state", "sourceHandle": "index", "target": "next", "targetHandle": "pass"}]}`;
  const passes = [0, 1].map((iteration) => ({ iteration, state: "ok" as const, started: ts, changed: ["old", "now", "fixed", "pass"], from: 1, to: 2 }));
  const loop = { path: "loop", mode: "times", passes };
  const node = (path: string, status: number) => [path, { path, state: "ok" as const, attempt: 1, chunks: {}, value: "body", outputs: { status } }];
  const nodes = Object.fromEntries([node("before", 100), node("loop[0]/ask", 200), node("loop[1]/ask", 404)]);
  const run = { call: "", nodes, latest: { before: "before" }, loops: { loop } };
  const rows = carriedValues({ graph: graph(file), world, run, inputs: {}, before: "" }, "loop", loop);
  const known = rows.map((row) => [row.key, ...row.after.map((each) => ("value" in each.known ? each.known.value : "?"))]);
  assert.deepEqual(known, [
    ["old", 1, 200],
    ["now", 200, 404],
    ["fixed", 100, 100],
    ["pass", 0, 1],
  ]);
});

test("slots stand at the same height on both sides of a rail", () => {
  const view = viewOf(graph(COUNTER), world);
  const at = (key: string, id: string, side: string) => {
    const box = view.byKey.get(key);
    const anchor = box?.anchors.find((each) => each.id === id && each.side === side);
    return (anchor?.y ?? Number.NaN) + (box?.kind === "rail" ? box.at.y : 0);
  };
  assert.equal(at("loop", "n", "input"), at("state", "n", "output"));
  assert.equal(at("loop", "n", "output"), at("next", "n", "input"));
  assert.equal(view.byKey.get("next")?.at.x, (view.byKey.get("loop")?.size.width ?? 0) - 148);
  assert.deepEqual(view.wires.map((wire) => `${wire.type} ${wire.from}>${wire.to}`), ["INTEGER n>n", "INTEGER value>n", "INTEGER n>n"]);
});

test("problems stand at their node, or at the group that embeds it", () => {
  const now = graph(COUNTER);
  const problems = readProblems(
    [
      { code: "missing_input", severity: "error", node: "tidy", slot: "text", message: "no value" },
      { code: "cycle", severity: "error", message: "round", nodes: ["in", "out"] },
      { code: "bad_value", severity: "warning", node: "tidy/inner", message: "x" },
    ],
    now,
  );
  assert.deepEqual([...byNode(problems).keys()], ["tidy", "in", "out"]);
  assert.equal(problems[2]?.inside, true);
  assert.deepEqual(nodeAt(now, "loop[2]/add"), { key: "add", inside: false });
  assert.equal(nodeAt(now, "nowhere"), null);
});

test("names in expressions and templates", () => {
  for (const [text, names] of [
    ["n + k", ["n", "k"]],
    [`size(list) > 0 && name == "x y"`, ["list", "name"]],
    ["user.name + other", ["user", "other"]],
    ["Hello {{ name }}, {% if n > 3 %}{{ text | upper }}{% endif %}", ["name", "n", "text"]],
    ["{{ 价 }}", ["价"]],
    ["", []],
  ] as const) {
    assert.deepEqual(namesIn(text), names, text);
  }
});

test("what became of a text", () => {
  const said = (old: string, now: string) => textDifference(old, now).map((piece) => `${piece.kind[0]}:${piece.text}`);
  assert.deepEqual(said("a b c", "a x c"), ["s:a ", "g:b", "n:x", "s: c"]);
  assert.deepEqual(said("", "a"), ["n:a"]);
  assert.deepEqual(said("same", "same"), ["s:same"]);
  assert.deepEqual(said("今天好", "今天很好"), ["s:今天", "n:很", "s:好"]);
});
