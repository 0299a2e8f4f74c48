// The passes of a loop, indexed once for everything that is shown of them: each lookup is of one pass, however many there are.
import type { LoopView, NodeView, PassView } from "../state/view.ts";

export interface Cell {
  pass: PassView;
  /** How it ended, with a failure of one of its nodes. */
  state: PassView["state"];
  /** Milliseconds; `null` while it runs. */
  ms: number | null;
  /** Of the height of the strip, from 0 to 1. */
  height: number;
}

/** A piece of the overview: the passes that share one bar. */
export interface Bucket {
  from: number;
  to: number;
  height: number;
  hasFailed: boolean;
}

/** Where a key or a button leads. */
export type Jump = "failed" | "slowest" | "changed";

export class PassIndex {
  readonly cells: readonly Cell[];
  readonly failed: number;
  /** Milliseconds of all passes. */
  readonly total: number;
  private readonly nodes = new Map<number, NodeView[]>();

  constructor(nodes: Readonly<Record<string, NodeView>>, loop: LoopView) {
    const inside = `${loop.path}[`;
    for (const node of Object.values(nodes)) {
      if (!node.path.startsWith(inside)) continue;
      const iteration = Number.parseInt(node.path.slice(inside.length), 10);
      const others = this.nodes.get(iteration);
      if (others === undefined) this.nodes.set(iteration, [node]);
      else others.push(node);
    }
    let longest = 1;
    let total = 0;
    const times = loop.passes.map((pass) => {
      const ms = pass.ended === undefined ? null : Math.max(0, Date.parse(pass.ended) - Date.parse(pass.started));
      longest = Math.max(longest, ms ?? 0);
      total += ms ?? 0;
      return ms;
    });
    this.total = total;
    let failed = 0;
    this.cells = loop.passes.map((pass, at) => {
      const ms = times[at] ?? null;
      const state = pass.state === "ok" && this.fault(pass.iteration) !== undefined ? "failed" : pass.state;
      if (state === "failed") failed += 1;
      // By the square root, so that short passes stay to be seen.
      return { pass, state, ms, height: ms === null ? 1 : 0.18 + 0.82 * Math.sqrt(ms / longest) };
    });
    this.failed = failed;
  }

  /** What went wrong in a pass: the first node of it that failed. */
  fault(iteration: number): NodeView | undefined {
    return this.nodes.get(iteration)?.find((node) => node.state === "failed");
  }

  /** The nodes of a pass in the order in which they began, without those of loops inside it. */
  nodesIn(loop: LoopView, iteration: number): NodeView[] {
    const inside = `${loop.path}[${iteration}]/`;
    return (this.nodes.get(iteration) ?? [])
      .filter((node) => !node.path.slice(inside.length).includes("["))
      .sort((one, other) => (one.started ?? "").localeCompare(other.started ?? ""));
  }

  /** The passes in at most so many bars. */
  buckets(most: number): Bucket[] {
    const size = Math.max(1, Math.ceil(this.cells.length / most));
    const buckets: Bucket[] = [];
    for (let from = 0; from < this.cells.length; from += size) {
      const to = Math.min(this.cells.length, from + size);
      const bucket = { from, to, height: 0, hasFailed: false };
      for (const cell of this.cells.slice(from, to)) {
        bucket.height = Math.max(bucket.height, cell.height);
        bucket.hasFailed ||= cell.state === "failed";
      }
      buckets.push(bucket);
    }
    return buckets;
  }

  /** The place of the next failed or changing pass behind `at`, from the beginning where none follows, or of the slowest. */
  jump(how: Jump, at: number): number | undefined {
    if (how === "slowest") return this.slowest();
    const fits = (cell: Cell): boolean => (how === "failed" ? cell.state === "failed" : cell.pass.changed.length > 0);
    const next = this.cells.findIndex((cell, index) => index > at && fits(cell));
    const found = next >= 0 ? next : this.cells.findIndex(fits);
    return found >= 0 ? found : undefined;
  }

  private slowest(): number | undefined {
    let found: number | undefined;
    this.cells.forEach((cell, index) => {
      if (cell.ms !== null && cell.ms > (found === undefined ? -1 : (this.cells[found]?.ms ?? -1))) found = index;
    });
    return found;
  }
}

/** At most so many columns of the table stand side by side: a window around the chosen pass. */
export function windowAround(count: number, chosen: number, most: number): { from: number; to: number } {
  if (count <= most) return { from: 0, to: count };
  const from = Math.min(Math.max(0, chosen - Math.floor(most / 2)), count - most);
  return { from, to: from + most };
}
