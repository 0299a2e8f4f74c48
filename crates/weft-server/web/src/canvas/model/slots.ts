// Which slots a node has and which may be joined: what the server checks, known while one draws.

import { configOf, GROUP, INPUT, listIn, NEXT, objectIn, objectsIn, OUTPUT, STATE, textOf, textsIn, ZONE } from "./file.ts";
import type { Graph, GraphNode } from "./file.ts";
import { entriesOf, isObject, keysOf, type Json, type JsonObject } from "./json.ts";

export const SLOT_TYPES = [
  "STRING",
  "INTEGER",
  "FLOAT",
  "BOOLEAN",
  "OBJECT",
  "ARRAY",
  "BINARY",
  "WILDCARD",
  "CONVERTIBLE_ANY",
] as const;

export type SlotType = (typeof SLOT_TYPES)[number];

export interface Slot {
  name: string;
  type: SlotType;
  description: string;
  required: boolean;
  multi: boolean;
  stream: boolean;
  categories: string[];
  fallback?: Json;
  title?: string;
}

export interface ConfigKey {
  name: string;
  title?: string;
  type: SlotType;
  description: string;
  required: boolean;
  fallback?: Json;
  allowed: Json[];
}

/** Slots beyond the declared ones, as `/api/nodes` says it. */
export type DynamicSlots = "none" | "any" | { namedIn: string } | { streamsNamedIn: string } | { keysOf: string };

export interface SlotSets {
  inputs: Slot[];
  outputs: Slot[];
}

export interface NodeType extends SlotSets {
  id: string;
  title: string;
  description: string;
  dynamicInputs: DynamicSlots;
  dynamicOutputs: DynamicSlots;
  config: ConfigKey[];
  modes?: { key: string; fallback: string; modes: Map<string, SlotSets> };
  effect: boolean;
}

/** What the slots of a workflow's nodes depend on beside its file. */
export interface World {
  types: Map<string, NodeType>;
  /** The interfaces of workflows that groups embed. */
  interfaces: Map<string, SlotSets>;
}

export function slotType(value: Json | undefined): SlotType {
  return SLOT_TYPES.find((type) => type === value) ?? "WILDCARD";
}

export function isAny(type: SlotType): boolean {
  return type === "WILDCARD" || type === "CONVERTIBLE_ANY";
}

export function typeFits(from: SlotType, to: SlotType): boolean {
  if (isAny(from) || isAny(to) || from === to) return true;
  if (to === "FLOAT") return from === "INTEGER";
  return to === "STRING" && (from === "INTEGER" || from === "FLOAT" || from === "BOOLEAN");
}

export function slotsFit(from: Slot, to: Slot): boolean {
  const wild = (slot: Slot) => slot.categories.includes("BehaviorWildcard");
  const shared = from.categories.some((category) => to.categories.includes(category));
  return typeFits(from.type, to.type) || wild(from) || wild(to) || shared;
}

export function plainSlot(name: string, type: SlotType, description = ""): Slot {
  return { name, type, description, required: false, multi: false, stream: false, categories: [] };
}

/** A slot as `/api/nodes` gives it, and as an interface of a file does. */
export function readSlot(name: string, slot: JsonObject): Slot {
  const config = objectIn(slot, "config");
  const fallback = slot["default"] ?? config["default"];
  const description = textOf(slot["customDescription"]) ?? textOf(slot["description"]) ?? "";
  const title = textOf(slot["displayName"]);
  return {
    name,
    type: slotType(slot["dataFlowType"]),
    description,
    required: slot["required"] === true,
    multi: slot["multi"] === true,
    stream: slot["isStream"] === true,
    categories: textsIn(slot, "matchCategories"),
    ...(fallback === undefined ? {} : { fallback }),
    ...(title === null ? {} : { title }),
  };
}

export function readSlots(map: JsonObject): Slot[] {
  return entriesOf(map).flatMap(([name, slot]) => (isObject(slot) ? [readSlot(name, slot)] : []));
}

export function interfaceOf(file: JsonObject): SlotSets {
  return {
    inputs: readSlots(objectIn(file, "interfaceInputs")),
    outputs: readSlots(objectIn(file, "interfaceOutputs")),
  };
}

export interface StateKey {
  key: string;
  type: SlotType;
  initial?: Json;
}

/** The carried values of a zone. */
export function stateOf(zone: JsonObject): StateKey[] {
  return objectsIn(configOf(zone), "state").flatMap((item) => {
    const key = textOf(item["key"]);
    if (key === null) return [];
    const initial = item["initial"];
    return [{ key, type: slotType(item["dataFlowType"]), ...(initial === undefined ? {} : { initial }) }];
  });
}

export function zoneMode(zone: JsonObject): "until" | "while" | "times" | "each" {
  const mode = configOf(zone)["mode"];
  return mode === "while" || mode === "times" || mode === "each" ? mode : "until";
}

/** All slots of a node: those it declares, then those that edges and values make. */
export function slotsOf(graph: Graph, key: string, world: World): SlotSets {
  const about = graph.nodes.get(key);
  if (about === undefined) return { inputs: [], outputs: [] };
  const declared = declaredSlots(graph, about, world);
  const used = (edges: (string | null)[], slots: Slot[], free: boolean): Slot[] => {
    const names = new Set(slots.map((slot) => slot.name));
    const more: Slot[] = [];
    for (const handle of edges) {
      if (handle === null) continue;
      const name = names.has(handle) ? handle : slotName(handle, names);
      if (names.has(name)) continue;
      names.add(name);
      more.push({ ...plainSlot(name, "WILDCARD"), description: free ? "" : "?" });
    }
    return more;
  };
  const into = (graph.into.get(key) ?? []).map((edge) => edge.targetSlot);
  const outOf = (graph.outOf.get(key) ?? []).map((edge) => edge.sourceSlot);
  return {
    inputs: [...declared.inputs, ...used(into, declared.inputs, true)],
    outputs: [...declared.outputs, ...used(outOf, declared.outputs, true)],
  };
}

/** The slot that a handle such as `texts__2` means. */
export function slotName(handle: string, names: ReadonlySet<string>): string {
  const found = /^(.*)__\d+$/.exec(handle);
  return found?.[1] !== undefined && names.has(found[1]) ? found[1] : handle;
}

function declaredSlots(graph: Graph, about: GraphNode, world: World): SlotSets {
  const { node, type } = about;
  const zone = about.zone === null ? undefined : graph.nodes.get(about.zone);
  switch (type) {
    case INPUT:
      return { inputs: [], outputs: interfaceOf(graph.file).inputs };
    case OUTPUT:
      return { inputs: outputSlots(graph, about), outputs: [] };
    case STATE:
      return { inputs: [], outputs: zone === undefined ? [] : stateSlots(zone.node) };
    case NEXT:
      return { inputs: zone === undefined ? [] : nextSlots(zone.node), outputs: [] };
    case ZONE:
      return zoneSlots(graph, about);
    case GROUP:
      return world.interfaces.get(textOf(configOf(node)["referencedWorkflowId"]) ?? "") ?? { inputs: [], outputs: [] };
    default:
      return plainSlots(node, world.types.get(type));
  }
}

function plainSlots(node: JsonObject, type: NodeType | undefined): SlotSets {
  const error = node["onError"] === "branch" ? [plainSlot("error", "OBJECT")] : [];
  if (type === undefined) return { inputs: [], outputs: error };
  const config = configOf(node);
  const chosen = type.modes?.modes.get(textOf(config[type.modes.key]) ?? type.modes.fallback);
  const inputs = [...type.inputs, ...(chosen?.inputs ?? [])];
  const outputs = [...type.outputs, ...(chosen?.outputs ?? [])];
  return {
    inputs: [...inputs, ...dynamicSlots(type.dynamicInputs, config, inputs)],
    outputs: [...outputs, ...dynamicSlots(type.dynamicOutputs, config, outputs), ...error],
  };
}

function dynamicSlots(rule: DynamicSlots, config: JsonObject, known: Slot[]): Slot[] {
  if (rule === "none" || rule === "any") return [];
  const taken = new Set(known.map((slot) => slot.name));
  const names =
    "keysOf" in rule ? keysIn(config[rule.keysOf]) : namesIn(textOf(config[Object.values(rule)[0] as string]) ?? "");
  const stream = "streamsNamedIn" in rule;
  return names.filter((name) => !taken.has(name)).map((name) => ({ ...plainSlot(name, "WILDCARD"), stream }));
}

function keysIn(value: Json | undefined): string[] {
  if (Array.isArray(value)) return value.filter((item) => typeof item === "string");
  return isObject(value) ? keysOf(value) : [];
}

const NO_NAMES = new Set(
  ("true false null none in is not and or if elif else endif for endfor set loop size has map filter all exists " +
    "int double string bool type timestamp duration matches startsWith endsWith contains vars defined upper lower " +
    "trim join length default replace first last tojson round abs").split(" "),
);

/** Names in an expression or a template that can be slots. */
export function namesIn(text: string): string[] {
  const isTemplate = /\{[{%]/.test(text);
  const codes = isTemplate ? [...text.matchAll(/\{[{%](.*?)[%}]\}/gs)].map((found) => found[1] ?? "") : [text];
  const names = new Set<string>();
  for (const code of codes) {
    const bare = code.replace(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g, " ");
    for (const found of bare.matchAll(/(?<![\p{L}\p{N}_.|]|\|\s)[\p{L}_][\p{L}\p{N}_]*(?![\p{L}\p{N}_]|\s*\()/gu)) {
      if (!NO_NAMES.has(found[0])) names.add(found[0]);
    }
  }
  return [...names];
}

function stateSlots(zone: JsonObject): Slot[] {
  const item = zoneMode(zone) === "each" ? [plainSlot("item", "WILDCARD")] : [];
  return [
    ...stateOf(zone).map((state) => plainSlot(state.key, state.type)),
    plainSlot("index", "INTEGER"),
    ...item,
    plainSlot("remaining", "INTEGER"),
  ];
}

function nextSlots(zone: JsonObject): Slot[] {
  return [
    ...stateOf(zone).map((state) => plainSlot(state.key, state.type)),
    plainSlot("break", "BOOLEAN"),
    plainSlot("continue", "BOOLEAN"),
  ];
}

/** What the body of a zone gives: what leads to its result nodes. */
export function resultsOf(graph: Graph, zone: string): string[] {
  const names = new Set<string>();
  for (const about of graph.nodes.values()) {
    if (about.type !== OUTPUT || about.zone !== zone) continue;
    for (const edge of graph.into.get(about.key) ?? []) if (edge.targetSlot !== null) names.add(edge.targetSlot);
    for (const name of keysOf(objectIn(about.node, "inputValues"))) names.add(name);
  }
  return [...names];
}

function outputSlots(graph: Graph, about: GraphNode): Slot[] {
  if (about.zone === null) return interfaceOf(graph.file).outputs;
  return keysOf(objectIn(about.node, "inputValues")).map((name) => plainSlot(name, "WILDCARD"));
}

function zoneSlots(graph: Graph, about: GraphNode): SlotSets {
  const state = stateOf(about.node).map((item) => plainSlot(item.key, item.type));
  const items = zoneMode(about.node) === "each" ? [{ ...plainSlot("items", "ARRAY"), required: true }] : [];
  const results = resultsOf(graph, about.key).filter((name) => !state.some((slot) => slot.name === name));
  const collected = listIn(configOf(about.node), "collect").flatMap((key) =>
    typeof key === "string" ? [plainSlot(`collected.${key}`, "ARRAY")] : [],
  );
  const stream = { ...plainSlot("stream", "STRING"), stream: true };
  return {
    inputs: [...items, ...state],
    outputs: [...results.map((name) => plainSlot(name, "WILDCARD")), ...state, ...collected, stream],
  };
}

/** The slot a handle means; without a handle the main one. */
export function findSlot(slots: Slot[], handle: string | null): Slot | undefined {
  if (handle === null) return slots[0];
  const exact = slots.find((slot) => slot.name === handle);
  if (exact !== undefined) return exact;
  const name = slotName(handle, new Set(slots.map((slot) => slot.name)));
  return slots.find((slot) => slot.name === name);
}
