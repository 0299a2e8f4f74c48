// Copying nodes: between zones, between workflows, between windows, as JSON text.

import { changeLevel, isContainer, objectIn, positionOf, withContents, without } from "./file.ts";
import type { FileNode, Graph, Place } from "./file.ts";
import { freeId, type Edit } from "./connect.ts";
import { homeOf, newId, outermost } from "./edit.ts";
import { isObject, parseJson, printJson, type Json, type JsonObject } from "./json.ts";
import { placeOf } from "./geometry.ts";

const KIND = "weft-nodes";

/** The chosen nodes with what stands in them and the edges between them; `null` where nothing is chosen. */
export function copy(graph: Graph, keys: Iterable<string>): string | null {
  const chosen = outermost(graph, keys);
  if (chosen.length === 0) return null;
  const level = graph.nodes.get(chosen[0] as string)?.level;
  const same = chosen.filter((key) => graph.nodes.get(key)?.level === level);
  const inside = withContents(graph, same);
  const nodes: FileNode[] = [];
  for (const key of inside) {
    const about = graph.nodes.get(key);
    if (about === undefined || about.level !== level) continue;
    if (!same.includes(key)) {
      nodes.push(about.node);
      continue;
    }
    const { x, y } = placeOf(graph, key);
    nodes.push({ ...without(about.node, "parentNode"), position: { x, y } });
  }
  const edges = [...graph.edges.values()].filter(
    (edge) =>
      edge.level === level && edge.source !== null && edge.target !== null && inside.has(edge.source) && inside.has(edge.target),
  );
  return printJson({ kind: KIND, nodes, edges: edges.map((edge) => edge.edge) }, 2);
}

/** The nodes of a copied text, or `null` where it is something else. */
export function readCopied(text: string): { nodes: JsonObject[]; edges: JsonObject[] } | null {
  let value: Json;
  try {
    value = parseJson(text);
  } catch {
    return null;
  }
  if (!isObject(value) || value["kind"] !== KIND) return null;
  const list = (key: string) => {
    const items = (value as JsonObject)[key];
    return Array.isArray(items) ? items.filter(isObject) : [];
  };
  const nodes = list("nodes");
  return nodes.length === 0 ? null : { nodes, edges: list("edges") };
}

/** Puts copied nodes into a container, with their upper left corner at `at`. */
export function paste(graph: Graph, text: string, container: string | null, at: Place): Edit | null {
  const copied = readCopied(text);
  if (copied === null) return null;
  const home = homeOf(graph, container);
  const taken = new Set<string>();
  const ids = new Map<string, string>();
  for (const node of copied.nodes) {
    const old = typeof node["id"] === "string" ? node["id"] : "";
    const free = freeCopy(graph, old, taken) ?? newId(graph, String(node["type"]), taken);
    taken.add(free);
    ids.set(old, free);
  }
  const rename = (id: Json | undefined): Json => (typeof id === "string" ? (ids.get(id) ?? id) : null);
  const tops = copied.nodes.filter((node) => typeof node["parentNode"] !== "string");
  const left = Math.min(...tops.map((node) => positionOf(node).x));
  const top = Math.min(...tops.map((node) => positionOf(node).y));
  const origin = container === null ? { x: 0, y: 0 } : placeOf(graph, container);
  const used = new Set([...graph.edges.values()].map((edge) => edge.id ?? ""));
  const edgeIds = new Map<string, string>();
  const edges = copied.edges.map((edge) => {
    const id = freeId("e", used);
    used.add(id);
    if (typeof edge["id"] === "string") edgeIds.set(edge["id"], id);
    return { ...edge, id, source: rename(edge["source"]), target: rename(edge["target"]) };
  });
  const nodes = copied.nodes.map((node) => {
    const copy: JsonObject = reorder({ ...node, id: rename(node["id"]) }, edgeIds);
    if (typeof node["parentNode"] === "string") return { ...copy, parentNode: rename(node["parentNode"]) };
    const place = positionOf(node);
    copy["position"] = {
      x: Math.round(place.x - left + at.x - origin.x),
      y: Math.round(place.y - top + at.y - origin.y),
    };
    return home.parent === null ? copy : { ...copy, parentNode: home.parent };
  });
  const file = changeLevel(graph, home.level, (content) => ({
    nodes: [...content.nodes, ...nodes],
    edges: [...content.edges, ...edges],
  }));
  const prefix = home.level === "" ? "" : `${home.level}/`;
  return { file, select: tops.map((node) => prefix + (ids.get(String(node["id"])) ?? "")) };
}

function freeCopy(graph: Graph, id: string, taken: ReadonlySet<string>): string | null {
  if (id === "") return null;
  const all = new Set([...taken, ...[...graph.nodes.values()].map((node) => node.id)]);
  if (!all.has(id)) return id;
  const stem = id.replace(/_\d+$/, "");
  let number = 2;
  while (all.has(`${stem}_${number}`)) number += 1;
  return `${stem}_${number}`;
}

/** The order of edges at a slot, with their new ids; edges that were not copied fall out. */
function reorder(node: JsonObject, ids: ReadonlyMap<string, string>): JsonObject {
  const orders = objectIn(node, "inputConnectionOrders");
  if (Object.keys(orders).length === 0) return node;
  const next: JsonObject = {};
  for (const [slot, list] of Object.entries(orders)) {
    const own = Array.isArray(list) ? list.flatMap((id) => (typeof id === "string" ? (ids.get(id) ?? []) : [])) : [];
    if (own.length > 0) next[slot] = own;
  }
  return Object.keys(next).length > 0 ? { ...node, inputConnectionOrders: next } : without(node, "inputConnectionOrders");
}

/** The container that something new goes into when these nodes are chosen. */
export function containerFor(graph: Graph, chosen: readonly string[]): string | null {
  const last = graph.nodes.get(chosen.at(-1) ?? "");
  if (last === undefined) return null;
  return isContainer(last.type) ? last.key : last.parent;
}
