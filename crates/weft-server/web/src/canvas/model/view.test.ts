import assert from "node:assert/strict";
import { test } from "node:test";
import { nodeAt, readProblems, byNode } from "./problems.ts";
import { COUNTER, graph, world } from "./sample.ts";
import { namesIn } from "./slots.ts";
import { viewOf } from "./view.ts";

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
