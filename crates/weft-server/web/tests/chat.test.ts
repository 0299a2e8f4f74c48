import assert from "node:assert/strict";
import { after, test } from "node:test";
import { findings } from "./axe.ts";
import { closeBrowser, open, serve, untilStatus } from "./harness.ts";
import { BOSS, talker } from "./projects.ts";

after(closeBrowser);

test("an answer comes word by word, and can be stopped", async () => {
  const server = await serve(undefined, talker({ chunks: ["Once upon ", "a time "], hang: true }));
  const { page, complaints, close } = await open(server, "#/chat");
  await page.locator("[data-page=chat][data-loaded=true][data-agent=talker]").waitFor();
  await page.getByLabel("Write a message").fill("Tell me a story");
  await page.locator("[data-action=send]").click();
  const bubble = page.locator("[data-run-bubble]");
  await bubble.locator("[data-message=assistant]", { hasText: "Once upon a time" }).waitFor();
  assert.equal(await bubble.locator("[data-message=user]").innerText(), "Tell me a story");
  assert.equal(await page.locator("[data-page=chat]").getAttribute("data-state"), "working");
  await page.locator("[data-action=stop]").click();
  await page.locator("[data-page=chat][data-state=cancelled]").waitFor();
  assert.match(await bubble.locator("[data-end=cancelled]").innerText(), /It was stopped/);
  await page.locator("[data-action=send]").waitFor();
  assert.deepEqual(complaints, []);
  await close();
  await server.stop();
});

test("conversations are kept apart, and read again after a reload", async () => {
  const server = await serve(undefined, talker({ text: "Noted.", repeat: true }));
  const { page, close } = await open(server, "#/chat");
  const say = async (text: string): Promise<void> => {
    await page.getByLabel("Write a message").fill(text);
    await page.keyboard.press("Enter");
    await page.locator("[data-run-bubble][data-state=ok]", { hasText: text }).waitFor();
  };
  await say("The first word");
  await say("The second word");
  const first = await page.locator("[data-page=chat]").getAttribute("data-thread");
  await page.locator("[data-action=new-thread]").click();
  await page.locator(`[data-page=chat]:not([data-thread="${first}"])`).waitFor();
  assert.equal(await page.locator("[data-message]").count(), 0);
  await say("Something else");
  await page.locator("[data-thread-link]").nth(1).waitFor();
  await page.locator(`[data-thread-link="${first}"]`).click();
  await page.locator("[data-message=user]").nth(1).waitFor();
  const texts = (): Promise<string[]> => page.locator("[data-message] p, p[data-message]").allInnerTexts();
  const before = await texts();
  assert.deepEqual(before, ["The first word", "Noted.", "The second word", "Noted."]);
  await page.reload();
  await page.locator("[data-message=assistant]").nth(1).waitFor();
  assert.deepEqual(await texts(), before);
  await close();
  await server.stop();
});

test("messages sent while another one is answered are shown at once, in order, with their places, also after a reload", async () => {
  const long = `Third, at length: ${"word ".repeat(60)}end`;
  const server = await serve(undefined, talker({ chunks: ["Slowly "], hang: true }));
  const { page, complaints, close } = await open(server, "#/chat/talker");
  await page.locator("[data-page=chat][data-loaded=true]").waitFor();
  const say = async (text: string): Promise<void> => {
    await page.getByLabel("Write a message").fill(text);
    await page.keyboard.press("Enter");
  };
  await say("First");
  await page.locator("[data-message=assistant]", { hasText: "Slowly" }).waitFor();
  await say("Second");
  await say(long);
  await page.locator("[data-place='2']").waitFor();
  const said = (): Promise<string[]> => page.locator("[data-message=user]").allInnerTexts();
  const places = (): Promise<(string | undefined)[]> => page.locator("[data-place]").evaluateAll((all) => all.map((one) => (one as HTMLElement).dataset["place"]));
  const all = ["First", "Second", long];
  assert.deepEqual([await said(), await places()], [all, ["1", "2"]]);
  await page.reload();
  await page.locator("[data-place='2']").waitFor();
  await page.locator("[data-message=user]", { hasText: "word end" }).waitFor();
  assert.deepEqual([await said(), await places()], [all, ["1", "2"]]);
  assert.match(await page.locator("[data-message=assistant]").innerText(), /Slowly/);
  // One that waits can be taken back; the others keep their order.
  await page.locator("[data-place='2'] [data-action=cancel-queued]").click();
  await page.locator("[data-place='2']").waitFor({ state: "detached" });
  await page.locator("[data-action=stop]").click();
  await page.locator("[data-place]").waitFor({ state: "detached" });
  await page.locator("[data-run-bubble][data-state=running]", { hasText: "Second" }).waitFor();
  await page.locator("[data-action=stop]").click();
  await page.locator("[data-page=chat][data-open='0']").waitFor();
  assert.deepEqual((await said()).slice(0, 2), ["First", "Second"]);
  await page.reload();
  await page.locator("[data-message=user]", { hasText: "Second" }).waitFor();
  assert.deepEqual(await said(), ["First", "Second"], "what was taken back is not kept");
  assert.deepEqual(complaints, []);
  await close();
  await server.stop();
});

test("a reply is shown as Markdown, its code is copied, and nothing in it becomes markup", async () => {
  const reply = "# Plan\n\n1. **First**\n2. [page](https://example.org/) [bad](javascript:alert(1))\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```sh\necho <b>hi</b>\n```\n<img src=x onerror=\"document.title='hit'\">";
  const server = await serve(undefined, talker({ text: reply }));
  const { page, context, complaints, close } = await open(server, "#/chat/talker");
  await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: server.url });
  await page.locator("[data-page=chat][data-loaded=true]").waitFor();
  await page.getByLabel("Write a message").fill("Go");
  await page.keyboard.press("Enter");
  await page.locator("[data-run-bubble][data-state=ok]").waitFor();
  const shown = page.locator("[data-markdown]");
  const look = async (): Promise<void> => {
    assert.equal(await shown.getByRole("heading", { name: "Plan" }).count(), 1);
    assert.equal(await shown.locator("ol > li strong").innerText(), "First");
    assert.deepEqual(await shown.locator("a").evaluateAll((all) => all.map((one) => one.getAttribute("href"))), ["https://example.org/"]);
    assert.deepEqual(await shown.locator("td").allInnerTexts(), ["1", "2"]);
    assert.equal(await shown.locator("img, b").count(), 0);
    assert.deepEqual(await findings(page), []);
  };
  await look();
  await shown.locator("[data-action=copy-code]").click();
  await shown.getByText("Copied").waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "echo <b>hi</b>");
  await page.reload();
  await shown.waitFor();
  await look();
  assert.deepEqual(complaints, []);
  await close();
  await server.stop();
});

test("conversations are found by their words, and a message is edited and sent again", async () => {
  const server = await serve(undefined, talker({ text: "Noted.", repeat: true }));
  for (const [thread, text] of ["apples", "pears", "plums", "figs", "dates", "nuts"].map((name, at) => [`t${at}`, `About ${name}`] as const)) {
    const { run } = await server.ask<{ run: string }>(`api/chat/talker/threads/${thread}/messages`, { text });
    await untilStatus(server, run, "ok");
  }
  const { page, complaints, close } = await open(server, "#/chat/talker/t1");
  await page.locator("[data-thread-link]").nth(5).waitFor();
  await page.getByLabel("Search conversations").fill("FIGS");
  assert.deepEqual(await page.locator("[data-thread-link]").evaluateAll((all) => all.map((one) => (one as HTMLElement).dataset["threadLink"])), ["t3"]);
  await page.locator("[data-action=edit-message]").click();
  const field = page.getByLabel("Write a message");
  assert.equal(await field.inputValue(), "About pears");
  await field.fill(`${await field.inputValue()}, once more`);
  await page.keyboard.press("Enter");
  await page.locator("[data-run-bubble][data-state=ok]", { hasText: "About pears, once more" }).waitFor();
  assert.deepEqual(await page.locator("[data-message=user]").allInnerTexts(), ["About pears", "About pears, once more"]);
  assert.deepEqual([complaints, await findings(page)], [[], []]);
  await close();
  await server.stop();
});

test("Enter that ends a composition of an input method sends nothing", async () => {
  const server = await serve(undefined, talker({ text: "你好！", repeat: true }));
  const { page, context, close } = await open(server, "#/chat", { language: "zh" });
  await page.locator("[data-page=chat][data-loaded=true]").waitFor();
  const field = page.getByLabel("写一条消息");
  await field.focus();
  const keyboard = await context.newCDPSession(page);
  await keyboard.send("Input.imeSetComposition", { text: "nihao", selectionStart: 5, selectionEnd: 5 });
  await page.locator("[data-composing=true]").waitFor();
  const enter = { key: "Enter", code: "Enter", windowsVirtualKeyCode: 229 };
  await keyboard.send("Input.dispatchKeyEvent", { type: "rawKeyDown", ...enter });
  await keyboard.send("Input.insertText", { text: "你好" });
  await keyboard.send("Input.dispatchKeyEvent", { type: "keyUp", ...enter });
  await page.locator("[data-composing=false]").waitFor();
  assert.equal(await field.inputValue(), "你好");
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.type("b");
  assert.equal(await field.inputValue(), "你好\nb");
  assert.equal((await server.ask<unknown[]>("api/runs")).length, 0);
  await page.keyboard.press("Enter");
  await page.locator("[data-run-bubble][data-state=ok]").waitFor();
  assert.equal(await page.locator("[data-message=user]").innerText(), "你好\nb");
  assert.equal(await field.inputValue(), "");
  await close();
  await server.stop();
});

test("a call that needs a word is answered in the conversation", async () => {
  const server = await serve(undefined, BOSS);
  const { page, close } = await open(server, "#/chat/boss");
  await page.getByLabel("Write a message").fill("Count");
  await page.keyboard.press("Enter");
  const call = page.locator("[data-call=c2][data-call-state=asked]");
  await call.waitFor();
  assert.equal(await page.locator("[data-action=send]").isDisabled(), true);
  await call.locator("[data-action=approve]").click();
  await page.locator("[data-page=chat][data-state=ok]").waitFor();
  assert.match(await page.locator("[data-answer]").innerText(), /The clerk counted to two/);
  await page.locator("[data-run-bubble] a", { hasText: "How it came to this" }).click();
  await page.locator("[data-view=timeline] [data-timeline][data-state=ok]").waitFor();
  await close();
  await server.stop();
});
