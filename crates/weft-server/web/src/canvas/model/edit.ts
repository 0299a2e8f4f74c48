// Changes of one workflow: each takes what is there and gives the file as it is then, or a reason why not.

import {
  around,
  changeLevel,
  changeNodes,
  configOf,
  FRAME,
  indexFile,
  INPUT,
  isContainer,
  objectIn,
  OUTPUT,
  positionOf,
  textOf,
  withContents,
  without,
  withPart,
  zonesAround,
  ZONE,
} from "./file.ts";
import type { FileNode, Graph, GraphNode, Place, WorkflowFile } from "./file.ts";
import { freeId, removeEdges, type Edit, type Refusal } from "./connect.ts";
import { isObject, keysOf, objectOf, type Json, type JsonObject } from "./json.ts";
import { humanise } from "./catalog.ts";
import { NEXT, STATE } from "./file.ts";
import { placeOf, sizeOf } from "./geometry.ts";
import { stateOf } from "./slots.ts";

/** A short id for a new node, made of its type. */
export function newId(graph: Graph, type: string, taken: Set<string> = new Set()): string {
  const word = humanise(type.slice(type.indexOf(":") + 1)).toLowerCase().replace(/\s+/g, "_");
  const ids = new Set([...taken, ...[...graph.nodes.values()].map((node) => node.id)]);
  if (!ids.has(word)) return word;
  let number = 2;
  while (ids.has(`${word}_${number}`)) number += 1;
  return `${word}_${number}`;
}

export interface NewNode {
  type: string;
  /** Where it stands, from the corner of its container. */
  at: Place;
  /** Key of the container, `null` for the canvas itself. */
  parent: string | null;
  config?: JsonObject;
}

/** Adds a node; a loop zone comes with its two rails and counts three passes. */
export function addNode(graph: Graph, wanted: NewNode): Edit {
  const id = newId(graph, wanted.type);
  const home = homeOf(graph, wanted.parent);
  const base: JsonObject = { id, type: wanted.type, position: { x: round(wanted.at.x), y: round(wanted.at.y) } };
  if (home.parent !== null) base["parentNode"] = home.parent;
  const nodes: FileNode[] = [];
  if (wanted.type === ZONE) {
    const config = wanted.config ?? { state: [], mode: "times", times: 3 };
    nodes.push({ ...base, width: 720, height: 320, configValues: config });
    const taken = new Set([id]);
    for (const [type, x] of [[STATE, 0], [NEXT, 600]] as const) {
      const own = newId(graph, type, taken);
      taken.add(own);
      nodes.push({ id: own, type, position: { x, y: 64 }, parentNode: id });
    }
  } else if (wanted.type === FRAME) {
    nodes.push({ ...base, width: 480, height: 280, displayName: "" });
  } else {
    nodes.push(wanted.config === undefined ? base : { ...base, configValues: wanted.config });
  }
  const file = changeLevel(graph, home.level, (content) => ({ ...content, nodes: [...content.nodes, ...nodes] }));
  return { file, select: [home.level === "" ? id : `${home.level}/${id}`] };
}

/** In which list a child of a container stands, and what its `parentNode` is there. */
export function homeOf(graph: Graph, container: string | null): { level: string; parent: string | null } {
  const about = container === null ? undefined : graph.nodes.get(container);
  if (about === undefined) return { level: "", parent: null };
  if (about.type === ZONE && isObject(configOf(about.node)["body"])) return { level: about.key, parent: null };
  return { level: about.level, parent: about.id };
}

function round(value: number): number {
  return Math.round(value);
}

export function moveNodes(graph: Graph, places: ReadonlyMap<string, Place>): WorkflowFile {
  return changeNodes(graph, places.keys(), (node, about) => {
    const at = places.get(about.key) as Place;
    return { ...node, position: { ...objectIn(node, "position"), x: round(at.x), y: round(at.y) } };
  });
}

export function resizeNode(graph: Graph, key: string, at: Place, width: number, height: number): WorkflowFile {
  return changeNodes(graph, [key], (node) => ({
    ...node,
    position: { ...objectIn(node, "position"), x: round(at.x), y: round(at.y) },
    width: round(width),
    height: round(height),
  }));
}

/** Removes nodes and edges. What stands in a zone goes with it, what stands in a frame stays. */
export function removeAll(graph: Graph, nodes: Iterable<string>, edges: Iterable<string> = []): WorkflowFile {
  const named = [...nodes].filter((key) => graph.nodes.has(key));
  const frames = named.filter((key) => graph.nodes.get(key)?.type === FRAME);
  const chosen = new Set(named);
  let now = graph;
  for (const frame of frames) {
    const about = graph.nodes.get(frame) as GraphNode;
    const stay = (graph.children.get(frame) ?? []).filter((key) => !chosen.has(key));
    const moved = reparent(now, stay, about.parent);
    if ("file" in moved) now = indexFile(moved.file);
  }
  const gone = withContents(now, named);
  const ends = [...now.edges.values()].filter(
    (edge) => (edge.source !== null && gone.has(edge.source)) || (edge.target !== null && gone.has(edge.target)),
  );
  now = indexFile(removeEdges(now, [...edges, ...ends.map((edge) => edge.key)]));
  const levels = new Map<string, Set<number>>();
  for (const key of gone) {
    const about = now.nodes.get(key);
    // What stands in a body goes with the zone that holds it.
    if (about === undefined || (about.level !== "" && gone.has(about.level))) continue;
    levels.set(about.level, (levels.get(about.level) ?? new Set()).add(about.index));
  }
  for (const [level, indexes] of [...levels].sort(([one], [other]) => other.length - one.length)) {
    const file = changeLevel(now, level, (content) => ({
      ...content,
      nodes: content.nodes.filter((_, index) => !indexes.has(index)),
    }));
    now = indexFile(file);
  }
  return now.file;
}

/** Puts nodes into a container, or out of all with `null`; on the screen they stay where they are. */
export function reparent(
  graph: Graph,
  keys: Iterable<string>,
  container: string | null,
  at?: ReadonlyMap<string, Place>,
): Edit | Refusal {
  const chosen = outermost(graph, keys);
  if (container !== null) {
    const inside = withContents(graph, chosen);
    if (inside.has(container)) return { refused: "into_itself" };
    if (!isContainer(graph.nodes.get(container)?.type ?? "")) return { refused: "not_here" };
  }
  const zone = container === null ? null : zoneAtOrAround(graph, container);
  for (const key of chosen) {
    const about = graph.nodes.get(key) as GraphNode;
    const belongs = about.type === STATE || about.type === NEXT;
    if (belongs && about.zone !== zone) return { refused: "not_here", name: about.id };
  }
  const origin = container === null ? { x: 0, y: 0 } : placeOf(graph, container);
  const home = homeOf(graph, container);
  const places = new Map<string, Place>();
  for (const key of chosen) {
    const now = placeOf(graph, key);
    places.set(key, at?.get(key) ?? { x: now.x - origin.x, y: now.y - origin.y });
  }
  const settle = (node: FileNode, key: string): FileNode => {
    const place = places.get(key) as Place;
    const moved = { ...node, position: { ...objectIn(node, "position"), x: round(place.x), y: round(place.y) } };
    return home.parent === null ? without(moved, "parentNode") : { ...moved, parentNode: home.parent };
  };
  const stay = chosen.filter((key) => graph.nodes.get(key)?.level === home.level);
  let file = changeNodes(graph, stay, (node, about) => settle(node, about.key));
  const select = [...stay];
  const move = chosen.filter((key) => !stay.includes(key));
  for (const level of new Set(move.map((key) => graph.nodes.get(key)?.level))) {
    const own = move.filter((key) => graph.nodes.get(key)?.level === level);
    const carried = carry(indexFile(file), own, home.level, settle);
    file = carried.file;
    select.push(...carried.keys);
  }
  return { file, select };
}

function zoneAtOrAround(graph: Graph, container: string): string | null {
  const about = graph.nodes.get(container);
  return about?.type === ZONE ? container : (about?.zone ?? null);
}

/** Of these nodes, those that stand in no other of them. */
export function outermost(graph: Graph, keys: Iterable<string>): string[] {
  const chosen = new Set([...keys].filter((key) => graph.nodes.has(key)));
  return [...chosen].filter((key) => !around(graph, key).some((container) => chosen.has(container)));
}

/** Moves nodes, what stands in them and the edges into them to another list of the file. */
function carry(
  graph: Graph,
  keys: string[],
  level: string,
  settle: (node: FileNode, key: string) => FileNode,
): { file: WorkflowFile; keys: string[] } {
  const members = [...withContents(graph, keys)].filter((key) => {
    const about = graph.nodes.get(key) as GraphNode;
    return keys.includes(key) || about.level === (graph.nodes.get(keys[0] as string) as GraphNode).level;
  });
  const inside = new Set(members);
  const taken = new Set([...graph.nodes.values()].filter((node) => node.level === level).map((node) => node.id));
  const ids = new Map<string, string>();
  for (const key of members) {
    const { id } = graph.nodes.get(key) as GraphNode;
    const free = taken.has(id) ? freeId(`${id}_`, taken) : id;
    taken.add(free);
    ids.set(id, free);
  }
  const rename = (id: Json | undefined) => (typeof id === "string" ? (ids.get(id) ?? id) : id);
  const nodes = members.map((key) => {
    const about = graph.nodes.get(key) as GraphNode;
    const node: FileNode = { ...about.node, id: rename(about.id) };
    if (keys.includes(key)) return settle(node, key);
    return { ...node, parentNode: rename(about.node["parentNode"]) };
  });
  const edges = [...graph.edges.values()].filter((edge) => edge.target !== null && inside.has(edge.target));
  const moved = edges.map((edge) => {
    const own = edge.source !== null && inside.has(edge.source);
    const source = own ? rename(edge.edge["source"]) : edge.edge["source"];
    return { ...edge.edge, source, target: rename(edge.edge["target"]) };
  });
  const left = indexFile(dropFrom(graph, members, edges.map((edge) => edge.key)));
  const file = changeLevel(left, level, (content) => ({
    nodes: [...content.nodes, ...nodes],
    edges: [...content.edges, ...moved],
  }));
  const now = keys.map((key) => {
    const id = ids.get((graph.nodes.get(key) as GraphNode).id) as string;
    return level === "" ? id : `${level}/${id}`;
  });
  return { file, keys: now };
}

function dropFrom(graph: Graph, members: string[], edges: string[]): WorkflowFile {
  let now = graph;
  const level = (graph.nodes.get(members[0] as string) as GraphNode).level;
  const nodes = new Set(members.map((key) => (graph.nodes.get(key) as GraphNode).index));
  const gone = new Set(edges.map((key) => graph.edges.get(key)).flatMap((edge) => (edge?.level === level ? [edge.index] : [])));
  now = indexFile(
    changeLevel(now, level, (content) => ({
      nodes: content.nodes.filter((_, index) => !nodes.has(index)),
      edges: content.edges.filter((_, index) => !gone.has(index)),
    })),
  );
  return now.file;
}

/** Draws a frame or a loop zone around nodes. */
export function wrap(graph: Graph, keys: Iterable<string>, type: typeof FRAME | typeof ZONE): Edit | Refusal {
  const chosen = outermost(graph, keys);
  const first = graph.nodes.get(chosen[0] ?? "");
  if (first === undefined) return { refused: "nothing_selected" };
  if (chosen.some((key) => graph.nodes.get(key)?.parent !== first.parent)) return { refused: "crosses_group" };
  const boxes = chosen.map((key) => {
    const about = graph.nodes.get(key) as GraphNode;
    return { ...positionOf(about.node), ...sizeOf(graph, key) };
  });
  const pad = type === ZONE ? { left: 200, top: 88, right: 200, bottom: 48 } : { left: 32, top: 56, right: 32, bottom: 32 };
  const left = Math.min(...boxes.map((box) => box.x)) - pad.left;
  const top = Math.min(...boxes.map((box) => box.y)) - pad.top;
  const right = Math.max(...boxes.map((box) => box.x + box.width)) + pad.right;
  const bottom = Math.max(...boxes.map((box) => box.y + box.height)) + pad.bottom;
  const added = addNode(graph, { type, at: { x: left, y: top }, parent: first.parent });
  const container = added.select?.[0] as string;
  const sized = resizeNode(indexFile(added.file), container, { x: left, y: top }, right - left, bottom - top);
  const moved = reparent(indexFile(sized), chosen, container);
  if ("refused" in moved) return moved;
  return { file: moved.file, select: [container] };
}

/** Sets a value of `inputValues` or `configValues`; `undefined` takes it away. */
export function setValue(
  graph: Graph,
  key: string,
  part: "inputValues" | "configValues",
  name: string,
  value: Json | undefined,
): WorkflowFile {
  return changeNodes(graph, [key], (node) => {
    const old = objectIn(node, part);
    return withPart(node, part, value === undefined ? without(old, name) : { ...old, [name]: value });
  });
}

/** Sets a key of the node itself, such as `displayName`; `undefined` takes it away. */
export function setField(graph: Graph, key: string, name: string, value: Json | undefined): WorkflowFile {
  return changeNodes(graph, [key], (node) => (value === undefined ? without(node, name) : { ...node, [name]: value }));
}

/** Replaces the carried values of a zone; where a key is renamed, edges and settings follow. */
export function setState(
  graph: Graph,
  zone: string,
  state: JsonObject[],
  renamed: ReadonlyMap<string, string> = new Map(),
): WorkflowFile {
  const kept = new Set([...state.flatMap((each) => textOf(each["key"]) ?? []), ...renamed.keys()]);
  const dropped = new Set(stateOf(graph.nodes.get(zone)?.node ?? {}).flatMap(({ key }) => (kept.has(key) ? [] : [key])));
  const before = dropped.size === 0 ? graph : indexFile(removeEdges(graph, edgesAt(graph, (node, slot) => dropped.has(slot) && carries(graph, zone, node))));
  let file = changeNodes(before, [zone], (node) => {
    const config = configOf(node);
    const collect = Array.isArray(config["collect"])
      ? { collect: config["collect"].map((key) => (typeof key === "string" ? (renamed.get(key) ?? key) : key)) }
      : {};
    return { ...node, configValues: { ...config, state, ...collect } };
  });
  if (renamed.size > 0) file = renameSlots(indexFile(file), zone, renamed);
  return file;
}

/** Whether the slots of a node are the carried values of a zone. */
function carries(graph: Graph, zone: string, key: string): boolean {
  const about = graph.nodes.get(key);
  return about !== undefined && (about.key === zone || (about.zone === zone && (about.type === STATE || about.type === NEXT)));
}

/** The edges that end or begin at some slots. */
function edgesAt(graph: Graph, isSlot: (node: string, slot: string) => boolean): string[] {
  const isEnd = (node: string | null, slot: string | null): boolean => node !== null && slot !== null && isSlot(node, slot);
  return [...graph.edges.values()].filter((edge) => isEnd(edge.source, edge.sourceSlot) || isEnd(edge.target, edge.targetSlot)).map((edge) => edge.key);
}

function renameSlots(graph: Graph, zone: string, renamed: ReadonlyMap<string, string>): WorkflowFile {
  const ofZone = (key: string | null): boolean => key !== null && carries(graph, zone, key);
  const change = (edge: JsonObject, end: string, handle: string | null, key: string | null): JsonObject => {
    const name = handle === null || !ofZone(key) ? undefined : renamed.get(handle);
    return name === undefined ? edge : { ...edge, [end]: name };
  };
  let now = graph;
  for (const level of new Set([...graph.edges.values()].map((edge) => edge.level))) {
    const edges = [...graph.edges.values()].filter((edge) => edge.level === level);
    const file = changeLevel(now, level, (content) => {
      const list = [...content.edges];
      for (const edge of edges) {
        const source = change(edge.edge, "sourceHandle", edge.sourceSlot, edge.source);
        list[edge.index] = change(source, "targetHandle", edge.targetSlot, edge.target);
      }
      return { ...content, edges: list };
    });
    now = indexFile(file);
  }
  return now.file;
}

/** Renames, changes or removes a slot of the interface; edges of a renamed one follow, those of a removed one go. */
export function setInterface(
  graph: Graph,
  part: "interfaceInputs" | "interfaceOutputs",
  slots: [string, JsonObject][],
  renamed: ReadonlyMap<string, string> = new Map(),
): WorkflowFile {
  const type = part === "interfaceInputs" ? INPUT : OUTPUT;
  const kept = new Set([...slots.map(([name]) => name), ...renamed.keys()]);
  const dropped = new Set(keysOf(objectIn(graph.file, part)).filter((name) => !kept.has(name)));
  const isOwn = (key: string): boolean => {
    const about = graph.nodes.get(key);
    return about?.type === type && (type === INPUT || about.zone === null);
  };
  const cut = dropped.size === 0 ? graph.file : removeEdges(graph, edgesAt(graph, (node, slot) => dropped.has(slot) && isOwn(node)));
  const next = withPart(cut, part, objectOf(slots));
  if (renamed.size === 0) return next;
  const [end, node] = part === "interfaceInputs" ? (["sourceHandle", "source"] as const) : (["targetHandle", "target"] as const);
  const now = indexFile(next);
  let file = next;
  for (const level of new Set([...now.edges.values()].map((edge) => edge.level))) {
    const mine = [...now.edges.values()].filter((edge) => {
      const about = edge[node] === null ? undefined : now.nodes.get(edge[node] as string);
      return edge.level === level && about?.type === type && (type === INPUT || about.zone === null);
    });
    file = changeLevel(indexFile(file), level, (content) => {
      const list = [...content.edges];
      for (const edge of mine) {
        const name = renamed.get((end === "sourceHandle" ? edge.sourceSlot : edge.targetSlot) ?? "");
        if (name !== undefined) list[edge.index] = { ...edge.edge, [end]: name };
      }
      return { ...content, edges: list };
    });
  }
  return file;
}

/** Renames a node; edges, children and orders follow. */
export function renameNode(graph: Graph, key: string, id: string): Edit | Refusal {
  const about = graph.nodes.get(key);
  if (about === undefined) return { refused: "no_slot" };
  if (id === about.id) return { file: graph.file, select: [key] };
  if ([...graph.nodes.values()].some((node) => node.level === about.level && node.id === id)) {
    return { refused: "name_taken", name: id };
  }
  let now = indexFile(
    changeLevel(graph, about.level, (content) => ({
      ...content,
      nodes: content.nodes.map((node, index) => {
        if (index === about.index && isObject(node)) return { ...node, id };
        return isObject(node) && node["parentNode"] === about.id ? { ...node, parentNode: id } : node;
      }),
    })),
  );
  // Bodies change their keys with the zone that holds them.
  const relevel = (level: string) =>
    level === key || level.startsWith(`${key}/`) ? keyIn(about.level, id) + level.slice(key.length) : level;
  for (const level of new Set([...graph.edges.values()].map((edge) => edge.level))) {
    const mine = [...graph.edges.values()].filter((edge) => edge.level === level && (edge.source === key || edge.target === key));
    if (mine.length === 0) continue;
    const file = changeLevel(now, relevel(level), (content) => {
      const list = [...content.edges];
      for (const edge of mine) {
        const source = edge.source === key ? { source: id } : {};
        const target = edge.target === key ? { target: id } : {};
        list[edge.index] = { ...edge.edge, ...source, ...target };
      }
      return { ...content, edges: list };
    });
    now = indexFile(file);
  }
  return { file: now.file, select: [keyIn(about.level, id)] };
}

function keyIn(level: string, id: string): string {
  return level === "" ? id : `${level}/${id}`;
}

/** Whether a node stands in a zone of this key. */
export function isIn(graph: Graph, key: string, zone: string): boolean {
  return zonesAround(graph, key).includes(zone);
}
