import assert from "node:assert/strict";
import { test } from "node:test";
import { formatRoute, parseRoute } from "./router.ts";

test("an address is read back", () => {
  const address = formatRoute("tools", ["workflow:a/b 摘要"], { agent: "desk", q: "a&b" });
  assert.deepEqual(parseRoute(address), {
    page: "tools",
    parts: ["workflow:a/b 摘要"],
    query: { agent: "desk", q: "a&b" },
  });
});

test("an unknown address is the first page", () => {
  for (const hash of ["", "#", "#/", "#/nothing/here", "#/%E0%A4%A"]) assert.equal(parseRoute(hash).page, "timeline");
});
