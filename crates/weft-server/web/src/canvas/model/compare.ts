// What two versions of a file say differently, by node and edge.

import { indexFile, type WorkflowFile } from "./file.ts";
import { isObject, keysOf, printJson, sameJson, type Json, type JsonObject } from "./json.ts";

export interface Difference {
  what: "node" | "edge" | "key";
  name: string;
  /** The parts of a node that differ; empty where it is on one side only. */
  parts: string[];
  mine: string | null;
  theirs: string | null;
}

const PLACES = new Set(["position", "width", "height"]);

/** The differences, those of places only left out unless there are no others. */
export function differences(mine: WorkflowFile, theirs: WorkflowFile): Difference[] {
  const found = [...nodes(mine, theirs), ...edges(mine, theirs), ...keys(mine, theirs)];
  const real = found.filter((each) => each.parts.length === 0 || each.parts.some((part) => !PLACES.has(part)));
  return real.length > 0 ? real : found;
}

/** What an object says that another one does not, however deep. */
function apart(one: JsonObject, other: JsonObject): JsonObject {
  const entries = keysOf(one)
    .filter((key) => !sameJson(one[key], other[key]))
    .map((key) => {
      const [a, b] = [one[key], other[key]];
      return [key, isObject(a) && isObject(b) ? apart(a, b) : a] as const;
    });
  return Object.fromEntries(entries);
}

const text = (value: Json | undefined): string | null => (value === undefined ? null : printJson(value, 2));

function nodes(mine: WorkflowFile, theirs: WorkflowFile): Difference[] {
  const [own, other] = [indexFile(mine).nodes, indexFile(theirs).nodes];
  return [...new Set([...own.keys(), ...other.keys()])].flatMap((key): Difference[] => {
    const [a, b] = [own.get(key)?.node, other.get(key)?.node];
    if (sameJson(a, b)) return [];
    const parts = a === undefined || b === undefined ? [] : [...new Set([...keysOf(a), ...keysOf(b)])].filter((part) => !sameJson(a[part], b[part]));
    if (a === undefined || b === undefined) return [{ what: "node", name: key, parts, mine: text(a), theirs: text(b) }];
    return [{ what: "node", name: key, parts, mine: text(apart(a, b)), theirs: text(apart(b, a)) }];
  });
}

function edges(mine: WorkflowFile, theirs: WorkflowFile): Difference[] {
  const said = (file: WorkflowFile) =>
    new Set([...indexFile(file).edges.values()].map((edge) => `${edge.source ?? "?"}.${edge.sourceSlot ?? ""} → ${edge.target ?? "?"}.${edge.targetSlot ?? ""}`));
  const [own, other] = [said(mine), said(theirs)];
  return [...new Set([...own, ...other])]
    .filter((name) => own.has(name) !== other.has(name))
    .map((name) => ({ what: "edge", name, parts: [], mine: own.has(name) ? name : null, theirs: other.has(name) ? name : null }));
}

function keys(mine: WorkflowFile, theirs: WorkflowFile): Difference[] {
  return [...new Set([...keysOf(mine), ...keysOf(theirs)])]
    .filter((key) => key !== "nodes" && key !== "edges" && !sameJson(mine[key], theirs[key]))
    .map((key) => ({ what: "key", name: key, parts: [], mine: text(mine[key]), theirs: text(theirs[key]) }));
}
