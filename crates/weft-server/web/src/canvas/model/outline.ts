// The boxes of a view as one path, so that a thousand of them are one thing to draw.
import type { Place } from "./file.ts";
import type { View } from "./view.ts";

export interface Outline {
  left: number;
  top: number;
  right: number;
  bottom: number;
  /** Loops and frames, as the data of a path. */
  containers: string;
  /** Everything else. */
  nodes: string;
}

/** The outline of all boxes, or of some. */
export function outlineOf(view: View, only?: readonly string[]): Outline {
  const wanted = only === undefined ? null : new Set(only);
  const origins = new Map<string, Place>();
  const containers: string[] = [];
  const nodes: string[] = [];
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const box of view.boxes) {
    // Containers come before what stands in them.
    const outer = box.parent === null ? undefined : origins.get(box.parent);
    const at = { x: box.at.x + (outer?.x ?? 0), y: box.at.y + (outer?.y ?? 0) };
    origins.set(box.key, at);
    if (wanted !== null && !wanted.has(box.key)) continue;
    const { width, height } = box.size;
    const holds = box.kind === "zone" || box.kind === "frame";
    (holds ? containers : nodes).push(`M${at.x},${at.y}h${width}v${height}h${-width}z`);
    left = Math.min(left, at.x);
    top = Math.min(top, at.y);
    right = Math.max(right, at.x + width);
    bottom = Math.max(bottom, at.y + height);
  }
  if (left > right) [left, top, right, bottom] = [0, 0, 0, 0];
  return { left, top, right, bottom, containers: containers.join(""), nodes: nodes.join("") };
}
