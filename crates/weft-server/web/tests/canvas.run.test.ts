// Runs on the canvas: inputs, live state, passes, failures, replay.
import assert from "node:assert/strict";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { COUNT, openCanvas, type Bench } from "./canvas.ts";
import { closeBrowser, open, runUntil, script, serve, type Server } from "./harness.ts";

const FAILS = {
  name: "fails",
  interfaceOutputs: { list: { key: "list", dataFlowType: "ARRAY" } },
  nodes: [
    { id: "some", type: "core:Const", position: { x: 0, y: 0 }, configValues: { value: [1, 0, 4] } },
    {
      id: "each",
      type: "core:LoopZone",
      position: { x: 300, y: 0 },
      width: 800,
      height: 320,
      configValues: { mode: "each", onItemError: "null", collect: ["part"], state: [] },
    },
    { id: "state", type: "core:LoopState", parentNode: "each", position: { x: 0, y: 48 } },
    { id: "divide", type: "core:Expression", parentNode: "each", position: { x: 200, y: 72 }, configValues: { cel: "8 / item" } },
    { id: "part", type: "core:GroupOutput", parentNode: "each", position: { x: 480, y: 72 } },
    { id: "out", type: "core:GroupOutput", position: { x: 1200, y: 0 } },
  ],
  edges: [
    { id: "e1", source: "some", sourceHandle: "value", target: "each", targetHandle: "items" },
    { id: "e2", source: "state", sourceHandle: "item", target: "divide", targetHandle: "item" },
    { id: "e3", source: "divide", sourceHandle: "value", target: "part", targetHandle: "part" },
    { id: "e4", source: "each", sourceHandle: "collected.part", target: "out", targetHandle: "list" },
  ],
};

const ASKS = {
  name: "asks",
  interfaceOutputs: { said: { key: "said", dataFlowType: "STRING" } },
  nodes: [
    { id: "ask", type: "core:Ask", position: { x: 0, y: 0 }, configValues: { prompt: "What is the word?" } },
    { id: "out", type: "core:GroupOutput", position: { x: 320, y: 0 } },
  ],
  edges: [{ id: "e1", source: "ask", sourceHandle: "answer", target: "out", targetHandle: "said" }],
};

/** Asks in each pass, so that a pass lasts until it is answered. */
const WORDS = {
  name: "words",
  interfaceOutputs: { last: { key: "last", dataFlowType: "STRING" } },
  nodes: [
    {
      id: "loop",
      type: "core:LoopZone",
      position: { x: 0, y: 0 },
      width: 760,
      height: 300,
      configValues: { mode: "times", times: 2, state: [{ key: "word", dataFlowType: "STRING", initial: "none" }] },
    },
    { id: "state", type: "core:LoopState", parentNode: "loop", position: { x: 0, y: 48 } },
    { id: "ask", type: "core:Ask", parentNode: "loop", position: { x: 220, y: 100 }, configValues: { prompt: "Next word?" } },
    { id: "next", type: "core:LoopNext", parentNode: "loop", position: { x: 612, y: 48 } },
    { id: "out", type: "core:GroupOutput", position: { x: 860, y: 0 } },
  ],
  edges: [
    { id: "e1", source: "ask", sourceHandle: "answer", target: "next", targetHandle: "word" },
    { id: "e2", source: "loop", sourceHandle: "word", target: "out", targetHandle: "last" },
  ],
};

/** Asks a model and runs a tool in each of two passes. */
const WORKS = {
  name: "works",
  interfaceOutputs: { last: { key: "last", dataFlowType: "STRING" } },
  nodes: [
    {
      id: "loop",
      type: "core:LoopZone",
      position: { x: 0, y: 0 },
      width: 900,
      height: 400,
      configValues: { mode: "times", times: 2, state: [{ key: "word", dataFlowType: "STRING", initial: "none" }] },
    },
    { id: "state", type: "core:LoopState", parentNode: "loop", position: { x: 0, y: 48 } },
    { id: "model", type: "agent:Summarize", parentNode: "loop", position: { x: 200, y: 60 }, inputValues: { text: "Fruit of the house." } },
    { id: "calls", type: "core:Const", parentNode: "loop", position: { x: 200, y: 220 }, configValues: { value: [{ tool: "system:get_current_time", arguments: {} }] } },
    { id: "tool", type: "agent:ExecuteTool", parentNode: "loop", position: { x: 420, y: 220 } },
    { id: "next", type: "core:LoopNext", parentNode: "loop", position: { x: 752, y: 48 } },
    { id: "out", type: "core:GroupOutput", position: { x: 1000, y: 0 } },
  ],
  edges: [
    { id: "e1", source: "model", sourceHandle: "summary", target: "next", targetHandle: "word" },
    { id: "e2", source: "calls", sourceHandle: "value", target: "tool", targetHandle: "tool_call_requests" },
    { id: "e3", source: "loop", sourceHandle: "word", target: "out", targetHandle: "last" },
    { id: "e4", source: "state", target: "tool" },
  ],
};

let server: Server;
before(async () => {
  server = await serve("examples/desk", {
    "workflows/count.json": COUNT,
    "workflows/fails.json": FAILS,
    "workflows/asks.json": ASKS,
    "workflows/words.json": WORDS,
  });
});
after(async () => {
  await closeBrowser();
  await server.stop();
});

async function run(bench: Bench, inputs: Record<string, string>, status: string): Promise<void> {
  const { page } = bench;
  await page.locator('[data-action="run"]').click();
  for (const [name, value] of Object.entries(inputs)) await page.locator(`#run-${name}`).fill(value);
  await page.locator('[data-action="start"]').click();
  await page.locator(`[data-run-status="${status}"]`).waitFor();
}

const states = (bench: Bench) =>
  bench.page.evaluate(() =>
    [...document.querySelectorAll("[data-board] [data-state]")].map((box) => `${box.id} ${box.getAttribute("data-state")} ${box.querySelector(".preview .text")?.textContent ?? ""}`).sort(),
  );

test("a run from its inputs shows every node, the passes in the header and what each carried; a reload shows the same", async () => {
  const bench = await openCanvas(server, "count");
  const { page } = bench;
  await page.locator('[data-action="run"]').click();
  assert.ok(await page.locator('[data-action="start"]').isDisabled(), "an input is still missing");
  await run(bench, { to: "4" }, "ok");
  assert.equal(await page.locator('[data-output="text"] .string').textContent(), "1 2 3 4 ");
  await page.locator('[data-node="loop"] [data-passes="4"]').waitFor();
  const live = await states(bench);
  assert.ok(live.some((line) => line.startsWith("box-add ok 4")), live.join("\n"));

  await page.locator('[data-node="loop"] [data-action="passes"]').click();
  const passes = page.locator("[data-loop]");
  await passes.waitFor();
  assert.equal(await passes.locator("[data-pass]").count(), 4);
  await passes.locator('[data-pass="1"]').click();
  await passes.locator('[data-pass-shown="1"]').waitFor();
  await passes.locator('[data-record="1"] [data-decision="next"]').waitFor();
  const row = passes.locator('[data-table="changes"] [data-key="text"]');
  assert.equal((await row.locator("td").nth(0).textContent())?.trim(), "1");
  assert.equal((await row.locator("td").nth(1).locator(".new").textContent())?.trim(), "2");
  assert.deepEqual(await passes.locator('[data-table="carried"] tbody tr').first().locator("td").allTextContents(), ["0", "changed:1", "changed:2", "changed:3", "changed:4"]);

  const id = await page.locator('[data-tab="run"]').click().then(() => page.locator("[data-run]").getAttribute("data-run"));
  await bench.open(`#/loop/${id ?? ""}?pass=2`);
  await page.locator('[data-loop-page="ok"] [data-pass-shown="2"]').waitFor();
  const events = await page.locator('[data-action="events"]').getAttribute("href");
  assert.match(events ?? "", new RegExp(`^#/runs/${id ?? ""}\\?at=\\d+$`));
  await bench.open(`#/canvas/count?run=${id ?? ""}`);
  await page.locator('[data-run-status="ok"]').waitFor();
  await page.locator('[data-node="loop"] [data-passes="4"]').waitFor();
  assert.deepEqual(await states(bench), live, "a replay ends in the same view");
  assert.deepEqual(bench.complaints, []);
  await bench.close();
});

test("looking back shows the run as it was", async () => {
  const id = await runUntil(server, { workflow: "count", inputs: { to: 3 } }, "ok");
  const { page, close } = await open(server, `#/canvas/count?run=${id}`);
  await page.locator('[data-node="loop"] [data-passes="3"]').waitFor();
  const scrubber = page.locator('[data-run] input[type="range"]');
  await scrubber.focus();
  await page.keyboard.press("Home");
  await page.locator('[data-node="loop"] [data-passes=""]').waitFor();
  for (let presses = 0; presses < 12; presses += 1) await page.keyboard.press("ArrowRight");
  await page.locator('[data-node="loop"] [data-passes="1"], [data-node="loop"] [data-passes="2"]').waitFor();
  await page.keyboard.press("End");
  await page.locator('[data-node="loop"] [data-passes="3"]').waitFor();
  await close();
});

test("a failed pass is told from the others by shape, colour and word", async () => {
  const bench = await openCanvas(server, "fails");
  const { page } = bench;
  await run(bench, {}, "ok");
  assert.deepEqual(await page.locator('[data-output="list"] span.value').allTextContents(), ["8", "null", "2"]);
  await page.locator('[data-tab="passes"]').click();
  const cells = page.locator("[data-loop] [data-pass]");
  await cells.nth(2).waitFor();
  const shown = await cells.evaluateAll((all) => all.map((cell) => `${cell.getAttribute("data-pass")} ${cell.getAttribute("data-state")}`));
  assert.deepEqual(shown, ["0 ok", "1 failed", "2 ok"]);
  await cells.nth(1).click();
  await page.locator('[data-pass-shown="1"]').waitFor();
  assert.match((await page.locator('[data-pass-shown="1"] .bad').textContent()) ?? "", /divide/);
  // The strip is walked by arrow keys.
  await page.keyboard.press("ArrowRight");
  await page.locator('[data-pass-shown="2"]').waitFor();
  await bench.close();
});

test("a question of a run is answered below the board", async () => {
  const bench = await openCanvas(server, "asks");
  const { page } = bench;
  await run(bench, {}, "waiting");
  await page.locator('[data-node="ask"] [data-state="waiting"]').waitFor();
  await page.getByLabel("What is the word?").fill("weft");
  await page.keyboard.press("Enter");
  await page.locator('[data-run-status="ok"]').waitFor();
  assert.equal(await page.locator('[data-output="said"] .string').textContent(), "weft");
  await bench.close();
});

test("while a loop works, its header counts the passes and the strip shows the one that runs", async () => {
  const bench = await openCanvas(server, "words");
  const { page } = bench;
  await run(bench, {}, "waiting");
  const zone = bench.node("loop");
  await zone.locator('[data-passes="1"]').waitFor();
  assert.match((await zone.locator(".counter").textContent()) ?? "", /Pass 1 \/ 2/);
  await zone.locator(".counter .spin").waitFor();
  await bench.node("ask").locator('[data-state="waiting"]').waitFor();
  await bench.node("out").locator('[data-state="none"]').waitFor();
  await zone.locator('[data-action="passes"]').click();
  await page.locator('[data-loop] [data-pass="0"][data-state="running"]').waitFor();
  await page.locator('[data-tab="run"]').click();
  await page.getByLabel("Next word?").fill("warp");
  await page.keyboard.press("Enter");
  await zone.locator('[data-passes="2"]').waitFor();
  await page.getByLabel("Next word?").fill("weft");
  await page.keyboard.press("Enter");
  await page.locator('[data-run-status="ok"]').waitFor();
  await zone.locator(".counter .spin").waitFor({ state: "detached" });
  await bench.node("out").locator('[data-state="ok"]').waitFor();
  await page.locator('[data-tab="passes"]').click();
  assert.deepEqual(await page.locator('[data-loop] [data-table="carried"] tbody td').allTextContents(), ["none", "changed:warp", "changed:weft"]);
  assert.deepEqual(bench.complaints, []);
  await bench.close();
});

test("what a model writes grows below its node", async () => {
  const bench = await openCanvas(server, "agent_loop");
  const { page } = bench;
  await run(bench, { query: "When is the dock open?" }, "ok");
  assert.match((await page.locator('[data-output="answer"]').textContent()) ?? "", /between seven and nine/);
  await bench.node("loop").locator('[data-passes="4"]').waitFor();
  // What the loop carries is large: the difference is read line by line.
  await page.locator('[data-tab="passes"]').click();
  await page.locator('[data-loop] [data-pass="1"]').click();
  await page.locator('[data-pass-shown="1"] [data-key="history"] [data-action="difference"]').click();
  const added = page.locator('[data-difference="history"] [data-diff-line="added"]');
  await added.first().waitFor();
  assert.match((await added.allTextContents()).join("\n"), /The house rules should say/);
  await page.locator('[data-tab="run"]').click();
  const scrubber = page.locator('[data-run] input[type="range"]');
  await scrubber.focus();
  await page.keyboard.press("Home");
  const seen: string[] = [];
  const preview = bench.node("model").locator(".preview .text");
  const working = bench.node("model").locator('[data-state="running"]');
  for (let presses = 0; presses < 80 && seen.length < 3; presses += 1) {
    await page.keyboard.press("ArrowRight");
    const text = (await working.count()) > 0 && (await preview.count()) > 0 ? ((await preview.textContent()) ?? "") : "";
    if (text !== "" && text !== seen.at(-1)) seen.push(text);
  }
  const [first = "", second = ""] = seen;
  assert.ok(first !== "" && second.startsWith(first) && second.length > first.length, JSON.stringify(seen));
  await bench.close();
});

test("all is there in Chinese", async () => {
  const { page, complaints, close } = await open(server, "#/canvas/count", { language: "zh" });
  await page.locator('[data-board="ready"]').waitFor();
  await page.locator('[data-node="loop"] .title').click();
  const text = (await page.locator("[data-canvas]").textContent()) ?? "";
  for (const word of ["循环", "已保存", "运行", "直到"]) assert.ok(text.includes(word), word);
  assert.ok(!/canvas\.|loop\./.test(text), "a text has no translation");
  assert.deepEqual(complaints, []);
  await close();
});

test("a pass opened later has its record: what was decided, called, replied and used, without the workflow", async () => {
  const own = await serve(undefined, {
    "weft.toml": 'script = "script.jsonl"\n',
    "workflows/works.json": WORKS,
    "script.jsonl": script({ text: "kiwi", usage: { input: 7, output: 2 } }, { text: "pear", usage: { input: 8, output: 3 } }),
  });
  const id = await runUntil(own, { workflow: "works", inputs: {}, approve: "all" }, "ok");
  rmSync(join(own.folder, "workflows/works.json"));
  const { page, complaints, close } = await open(own, `#/loop/${id}?pass=0`);
  await page.locator('[data-pass-shown="0"] [data-record="0"]').waitFor();
  const shown = page.locator("[data-pass-shown]");
  assert.deepEqual((await shown.locator('[data-table="changes"] [data-key="word"] td').allTextContents()).map((text) => text.trim()), ["none", "nonekiwi"]);
  assert.equal(await shown.locator("[data-tokens]").getAttribute("data-tokens"), "9");
  assert.equal((await shown.locator("[data-reply]").textContent())?.trim(), "kiwi");
  const call = shown.locator("[data-pass-call]");
  assert.match((await call.textContent()) ?? "", /system:get_current_time/);
  await call.locator("summary").click();
  await call.locator("pre").waitFor();
  await page.locator('[data-pass="1"]').click();
  await page.locator('[data-pass-shown="1"] [data-record="1"] [data-tokens="11"]').waitFor();
  assert.equal((await shown.locator("[data-reply]").textContent())?.trim(), "pear");
  assert.deepEqual(complaints, []);
  await close();
  await own.stop();
});
