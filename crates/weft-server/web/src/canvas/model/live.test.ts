import assert from "node:assert/strict";
import { test } from "node:test";
import { carriedValues, textDifference } from "./carried.ts";
import { advance, barePath, NOTHING_YET, passAround, type RunEvent } from "./live.ts";
import { nodeAt, readProblems, byNode } from "./problems.ts";
import { COUNTER, graph, world } from "./sample.ts";
import { namesIn } from "./slots.ts";

let seq = 0;
const at = (ms: number, type: string, path?: string, more: Partial<RunEvent> = {}): RunEvent => {
  seq += 1;
  return { seq, ts: new Date(ms).toISOString(), type, ...(path === undefined ? {} : { path }), data: {}, ...more };
};

function counterRun(): RunEvent[] {
  seq = 0;
  const events = [at(0, "run.started", undefined, { data: { workflow: "count" } }), at(0, "loop.entered", "loop", { data: { mode: "until" } })];
  for (let pass = 0; pass < 3; pass += 1) {
    const begin = pass * 10;
    events.push(
      at(begin, "loop.iter.started", "loop", { iteration: pass }),
      at(begin, "node.started", `loop[${pass}]/add`),
      at(begin + pass + 1, "node.finished", `loop[${pass}]/add`, { data: { value: pass + 1 } }),
      at(begin + pass + 1, "loop.iter.finished", "loop", { iteration: pass, data: { changed: ["n"] } }),
    );
  }
  events.push(at(30, "loop.exited", "loop", { data: { passes: 3, why: "condition" } }), at(31, "run.finished", undefined, { data: { status: "ok" } }));
  return events;
}

test("passes with their time, values and result; one by one is the same as at once", () => {
  const events = counterRun();
  const whole = advance(NOTHING_YET, events);
  const single = events.reduce((state, event) => advance(state, [event]), NOTHING_YET);
  assert.deepEqual(single, whole);
  const loop = whole.loops.get("loop");
  assert.deepEqual(loop?.passes.map((pass) => [pass.status, pass.ms, pass.values.get("loop/add")]), [["done", 1, 1], ["done", 2, 2], ["done", 3, 3]]);
  assert.equal(loop?.why, "condition");
  assert.equal(whole.nodes.get("loop/add")?.ends, 3);
  assert.equal(whole.status, "ok");
  const now = graph(COUNTER);
  const [row] = carriedValues(now, world, "loop", loop as NonNullable<typeof loop>, whole);
  assert.deepEqual([row?.initial, ...(row?.after ?? [])], [{ value: 0 }, ...[1, 2, 3].map((value) => ({ known: { value }, changed: true }))]);
});

test("what stands in front is never changed by what comes after", () => {
  const events = counterRun();
  const early = advance(NOTHING_YET, events.slice(0, 5));
  const kept = JSON.stringify([...early.loops.values()]);
  advance(early, events.slice(5));
  assert.equal(JSON.stringify([...early.loops.values()]), kept);
});

test("a failed pass, a cancelled one, and inner loops by the pass around them", () => {
  seq = 0;
  const state = advance(NOTHING_YET, [
    at(0, "loop.entered", "outer[1]/inner", { data: { mode: "each" } }),
    at(0, "loop.iter.started", "outer[1]/inner", { iteration: 0 }),
    at(0, "loop.iter.started", "outer[1]/inner", { iteration: 1 }),
    at(1, "node.started", "outer[1]/inner[0]/a"),
    at(2, "node.chunk", "outer[1]/inner[0]/a", { data: { slot: "text", text: "hel" } }),
    at(2, "node.chunk", "outer[1]/inner[0]/a", { data: { slot: "text", text: "lo" } }),
    at(3, "node.failed", "outer[1]/inner[0]/a", { data: { kind: "failed", message: "no" } }),
    at(3, "loop.exited", "outer[1]/inner", { data: { passes: 0, why: "error" } }),
  ]);
  const loop = state.loops.get(state.latest.get("outer/inner") ?? "");
  assert.deepEqual(loop?.passes.map((pass) => [pass.number, pass.status, pass.message]), [[0, "failed", "no"], [1, "failed", null]]);
  assert.equal(state.nodes.get("outer/inner/a")?.text, "hello");
});

test("events of a tool's own workflow are no events of this one", () => {
  assert.equal(advance(NOTHING_YET, [at(0, "node.started", "add", { call: "c1" })]).nodes.size, 0);
});

test("paths", () => {
  assert.equal(barePath("loop[3]/inner[0]/a"), "loop/inner/a");
  assert.deepEqual(passAround("loop[3]/inner[0]/a"), { loop: "loop[3]/inner", pass: 0 });
  assert.deepEqual(passAround("loop[3]/inner"), { loop: "loop", pass: 3 });
  assert.equal(passAround("a"), null);
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
