// Values and times in few words.
import { brief } from "../parts/brief.ts";
import { bytes } from "../parts/format.ts";
import { isObject, Numeral, printJson, type Json } from "./model/json.ts";

/** A value in one line. */
export function short(value: unknown, most = 80): string {
  return isBlob(value) ? `… ${bytes(value.bytes)}` : brief(value, most);
}

/** A value as it would be typed into a field. */
export function typed(value: Json | undefined): string {
  if (value === undefined || value === null) return "";
  if (value instanceof Numeral) return value.text;
  if (typeof value === "string") return value;
  return isObject(value) || Array.isArray(value) ? printJson(value, 2) : String(value);
}

/** Name of a slot or setting for the user, with the name by which expressions and files know it. */
export function label(part: { name: string; title?: string }): string {
  return part.title === undefined || part.title === part.name ? part.name : `${part.title} · ${part.name}`;
}

export function isBlob(value: unknown): value is { $blob: string; bytes: number } {
  return typeof value === "object" && value !== null && "$blob" in value;
}

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

export function between(from: string | undefined, to: string | undefined): number | null {
  if (from === undefined || to === undefined) return null;
  const ms = Date.parse(to) - Date.parse(from);
  return Number.isNaN(ms) ? null : Math.max(0, ms);
}
