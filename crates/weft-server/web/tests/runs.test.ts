import assert from "node:assert/strict";
import { after, test } from "node:test";
import { closeBrowser, open, runUntil, serve } from "./harness.ts";
import { BOSS, SLOW } from "./projects.ts";
import { seenOf } from "./seen.ts";

after(closeBrowser);

interface Event {
  seq: number;
  ts: string;
  type: string;
}

test("runs are listed and filtered; what waits opens where it can be answered", async () => {
  const server = await serve(undefined, BOSS);
  const counted = await runUntil(server, { workflow: "count", inputs: { n: 2 } }, "ok");
  const waits = await runUntil(server, { workflow: "ask", inputs: {} }, "waiting");
  const { page, complaints, close } = await open(server, "#/runs");
  await page.locator("[data-runs='2']").waitFor();
  assert.match(await page.locator(`[data-run='${counted}']`).innerText(), /done\s+count[\s\S]*events/);
  await page.getByLabel("State").selectOption("waiting");
  await page.locator("[data-runs='1']").waitFor();
  await page.locator(`[data-run='${waits}'][data-run-status=waiting] a`).click();
  await page.locator("[data-view=timeline] [data-ask-state=open]").waitFor();
  await page.goBack();
  await page.locator("[data-runs='1']").waitFor();
  await page.getByLabel("Agent or workflow").selectOption("workflow:count");
  await page.getByText("No run matches").waitFor();
  await page.getByRole("button", { name: "Show all" }).click();
  await page.locator("[data-runs='2']").waitFor();
  assert.deepEqual(complaints, []);
  await close();
  await server.stop();
});

test("a run that was stopped is retried, from the list and where it is looked at", async () => {
  const server = await serve(undefined, { ...BOSS, "workflows/slow.json": SLOW });
  const stopped = await runUntil(server, { workflow: "slow", inputs: {} }, "running");
  const { page, complaints, close } = await open(server, `#/timeline/${stopped}`);
  await page.locator("[data-action=stop]").click();
  await page.locator(`[data-run='${stopped}'][data-run-status=cancelled]`).waitFor();
  await page.locator("[data-action=retry]").click();
  const again = page.locator(`[data-run-status=running]:not([data-run='${stopped}'])`);
  await again.waitFor();
  const retried = (await again.getAttribute("data-run")) ?? "";
  await page.locator("[data-action=stop]").click();
  await page.locator(`[data-run='${retried}'][data-run-status=cancelled]`).waitFor();
  await page.goto(`${server.url}/#/runs`);
  const row = page.locator(`li[data-run='${retried}'][data-run-status=cancelled]`);
  await row.getByRole("link", { name: "retry of an earlier run" }).waitFor();
  await row.locator("[data-action=retry]").click();
  await page.locator("[data-view=timeline], [data-page=timeline]").first().waitFor();
  await page.locator("[data-run-status=running]").waitFor();
  assert.deepEqual(complaints, []);
  await close();
  await server.stop();
});

test("a replay shows what live showed, at every point that live stood still, and at its end", async () => {
  const server = await serve(undefined, BOSS);
  const { page, close } = await open(server);
  await page.getByLabel("What should the assistant do?").fill("Count");
  await page.keyboard.press("Enter");
  const live = page.locator("[data-timeline][data-state=waiting]");
  await live.waitFor();
  const waiting = { seq: Number(await live.getAttribute("data-seq")), seen: await seenOf(live) };
  await page.locator("[data-action=approve]").click();
  const done = page.locator("[data-timeline][data-state=ok]");
  await done.waitFor();
  const ended = await seenOf(done);
  const run = (await done.getAttribute("data-run")) ?? "";

  await page.getByRole("link", { name: "Replay" }).click();
  const replay = page.locator("[data-replay][data-loaded=true]");
  await replay.waitFor();
  const shown = replay.locator("[data-timeline]");
  await shown.waitFor();
  assert.deepEqual(await seenOf(shown), ended);

  const total = Number(await replay.getAttribute("data-total"));
  await page.getByLabel("Event", { exact: true }).fill(String(waiting.seq));
  await page.locator(`[data-replay][data-at='${waiting.seq}'] [data-timeline][data-state=waiting]`).waitFor();
  assert.deepEqual(await seenOf(shown), waiting.seen);
  await shown.getByText("This is a replay").waitFor();

  await page.locator("[data-action=forward]").click();
  await page.locator(`[data-replay][data-at='${waiting.seq + 1}']`).waitFor();
  await page.getByLabel("Event", { exact: true }).press("Home");
  await page.locator("[data-replay][data-at='0']").waitFor();
  await page.locator("[data-action=play]").click();
  await page.locator(`[data-replay][data-at='${total}'] [data-timeline][data-state=ok]`).waitFor();
  assert.deepEqual(await seenOf(shown), ended);

  await page.goto(`${server.url}/#/timeline/${run}`);
  await page.reload();
  await done.waitFor();
  assert.deepEqual(await seenOf(done), ended, "after a reload");
  await close();
  await server.stop();
});

test("a run file is opened and replayed; long silence in it is one line", async () => {
  const server = await serve(undefined, BOSS);
  const run = await runUntil(server, { agent: "boss", message: "Count", approve: "all" }, "ok");
  const events = await server.ask<Event[]>(`api/runs/${run}/events`);
  const middle = events.findIndex((event) => event.type === "agent.turn.finished");
  const later = (ts: string): string => new Date(Date.parse(ts) + 5 * 60_000).toISOString();
  const stretched = events.map((event, index) => (index > middle ? { ...event, ts: later(event.ts) } : event));
  const { page, close } = await open(server, "#/runs");
  await page.locator("[data-page=runs][data-loaded=true]").waitFor();
  const choose = page.locator("[data-action=open-file]");
  const file = (name: string, text: string) => ({ name, mimeType: "application/json", buffer: Buffer.from(text) });
  await choose.setInputFiles(file("broken.jsonl", '{"no": "event"}\n'));
  await page.getByRole("alert").getByText("broken.jsonl: entry 1 is not an event of a run").waitFor();
  await choose.setInputFiles(file("kept.jsonl", stretched.map((event) => JSON.stringify(event)).join("\n")));
  const replay = page.locator("[data-replay][data-loaded=true]");
  await replay.waitFor();
  assert.match(await replay.innerText(), /kept\.jsonl/);
  await replay.locator("[data-timeline][data-state=ok]").waitFor();
  const gap = replay.locator("[data-gap]");
  assert.equal(await gap.count(), 1);
  assert.match(await gap.innerText(), /5 min passed/);
  await close();
  await server.stop();
});
