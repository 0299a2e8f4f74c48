// Places by the server, which is told how large each box is.
import { layoutWorkflow } from "./files.ts";
import { changeNodes, isContainer, objectIn, type FileNode, type Graph, type WorkflowFile } from "./model/file.ts";
import type { View } from "./model/view.ts";

/** The file with new places for all its nodes. */
export async function laidOut(id: string, graph: Graph, view: View): Promise<WorkflowFile> {
  const sized = changeNodes(graph, graph.nodes.keys(), (node, about) => {
    const box = view.byKey.get(about.key);
    if (box === undefined || isContainer(about.type)) return node;
    // Below a node stands what it gave.
    return { ...node, width: box.size.width, height: box.size.height + (box.kind === "rail" ? 0 : 20) };
  });
  const placed = new Map((await layoutWorkflow(id, sized)).map((node) => [node.id, node]));
  return changeNodes(graph, graph.nodes.keys(), (node, about): FileNode => {
    const found = about.level === "" ? placed.get(about.id) : undefined;
    if (found === undefined) return node;
    const moved = { ...node, position: { ...objectIn(node, "position"), x: Math.round(found.x), y: Math.round(found.y) } };
    return isContainer(about.type) ? { ...moved, width: Math.round(found.width), height: Math.round(found.height) } : moved;
  });
}
