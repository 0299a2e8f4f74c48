// Values and times in few words.
import { isObject, Numeral, printJson, type Json } from "./model/json.ts";

/** A value in one line. */
export function short(value: unknown, most = 80): string {
  if (value === undefined) return "";
  if (isBlob(value)) return `… ${bytes(value.bytes)}`;
  const text = typeof value === "string" ? value.replace(/\s+/g, " ").trim() : JSON.stringify(value);
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** A value as it would be typed into a field. */
export function typed(value: Json | undefined): string {
  if (value === undefined || value === null) return "";
  if (value instanceof Numeral) return value.text;
  if (typeof value === "string") return value;
  return isObject(value) || Array.isArray(value) ? printJson(value, 2) : String(value);
}

export function isBlob(value: unknown): value is { $blob: string; bytes: number } {
  return typeof value === "object" && value !== null && "$blob" in value;
}

export function bytes(count: number): string {
  return count < 1024 ? `${count} B` : count < 1024 * 1024 ? `${(count / 1024).toFixed(1)} KiB` : `${(count / 1024 / 1024).toFixed(1)} MiB`;
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
