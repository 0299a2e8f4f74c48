// Size, speed and access: a workflow of a thousand nodes, and axe in both themes.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { COUNT, findings, openCanvas } from "./canvas.ts";
import { closeBrowser, open, runUntil, serve, type Server } from "./harness.ts";

const ROWS = 25;
const COLUMNS = 40;

function large(): object {
  const nodes = [];
  const edges = [];
  for (let column = 0; column < COLUMNS; column += 1) {
    for (let row = 0; row < ROWS; row += 1) {
      nodes.push({ id: `n${column}_${row}`, type: "core:TextReplace", position: { x: column * 320, y: row * 150 }, configValues: { pattern: "a", with: "b" } });
      if (column > 0) {
        edges.push({ id: `e${column}_${row}`, source: `n${column - 1}_${row}`, sourceHandle: "text", target: `n${column}_${row}`, targetHandle: "text" });
      }
    }
  }
  return { name: "large", nodes, edges };
}

let server: Server;
before(async () => {
  server = await serve("examples/desk", { "workflows/large.json": large(), "workflows/count.json": COUNT });
});
after(async () => {
  await closeBrowser();
  await server.stop();
});

test("a thousand nodes open and pan; only what is in view is drawn", async (context) => {
  const bench = await openCanvas(server, "count");
  const { page } = bench;
  const browser = await page.context().browser()?.newBrowserCDPSession();
  assert(browser);
  /** CPU time of all that draws pages, in milliseconds. */
  const cpu = async (): Promise<number> => {
    const { processInfo } = await browser.send("SystemInfo.getProcessInfo");
    return processInfo.reduce((sum, one) => sum + (one.type === "renderer" ? one.cpuTime * 1000 : 0), 0);
  };
  const start = await cpu();
  await bench.open("#/canvas/large");
  await page.locator('[data-canvas="large"] [data-board="ready"][data-nodes="1000"]').waitFor();
  const drawn = page.locator(".svelte-flow__node");
  await drawn.first().waitFor();
  const opened = await cpu();
  const few = await drawn.count();
  assert.ok(few > 5 && few < 200, `${few} of 1,000 are drawn`);
  const first = await drawn.first().getAttribute("data-node");
  const steps = 30;
  for (let step = 0; step < steps; step += 1) {
    await page.mouse.move(500, 400);
    await page.mouse.wheel(160, 60);
  }
  await page.locator(`.svelte-flow__node[data-node="${first ?? ""}"]`).waitFor({ state: "detached" });
  const panned = await cpu();
  await page.locator("[data-board]").focus();
  await page.keyboard.press("0");
  await page.locator("[data-board][data-zoom^=\"0.0\"]").waitFor();
  await page.waitForFunction(() => document.querySelectorAll(".svelte-flow__node").length > 500);
  const fitted = await cpu();
  for (let step = 0; step < steps; step += 1) await page.mouse.wheel(step % 2 === 0 ? 20 : -20, 5);
  const far = await cpu();
  assert.equal(await page.locator("[data-far-wires] path").count(), 1, "far wires of one type are one path");
  assert.ok((await page.locator("[data-board] *").count()) < 4000, "far away only shapes are drawn");
  context.diagnostic(`all in view: CPU ${Math.round(fitted - panned)} ms to fit, ${((far - fitted) / steps).toFixed(1)} ms a step of panning, ${await page.locator("[data-board] *").count()} elements`);
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Alt+ArrowDown");
  await page.locator('[data-step="1"]').waitFor();
  const edited = await cpu();
  context.diagnostic(`CPU: open ${Math.round(opened - start)} ms, ${((panned - opened) / steps).toFixed(1)} ms a step of panning, an edit ${Math.round(edited - far)} ms`);
  assert.deepEqual(bench.complaints, []);
  await bench.close();
});

for (const theme of ["light", "dark"] as const) {
  test(`axe finds nothing serious on the canvas and the loop inspector (${theme})`, async () => {
    const run = await runUntil(server, { workflow: "count", inputs: { to: 3 } }, "ok");
    const seen = await open(server, "#/canvas", { theme });
    const { page } = seen;
    const wrong: string[] = [];
    const look = async (where: string) => {
      for (const line of await findings(page)) wrong.push(`${where}: ${line}`);
    };
    await page.locator('[data-list="ready"]').waitFor();
    await look("list");
    await seen.open(`#/canvas/count?run=${run}`);
    await page.locator('[data-run-status="ok"]').waitFor();
    await page.locator('[data-node="loop"] [data-passes="3"]').waitFor();
    await look("run");
    await page.locator('[data-node="add"] .title').click();
    await look("details");
    await page.locator('[data-node="loop"] .head .title').click();
    await page.locator('[data-details="loop"]').waitFor();
    await page.locator('[data-tab="passes"]').click();
    await page.locator("[data-loop]").waitFor();
    await look("passes");
    await page.locator("[data-board]").focus();
    await page.keyboard.press("n");
    await page.locator('[data-dialog="add"]').waitFor();
    await look("palette");
    await page.keyboard.press("Escape");
    await seen.open(`#/loop/${run}`);
    await page.locator('[data-loop-page="ok"] [data-loop]').waitFor();
    await look("loop");
    assert.deepEqual(wrong, []);
    assert.deepEqual(seen.foreign, []);
    await seen.close();
  });
}

test("in Chinese the types of nodes, their slots and their settings have Chinese words, and change with the language", async () => {
  const bench = await openCanvas(server, "count", { language: "zh" });
  const { page } = bench;
  const say = bench.node("say");
  assert.match((await say.innerText()) ?? "", /文本模板[\s\S]*文本/);
  assert.equal((await bench.slot("say", "output", "text").getAttribute("title"))?.split("\n")[0], "文本 · text");
  await say.click();
  await page.locator("[data-details=say]").waitFor();
  assert.equal(await page.getByLabel("模板 · template").count(), 1);
  assert.match(await page.locator("[data-details=say]").innerText(), /填写模板[\s\S]*模板；所提及的其他输入都是插槽/);
  await page.keyboard.press("Escape");
  await page.locator("[data-board]").focus();
  await page.keyboard.press("n");
  await page.keyboard.type("合并文本");
  await page.locator("[role=option]", { hasText: "连接来自多条连线的文本" }).first().waitFor();
  await page.keyboard.press("Escape");
  assert.deepEqual(bench.complaints, []);
  await bench.close();
});
