import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { TraceEvent } from "../api/types.gen.ts";
import { viewOf } from "../state/reducer.ts";
import { Replayed } from "./replay.ts";

test("a replay shows at each event what was seen live, in whatever order it is looked at", () => {
  const file = new URL("../../tests/fixtures/boss.events.json", import.meta.url);
  const short = JSON.parse(readFileSync(file, "utf8")) as TraceEvent[];
  // Long enough for views that are kept.
  const many = Array.from({ length: 900 }, (_, n) => ({
    ...short[0],
    type: "log.line" as const,
    data: { level: "info", message: String(n) },
    seq: short.length + n + 1,
  })) as TraceEvent[];
  const events = [...short, ...many];
  const replayed = new Replayed("r1", events);
  for (const count of [0, 1, 25, 97, 250, 251, 900, 12, events.length, 500]) {
    assert.deepEqual(replayed.at(count), viewOf("r1", events.slice(0, count)), String(count));
  }
});
