import assert from "node:assert/strict";
import { test } from "node:test";
import type { LoopView, NodeView, PassView } from "../state/view.ts";
import { PassIndex } from "./passes.ts";

const at = (ms: number): string => new Date(1_700_000_000_000 + ms).toISOString();

/** Passes of the given lengths; those in `failing` have a node that failed. */
function loopOf(lengths: readonly number[], failing: ReadonlySet<number> = new Set()): { loop: LoopView; nodes: Record<string, NodeView> } {
  const nodes: Record<string, NodeView> = {};
  const passes = lengths.map((ms, iteration): PassView => {
    const path = `loop[${iteration}]/a`;
    nodes[path] = { path, state: failing.has(iteration) ? "failed" : "ok", attempt: 1, chunks: {} };
    return { iteration, state: "ok", started: at(0), ended: at(ms), changed: iteration % 2 === 0 ? ["x"] : [], from: 1, to: 2 };
  });
  return { loop: { path: "loop", mode: "times", passes }, nodes };
}

test("a pass with a failed node has failed, and jumps find what they name", () => {
  const { loop, nodes } = loopOf([1, 9, 3, 4], new Set([2]));
  const index = new PassIndex(nodes, loop);
  assert.deepEqual(index.cells.map((cell) => cell.state), ["ok", "ok", "failed", "ok"]);
  assert.equal(index.failed, 1);
  assert.equal(index.total, 17);
  assert.equal(index.jump("failed", 0), 2);
  assert.equal(index.jump("failed", 2), 2);
  assert.equal(index.jump("slowest", 3), 1);
  assert.equal(index.jump("changed", 0), 2);
  assert.equal(index.jump("changed", 2), 0);
  assert.equal(new PassIndex({}, { ...loop, passes: [] }).jump("failed", 0), undefined);
});

test("of two loops whose names begin alike each has its own nodes", () => {
  const { loop, nodes } = loopOf([1, 1]);
  const path = "loop2[1]/a";
  const index = new PassIndex({ ...nodes, [path]: { path, state: "failed", attempt: 1, chunks: {} } }, loop);
  assert.equal(index.failed, 0);
});

test("a hundred thousand passes are indexed, and make few bars", () => {
  const { loop, nodes } = loopOf(Array.from({ length: 100_000 }, (_, one) => one % 7), new Set([77_777]));
  const index = new PassIndex(nodes, loop);
  const buckets = index.buckets(200);
  assert.equal(buckets.length, 200);
  assert.equal(buckets.filter((bucket) => bucket.hasFailed).length, 1);
  assert.equal(buckets.at(-1)?.to, 100_000);
  assert.equal(index.nodesIn(loop, 99_999).length, 1);
});
