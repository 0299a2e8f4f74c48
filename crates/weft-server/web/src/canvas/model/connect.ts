// Joining slots: what may be joined, why not, and what the file says then.

import {
  changeLevel,
  changeNodes,
  configOf,
  indexFile,
  INPUT,
  listIn,
  NEXT,
  objectIn,
  OUTPUT,
  STATE,
  textsIn,
  without,
  withPart,
  zonesAround,
  ZONE,
} from "./file.ts";
import type { FileEdge, Graph, GraphEdge, GraphNode, WorkflowFile } from "./file.ts";
import { isObject, keysOf, type Json, type JsonObject } from "./json.ts";
import { findSlot, slotsFit, slotsOf, stateOf, type Slot, type SlotType, type World } from "./slots.ts";

/** The handle of a place where a new slot comes to be. */
export const NEW_SLOT = "+";

/** One end of an edge that is to be drawn. */
export interface End {
  node: string;
  /** `null` means order only. */
  slot: string | null;
}

/** Why something is not done; the texts are under `canvas.refused`. */
export interface Refusal {
  refused:
    | "same_node"
    | "no_slot"
    | "type_mismatch"
    | "leaves_zone"
    | "cycle"
    | "exists"
    | "into_itself"
    | "not_here"
    | "name_taken"
    | "reserved_name"
    | "crosses_group"
    | "nothing_selected";
  from?: string;
  to?: string;
  name?: string;
}

export interface Edit {
  file: WorkflowFile;
  /** Keys of what is selected afterwards. */
  select?: string[];
  /** Other workflows that come to be with it. */
  more?: { id: string; file: WorkflowFile }[];
}

export function isRefusal(result: object): result is Refusal {
  return "refused" in result;
}

const RESERVED = new Set(["index", "item", "remaining", "break", "continue", "items", "stream", "error"]);

export function isReserved(name: string): boolean {
  return RESERVED.has(name) || name.startsWith("collected.");
}

/** Whether new slots can be made at this side of a node. */
export function takesNewSlots(about: GraphNode, side: "input" | "output"): boolean {
  if (about.type === INPUT) return side === "output";
  if (about.type === OUTPUT) return side === "input";
  if (about.type === NEXT || about.type === ZONE) return side === "input";
  return about.type === STATE && side === "output";
}

export interface Joinable {
  from: Slot | null;
  to: Slot | null;
  /** The edge that gives way, because its slot takes one only. */
  replaces: GraphEdge | null;
}

/** What an edge between these ends would join, or why it may not be. `ignore` is an edge about to go. */
export function checkEdge(graph: Graph, world: World, from: End, to: End, ignore?: string): Joinable | Refusal {
  const source = graph.nodes.get(from.node);
  const target = graph.nodes.get(to.node);
  if (source === undefined || target === undefined) return { refused: "no_slot" };
  if (source === target) return { refused: "same_node" };
  if (from.slot === NEW_SLOT && to.slot === NEW_SLOT) return { refused: "no_slot" };
  const scopes = zonesAround(graph, target.key);
  if (source.zone !== null && !scopes.includes(source.zone)) return { refused: "leaves_zone" };
  if (scopes.includes(source.key)) return { refused: "leaves_zone" };
  const given = endSlot(graph, world, source, from.slot, "output");
  const taken = endSlot(graph, world, target, to.slot, "input");
  if (given === undefined || taken === undefined) return { refused: "no_slot" };
  if (given !== null && taken !== null && !slotsFit(given, taken)) {
    return { refused: "type_mismatch", from: given.type, to: taken.type };
  }
  const others = (graph.into.get(target.key) ?? []).filter((edge) => edge.key !== ignore);
  const there = others.filter((edge) => sameSlot(graph, world, target, edge.targetSlot, to.slot));
  if (to.slot !== NEW_SLOT && there.some((edge) => edge.source === source.key && edge.sourceSlot === from.slot)) {
    return { refused: "exists" };
  }
  if (closesCycle(graph, source, target, ignore)) return { refused: "cycle" };
  const single = to.slot !== null && to.slot !== NEW_SLOT && taken !== null && !taken.multi;
  return { from: given, to: taken, replaces: single ? (there[0] ?? null) : null };
}

/** `null` where anything may come: an order, or a slot that is still to be made. */
function endSlot(
  graph: Graph,
  world: World,
  about: GraphNode,
  slot: string | null,
  side: "input" | "output",
): Slot | null | undefined {
  if (slot === null) return null;
  if (slot === NEW_SLOT) return takesNewSlots(about, side) ? null : undefined;
  const sets = slotsOf(graph, about.key, world);
  return findSlot(side === "input" ? sets.inputs : sets.outputs, slot);
}

function sameSlot(graph: Graph, world: World, about: GraphNode, one: string | null, other: string | null): boolean {
  if (one === other) return true;
  if (one === null || other === null) return false;
  const slots = slotsOf(graph, about.key, world).inputs;
  const found = findSlot(slots, one);
  return found !== undefined && found === findSlot(slots, other);
}

/** Whether the source waits, directly or not, for what holds the target. */
function closesCycle(graph: Graph, source: GraphNode, target: GraphNode, ignore?: string): boolean {
  const start = holder(graph, target, source.zone);
  if (start === null) return false;
  const seen = new Set([start]);
  const todo = [start];
  for (let key = todo.pop(); key !== undefined; key = todo.pop()) {
    if (key === source.key) return true;
    for (const edge of graph.outOf.get(key) ?? []) {
      const next = edge.target === null ? undefined : graph.nodes.get(edge.target);
      if (next === undefined || edge.key === ignore) continue;
      const held = holder(graph, next, source.zone);
      if (held !== null && !seen.has(held)) {
        seen.add(held);
        todo.push(held);
      }
    }
  }
  return false;
}

/** The node itself where it stands directly in `zone`, else the zone in there that holds it. */
function holder(graph: Graph, about: GraphNode, zone: string | null): string | null {
  let at: GraphNode | undefined = about;
  while (at !== undefined && at.zone !== zone) at = at.zone === null ? undefined : graph.nodes.get(at.zone);
  return at?.key ?? null;
}

/** Draws an edge; a slot that takes one only lets go of the edge it has. */
export function connect(graph: Graph, world: World, from: End, to: End): (Edit & { edge: string }) | Refusal {
  const checked = checkEdge(graph, world, from, to);
  if (isRefusal(checked)) return checked;
  let now = graph;
  let [source, target] = [from, to];
  if (from.slot === NEW_SLOT) {
    const made = makeSlot(now, from.node, "output", checked.to);
    if (isRefusal(made)) return made;
    now = indexFile(made.file);
    source = { ...from, slot: made.name };
  }
  if (to.slot === NEW_SLOT) {
    const made = makeSlot(now, to.node, "input", checked.from);
    if (isRefusal(made)) return made;
    now = indexFile(made.file);
    target = { ...to, slot: made.name };
  }
  if (checked.replaces !== null) now = indexFile(removeEdges(now, [checked.replaces.key]));
  const multi = checked.to?.multi === true;
  const added = addEdge(now, source, target, multi);
  return { file: added.file, edge: added.key };
}

function addEdge(graph: Graph, from: End, to: End, multi: boolean): { file: WorkflowFile; key: string } {
  const source = graph.nodes.get(from.node) as GraphNode;
  const target = graph.nodes.get(to.node) as GraphNode;
  const id = freeId("e", new Set([...graph.edges.values()].map((edge) => edge.id ?? "")));
  const edge: FileEdge = {
    id,
    source: source.id,
    ...(from.slot === null ? {} : { sourceHandle: from.slot }),
    target: target.id,
    ...(to.slot === null ? {} : { targetHandle: to.slot }),
  };
  let file = changeLevel(graph, target.level, (content) => ({ ...content, edges: [...content.edges, edge] }));
  const orders = objectIn(target.node, "inputConnectionOrders");
  if (multi && to.slot !== null && Array.isArray(orders[to.slot])) {
    const slot = to.slot;
    file = changeNodes(indexFile(file), [target.key], (node) => ({
      ...node,
      inputConnectionOrders: { ...orders, [slot]: [...listIn(orders, slot), id] },
    }));
  }
  return { file, key: `${target.level}|${id}` };
}

/** `e7`, where `e1` to `e6` are taken. */
export function freeId(stem: string, taken: ReadonlySet<string>): string {
  let number = 1;
  while (taken.has(`${stem}${number}`)) number += 1;
  return `${stem}${number}`;
}

/** A name nobody has: the wanted one, else with a number behind it. */
export function freeName(wanted: string, taken: ReadonlySet<string>): string {
  if (!taken.has(wanted)) return wanted;
  return freeId(`${wanted}_`, taken);
}

/** Moves an end of an edge, keeping everything else the edge says. */
export function reconnect(graph: Graph, world: World, key: string, from: End, to: End): Edit | Refusal {
  const edge = graph.edges.get(key);
  if (edge === undefined) return { refused: "no_slot" };
  const checked = checkEdge(graph, world, from, to, key);
  if (isRefusal(checked)) return checked;
  const bare = indexFile(removeEdges(graph, [key]));
  const made = connect(bare, world, from, to);
  if (isRefusal(made)) return made;
  const now = indexFile(made.file);
  const added = now.edges.get(made.edge);
  if (added === undefined) return made;
  const keep = without(edge.edge, "source", "sourceHandle", "target", "targetHandle");
  const file = changeLevel(now, added.level, (content) => ({
    ...content,
    edges: content.edges.map((item, index) => (index === added.index ? { ...added.edge, ...keep } : item)),
  }));
  return { file };
}

/** The file without some edges, and without their place in the order of slots. */
export function removeEdges(graph: Graph, keys: Iterable<string>): WorkflowFile {
  const gone = new Set(keys);
  const edges = [...gone].flatMap((key) => graph.edges.get(key) ?? []);
  const ids = new Map<string, Set<string>>();
  for (const edge of edges) {
    if (edge.id === null || edge.target === null) continue;
    ids.set(edge.target, (ids.get(edge.target) ?? new Set()).add(edge.id));
  }
  const ordered = [...ids.keys()].filter((key) => isObject(graph.nodes.get(key)?.node["inputConnectionOrders"]));
  let file = changeNodes(graph, ordered, (node, about) => forgetOrder(node, ids.get(about.key) ?? new Set()));
  const levels = [...new Set(edges.map((edge) => edge.level))].sort((one, other) => other.length - one.length);
  for (const level of levels) {
    const indexes = new Set(edges.filter((edge) => edge.level === level).map((edge) => edge.index));
    file = changeLevel({ ...indexFile(file) }, level, (content) => ({
      ...content,
      edges: content.edges.filter((_, index) => !indexes.has(index)),
    }));
  }
  return file;
}

function forgetOrder(node: JsonObject, gone: Set<string>): JsonObject {
  const orders: JsonObject = {};
  const old = objectIn(node, "inputConnectionOrders");
  for (const slot of keysOf(old)) {
    const left = textsIn(old, slot).filter((id) => !gone.has(id));
    if (left.length > 0) orders[slot] = left;
  }
  return withPart(node, "inputConnectionOrders", orders);
}

/** Makes a slot where a node's slots are named by the file: the interface, the carried values, results of a body. */
export function makeSlot(
  graph: Graph,
  key: string,
  side: "input" | "output",
  like: Slot | null,
  wanted?: string,
): { file: WorkflowFile; name: string } | Refusal {
  const about = graph.nodes.get(key);
  if (about === undefined || !takesNewSlots(about, side)) return { refused: "no_slot" };
  const type: SlotType = like === null || like.type === "CONVERTIBLE_ANY" ? "WILDCARD" : like.type;
  const stem = wanted ?? like?.name.replace(/^collected\./, "") ?? "value";
  const base = isReserved(stem) ? `${stem}_value` : stem;
  if (about.type === INPUT || (about.type === OUTPUT && about.zone === null)) {
    const part = about.type === INPUT ? "interfaceInputs" : "interfaceOutputs";
    const slots = objectIn(graph.file, part);
    const name = freeName(base, new Set(keysOf(slots)));
    const stream = about.type === OUTPUT && like?.stream === true ? { isStream: true } : {};
    const slot: JsonObject = { key: name, dataFlowType: type, ...stream };
    return { file: { ...graph.file, [part]: { ...slots, [name]: slot } }, name };
  }
  if (about.type === OUTPUT) {
    const taken = new Set((graph.into.get(key) ?? []).map((edge) => edge.targetSlot ?? ""));
    return { file: graph.file, name: freeName(base, taken) };
  }
  const zone = about.type === ZONE ? about.key : about.zone;
  const node = zone === null ? undefined : graph.nodes.get(zone);
  if (zone === null || node === undefined) return { refused: "not_here" };
  const name = freeName(base, new Set(stateOf(node.node).map((state) => state.key)));
  return { file: addState(graph, zone, { key: name, dataFlowType: type, ...initialOf(type) }), name };
}

/** The empty value of a type, so that a first pass has something to begin with. */
function initialOf(type: SlotType): { initial?: Json } {
  const empty: Partial<Record<SlotType, Json>> = { STRING: "", INTEGER: 0, FLOAT: 0, BOOLEAN: false, OBJECT: {}, ARRAY: [] };
  const initial = empty[type];
  return { initial: initial === undefined ? null : initial };
}

function addState(graph: Graph, zone: string, state: JsonObject): WorkflowFile {
  return changeNodes(graph, [zone], (node) => {
    const config = configOf(node);
    return { ...node, configValues: { ...config, state: [...listIn(config, "state"), state] } };
  });
}
