// From the file to what is drawn: boxes with their slots at fixed places, and wires between them.

import { FRAME, INPUT, NEXT, OUTPUT, positionOf, STATE, ZONE, type Graph, type GraphNode, type Place } from "./file.ts";
import { takesNewSlots, NEW_SLOT } from "./connect.ts";
import { HEADER, RAIL, ROW, sizeOf, ZONE_HEADER, type Rows, type Size } from "./geometry.ts";
import { findSlot, slotsOf, type Slot, type SlotSets, type SlotType, type World } from "./slots.ts";

/** The handle at a node's header: what leaves or meets it is order only. */
export const ORDER = ">";

export interface Anchor {
  /** The slot's name, `+` for a new one, `>` for order. */
  id: string;
  side: "input" | "output";
  slot: Slot | null;
  /** From the upper left corner of its box. */
  x: number;
  y: number;
}

export type BoxKind = "node" | "zone" | "frame" | "rail";

export interface Box {
  key: string;
  kind: BoxKind;
  about: GraphNode;
  parent: string | null;
  at: Place;
  size: Size;
  anchors: Anchor[];
  inputs: Slot[];
  outputs: Slot[];
  /** Changes whenever something in here does, but for place and selection. */
  looks: string;
}

export interface Wire {
  key: string;
  source: string;
  target: string;
  from: string;
  to: string;
  type: SlotType | "ORDER";
  stream: boolean;
}

export interface View {
  /** Containers before what stands in them. */
  boxes: Box[];
  wires: Wire[];
  byKey: Map<string, Box>;
}

const HALF = 5;

/** How many rows of slots each node has. */
export function rowsOf(sets: ReadonlyMap<string, SlotSets>, graph: Graph): Rows {
  return (key) => {
    const set = sets.get(key);
    const about = graph.nodes.get(key);
    if (set === undefined || about === undefined) return 1;
    const inputs = set.inputs.length + Number(takesNewSlots(about, "input"));
    const outputs = set.outputs.length + Number(takesNewSlots(about, "output"));
    return Math.max(inputs, outputs);
  };
}

export function viewOf(graph: Graph, world: World): View {
  const sets = new Map<string, SlotSets>();
  for (const key of graph.nodes.keys()) sets.set(key, slotsOf(graph, key, world));
  const rows = rowsOf(sets, graph);
  const pinned = pinnedRails(graph);
  const byKey = new Map<string, Box>();
  // Outer containers first: their size tells where their rails stand.
  const ordered = [...graph.nodes.values()]
    .map((about) => ({ about, depth: depthOf(graph, about) }))
    .sort((one, other) => one.depth - other.depth);
  for (const { about } of ordered) {
    const set = sets.get(about.key) as SlotSets;
    byKey.set(about.key, boxOf(graph, about, set, rows, pinned, byKey));
  }
  return { boxes: [...byKey.values()], wires: wiresOf(graph, byKey), byKey };
}

function depthOf(graph: Graph, about: GraphNode): number {
  let depth = 0;
  for (let at = about.parent; at !== null; at = graph.nodes.get(at)?.parent ?? null) depth += 1;
  return depth;
}

/** The first state and the first next of each zone, drawn as its rails. */
function pinnedRails(graph: Graph): Map<string, { state?: string; next?: string }> {
  const rails = new Map<string, { state?: string; next?: string }>();
  for (const about of graph.nodes.values()) {
    if (about.zone === null || about.parent !== about.zone) continue;
    const own = rails.get(about.zone) ?? {};
    if (about.type === STATE) own.state ??= about.key;
    else if (about.type === NEXT) own.next ??= about.key;
    rails.set(about.zone, own);
  }
  return rails;
}

function boxOf(
  graph: Graph,
  about: GraphNode,
  set: SlotSets,
  rows: Rows,
  pinned: Map<string, { state?: string; next?: string }>,
  known: Map<string, Box>,
): Box {
  const rails = about.zone === null ? undefined : pinned.get(about.zone);
  const zone = about.zone === null ? undefined : known.get(about.zone);
  const isRail = zone !== undefined && (rails?.state === about.key || rails?.next === about.key);
  const kind: BoxKind = about.type === ZONE ? "zone" : about.type === FRAME ? "frame" : isRail ? "rail" : "node";
  let size = sizeOf(graph, about.key, rows);
  let at = positionOf(about.node);
  let anchors: Anchor[];
  if (kind === "zone") {
    const least = zoneRows(set, pinned.get(about.key));
    size = { ...size, height: Math.max(size.height, ZONE_HEADER + least * ROW + 20) };
    anchors = zoneAnchors(set, size, pinned.get(about.key));
  } else if (isRail && zone !== undefined) {
    const left = about.type === STATE;
    size = { width: RAIL, height: rows(about.key) * ROW + 8 };
    at = { x: left ? 0 : zone.size.width - RAIL, y: ZONE_HEADER };
    anchors = slotAnchors(about, set, size, 4);
  } else {
    anchors = kind === "frame" ? [] : slotAnchors(about, set, size, HEADER);
    if (kind === "node" && ![INPUT, OUTPUT, STATE, NEXT].includes(about.type)) {
      anchors.unshift(
        { id: ORDER, side: "input", slot: null, x: 0, y: HEADER / 2 },
        { id: ORDER, side: "output", slot: null, x: size.width, y: HEADER / 2 },
      );
    }
  }
  const said = (slots: Slot[]) => slots.map((slot) => `${slot.name}:${slot.type}${slot.required ? "!" : ""}${slot.stream ? "~" : ""}`).join();
  const looks = [kind, about.parent, size.width, size.height, said(set.inputs), said(set.outputs)].join("|");
  return { key: about.key, kind, about, parent: about.parent, at, size, anchors, inputs: set.inputs, outputs: set.outputs, looks };
}

function slotAnchors(about: GraphNode, set: SlotSets, size: Size, top: number): Anchor[] {
  const anchors: Anchor[] = [];
  const row = (index: number) => top + index * ROW + ROW / 2;
  const add = (side: "input" | "output", slots: Slot[]) => {
    const x = side === "input" ? 0 : size.width;
    for (const [index, slot] of slots.entries()) anchors.push({ id: slot.name, side, slot, x, y: row(index) });
    if (takesNewSlots(about, side)) anchors.push({ id: NEW_SLOT, side, slot: null, x, y: row(slots.length) });
  };
  add("input", set.inputs);
  add("output", set.outputs);
  return anchors;
}

/** Rows of the rails that a zone has at its sides, and below them the rows of its results. */
function zoneRows(set: SlotSets, rails: { state?: string; next?: string } | undefined): number {
  const left = rails?.state === undefined ? 0 : set.inputs.length + 4;
  const { below, first } = zoneOutputs(set, rails);
  return Math.max(left, first + below.length, set.inputs.length + 1);
}

/** The outputs of a zone that are no carried values, and the row where they begin. */
export function zoneOutputs(set: SlotSets, rails: { next?: string } | undefined): { below: Slot[]; first: number } {
  const state = new Set(set.inputs.filter((slot) => slot.name !== "items").map((slot) => slot.name));
  const below = set.outputs.filter((slot) => !state.has(slot.name));
  return { below, first: state.size + (rails?.next === undefined ? 0 : 3) };
}

function zoneAnchors(set: SlotSets, size: Size, rails: { state?: string; next?: string } | undefined): Anchor[] {
  const row = (index: number) => ZONE_HEADER + 4 + index * ROW + ROW / 2;
  const state = set.inputs.filter((slot) => slot.name !== "items");
  const anchors: Anchor[] = [
    { id: ORDER, side: "input", slot: null, x: 0, y: ZONE_HEADER / 2 },
    { id: ORDER, side: "output", slot: null, x: size.width, y: ZONE_HEADER / 2 },
  ];
  for (const [index, slot] of state.entries()) {
    anchors.push({ id: slot.name, side: "input", slot, x: 0, y: row(index) });
    anchors.push({ id: slot.name, side: "output", slot, x: size.width, y: row(index) });
  }
  const items = set.inputs.find((slot) => slot.name === "items");
  // Beside `item` on the rail, which stands behind `index`.
  if (items !== undefined) anchors.push({ id: "items", side: "input", slot: items, x: 0, y: row(state.length + 1) });
  anchors.push({ id: NEW_SLOT, side: "input", slot: null, x: 0, y: row(state.length + (items === undefined ? 2 : 3)) });
  const { below, first } = zoneOutputs(set, rails);
  for (const [index, slot] of below.entries()) anchors.push({ id: slot.name, side: "output", slot, x: size.width, y: row(first + index) });
  return anchors;
}

function wiresOf(graph: Graph, boxes: ReadonlyMap<string, Box>): Wire[] {
  const wires: Wire[] = [];
  for (const edge of graph.edges.values()) {
    const [source, target] = [boxes.get(edge.source ?? ""), boxes.get(edge.target ?? "")];
    if (source === undefined || target === undefined || source === target) continue;
    if (edge.sourceSlot === null && edge.targetSlot === null) {
      wires.push({ key: edge.key, source: source.key, target: target.key, from: ORDER, to: ORDER, type: "ORDER", stream: false });
      continue;
    }
    const from = findSlot(source.outputs, edge.sourceSlot);
    const to = findSlot(target.inputs, edge.targetSlot);
    if (from === undefined || to === undefined) continue;
    const type = from.type === "WILDCARD" || from.type === "CONVERTIBLE_ANY" ? to.type : from.type;
    wires.push({ key: edge.key, source: source.key, target: target.key, from: from.name, to: to.name, type, stream: from.stream });
  }
  return wires;
}

/** The places of handles, as the flow wants them, so that nothing must be measured. */
export function handlesOf(box: Box): { id: string; type: "source" | "target"; position: "left" | "right"; x: number; y: number; width: number; height: number }[] {
  return box.anchors.map((anchor) => ({
    id: anchor.id,
    type: anchor.side === "input" ? "target" : "source",
    position: anchor.side === "input" ? "left" : "right",
    x: anchor.x - HALF,
    y: anchor.y - HALF,
    width: HALF * 2,
    height: HALF * 2,
  }));
}

/** The upper left corner of a box on the board; rails stand elsewhere than their file says. */
export function placeOnBoard(view: View, key: string): Place {
  const place = { x: 0, y: 0 };
  for (let box = view.byKey.get(key); box !== undefined; box = view.byKey.get(box.parent ?? "")) {
    place.x += box.at.x;
    place.y += box.at.y;
  }
  return place;
}

export type Direction = "left" | "right" | "up" | "down";

/** The nearest box in a direction, for walking over the board by arrow keys. */
export function nearestTowards(view: View, from: string, direction: Direction): string | null {
  const middle = (box: Box) => {
    const at = placeOnBoard(view, box.key);
    // Of a container its header counts.
    const isContainer = box.kind === "zone" || box.kind === "frame";
    return { x: at.x + (isContainer ? 60 : box.size.width / 2), y: at.y + (isContainer ? 20 : Math.min(box.size.height, 120) / 2) };
  };
  const start = view.byKey.get(from);
  if (start === undefined) return null;
  const here = middle(start);
  let best: string | null = null;
  let least = Number.POSITIVE_INFINITY;
  for (const box of view.boxes) {
    if (box.key === from) continue;
    const there = middle(box);
    const [dx, dy] = [there.x - here.x, there.y - here.y];
    const [along, across] =
      direction === "left" ? [-dx, dy] : direction === "right" ? [dx, dy] : direction === "up" ? [-dy, dx] : [dy, dx];
    if (along <= 1) continue;
    const cost = along + Math.abs(across) * 2;
    if (cost < least) {
      least = cost;
      best = box.key;
    }
  }
  return best;
}

/** Whether a file has never been drawn with rails: nodes without a place, or loops whose inside lies over their sides. */
export function neverDrawn(graph: Graph): boolean {
  const tops = [...graph.nodes.values()].filter((about) => about.level === "" && about.parent === null);
  if (tops.length > 1 && tops.some((about) => about.node["position"] === undefined)) return true;
  return [...graph.nodes.values()].some((about) => {
    if (about.type !== ZONE || about.level !== "" || about.node["width"] !== undefined) return false;
    const inside = (graph.children.get(about.key) ?? []).flatMap((key) => graph.nodes.get(key) ?? []);
    const free = inside.filter((inner) => inner.level === "" && inner.type !== STATE && inner.type !== NEXT);
    return free.some((inner) => positionOf(inner.node).x < RAIL || positionOf(inner.node).y < ZONE_HEADER);
  });
}
