import assert from "node:assert/strict";
import { test } from "node:test";
import { byNamespace } from "./namespaces.ts";

const tool = (id: string, description = ""): { id: string; description: string; kind: string; approval: string } => ({
  id,
  description,
  kind: "native",
  approval: "auto",
});

test("tools stand under their namespace, those of people first, and are found by words", () => {
  const tools = [tool("system:done"), tool("plain"), tool("workflow:b"), tool("workflow:a/c", "Sums text up"), tool("node:core:X")];
  const shape = (wanted: string): unknown => byNamespace(tools, wanted).map((group) => [group.namespace, ...group.tools.map((one) => one.id)]);
  assert.deepEqual(shape(""), [
    ["", "plain"],
    ["workflow", "workflow:a/c", "workflow:b"],
    ["node", "node:core:X"],
    ["system", "system:done"],
  ]);
  assert.deepEqual(shape(" SUMS workflow"), [["workflow", "workflow:a/c"]]);
});
