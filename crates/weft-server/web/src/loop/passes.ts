// The strip of passes: how each ended, how long it took, and which are drawn where there are very many.
import type { LoopView, NodeView, PassView } from "../state/view.ts";

export interface Cell {
  pass: PassView;
  /** Milliseconds; `null` while it runs. */
  ms: number | null;
  /** Of the height of the strip, from 0 to 1. */
  height: number;
}

/** The time of each pass against that of the longest; by the square root, so that short ones stay to be seen. */
export function cellsOf(loop: LoopView): Cell[] {
  const times = loop.passes.map((pass) => (pass.ended === undefined ? null : Math.max(0, Date.parse(pass.ended) - Date.parse(pass.started))));
  const longest = Math.max(1, ...times.map((ms) => ms ?? 0));
  return loop.passes.map((pass, at) => {
    const ms = times[at] ?? null;
    return { pass, ms, height: ms === null ? 1 : 0.18 + 0.82 * Math.sqrt(ms / longest) };
  });
}

/** What went wrong in a pass: the first node of it that failed. */
export function faultOf(nodes: Readonly<Record<string, NodeView>>, loop: LoopView, iteration: number): NodeView | undefined {
  const inside = `${loop.path}[${iteration}]/`;
  return Object.values(nodes).find((node) => node.state === "failed" && node.path.startsWith(inside));
}

/** How a pass ended, with a failure of one of its nodes. */
export function stateOf(nodes: Readonly<Record<string, NodeView>>, loop: LoopView, pass: PassView): PassView["state"] {
  return pass.state === "ok" && faultOf(nodes, loop, pass.iteration) !== undefined ? "failed" : pass.state;
}

/** The nodes of a pass in the order in which they began. */
export function nodesIn(nodes: Readonly<Record<string, NodeView>>, loop: LoopView, iteration: number): NodeView[] {
  const inside = `${loop.path}[${iteration}]/`;
  return Object.values(nodes)
    .filter((node) => node.path.startsWith(inside) && !node.path.slice(inside.length).includes("["))
    .sort((one, other) => (one.started ?? "").localeCompare(other.started ?? ""));
}

/** At most so many columns of the table stand side by side: a window around the chosen pass. */
export function windowAround(count: number, chosen: number, most: number): { from: number; to: number } {
  if (count <= most) return { from: 0, to: count };
  const from = Math.min(Math.max(0, chosen - Math.floor(most / 2)), count - most);
  return { from, to: from + most };
}
