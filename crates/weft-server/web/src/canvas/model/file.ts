// A workflow file as the canvas sees it: immutable JSON with an index over its nodes and edges.

import { isObject, Numeral, type Json, type JsonObject } from "./json.ts";

export interface Place {
  x: number;
  y: number;
}

export type FileNode = JsonObject;
export type FileEdge = JsonObject;
export type WorkflowFile = JsonObject;

export const ZONE = "core:LoopZone";
export const STATE = "core:LoopState";
export const NEXT = "core:LoopNext";
export const FRAME = "core:Frame";
export const INPUT = "core:GroupInput";
export const OUTPUT = "core:GroupOutput";
export const GROUP = "core:NodeGroup";

/** A node with its place in the file. */
export interface GraphNode {
  /** Unique on the canvas, and the same after the node moves between zones of its level. */
  key: string;
  id: string;
  type: string;
  node: FileNode;
  /** Whose list it stands in: "" is the file's own, else the key of a zone with a `body`. */
  level: string;
  /** Place in that list. */
  index: number;
  /** Key of the frame or zone around it. */
  parent: string | null;
  /** Key of the nearest zone around it. */
  zone: string | null;
  /** Its name in events: the zones around it, then itself. */
  path: string;
}

/** An edge with its ends found. */
export interface GraphEdge {
  key: string;
  id: string | null;
  edge: FileEdge;
  level: string;
  index: number;
  /** Keys of the nodes at its ends; null where there is no such node. */
  source: string | null;
  target: string | null;
  sourceSlot: string | null;
  targetSlot: string | null;
}

export interface Graph {
  file: WorkflowFile;
  /** In the order of the file, those of bodies behind their zone. */
  nodes: Map<string, GraphNode>;
  edges: Map<string, GraphEdge>;
  /** Keys of what stands directly in a container; those of the canvas itself under "". */
  children: Map<string, string[]>;
  /** Edges by the node they lead to, and by the node they come from. */
  into: Map<string, GraphEdge[]>;
  outOf: Map<string, GraphEdge[]>;
  byPath: Map<string, string>;
}

export function textOf(value: Json | undefined): string | null {
  return typeof value === "string" ? value : null;
}

export function numberOf(value: Json | undefined): number | null {
  if (value instanceof Numeral) return value.value;
  return typeof value === "number" ? value : null;
}

export function objectIn(value: JsonObject | undefined, key: string): JsonObject {
  const inner = value?.[key];
  return isObject(inner) ? inner : {};
}

export function listIn(value: JsonObject | undefined, key: string): Json[] {
  const inner = value?.[key];
  return Array.isArray(inner) ? inner : [];
}

export function objectsIn(value: JsonObject | undefined, key: string): JsonObject[] {
  return listIn(value, key).filter(isObject);
}

export function textsIn(value: JsonObject | undefined, key: string): string[] {
  return listIn(value, key).filter((item) => typeof item === "string");
}

export function positionOf(node: FileNode): Place {
  const position = objectIn(node, "position");
  return { x: numberOf(position["x"]) ?? 0, y: numberOf(position["y"]) ?? 0 };
}

export function configOf(node: FileNode): JsonObject {
  return objectIn(node, "configValues");
}

export function isContainer(type: string): boolean {
  return type === ZONE || type === FRAME;
}

/** The body that stands in a zone's settings, where it has one. */
export function bodyOf(node: FileNode): JsonObject | null {
  const body = configOf(node)["body"];
  return node["type"] === ZONE && isObject(body) ? body : null;
}

export function indexFile(file: WorkflowFile): Graph {
  const graph: Graph = {
    file,
    nodes: new Map(),
    edges: new Map(),
    children: new Map(),
    into: new Map(),
    outOf: new Map(),
    byPath: new Map(),
  };
  addLevel(graph, file, "", []);
  for (const node of graph.nodes.values()) settle(graph, node);
  return graph;
}

/** Ids that a level sees, its own before those around it. */
type Names = Map<string, string>[];

function addLevel(graph: Graph, content: JsonObject, level: string, around: Names): void {
  const names = new Map<string, string>();
  const own: GraphNode[] = [];
  const zone = level === "" ? null : level;
  for (const [index, node] of listIn(content, "nodes").entries()) {
    if (!isObject(node)) continue;
    const id = textOf(node["id"]) ?? `?${index}`;
    const key = free(graph.nodes, level === "" ? id : `${level}/${id}`);
    const type = textOf(node["type"]) ?? "";
    const found = { key, id, type, node, level, index, parent: zone, zone, path: id };
    graph.nodes.set(key, found);
    own.push(found);
    if (!names.has(id)) names.set(id, key);
  }
  for (const found of own) {
    const parent = textOf(found.node["parentNode"]);
    const key = parent === null ? undefined : names.get(parent);
    if (key !== undefined && key !== found.key && isContainer(graph.nodes.get(key)?.type ?? "")) found.parent = key;
  }
  breakRings(graph, own, zone);
  const visible = [names, ...around];
  for (const [index, edge] of listIn(content, "edges").entries()) {
    if (isObject(edge)) addEdge(graph, edge, level, index, visible);
  }
  for (const found of own) {
    const body = bodyOf(found.node);
    if (body !== null) addLevel(graph, body, found.key, visible);
  }
}

function free(taken: Map<string, unknown>, wanted: string): string {
  let key = wanted;
  for (let number = 2; taken.has(key); number += 1) key = `${wanted}#${number}`;
  return key;
}

/** Zones that stand in each other: one of them then stands outside. */
function breakRings(graph: Graph, own: GraphNode[], outside: string | null): void {
  for (const node of own) {
    const seen = new Set([node.key]);
    let parent = node.parent;
    while (parent !== null && parent !== outside) {
      if (seen.has(parent)) {
        node.parent = outside;
        break;
      }
      seen.add(parent);
      parent = graph.nodes.get(parent)?.parent ?? null;
    }
  }
}

function addEdge(graph: Graph, edge: FileEdge, level: string, index: number, names: Names): void {
  const find = (id: string | null, seen: Names): string | null => {
    if (id === null) return null;
    for (const map of seen) {
      const key = map.get(id);
      if (key !== undefined) return key;
    }
    return null;
  };
  const id = textOf(edge["id"]);
  const source = find(textOf(edge["source"]), names);
  const target = find(textOf(edge["target"]), names.slice(0, 1));
  const sourceSlot = textOf(edge["sourceHandle"]);
  const targetSlot = textOf(edge["targetHandle"]);
  const said = `${source ?? "?"}.${sourceSlot ?? ""}>${target ?? "?"}.${targetSlot ?? ""}`;
  const key = free(graph.edges, id === null ? said : `${level}|${id}`);
  const found = { key, id, edge, level, index, source, target, sourceSlot, targetSlot };
  graph.edges.set(key, found);
  if (source !== null) push(graph.outOf, source, found);
  if (target !== null) push(graph.into, target, found);
}

function push<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const list = map.get(key);
  if (list === undefined) map.set(key, [value]);
  else list.push(value);
}

function settle(graph: Graph, node: GraphNode): void {
  push(graph.children, node.parent ?? "", node.key);
  const zones: string[] = [];
  for (let at = node.parent; at !== null; ) {
    const around = graph.nodes.get(at);
    if (around === undefined) break;
    if (around.type === ZONE) zones.unshift(around.id), (node.zone = zones.length === 1 ? around.key : node.zone);
    at = around.parent;
  }
  node.path = [...zones, node.id].join("/");
  if (!graph.byPath.has(node.path)) graph.byPath.set(node.path, node.key);
}

/** Nodes and edges of one level. */
export interface Content {
  nodes: Json[];
  edges: Json[];
}

/** The file with the lists of one level changed; everything else is the same object as before. */
export function changeLevel(graph: Graph, level: string, change: (content: Content) => Content): WorkflowFile {
  const rewrite = (holder: JsonObject): JsonObject => {
    const content = { nodes: listIn(holder, "nodes"), edges: listIn(holder, "edges") };
    const changed = change(content);
    if (changed.nodes === content.nodes && changed.edges === content.edges) return holder;
    return { ...holder, nodes: changed.nodes, edges: changed.edges };
  };
  const zone = graph.nodes.get(level);
  if (zone === undefined) return rewrite(graph.file);
  const body = rewrite(bodyOf(zone.node) ?? {});
  const node = { ...zone.node, configValues: { ...configOf(zone.node), body } };
  return changeLevel(graph, zone.level, (content) => ({
    ...content,
    nodes: content.nodes.with(zone.index, node),
  }));
}

/** The file with some nodes changed. */
export function changeNodes(
  graph: Graph,
  keys: Iterable<string>,
  change: (node: FileNode, about: GraphNode) => FileNode,
): WorkflowFile {
  const levels = new Map<string, GraphNode[]>();
  for (const key of keys) {
    const node = graph.nodes.get(key);
    if (node !== undefined) push(levels, node.level, node);
  }
  // Bodies before the zones that hold them, so that what is read is not yet changed.
  let now = graph;
  for (const [level, members] of [...levels].sort(([one], [other]) => other.length - one.length)) {
    const file = changeLevel(now, level, (content) => {
      const nodes = [...content.nodes];
      for (const member of members) {
        const current = nodes[member.index];
        if (isObject(current)) nodes[member.index] = change(current, member);
      }
      return { ...content, nodes };
    });
    now = levels.size === 1 ? { ...now, file } : indexFile(file);
  }
  return now.file;
}

/** The object without a key that has become empty, or with its new value. */
export function withPart(object: JsonObject, key: string, part: JsonObject): JsonObject {
  if (Object.keys(part).length > 0) return { ...object, [key]: part };
  return without(object, key);
}

export function without(object: JsonObject, ...keys: string[]): JsonObject {
  const copy = { ...object };
  for (const key of keys) delete copy[key];
  return copy;
}

/** All containers around a node, the nearest first. */
export function around(graph: Graph, key: string | null): string[] {
  const containers: string[] = [];
  for (let at = key === null ? null : (graph.nodes.get(key)?.parent ?? null); at !== null; ) {
    containers.push(at);
    at = graph.nodes.get(at)?.parent ?? null;
  }
  return containers;
}

/** The zones around a node, the nearest first. */
export function zonesAround(graph: Graph, key: string): string[] {
  return around(graph, key).filter((container) => graph.nodes.get(container)?.type === ZONE);
}

/** A node and all that stands in it. */
export function withContents(graph: Graph, keys: Iterable<string>): Set<string> {
  const all = new Set<string>();
  const todo = [...keys];
  for (let key = todo.pop(); key !== undefined; key = todo.pop()) {
    if (all.has(key) || !graph.nodes.has(key)) continue;
    all.add(key);
    todo.push(...(graph.children.get(key) ?? []));
  }
  return all;
}
