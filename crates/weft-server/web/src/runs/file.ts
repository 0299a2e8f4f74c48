// Run files as `weft runs export` writes them: an object with `events`, or one event a line.
import type { TraceEvent } from "../api/types.gen.ts";

export interface RunFile {
  name: string;
  run: string;
  events: TraceEvent[];
}

/** Reads a run file; throws with what is wrong and where. */
export function readRunFile(name: string, text: string): RunFile {
  const events = parse(text).map((value, index) => {
    if (!isEvent(value)) throw new Error(`${name}: entry ${index + 1} is not an event of a run`);
    return value;
  });
  if (events.length === 0) throw new Error(`${name} holds no events`);
  events.sort((one, other) => one.seq - other.seq);
  return { name, run: events[0]?.run ?? name, events };
}

function parse(text: string): unknown[] {
  try {
    const whole: unknown = JSON.parse(text);
    if (Array.isArray(whole)) return whole;
    if (typeof whole === "object" && whole !== null && "events" in whole && Array.isArray(whole.events)) {
      return whole.events;
    }
    return [whole];
  } catch {
    const lines = text.split("\n").filter((line) => line.trim() !== "");
    return lines.map((line, index) => {
      try {
        return JSON.parse(line) as unknown;
      } catch {
        throw new Error(`line ${index + 1} is not JSON`);
      }
    });
  }
}

function isEvent(value: unknown): value is TraceEvent {
  return (
    typeof value === "object" &&
    value !== null &&
    "seq" in value &&
    typeof value.seq === "number" &&
    "type" in value &&
    typeof value.type === "string" &&
    "data" in value &&
    "ts" in value
  );
}
