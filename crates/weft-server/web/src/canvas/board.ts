// From the view to what the flow library draws. What has not changed stays the same object, so that it is not drawn anew.
import { Position, type Edge, type Node } from "@xyflow/svelte";
import { handlesOf, type Box, type View, type Wire } from "./model/view.ts";

export type BoxNode = Node<{ box: Box }, "node" | "zone" | "frame" | "rail">;
export type WireEdge = Edge<{ wire: Wire }, "wire">;

const POSITIONS = { left: Position.Left, right: Position.Right } as const;

export function nodesOf(view: View, chosen: ReadonlySet<string>, before: ReadonlyMap<string, BoxNode>): BoxNode[] {
  return view.boxes.map((box) => {
    const old = before.get(box.key);
    const selected = chosen.has(box.key);
    if (
      old !== undefined &&
      old.data.box.about.node === box.about.node &&
      old.data.box.looks === box.looks &&
      old.position.x === box.at.x &&
      old.position.y === box.at.y &&
      (old.selected ?? false) === selected
    ) {
      return old;
    }
    return {
      id: box.key,
      type: box.kind,
      data: { box },
      position: { ...box.at },
      width: box.size.width,
      height: box.size.height,
      measured: { ...box.size },
      handles: handlesOf(box).map((handle) => ({ ...handle, position: POSITIONS[handle.position] })),
      selected,
      draggable: box.kind !== "rail",
      ...(box.kind === "zone" || box.kind === "frame" ? { dragHandle: ".grip" } : {}),
      ...(box.parent === null ? {} : { parentId: box.parent }),
      zIndex: box.kind === "frame" ? -2 : box.kind === "zone" ? -1 : 1,
      // The keyboard stands on the board, which names the box in view; the wrapper itself says nothing.
      domAttributes: { "aria-roledescription": undefined, "data-node": box.key },
    } satisfies BoxNode as BoxNode;
  });
}

export function edgesOf(view: View, chosen: ReadonlySet<string>, before: ReadonlyMap<string, WireEdge>): WireEdge[] {
  return view.wires.map((wire) => {
    const old = before.get(wire.key);
    const selected = chosen.has(wire.key);
    const known = old?.data?.wire;
    if (
      old !== undefined &&
      known !== undefined &&
      known.source === wire.source &&
      known.target === wire.target &&
      known.from === wire.from &&
      known.to === wire.to &&
      known.type === wire.type &&
      (old.selected ?? false) === selected
    ) {
      return old;
    }
    return {
      id: wire.key,
      type: "wire",
      source: wire.source,
      target: wire.target,
      sourceHandle: wire.from,
      targetHandle: wire.to,
      data: { wire },
      selected,
      class: `wire wire-${wire.type}${wire.stream ? " wire-stream" : ""}`,
      zIndex: 0,
      interactionWidth: 18,
      // What a node is joined to stands in its details; the drawn line says nothing.
      ariaLabel: null as unknown as string,
      ariaRole: "presentation",
      domAttributes: { "aria-roledescription": undefined },
    };
  });
}
