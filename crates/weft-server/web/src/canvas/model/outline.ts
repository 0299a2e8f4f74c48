// The boxes of a view as one path, so that a thousand of them are one thing to draw.
import type { Place } from "./file.ts";
import type { View, Wire } from "./view.ts";

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

/** Where each box stands on the board. Containers come before what stands in them. */
function originsOf(view: View): Map<string, Place> {
  const origins = new Map<string, Place>();
  for (const box of view.boxes) {
    const outer = box.parent === null ? undefined : origins.get(box.parent);
    origins.set(box.key, { x: box.at.x + (outer?.x ?? 0), y: box.at.y + (outer?.y ?? 0) });
  }
  return origins;
}

/** The wires as straight lines, as the data of one path for each type. */
export function wireLines(view: View): Map<Wire["type"], string> {
  const origins = originsOf(view);
  const place = (key: string, side: "input" | "output", slot: string): Place | undefined => {
    const [at, box] = [origins.get(key), view.byKey.get(key)];
    const anchor = box?.anchors.find((one) => one.side === side && one.id === slot);
    return at === undefined || anchor === undefined ? undefined : { x: at.x + anchor.x, y: at.y + anchor.y };
  };
  const lines = new Map<Wire["type"], string>();
  for (const wire of view.wires) {
    const [from, to] = [place(wire.source, "output", wire.from), place(wire.target, "input", wire.to)];
    if (from !== undefined && to !== undefined) lines.set(wire.type, `${lines.get(wire.type) ?? ""}M${from.x},${from.y}L${to.x},${to.y}`);
  }
  return lines;
}

/** The outline of all boxes, or of some. */
export function outlineOf(view: View, only?: readonly string[]): Outline {
  const wanted = only === undefined ? null : new Set(only);
  const origins = originsOf(view);
  const containers: string[] = [];
  const nodes: string[] = [];
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const box of view.boxes) {
    const at = origins.get(box.key);
    if (at === undefined || (wanted !== null && !wanted.has(box.key))) continue;
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
