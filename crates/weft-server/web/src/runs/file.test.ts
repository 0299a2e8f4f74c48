import assert from "node:assert/strict";
import { test } from "node:test";
import { readRunFile } from "./file.ts";

const event = (seq: number): object => ({ v: 1, run: "r", seq, ts: "2026-01-01T00:00:00.000Z", span: 0, type: "run.queued", data: {} });

test("run files are read in each of their forms", () => {
  for (const text of [
    JSON.stringify({ run: "r", events: [event(2), event(1)] }),
    JSON.stringify([event(1), event(2)], null, 2),
    `${JSON.stringify(event(1))}\n${JSON.stringify(event(2))}\n`,
  ]) {
    assert.deepEqual(readRunFile("f", text).events.map((one) => one.seq), [1, 2]);
  }
});

test("an invalid run file is reported", () => {
  for (const [text, message] of [
    ["{", /line 1 is not JSON/],
    ["[]", /holds no events/],
    ['{"a": 1}', /entry 1 is not an event/],
    [`${JSON.stringify(event(1))}\nx`, /line 2/],
  ] as const) {
    assert.throws(() => readRunFile("f", text), message);
  }
});
