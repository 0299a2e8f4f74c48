import assert from "node:assert/strict";
import { after, test } from "node:test";
import { action, closeBrowser, open, runUntil, script, serve } from "./harness.ts";
import { BOSS, talker } from "./projects.ts";

after(closeBrowser);

test("a run reads in plain words, from the question to the answer", async () => {
  const server = await serve("examples/desk");
  const { page, complaints, foreign, close } = await open(server);
  await page.locator("[data-page=timeline][data-loaded=true]").waitFor();
  await page.locator("[data-state=empty]").waitFor();
  await page.getByLabel("What should the assistant do?").fill("When does the dock open?");
  await page.keyboard.press("Enter");
  await page.locator("[data-timeline][data-state=ok]").waitFor();
  const entries = () => page.locator("[data-entry]").evaluateAll((all) => all.map((one) => (one as HTMLElement).dataset["entry"]));
  assert.deepEqual(await entries(), ["said", "turn", "call", "turn", "call", "turn", "call", "turn", "end"]);
  // What happened inside a call that ended well is there once it is opened.
  await page.locator("[data-call=c3] .inside > summary").click();
  await page.locator("[data-call=c3] [data-entry=step]").first().waitFor();
  assert.deepEqual((await entries()).filter((entry) => entry === "step").length, 6);
  const call = page.locator("[data-call=c2]");
  assert.equal(await call.getAttribute("data-call-state"), "ok");
  assert.match(await call.innerText(), /Used\s+kb:Query[\s\S]*“The house rules should say when the dock is open.”/);
  assert.match(await call.locator("[data-result]").innerText(), /canal side/);
  await call.getByText("Observation", { exact: true }).click();
  assert.match(await call.locator("[data-observation]").innerText(), /^Observation: Tool kb:Query executed successfully/);
  assert.match(await page.locator("[data-answer]").innerText(), /north lift is renewed/);
  assert.deepEqual([complaints, foreign], [[], []]);
  await close();
  await server.stop();
});

test("each turn opens what the model was sent, and a warning about the answer stands beside it", async () => {
  const call = { name: "system:get_current_time", arguments: {} };
  const server = await serve(undefined, {
    ...BOSS,
    "script.jsonl": script(
      { text: `I look. ${action("system:get_current_time", {})}`, usage: { input: 120, output: 30 } },
      { text: JSON.stringify(call) },
      { text: JSON.stringify(call) },
    ),
  });
  const run = await runUntil(server, { agent: "boss", message: "What time is it?", approve: "all" }, "ok");
  const { page, complaints, close } = await open(server, `#/timeline/${run}`);
  await page.locator("[data-timeline][data-state=ok]").waitFor();
  const request = page.locator("[data-request='1']");
  await request.locator("summary").first().click();
  await request.locator("[data-role=system]").waitFor();
  assert.match(await request.locator("[data-role=user] pre").innerText(), /What time is it\?/);
  assert.match(await request.locator("[data-usage]").innerText(), /120 input tokens, 0 of them cached, 30 output/);
  const second = page.locator("[data-request='2']");
  await second.locator("summary").first().click();
  await second.locator("[data-role=assistant]").first().waitFor();
  assert.match(await second.locator("[data-role=user] pre").last().innerText(), /Observation: Tool system:get_current_time/);
  assert.match(await page.locator("[data-answer] [data-warning]").innerText(), /nothing of it was run/);
  assert.equal(await page.locator("[data-entry=note] [data-warning=unread_call]").count(), 1);
  assert.deepEqual(complaints, []);
  await close();
  await server.stop();
});

test("thinking is told while the model thinks, and can be stopped", async () => {
  const server = await serve(undefined, talker({ hang: true }));
  const { run } = await server.ask<{ run: string }>("api/runs", { agent: "talker", message: "你好" });
  const { page, close } = await open(server, `#/timeline/${run}`, { language: "zh" });
  const thinking = page.locator("[data-thinking]");
  await thinking.waitFor();
  assert.equal(await thinking.innerText(), "思考中…");
  await page.locator("[data-action=stop]").click();
  await page.locator("[data-end=cancelled]").waitFor();
  assert.match(await page.locator("[data-end]").innerText(), /已停止/);
  await close();
  await server.stop();
});

test("text is shown while it comes", async () => {
  const server = await serve(undefined, talker({ chunks: ["The first half, ", "and more. "], hang: true }));
  const { run } = await server.ask<{ run: string }>("api/runs", { agent: "talker", message: "Tell me" });
  const { page, close } = await open(server, `#/timeline/${run}`);
  await page.locator("[data-turn][data-phase=writing]").waitFor();
  assert.match(await page.locator("[data-turn]").innerText(), /The first half/);
  assert.equal(await page.locator("[data-timeline]").getAttribute("data-state"), "running");
  await close();
  await server.stop();
});

test("output of a tool is shown while it comes", async () => {
  const server = await serve("examples/desk", {
    "script.jsonl": script(
      { text: `I shorten it. ${action("workflow:chat", { message: "Hello" })}` },
      { chunks: ["A piece of the reply, ", "and another one. "], hang: true },
    ),
    "agents/desk/agent_profile.json": { id: "desk", name: "Front desk", tool_ids_inventory: ["workflow:chat"] },
  });
  const { run } = await server.ask<{ run: string }>("api/runs", { agent: "desk", message: "Tell me", approve: "all" });
  const { page, close } = await open(server, `#/timeline/${run}`);
  const call = page.locator("[data-call=c1][data-call-state=running]");
  await call.waitFor();
  assert.match(await call.innerText(), /Uses\s+workflow:chat/);
  await call.locator("[data-output], [data-step=model] ", { hasText: "A piece of the reply" }).first().waitFor();
  await close();
  await server.stop();
});

test("a request that could not be used reads as rewritten, and an agent inside a call is seen there", async () => {
  const server = await serve(undefined, BOSS);
  const run = await runUntil(server, { agent: "boss", message: "Count", approve: "all" }, "ok");
  const { page, close } = await open(server, `#/timeline/${run}`);
  await page.locator("[data-timeline][data-state=ok]").waitFor();
  const rewrite = page.locator("[data-entry=rewrite]");
  assert.match(await rewrite.innerText(), /The assistant retried its request \(1 of 3\)\s+It asked for an unknown tool: get_clock/);
  const clerk = page.locator("[data-call=c3]");
  await clerk.getByText("What happened inside").first().click();
  await clerk.locator("[data-call='c3.1'][data-tool='workflow:count'][data-call-state=ok]").waitFor();
  assert.match(await clerk.locator("[data-answer]").innerText(), /Counted: 2\./);
  await close();
  await server.stop();
});

test("an approval is answered in place: allowed", async () => {
  const server = await serve(undefined, BOSS);
  const run = await runUntil(server, { agent: "boss", message: "Count" }, "waiting");
  const { page, close } = await open(server, `#/timeline/${run}`);
  const call = page.locator("[data-call=c2]");
  await call.locator("[data-ask-state=open]").waitFor();
  assert.match(await call.innerText(), /Wants to use\s+system:get_current_time[\s\S]*May the assistant use system:get_current_time\?/);
  await call.locator("[data-action=approve]").click();
  await page.locator("[data-timeline][data-state=ok]").waitFor();
  assert.equal(await call.getAttribute("data-call-state"), "ok");
  assert.equal(await call.locator("[data-ask]").count(), 0);
  await close();
  await server.stop();
});

test("an approval is answered in place: with other values", async () => {
  const server = await serve(undefined, BOSS);
  const run = await runUntil(server, { agent: "boss", message: "Count" }, "waiting");
  const { page, close } = await open(server, `#/timeline/${run}`);
  const call = page.locator("[data-call=c2]");
  await call.locator("[data-action=edit]").click();
  const field = call.getByLabel("With these values");
  await field.fill("{");
  assert.equal(await call.locator("[data-action=approve-edited]").isDisabled(), true);
  await field.fill('{"timezone": "Europe/Oslo"}');
  await call.locator("[data-action=approve-edited]").click();
  await page.locator("[data-timeline][data-state=ok]").waitFor();
  assert.match(await call.locator("[data-result]").innerText(), /Europe\/Oslo/);
  await close();
  await server.stop();
});

test("an approval is answered in place: not allowed, with the reason", async () => {
  const server = await serve(undefined, BOSS);
  const run = await runUntil(server, { agent: "boss", message: "Count" }, "waiting");
  const { page, close } = await open(server, `#/timeline/${run}`);
  const call = page.locator("[data-call=c2]");
  await call.locator("[data-action=deny]").click();
  await call.getByLabel(/Why not/).fill("the clock is mine");
  await call.locator("[data-action=deny-send]").click();
  await page.locator("[data-timeline][data-state=ok]").waitFor();
  assert.equal(await call.getAttribute("data-call-state"), "denied");
  assert.match(await call.innerText(), /Denied: the clock is mine/);
  await close();
  await server.stop();
});

test("a question of a workflow is answered in place", async () => {
  const server = await serve(undefined, BOSS);
  const run = await runUntil(server, { workflow: "ask", inputs: {} }, "waiting");
  const { page, close } = await open(server, `#/timeline/${run}`);
  const ask = page.locator("[data-ask-state=open]");
  await ask.waitFor();
  assert.match(await ask.innerText(), /Which colour\?/);
  await ask.getByLabel("Your answer").fill("绿色");
  await page.keyboard.press("Enter");
  await page.locator("[data-timeline][data-state=ok]").waitFor();
  await page.locator("[data-ask-state=answered]").waitFor();
  assert.match(await page.locator("[data-output-name=said]").innerText(), /said\s+绿色/);
  const { outputs } = await server.ask<{ outputs: unknown }>(`api/runs/${run}`);
  assert.deepEqual(outputs, { said: "绿色" });
  await close();
  await server.stop();
});

test("events and the log stand behind a switch that is remembered", async () => {
  const server = await serve(undefined, talker({ text: "Hello." }));
  const run = await runUntil(server, { agent: "talker", message: "Hi" }, "ok");
  const { page, close } = await open(server, `#/timeline/${run}`);
  await page.locator("[data-timeline][data-state=ok]").waitFor();
  assert.equal(await page.locator("[data-developer]").count(), 0);
  await page.locator("[data-switch=developer]").click();
  await page.locator("[data-event='run.finished']").waitFor();
  await page.reload();
  await page.locator("[data-event='run.finished']").waitFor();
  await page.getByLabel("Filter events").fill("agent.message");
  await page.locator("[data-event='agent.message'] summary").click();
  assert.match(await page.locator("[data-event='agent.message'] pre").innerText(), /"text": "Hello\."/);
  await page.locator("[data-action=log]").click();
  await page.locator("[data-log=debug]").first().waitFor();
  await close();
  await server.stop();
});
