import assert from "node:assert/strict";
import { test } from "node:test";
import { eventsOf, parseEvent } from "./sse.ts";

test("a block is an event, a comment is none", () => {
  assert.deepEqual(parseEvent("id: 3\nevent: state\ndata: {\"a\": 1}"), { event: "state", id: "3", data: '{"a": 1}' });
  assert.equal(parseEvent(": here"), undefined);
});

test("events arrive whole, however their bytes are cut", async () => {
  const text = "id: 1\nevent: message\ndata: {\"text\":\"grüß\"}\n\n: here\n\nid: 2\nevent: state\ndata: 1\n\n";
  const bytes = new TextEncoder().encode(text);
  for (let cut = 1; cut < bytes.length; cut += 1) {
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        controller.enqueue(bytes.slice(0, cut));
        controller.enqueue(bytes.slice(cut));
        controller.close();
      },
    });
    const found = [];
    for await (const { id, data } of eventsOf(new Response(body))) found.push([id, data]);
    assert.deepEqual(found, [["1", '{"text":"grüß"}'], ["2", "1"]]);
  }
});
