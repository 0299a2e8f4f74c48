// The types of nodes: what `/api/nodes` gives, and those that are wiring.

import { objectIn, textOf } from "./file.ts";
import { FRAME, GROUP, INPUT, NEXT, OUTPUT, STATE, ZONE } from "./file.ts";
import { entriesOf, isObject, type Json, type JsonObject } from "./json.ts";
import { readSlots, slotType, type ConfigKey, type DynamicSlots, type NodeType, type SlotSets } from "./slots.ts";

/** Where a type stands in the palette, and its colour. */
export type Family = "wiring" | "loop" | "text" | "data" | "logic" | "model" | "agent" | "outside" | "other";

const FAMILIES: Record<string, Family> = {
  [INPUT]: "wiring",
  [OUTPUT]: "wiring",
  [GROUP]: "wiring",
  [FRAME]: "wiring",
  [ZONE]: "loop",
  [STATE]: "loop",
  [NEXT]: "loop",
};

const BY_WORD: [RegExp, Family][] = [
  [/^agent:/, "agent"],
  [/Llm|Message/, "model"],
  [/Json|Const/, "data"],
  [/Text|Regex|Reply|StreamToString/, "text"],
  [/Expression|Condition|Switch|Math|Random|Delay|Stop/, "logic"],
  [/Http|Ask|Log/, "outside"],
];

export function familyOf(type: string): Family {
  return FAMILIES[type] ?? BY_WORD.find(([pattern]) => pattern.test(type))?.[1] ?? "other";
}

const SHORT: Record<string, string> = { llm: "LLM", api: "API", json: "JSON", http: "HTTP", url: "URL", id: "ID" };

/** `JsonSelect` as people write it: `JSON select`. */
export function humanise(name: string): string {
  const words = name
    .replace(/([a-z\d])([A-Z])/g, "$1 $2")
    .replace(/([A-Z]+)([A-Z][a-z])/g, "$1 $2")
    .split(/[\s_]+/)
    .map((word) => SHORT[word.toLowerCase()] ?? word.toLowerCase());
  const text = words.join(" ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export function readTypes(list: Json): Map<string, NodeType> {
  const types = new Map<string, NodeType>();
  for (const id of [INPUT, OUTPUT, GROUP, ZONE, STATE, NEXT, FRAME]) types.set(id, wiring(id));
  for (const item of Array.isArray(list) ? list : []) {
    if (!isObject(item)) continue;
    const id = textOf(item["id"]);
    if (id !== null) types.set(id, readType(id, item));
  }
  return types;
}

function wiring(id: string): NodeType {
  const name = id.slice(id.indexOf(":") + 1);
  return {
    id,
    title: humanise(name),
    description: "",
    inputs: [],
    outputs: [],
    dynamicInputs: "any",
    dynamicOutputs: "any",
    config: [],
    effect: false,
  };
}

function readType(id: string, item: JsonObject): NodeType {
  const definition = objectIn(item, "definition");
  const name = textOf(definition["displayName"]) ?? textOf(item["title"]) ?? id;
  const modes = definition["modes"];
  return {
    id,
    title: humanise(name),
    description: textOf(item["description"]) ?? "",
    ...readSets(definition),
    dynamicInputs: readRule(definition["dynamicInputs"]),
    dynamicOutputs: readRule(definition["dynamicOutputs"]),
    config: entriesOf(objectIn(definition, "config")).flatMap(([key, value]) => (isObject(value) ? [readConfig(key, value)] : [])),
    ...(isObject(modes) ? { modes: readModes(modes) } : {}),
    effect: definition["effect"] === true,
  };
}

function readSets(definition: JsonObject): SlotSets {
  return {
    inputs: readSlots(objectIn(definition, "inputs")),
    outputs: readSlots(objectIn(definition, "outputs")),
  };
}

function readModes(modes: JsonObject): NonNullable<NodeType["modes"]> {
  const sets = entriesOf(objectIn(modes, "modes"));
  return {
    key: textOf(modes["configKey"]) ?? "",
    fallback: textOf(modes["default"]) ?? "",
    modes: new Map(sets.flatMap(([name, mode]) => (isObject(mode) ? [[name, readSets(mode)] as const] : []))),
  };
}

function readRule(rule: Json | undefined): DynamicSlots {
  if (rule === "any") return "any";
  if (isObject(rule)) {
    for (const kind of ["namedIn", "streamsNamedIn", "keysOf"] as const) {
      const key = textOf(rule[kind]);
      if (key !== null) return { [kind]: key } as DynamicSlots;
    }
  }
  return "none";
}

function readConfig(name: string, value: JsonObject): ConfigKey {
  const fallback = value["default"];
  const title = textOf(value["displayName"]);
  const allowed = value["allowed"];
  return {
    name,
    type: slotType(value["dataFlowType"]),
    description: textOf(value["description"]) ?? "",
    required: value["required"] === true,
    allowed: Array.isArray(allowed) ? allowed : [],
    ...(title === null ? {} : { title }),
    ...(fallback === undefined ? {} : { fallback }),
  };
}

export interface Found {
  type: NodeType;
  family: Family;
  score: number;
}

/** Types whose name, id or description fits what was typed; the best first, else in the order of the catalogue. */
export function searchTypes(types: Iterable<NodeType>, typed: string, names: (type: NodeType) => string): Found[] {
  const words = typed.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const found: Found[] = [];
  for (const type of types) {
    const name = names(type).toLowerCase();
    const id = type.id.toLowerCase();
    let score = 0;
    for (const word of words) {
      const rank = name.startsWith(word)
        ? 4
        : name.includes(` ${word}`)
          ? 3
          : name.includes(word) || id.includes(word)
            ? 2
            : type.description.toLowerCase().includes(word)
              ? 1
              : 0;
      if (rank === 0) {
        score = -1;
        break;
      }
      score += rank;
    }
    if (score >= 0) found.push({ type, family: familyOf(type.id), score });
  }
  return found.sort((one, other) => other.score - one.score);
}
