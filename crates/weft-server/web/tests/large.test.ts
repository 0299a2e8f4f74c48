// Much of everything: values, passes, events. What is shown stays small, and all of it can be reached.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { type Page } from "playwright-core";
import { action, closeBrowser, type Files, open, runUntil, script, serve } from "./harness.ts";
import { BOSS } from "./projects.ts";

after(closeBrowser);

const elements = (page: Page): Promise<number> => page.evaluate(() => document.querySelectorAll("*").length);

/** Gives what it is given. */
const PASSED_ON = {
  name: "passed_on",
  description: "Gives what it is given.",
  interfaceInputs: { value: { dataFlowType: "WILDCARD" } },
  interfaceOutputs: { value: { dataFlowType: "WILDCARD" } },
  nodes: [
    { id: "in", type: "core:GroupInput" },
    { id: "out", type: "core:GroupOutput" },
  ],
  edges: [{ source: "in", sourceHandle: "value", target: "out", targetHandle: "value" }],
};

/** Adds up in thousands of passes. */
const MANY = {
  name: "many",
  description: "Many passes.",
  interfaceInputs: {},
  interfaceOutputs: {},
  nodes: [
    {
      id: "loop",
      type: "core:LoopZone",
      configValues: { mode: "times", times: 3334, state: [{ key: "sum", dataFlowType: "INTEGER", initial: 0 }] },
    },
    { id: "s", type: "core:LoopState", parentNode: "loop" },
    { id: "add", type: "core:Expression", parentNode: "loop", configValues: { cel: "sum + index" } },
    { id: "next", type: "core:LoopNext", parentNode: "loop" },
  ],
  edges: [
    { source: "s", sourceHandle: "sum", target: "add", targetHandle: "sum" },
    { source: "s", sourceHandle: "index", target: "add", targetHandle: "index" },
    { source: "add", sourceHandle: "value", target: "next", targetHandle: "sum" },
  ],
};

test("a value of megabytes is shown by its beginning, and more of it where it is asked for", async () => {
  const server = await serve(undefined, { ...BOSS, "workflows/passed_on.json": PASSED_ON });
  const list = Array.from({ length: 20_000 }, (_, index) => ({ index, text: "word ".repeat(10) }));
  const text = "x".repeat(1_000_000);
  for (const value of [list, text]) {
    const run = await runUntil(server, { workflow: "passed_on", inputs: { value } }, "ok");
    const { page, complaints, close } = await open(server, `#/timeline/${run}`);
    const outputs = page.locator("[data-outputs]");
    await outputs.waitFor();
    const shown = (await outputs.innerText()).length;
    assert.ok(shown < 60_000, `${shown} characters`);
    assert.ok((await elements(page)) < 3000);
    await outputs.locator("[data-action=more]").first().click();
    assert.ok((await outputs.innerText()).length > shown);
    assert.doesNotMatch(await page.locator("body").innerText(), /\$blob/);
    assert.deepEqual(complaints, []);
    await close();
  }
  await server.stop();
});

test("of thousands of passes only those in sight are there, and each is one jump away", async () => {
  const server = await serve(undefined, { ...BOSS, "workflows/many.json": MANY });
  const run = await runUntil(server, { workflow: "many", inputs: {} }, "ok");
  const { page, complaints, close } = await open(server, `#/loop/${run}`);
  await page.locator("[data-loop][data-passes='3334'] [data-pass-shown='3333']").waitFor();
  assert.ok((await elements(page)) < 3000);
  await page.locator("#go-pass").fill("1700");
  await page.keyboard.press("Enter");
  const shown = page.locator("[data-pass-shown='1699']");
  await shown.waitFor();
  await page.locator("[role=radiogroup] [data-pass='1699'][aria-checked=true]").focus();
  await page.keyboard.press("ArrowRight");
  await page.locator("[data-pass-shown='1700']").waitFor();
  await page.keyboard.press("Home");
  await page.locator("[data-pass-shown='0']").waitFor();
  await page.locator("[data-jump=changed]").click();
  await page.locator("[data-pass-shown='1']").waitFor();
  assert.match(await page.locator("[data-table=changes]").innerText(), /sum\s+0\s+1/);
  assert.deepEqual(complaints, []);
  await close();
  await server.stop();
});

/** An agent that makes a call in each of many turns; one of them fails. */
function busy(turns: number, bad: number): Files {
  const replies = Array.from({ length: turns }, (_, turn) => ({ text: action(turn === bad ? "workflow:fails" : "workflow:passed_on", { value: String(turn) }) }));
  return {
    "weft.toml": 'script = "script.jsonl"\n',
    "workflows/passed_on.json": PASSED_ON,
    "workflows/fails.json": {
      name: "fails",
      description: "Fails.",
      interfaceInputs: { value: { dataFlowType: "WILDCARD" } },
      interfaceOutputs: { value: { dataFlowType: "WILDCARD" } },
      nodes: [
        { id: "in", type: "core:GroupInput" },
        { id: "bad", type: "core:Expression", configValues: { cel: "x / 0" } },
        { id: "out", type: "core:GroupOutput" },
      ],
      edges: [
        { source: "in", sourceHandle: "value", target: "bad", targetHandle: "x" },
        { source: "bad", sourceHandle: "value", target: "out", targetHandle: "value" },
      ],
    },
    "agents/busy.json": { id: "busy", name: "Busy", tool_ids_inventory: ["workflow:passed_on", "workflow:fails"], budgets: { turns: 400, tool_calls: 400 } },
    "script.jsonl": script(...replies, { text: "Done." }),
  };
}

test("of hundreds of turns a window is there; the end and the first failure are one step away", async () => {
  const server = await serve(undefined, busy(300, 40));
  const run = await runUntil(server, { agent: "busy", message: "Work", approve: "all" }, "ok");
  const { page, complaints, close } = await open(server, `#/timeline/${run}`);
  await page.locator("[data-timeline][data-state=ok] [data-end=ok]").waitFor();
  assert.ok((await elements(page)) < 3000, String(await elements(page)));
  await page.locator("[data-action=first-fault]").click();
  await page.locator("[data-call-state=failed]").first().waitFor();
  assert.equal(await page.locator("[data-end]").count(), 0);
  assert.ok((await elements(page)) < 3000, String(await elements(page)));
  await page.locator("[data-action=to-end]").click();
  await page.locator("[data-end=ok]").waitFor();
  assert.deepEqual(complaints, []);
  await close();
  await server.stop();
});
