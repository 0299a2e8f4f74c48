// The carried values of a loop, pass by pass: what each began with and what it handed on.

import type { GraphView, LoopView, NodeView, PassView } from "../../state/view.ts";
import { INPUT, NEXT, objectIn, STATE, type Graph, type GraphEdge } from "./file.ts";
import { slotsOf, stateOf, zoneMode, type StateKey, type World } from "./slots.ts";

/** A value that may be known, or known to have changed, or neither. */
export type Known = { value: unknown } | { changed: boolean };

export interface CarriedRow {
  key: string;
  type: string;
  /** What the first pass begins with. */
  initial: Known;
  /** One a pass: the value after it, and whether the pass changed it. */
  after: { known: Known; changed: boolean }[];
}

/** What the values of one run of a zone are read from. */
export interface CarriedFrom {
  graph: Graph;
  world: World;
  run: GraphView;
  /** What the run was given. */
  inputs: unknown;
  /** What stands before the paths of this workflow's nodes. */
  before: string;
}

/** The values that a zone carries, after each pass of one of its runs. */
export function carriedValues(from: CarriedFrom, zone: string, loop: LoopView): CarriedRow[] {
  const about = from.graph.nodes.get(zone);
  if (about === undefined) return [];
  const items = itemsOf(from, zone);
  const rows: CarriedRow[] = stateOf(about.node).map((state) => ({ key: state.key, type: state.type, initial: firstValue(from, zone, state), after: [] }));
  const wires = rows.map((row) => edgeIntoNext(from.graph, zone, row.key));
  let last = new Map(rows.map((row) => [row.key, row.initial]));
  for (const pass of loop.passes) {
    // A value may come from another one as it was when the pass began.
    const before = last;
    last = new Map();
    rows.forEach((row, at) => {
      const changed = pass.changed.includes(row.key);
      const wire = wires[at] ?? null;
      const known = !changed ? (before.get(row.key) ?? { changed }) : wire === null ? { changed } : valueAfter(from, wire, { loop, pass, before, items });
      last.set(row.key, known);
      row.after.push({ known, changed });
    });
  }
  return rows;
}

/** A pass, and what it began with. */
interface Begun {
  loop: LoopView;
  pass: PassView;
  before: ReadonlyMap<string, Known>;
  items: readonly unknown[] | null;
}

function edgeIntoNext(graph: Graph, zone: string, key: string): GraphEdge | null {
  for (const about of graph.nodes.values()) {
    if (about.type !== NEXT || about.zone !== zone) continue;
    const edge = (graph.into.get(about.key) ?? []).find((each) => each.targetSlot === key);
    if (edge !== undefined) return edge;
  }
  return null;
}

/** What a node gave over an edge. */
function given({ graph, world }: CarriedFrom, edge: GraphEdge, node: NodeView | undefined): unknown {
  if (edge.source === null || node === undefined) return undefined;
  const slot = edge.sourceSlot;
  const isMain = slot === null || slotsOf(graph, edge.source, world).outputs[0]?.name === slot;
  return isMain ? node.value : node.outputs?.[slot];
}

function valueAfter(from: CarriedFrom, edge: GraphEdge, { loop, pass, before, items }: Begun): Known {
  const source = from.graph.nodes.get(edge.source ?? "");
  if (source === undefined) return { changed: true };
  if (source.type === STATE) {
    if (edge.sourceSlot === "index") return { value: pass.iteration };
    if (edge.sourceSlot === "item" && items !== null) return { value: items[pass.iteration] };
    return before.get(edge.sourceSlot ?? "") ?? { changed: true };
  }
  const node = from.run.nodes[`${loop.path}[${pass.iteration}]/${source.id}`];
  // What comes from outside of the loop is the same in every pass.
  const value = node === undefined ? valueOf(from, edge) : given(from, edge, node);
  return value === undefined ? { changed: true } : { value };
}

function firstValue(from: CarriedFrom, zone: string, state: StateKey): Known {
  const edge = (from.graph.into.get(zone) ?? []).find((each) => each.targetSlot === state.key);
  if (edge === undefined) return { value: state.initial ?? null };
  const value = valueOf(from, edge);
  return value === undefined ? { changed: false } : { value };
}

/** What came over an edge from outside of a loop, where the run tells it. */
function valueOf(from: CarriedFrom, edge: GraphEdge): unknown {
  const source = from.graph.nodes.get(edge.source ?? "");
  if (source?.type === INPUT && from.before === "") {
    const given = (from.inputs as Record<string, unknown> | undefined)?.[edge.sourceSlot ?? ""];
    if (given !== undefined) return given;
  }
  const path = source === undefined ? undefined : from.run.latest[from.before + source.path];
  return given(from, edge, path === undefined ? undefined : from.run.nodes[path]);
}

/** What an `each` loop goes through: the item of each pass, where it is known. */
export function itemsOf(from: CarriedFrom, zone: string): readonly unknown[] | null {
  const about = from.graph.nodes.get(zone);
  if (about === undefined || zoneMode(about.node) !== "each") return null;
  const edges = (from.graph.into.get(zone) ?? []).filter((each) => each.targetSlot === "items");
  const [edge] = edges;
  const items = edge === undefined ? objectIn(about.node, "inputValues")["items"] : edges.length > 1 ? undefined : valueOf(from, edge);
  return Array.isArray(items) ? items : null;
}

/** What became of a text: parts that stayed, went or came, word by word where it is short enough. */
export type Piece = { kind: "same" | "gone" | "new"; text: string };

const MAX_WORDS = 600;

export function textDifference(old: string, now: string): Piece[] {
  // What both begin and end with is the same whatever lies between.
  const [from, to] = [[...old], [...now]];
  const shortest = Math.min(from.length, to.length);
  let begin = 0;
  while (begin < shortest && from[begin] === to[begin]) begin += 1;
  let end = 0;
  while (end < shortest - begin && from[from.length - 1 - end] === to[to.length - 1 - end]) end += 1;
  const middle = wordDifference(from.slice(begin, from.length - end).join(""), to.slice(begin, to.length - end).join(""));
  const pieces: Piece[] = [{ kind: "same", text: from.slice(0, begin).join("") }, ...middle, { kind: "same", text: (end === 0 ? [] : from.slice(-end)).join("") }];
  return pieces.filter((piece) => piece.text !== "");
}

function wordDifference(old: string, now: string): Piece[] {
  const split = (text: string) => text.match(/\s+|[\p{Script=Han}]|[^\s\p{Script=Han}]+/gu) ?? [];
  const [a, b] = [split(old), split(now)];
  if (a.length > MAX_WORDS || b.length > MAX_WORDS) {
    return [
      { kind: "gone", text: old },
      { kind: "new", text: now },
    ];
  }
  const width = b.length + 1;
  const table = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      table[i * width + j] =
        a[i] === b[j]
          ? (table[(i + 1) * width + j + 1] as number) + 1
          : Math.max(table[(i + 1) * width + j] as number, table[i * width + j + 1] as number);
    }
  }
  const pieces: Piece[] = [];
  const add = (kind: Piece["kind"], text: string) => {
    const last = pieces.at(-1);
    if (last?.kind === kind) last.text += text;
    else pieces.push({ kind, text });
  };
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      add("same", a[i] as string);
      i += 1;
      j += 1;
    } else if (i < a.length && (j >= b.length || (table[(i + 1) * width + j] as number) >= (table[i * width + j + 1] as number))) {
      add("gone", a[i] as string);
      i += 1;
    } else {
      add("new", b[j] as string);
      j += 1;
    }
  }
  return pieces;
}
