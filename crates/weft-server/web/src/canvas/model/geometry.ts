// Sizes and places. They follow from the file alone, so that edges can be drawn to nodes that are not on the screen.

import { FRAME, NEXT, numberOf, positionOf, STATE, ZONE } from "./file.ts";
import type { Graph, Place } from "./file.ts";

export interface Size {
  width: number;
  height: number;
}

export const NODE_WIDTH = 232;
export const HEADER = 44;
export const ROW = 26;
export const FOOT = 10;
/** The strip below a node that shows what it gave. */
export const PREVIEW = 40;
export const ZONE_HEADER = 48;
export const RAIL = 148;

/** Rows of slots that a node has, known from the edges alone; the canvas may know more. */
export type Rows = (key: string) => number;

const usedRows =
  (graph: Graph): Rows =>
  (key) => {
    const count = (edges: { targetSlot: string | null; sourceSlot: string | null }[], end: "targetSlot" | "sourceSlot") =>
      new Set(edges.map((edge) => edge[end])).size;
    return Math.max(count(graph.into.get(key) ?? [], "targetSlot"), count(graph.outOf.get(key) ?? [], "sourceSlot"));
  };

/** The size of a node or container, as the file gives it or as its slots need it. */
export function sizeOf(graph: Graph, key: string, rows: Rows = usedRows(graph)): Size {
  const about = graph.nodes.get(key);
  if (about === undefined) return { width: 0, height: 0 };
  if (about.type === ZONE || about.type === FRAME) return containerSize(graph, key, rows);
  return { width: NODE_WIDTH, height: HEADER + Math.max(1, rows(key)) * ROW + FOOT };
}

function containerSize(graph: Graph, key: string, rows: Rows): Size {
  const about = graph.nodes.get(key);
  const zone = about?.type === ZONE;
  const least = zone ? { width: RAIL * 2 + 160, height: ZONE_HEADER + 140 } : { width: 160, height: 96 };
  let width = Math.max(least.width, numberOf(about?.node["width"]) ?? 0);
  let height = Math.max(least.height, numberOf(about?.node["height"]) ?? 0);
  for (const child of graph.children.get(key) ?? []) {
    const inner = graph.nodes.get(child);
    if (inner === undefined || (zone && (inner.type === STATE || inner.type === NEXT))) continue;
    const at = positionOf(inner.node);
    const size = sizeOf(graph, child, rows);
    width = Math.max(width, at.x + size.width + (zone ? RAIL + 24 : 24));
    height = Math.max(height, at.y + size.height + 24);
  }
  return { width, height };
}

/** The upper left corner on the canvas, whatever the node stands in. */
export function placeOf(graph: Graph, key: string): Place {
  const place = { x: 0, y: 0 };
  for (let at: string | null = key; at !== null; ) {
    const about = graph.nodes.get(at);
    if (about === undefined) break;
    const own = positionOf(about.node);
    place.x += own.x;
    place.y += own.y;
    at = about.parent;
  }
  return place;
}

/** The innermost of some containers that holds a point; `skip` are those that are being moved themselves. */
export function containerAt(graph: Graph, point: Place, skip: ReadonlySet<string>, rows?: Rows): string | null {
  let found: string | null = null;
  let depth = -1;
  for (const about of graph.nodes.values()) {
    if ((about.type !== ZONE && about.type !== FRAME) || skip.has(about.key)) continue;
    const at = placeOf(graph, about.key);
    const size = sizeOf(graph, about.key, rows);
    const inside =
      point.x >= at.x && point.x <= at.x + size.width && point.y >= at.y && point.y <= at.y + size.height;
    const own = depthOf(graph, about.key);
    if (inside && own > depth) {
      found = about.key;
      depth = own;
    }
  }
  return found;
}

function depthOf(graph: Graph, key: string): number {
  let depth = 0;
  for (let at = graph.nodes.get(key)?.parent ?? null; at !== null; at = graph.nodes.get(at)?.parent ?? null) depth += 1;
  return depth;
}
