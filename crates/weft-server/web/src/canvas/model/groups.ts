// Groups: nodes moved into a workflow of their own, and back again.

import { changeLevel, configOf, GROUP, indexFile, INPUT, NEXT, OUTPUT, positionOf, STATE, textOf, withContents } from "./file.ts";
import type { FileNode, Graph, GraphEdge, GraphNode, WorkflowFile } from "./file.ts";
import { addNode, outermost, removeAll } from "./edit.ts";
import { freeId, freeName, type Edit, type Refusal } from "./connect.ts";
import { objectOf, type Json, type JsonObject } from "./json.ts";
import { findSlot, slotsOf, type Slot, type World } from "./slots.ts";

/** Moves nodes into a new workflow `id`, and puts a group in their place. */
export function extractGroup(graph: Graph, world: World, keys: Iterable<string>, id: string): Edit | Refusal {
  const chosen = outermost(graph, keys);
  const first = graph.nodes.get(chosen[0] ?? "");
  if (first === undefined) return { refused: "nothing_selected" };
  const members = withContents(graph, chosen);
  const faulty = chosen.find((key) => {
    const about = graph.nodes.get(key) as GraphNode;
    return about.parent !== first.parent || [INPUT, OUTPUT, STATE, NEXT].includes(about.type);
  });
  if (faulty !== undefined) return { refused: "crosses_group", name: faulty };
  const border = borderOf(graph, world, members);
  const inner = innerFile(graph, chosen, members, border, id);
  const left = Math.min(...chosen.map((key) => positionOf((graph.nodes.get(key) as GraphNode).node).x));
  const top = Math.min(...chosen.map((key) => positionOf((graph.nodes.get(key) as GraphNode).node).y));
  const bare = indexFile(removeAll(graph, members));
  const config = { referencedWorkflowId: id };
  const added = addNode(bare, { type: GROUP, at: { x: left, y: top }, parent: first.parent, config });
  const key = added.select?.[0] as string;
  const group = (indexFile(added.file).nodes.get(key) as GraphNode).id;
  const used = new Set([...graph.edges.values()].map((edge) => edge.id ?? ""));
  const edges = [...border.inputs.values()].map(({ edge, name }) => ({ ...edge.edge, target: group, targetHandle: name }));
  const outgoing = border.outputs.flatMap(({ edges: list, name }) =>
    list.map((edge) => ({ ...edge.edge, source: group, sourceHandle: name })),
  );
  const all = [...uniqueInputs(edges), ...outgoing].map((edge: JsonObject) => {
    const own = textOf(edge["id"]);
    if (own !== null) return edge;
    const free = freeId("e", used);
    used.add(free);
    return { ...edge, id: free };
  });
  const file = changeLevel(indexFile(added.file), first.level, (content) => ({ ...content, edges: [...content.edges, ...all] }));
  const listed = Array.isArray(graph.file["referencedWorkflows"])
    ? { ...file, referencedWorkflows: [...graph.file["referencedWorkflows"], id] }
    : file;
  return { file: listed, select: [key], more: [{ id, file: inner }] };
}

function uniqueInputs(edges: JsonObject[]): JsonObject[] {
  const seen = new Set<string>();
  return edges.filter((edge) => {
    const name = String(edge["targetHandle"]);
    return !seen.has(name) && seen.add(name);
  });
}

interface Border {
  /** By edge key: what the new workflow calls the value. */
  inputs: Map<string, { edge: GraphEdge; name: string; slot: Slot | undefined }>;
  outputs: { name: string; slot: Slot | undefined; edges: GraphEdge[] }[];
}

function borderOf(graph: Graph, world: World, members: ReadonlySet<string>): Border {
  const inside = (key: string | null) => key !== null && members.has(key);
  const border: Border = { inputs: new Map(), outputs: [] };
  const names = new Map<string, string>();
  const taken = new Set<string>();
  for (const edge of graph.edges.values()) {
    if (edge.source === null || edge.target === null || inside(edge.source) === inside(edge.target)) continue;
    if (edge.sourceSlot === null || edge.targetSlot === null) continue;
    const said = `${edge.source}.${edge.sourceSlot}`;
    if (inside(edge.target)) {
      const slot = findSlot(slotsOf(graph, edge.target, world).inputs, edge.targetSlot);
      const name = names.get(said) ?? freeName(slot?.name ?? edge.targetSlot, taken);
      names.set(said, name);
      taken.add(name);
      border.inputs.set(edge.key, { edge, name, slot });
    }
  }
  const given = new Set<string>();
  const outputs = new Map<string, Border["outputs"][number]>();
  for (const edge of graph.edges.values()) {
    if (!inside(edge.source) || inside(edge.target) || edge.source === null || edge.sourceSlot === null) continue;
    const said = `${edge.source}.${edge.sourceSlot}`;
    const known = outputs.get(said);
    if (known !== undefined) {
      known.edges.push(edge);
      continue;
    }
    const slot = findSlot(slotsOf(graph, edge.source, world).outputs, edge.sourceSlot);
    const name = freeName(edge.sourceSlot, given);
    given.add(name);
    outputs.set(said, { name, slot, edges: [edge] });
  }
  border.outputs = [...outputs.values()];
  return border;
}

function innerFile(graph: Graph, chosen: string[], members: ReadonlySet<string>, border: Border, id: string): WorkflowFile {
  const level = (graph.nodes.get(chosen[0] as string) as GraphNode).level;
  const own = [...members].map((key) => graph.nodes.get(key) as GraphNode).filter((about) => about.level === level);
  const ids = new Set(own.map((about) => about.id));
  const places = chosen.map((key) => positionOf((graph.nodes.get(key) as GraphNode).node));
  const [left, top] = [Math.min(...places.map((at) => at.x)), Math.min(...places.map((at) => at.y))];
  const right = Math.max(...places.map((at) => at.x));
  const nodes: Json[] = own.map((about) => {
    if (!chosen.includes(about.key)) return about.node;
    const at = positionOf(about.node);
    const { parentNode: _, ...node } = about.node;
    return { ...node, position: { x: at.x - left + 320, y: at.y - top } };
  });
  const [input, output] = [freeName("in", ids), freeName("out", ids)];
  if (border.inputs.size > 0) nodes.unshift({ id: input, type: INPUT, position: { x: 0, y: 0 } });
  if (border.outputs.length > 0) nodes.push({ id: output, type: OUTPUT, position: { x: right - left + 640, y: 0 } });
  const edges: Json[] = [...graph.edges.values()]
    .filter((edge) => edge.level === level && edge.source !== null && edge.target !== null)
    .filter((edge) => members.has(edge.source as string) && members.has(edge.target as string))
    .map((edge) => edge.edge);
  for (const { edge, name } of border.inputs.values()) edges.push({ ...edge.edge, source: input, sourceHandle: name });
  for (const { edges: list, name } of border.outputs) {
    const [edge] = list;
    if (edge !== undefined) edges.push({ ...edge.edge, target: output, targetHandle: name });
  }
  const slot = (name: string, like: Slot | undefined, required: boolean): [string, JsonObject] => {
    const type = like === undefined || like.type === "CONVERTIBLE_ANY" ? "WILDCARD" : like.type;
    return [name, { key: name, dataFlowType: type, ...(required ? { required: true } : {}) }];
  };
  const inputs = new Map([...border.inputs.values()].map((item) => [item.name, slot(item.name, item.slot, true)] as const));
  return {
    name: id,
    ...(inputs.size > 0 ? { interfaceInputs: objectOf(inputs.values()) } : {}),
    ...(border.outputs.length > 0
      ? { interfaceOutputs: objectOf(border.outputs.map((item) => slot(item.name, item.slot, false))) }
      : {}),
    nodes,
    edges,
  };
}

/** Puts the nodes of an embedded workflow in the place of the group. */
export function dissolveGroup(graph: Graph, key: string, embedded: WorkflowFile): Edit | Refusal {
  const group = graph.nodes.get(key);
  if (group === undefined || group.type !== GROUP) return { refused: "nothing_selected" };
  const inner = indexFile(embedded);
  const ids = new Map<string, string>();
  const taken = new Set([...graph.nodes.values()].map((about) => about.id));
  const stays = [...inner.nodes.values()].filter((about) => about.level === "" && !isBorder(about));
  for (const about of stays) {
    const free = taken.has(about.id) ? freeId(`${about.id}_`, taken) : about.id;
    taken.add(free);
    ids.set(about.id, free);
  }
  const at = positionOf(group.node);
  const tops = stays.filter((about) => about.parent === null).map((about) => positionOf(about.node));
  const left = Math.min(...tops.map((place) => place.x));
  const top = Math.min(...tops.map((place) => place.y));
  const parent = textOf(group.node["parentNode"]);
  const nodes = stays.map((about): FileNode => {
    const node = { ...about.node, id: ids.get(about.id) as string };
    if (about.parent !== null) return { ...node, parentNode: ids.get(String(about.node["parentNode"])) ?? null };
    const place = positionOf(about.node);
    const moved = { ...node, position: { x: place.x - left + at.x, y: place.y - top + at.y } };
    return parent === null ? moved : { ...moved, parentNode: parent };
  });
  const edges = joined(graph, inner, group, ids);
  const bare = indexFile(removeAll(graph, [key]));
  const file = changeLevel(bare, group.level, (content) => ({
    nodes: [...content.nodes, ...nodes],
    edges: [...content.edges, ...edges],
  }));
  const prefix = group.level === "" ? "" : `${group.level}/`;
  return { file, select: stays.map((about) => prefix + (ids.get(about.id) as string)) };
}

function isBorder(about: GraphNode): boolean {
  return about.type === INPUT || (about.type === OUTPUT && about.zone === null);
}

/** The edges of the embedded workflow, joined to those that led to the group and away from it. */
function joined(graph: Graph, inner: Graph, group: GraphNode, ids: ReadonlyMap<string, string>): JsonObject[] {
  const used = new Set([...graph.edges.values()].map((edge) => edge.id ?? ""));
  const edges: JsonObject[] = [];
  const add = (edge: JsonObject) => {
    const id = freeId("e", used);
    used.add(id);
    edges.push({ ...edge, id });
  };
  const into = (slot: string) => (graph.into.get(group.key) ?? []).filter((edge) => edge.targetSlot === slot);
  const outOf = (slot: string) => (graph.outOf.get(group.key) ?? []).filter((edge) => edge.sourceSlot === slot);
  for (const edge of inner.edges.values()) {
    const [source, target] = [inner.nodes.get(edge.source ?? ""), inner.nodes.get(edge.target ?? "")];
    if (source === undefined || target === undefined || edge.level !== "") continue;
    const from = isBorder(source)
      ? into(edge.sourceSlot ?? "").map((outer) => ({ source: outer.edge["source"], sourceHandle: outer.edge["sourceHandle"] }))
      : [{ source: ids.get(source.id), sourceHandle: edge.edge["sourceHandle"] }];
    const to = isBorder(target)
      ? outOf(edge.targetSlot ?? "").map((outer) => ({ target: outer.edge["target"], targetHandle: outer.edge["targetHandle"] }))
      : [{ target: ids.get(target.id), targetHandle: edge.edge["targetHandle"] }];
    for (const one of from) for (const other of to) add({ ...edge.edge, ...one, ...other });
  }
  return edges;
}

/** The ids of the workflows that a file embeds. */
export function embeddedIn(file: WorkflowFile): string[] {
  const ids = new Set<string>();
  for (const about of indexFile(file).nodes.values()) {
    const id = about.type === GROUP ? textOf(configOf(about.node)["referencedWorkflowId"]) : null;
    if (id !== null) ids.add(id);
  }
  return [...ids];
}
