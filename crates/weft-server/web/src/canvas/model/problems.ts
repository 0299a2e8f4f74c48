// What the server found wrong, by where it stands on the canvas.

import { textOf } from "./file.ts";
import type { Graph } from "./file.ts";
import { isObject, type Json } from "./json.ts";

export interface Problem {
  code: string;
  severity: "error" | "warning";
  /** Path of the node it is about. */
  path: string | null;
  slot: string | null;
  message: string;
  suggest: string | null;
  /** Keys on the canvas: the node itself, or the group that embeds it; for a cycle all of it. */
  nodes: string[];
  /** Whether it lies in a workflow that a group embeds. */
  inside: boolean;
}

export function readProblems(list: Json | undefined, graph: Graph): Problem[] {
  if (!Array.isArray(list)) return [];
  return list.filter(isObject).map((item) => {
    const path = textOf(item["node"]);
    const ring = Array.isArray(item["nodes"]) ? item["nodes"].filter((node) => typeof node === "string") : [];
    const found = [...(path === null ? [] : [path]), ...ring].flatMap((each) => nodeAt(graph, each) ?? []);
    return {
      code: textOf(item["code"]) ?? "",
      severity: item["severity"] === "warning" ? ("warning" as const) : ("error" as const),
      path,
      slot: textOf(item["slot"]),
      message: textOf(item["message"]) ?? "",
      suggest: textOf(item["suggest"]),
      nodes: [...new Set(found.map((each) => each.key))],
      inside: found.length > 0 && found.every((each) => each.inside),
    };
  });
}

/** The node of a path, or the group on the way to it. */
export function nodeAt(graph: Graph, path: string): { key: string; inside: boolean } | null {
  const bare = path.replace(/\[\d+\]/g, "");
  for (let end = bare.length; end > 0; end = bare.lastIndexOf("/", end - 1)) {
    const key = graph.byPath.get(bare.slice(0, end));
    if (key !== undefined) return { key, inside: end < bare.length };
  }
  // A body's nodes and those of duplicate ids go by their keys.
  return graph.nodes.has(bare) ? { key: bare, inside: false } : null;
}

/** Problems by the node they are shown at. */
export function byNode(problems: readonly Problem[]): Map<string, Problem[]> {
  const map = new Map<string, Problem[]>();
  for (const problem of problems) {
    for (const key of problem.nodes) map.set(key, [...(map.get(key) ?? []), problem]);
  }
  return map;
}
