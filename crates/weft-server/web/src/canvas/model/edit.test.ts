import assert from "node:assert/strict";
import { test } from "node:test";
import { checkEdge, connect, isRefusal, reconnect, removeEdges, type Edit, type End, type Refusal } from "./connect.ts";
import { copy, paste } from "./clipboard.ts";
import { isOnlySuggested, onlySuggested, suggestionLines, withSuggestions } from "./suggestions.ts";
import { addNode, moveNodes, removeAll, renameNode, reparent, setInterface, setState, setValue, wrap } from "./edit.ts";
import { FRAME, indexFile, objectIn, ZONE, type Graph } from "./file.ts";
import { placeOf } from "./geometry.ts";
import { dissolveGroup, extractGroup } from "./groups.ts";
import { parseJson, printJson, sameJson, type JsonObject } from "./json.ts";
import { BODY, COUNTER, graph, world } from "./sample.ts";
import { slotsOf } from "./slots.ts";
import { nearestTowards, viewOf } from "./view.ts";

const end = (text: string): End => {
  const [node, slot] = text.split(".");
  return { node: node as string, slot: slot ?? null };
};
const done = <T extends Edit>(result: T | Refusal): Graph => {
  assert.ok(!isRefusal(result), JSON.stringify(result));
  return indexFile(result.file);
};
const edgesOf = (now: Graph) => [...now.edges.values()].map((edge) => `${edge.source}.${edge.sourceSlot}>${edge.target}.${edge.targetSlot}`);

test("a change touches nothing else: unknown keys, spelling and order stay", () => {
  const before = graph(COUNTER);
  const after = moveNodes(before, new Map([["tidy", { x: 5, y: 6 }]]));
  const wanted = printJson(before.file).replace(`"position":{"x":300,"y":500}`, `"position":{"x":5,"y":6}`);
  assert.equal(printJson(after), wanted);
  assert.ok(printJson(after).includes(`"x-note":{"1":1.0,"a":2}`));
});

test("what may be joined, and why not", () => {
  const now = graph(COUNTER);
  const rows: [string, string, string][] = [
    ["in.seed", "tidy.text", "ok"],
    ["in.seed", "add.n", "ok replaces"],
    ["in.seed", "loop.n", "type_mismatch STRING INTEGER"],
    ["add.value", "out.n", "leaves_zone"],
    ["loop.n", "add.n", "leaves_zone"],
    ["loop.n", "loop.n", "same_node"],
    ["tidy.text", "tidy.text", "same_node"],
    ["state.n", "add.n", "exists"],
    ["in.none", "tidy.text", "no_slot"],
    ["in.seed", "tidy.none", "no_slot"],
    ["in.+", "tidy.text", "ok"],
    ["in.seed", "next.+", "ok"],
    ["in.seed", "state.n", "no_slot"],
    ["in", "tidy", "ok"],
  ];
  for (const [from, to, wanted] of rows) {
    const checked = checkEdge(now, world, end(from), end(to));
    const got = isRefusal(checked)
      ? [checked.refused, checked.from, checked.to].filter((text) => text !== undefined).join(" ")
      : `ok${checked.replaces === null ? "" : " replaces"}`;
    assert.equal(got, wanted, `${from} > ${to}`);
  }
});

test("an edge that would close a cycle is refused, also through a zone", () => {
  let now = done(connect(graph(COUNTER), world, end("loop.n"), end("tidy.text")));
  now = indexFile(setValue(now, "add", "configValues", "cel", "n + k"));
  assert.deepEqual(connect(now, world, end("tidy.text"), end("add.k")), { refused: "cycle" });
});

test("a taken slot lets go of its edge, a slot for several keeps them in order", () => {
  const now = done(connect(graph(COUNTER), world, end("in.seed"), end("add.n")));
  assert.deepEqual(edgesOf(now).filter((edge) => edge.endsWith("add.n")), ["in.seed>add.n"]);
  let many = indexFile(addNode(graph(COUNTER), { type: "core:JsonMerge", at: { x: 0, y: 0 }, parent: null }).file);
  for (const from of ["in.seed", "tidy.text"]) many = done(connect(many, world, end(from), end("json_merge.values")));
  assert.equal(edgesOf(many).filter((edge) => edge.endsWith("json_merge.values")).length, 2);
});

test("new slots come to be where an edge ends", () => {
  let now = done(connect(graph(COUNTER), world, end("tidy.text"), end("out.+")));
  assert.equal(objectIn(objectIn(now.file, "interfaceOutputs"), "text")["dataFlowType"], "STRING");
  now = done(connect(now, world, end("in.+"), end("tidy.text")));
  assert.deepEqual(Object.keys(objectIn(now.file, "interfaceInputs")), ["seed", "text"]);
  now = done(connect(now, world, end("add.value"), end("next.+")));
  assert.deepEqual(slotsOf(now, "state", world).outputs.map((slot) => slot.name), ["n", "value", "index", "remaining"]);
});

test("a moved end keeps what the edge says", () => {
  const now = done(reconnect(graph(COUNTER), world, "|e1", end("state.index"), end("add.n")));
  const edge = [...now.edges.values()].find((each) => each.target === "add");
  assert.equal(edge?.sourceSlot, "index");
  assert.equal(edge?.edge["label"], "kept");
});

test("an edge that goes leaves no trace in the order of its slot", () => {
  const before = graph(`{"nodes":[{"id":"a","type":"t"},{"id":"m","type":"core:JsonMerge","inputConnectionOrders":{"values":["e1","e2"]}}],
    "edges":[{"id":"e1","source":"a","target":"m"},{"id":"e2","source":"a","target":"m"}]}`);
  const one = indexFile(removeEdges(before, ["|e1"]));
  assert.equal(printJson(one.nodes.get("m")?.node["inputConnectionOrders"] ?? null), `{"values":["e2"]}`);
  const none = indexFile(removeEdges(one, ["|e2"]));
  assert.ok(!("inputConnectionOrders" in (none.nodes.get("m")?.node ?? {})));
});

test("into a zone and out again is where it was", () => {
  const before = graph(COUNTER);
  const inside = done(reparent(before, ["tidy"], "loop"));
  assert.equal(inside.nodes.get("tidy")?.zone, "loop");
  assert.equal(inside.nodes.get("tidy")?.path, "loop/tidy");
  assert.deepEqual(placeOf(inside, "tidy"), placeOf(before, "tidy"));
  const outside = done(reparent(inside, ["tidy"], null));
  assert.ok(sameJson(outside.file, before.file));
  assert.deepEqual(reparent(before, ["state"], null), { refused: "not_here", name: "state" });
  assert.deepEqual(reparent(before, ["loop"], "loop"), { refused: "into_itself" });
});

test("a body in the settings of a zone stays there, and takes nodes with their edges", () => {
  const before = graph(BODY);
  assert.deepEqual([...before.nodes.keys()], ["loop", "konst", "loop/state", "loop/add", "loop/next"]);
  assert.equal(before.nodes.get("loop/add")?.path, "loop/add");
  assert.ok(edgesOf(before).includes("konst.value>loop/add.k"));
  const moved = done(reparent(before, ["konst"], "loop"));
  assert.equal(moved.nodes.get("loop/konst")?.level, "loop");
  assert.ok(edgesOf(moved).includes("loop/konst.value>loop/add.k"));
  const back = done(reparent(moved, ["loop/konst"], null));
  assert.ok(sameJson(back.file, before.file) || edgesOf(back).includes("konst.value>loop/add.k"));
  const deleted = indexFile(removeAll(before, ["loop"]));
  assert.deepEqual([...deleted.nodes.keys()], ["konst"]);
  assert.equal(deleted.edges.size, 0);
});

test("with a zone goes what stands in it, with a frame it does not", () => {
  const framed = done(wrap(graph(COUNTER), ["tidy", "out"], FRAME));
  assert.equal(framed.nodes.get("tidy")?.parent, "frame");
  assert.deepEqual(placeOf(framed, "tidy"), { x: 300, y: 500 });
  const unframed = indexFile(removeAll(framed, ["frame"]));
  assert.equal(unframed.nodes.get("tidy")?.parent, null);
  assert.deepEqual(placeOf(unframed, "tidy"), { x: 300, y: 500 });
  const unzoned = indexFile(removeAll(graph(COUNTER), ["loop"]));
  assert.deepEqual([...unzoned.nodes.keys()], ["in", "tidy", "out"]);
  assert.equal(unzoned.edges.size, 0);
});

test("a zone around nodes comes with its rails", () => {
  const zoned = done(wrap(graph(COUNTER), ["tidy"], ZONE));
  const zone = [...zoned.nodes.values()].find((about) => about.id === "loop_zone");
  assert.equal(zone?.type, ZONE);
  assert.deepEqual((zoned.children.get("loop_zone") ?? []).sort(), ["loop_next", "loop_state", "tidy"]);
});

test("copies get ids of their own and the edges between them", () => {
  const now = graph(COUNTER);
  const text = copy(now, ["loop"]) as string;
  const pasted = paste(now, text, null, { x: 50, y: 60 });
  assert.ok(pasted);
  const after = indexFile(pasted.file);
  assert.deepEqual(pasted.select, ["loop_2"]);
  assert.deepEqual((after.children.get("loop_2") ?? []).sort(), ["add_2", "next_2", "state_2"]);
  assert.ok(edgesOf(after).includes("state_2.n>add_2.n"));
  assert.deepEqual(placeOf(after, "loop_2"), { x: 50, y: 60 });
  assert.equal(new Set([...after.edges.values()].map((edge) => edge.id)).size, after.edges.size);
  assert.equal(paste(now, "some text", null, { x: 0, y: 0 }), null);
});

test("a renamed carried value, input or node is followed by its edges", () => {
  const now = graph(COUNTER);
  const state = indexFile(setState(now, "loop", [{ key: "count", dataFlowType: "INTEGER", initial: 0 }], new Map([["n", "count"]])));
  assert.deepEqual(edgesOf(state), ["state.count>add.n", "add.value>next.count", "loop.count>out.n"]);
  const outputs = setInterface(now, "interfaceOutputs", [["total", { dataFlowType: "INTEGER" }]], new Map([["n", "total"]]));
  assert.ok(edgesOf(indexFile(outputs)).includes("loop.n>out.total"));
  const named = done(renameNode(now, "loop", "counter"));
  assert.ok(edgesOf(named).includes("counter.n>out.n"));
  assert.equal(named.nodes.get("add")?.zone, "counter");
  assert.deepEqual(renameNode(now, "loop", "in"), { refused: "name_taken", name: "in" });
});

test("a removed carried value, input or output takes its edges along, and no others", () => {
  const now = graph(COUNTER);
  assert.deepEqual(edgesOf(indexFile(setState(now, "loop", []))), []);
  const outputs = indexFile(setInterface(now, "interfaceOutputs", []));
  assert.deepEqual(edgesOf(outputs), ["state.n>add.n", "add.value>next.n"]);
  assert.deepEqual(edgesOf(indexFile(setInterface(now, "interfaceInputs", []))), edgesOf(now));
});

test("suggestions are typed one a line; those that stay keep their labels", () => {
  const slot = { dataFlowType: "INTEGER", config: { min: 1, suggestions: [{ value: 1, label: "one" }, 4] }, matchCategories: ["ComboOption"] };
  assert.equal(suggestionLines(slot), "1\n4");
  assert.deepEqual(parseJson(printJson(withSuggestions(slot, "1\n\n 7 ")["config"] ?? null)), parseJson(`{"min": 1, "suggestions": [{"value": 1, "label": "one"}, 7]}`));
  assert.deepEqual(withSuggestions(slot, ""), { dataFlowType: "INTEGER", config: { min: 1 } });
  const text = withSuggestions({ dataFlowType: "STRING" }, "1\ntrue");
  assert.deepEqual(text["config"], { suggestions: ["1", "true"] });
  assert.equal(isOnlySuggested(onlySuggested(text, true)), true);
});

test("a group made of nodes and dissolved again does the same", () => {
  const chain = graph(`{"interfaceInputs":{"a":{"key":"a","dataFlowType":"STRING"}},"interfaceOutputs":{"b":{"key":"b","dataFlowType":"STRING"}},
    "nodes":[{"id":"in","type":"core:GroupInput"},{"id":"one","type":"core:TextReplace","position":{"x":300,"y":0}},{"id":"two","type":"core:TextReplace","position":{"x":600,"y":0}},{"id":"out","type":"core:GroupOutput"}],
    "edges":[{"id":"e1","source":"in","sourceHandle":"a","target":"one","targetHandle":"text"},{"id":"e2","source":"one","sourceHandle":"text","target":"two","targetHandle":"text"},{"id":"e3","source":"two","sourceHandle":"text","target":"out","targetHandle":"b"}]}`);
  const made = extractGroup(chain, world, ["one", "two"], "parts/tidy");
  assert.ok(!isRefusal(made));
  const [inner] = made.more ?? [];
  assert.deepEqual(edgesOf(indexFile(made.file)), ["in.a>node_group.text", "node_group.text>out.b"]);
  assert.deepEqual(edgesOf(indexFile(inner?.file as JsonObject)), ["one.text>two.text", "in.text>one.text", "two.text>out.text"]);
  const back = dissolveGroup(indexFile(made.file), "node_group", inner?.file as JsonObject);
  assert.deepEqual(edgesOf(done(back)).sort(), edgesOf(chain).sort());
});

test("arrow keys find the nearest box in a direction", () => {
  const view = viewOf(graph(COUNTER), world);
  assert.equal(nearestTowards(view, "in", "right"), "loop");
  assert.equal(nearestTowards(view, "loop", "right"), "state");
  assert.equal(nearestTowards(view, "state", "right"), "add");
  assert.equal(nearestTowards(view, "add", "right"), "next");
  assert.equal(nearestTowards(view, "in", "left"), null);
});

test("a file with twice the same id, rings of parents and edges to nowhere can be drawn", () => {
  const now = graph(`{"nodes":[{"id":"a","type":"core:LoopZone","parentNode":"b"},{"id":"b","type":"core:LoopZone","parentNode":"a"},{"id":"a","type":"x"},{"type":"y"},7],
    "edges":[{"source":"a","target":"gone"},{"source":"a","target":"gone"}]}`);
  assert.deepEqual([...now.nodes.keys()], ["a", "b", "a#2", "?3"]);
  assert.equal(now.edges.size, 2);
  assert.ok(parseJson(printJson(now.file)));
});
