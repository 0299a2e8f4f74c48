// The values that an input proposes: one a line where they are typed. A file has them bare, or with a label each.
import { objectIn } from "./file.ts";
import { isObject, parseJson, printJson, sameJson, type Json, type JsonObject } from "./json.ts";
import { slotType } from "./slots.ts";

/** Category of an input of which only the proposed values are valid. */
const ONLY = "ComboOption";

const itemsOf = (slot: JsonObject): Json[] => {
  const items = objectIn(slot, "config")["suggestions"];
  return Array.isArray(items) ? items : [];
};
const valueOf = (item: Json): Json => (isObject(item) && item["value"] !== undefined ? item["value"] : item);

export function suggestionLines(slot: JsonObject): string {
  return itemsOf(slot).map(valueOf).map((value) => (typeof value === "string" ? value : printJson(value))).join("\n");
}

/** The slot with these values; one that was there keeps its label. */
export function withSuggestions(slot: JsonObject, lines: string): JsonObject {
  const old = itemsOf(slot);
  const isText = slotType(slot["dataFlowType"]) === "STRING";
  const values = lines.split("\n").map((line) => line.trim()).filter((line) => line !== "").map((line) => (isText ? line : read(line)));
  const items = values.map((value) => old.find((item) => sameJson(valueOf(item), value)) ?? value);
  const { suggestions: _, ...rest } = objectIn(slot, "config");
  const next = { ...slot, config: items.length === 0 ? rest : { ...rest, suggestions: items } };
  return items.length === 0 ? onlySuggested(next, false) : next;
}

function read(line: string): Json {
  try {
    return parseJson(line);
  } catch {
    return line;
  }
}

export function isOnlySuggested(slot: JsonObject): boolean {
  const tags = slot["matchCategories"];
  return Array.isArray(tags) && tags.includes(ONLY);
}

/** The slot of which only the proposed values are valid, or any. */
export function onlySuggested(slot: JsonObject, only: boolean): JsonObject {
  const tags = slot["matchCategories"];
  const others = (Array.isArray(tags) ? tags : []).filter((tag) => tag !== ONLY);
  const next = only ? [...others, ONLY] : others;
  const { matchCategories: _, ...rest } = slot;
  return next.length === 0 ? rest : { ...rest, matchCategories: next };
}
