// A customer in an embedded chat, an agent, a person in the inbox, and a server that dies in between.
import assert from "node:assert/strict";
import { createServer, type Server as HttpServer } from "node:http";
import { type AddressInfo } from "node:net";
import { after, test } from "node:test";
import { type Frame } from "playwright-core";
import { findings } from "./axe.ts";
import { type Files, closeBrowser, open, script, serve, untilStatus } from "./harness.ts";

after(closeBrowser);

/** A site of somebody else that embeds the chat. */
async function site(): Promise<{ origin: string; embed: (url: string) => void; end: () => void }> {
  let address = "";
  const server: HttpServer = createServer((_, response) => {
    response.setHeader("content-type", "text/html");
    response.end(`<!doctype html><title>Shop</title><h1>Shop</h1><script src="${address}/widget/shop/embed.js" async></script>`);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return { origin: `http://127.0.0.1:${port}`, embed: (url) => (address = url), end: () => void server.close() };
}

const desk = (origin: string): Files => ({
  "weft.toml": `script = "script.jsonl"\n[widgets.shop]\nagent = "desk"\norigins = ["${origin}"]\ntitle = "Ask us"\ngreeting = "How can we help?"\ntheme = "light"\n`,
  "agents/desk.json": { id: "desk", name: "Desk" },
  "flows.json": {
    flows: [],
    system_actions: [{ action_id: "human", handler: "handoff", trigger_patterns: ["a person"] }],
  },
  "script.jsonl": script({ text: "I am the agent." }, { text: "I am back." }),
});

const texts = (frame: Frame): Promise<string[]> => frame.locator(".message").allInnerTexts();

test("a customer is handed over, answered by a person, given back, through the death of the server", async () => {
  const shop = await site();
  const server = await serve(undefined, desk(shop.origin));
  shop.embed(server.url);
  const staff = await open(server, "#/inbox");
  await staff.page.locator("[data-page=inbox][data-loaded=true]").waitFor();

  const customer = await staff.context.newPage();
  await customer.goto(shop.origin);
  await customer.getByRole("button", { name: "Chat" }).click();
  const frame = await (await customer.locator("#weft-widget").elementHandle())?.contentFrame();
  assert.ok(frame);
  const write = async (text: string) => {
    await frame.locator(".box").fill(text);
    await frame.locator(".box").press("Enter");
  };
  const said = (text: string) => frame.locator(".message", { hasText: text }).waitFor();
  await frame.locator("[data-chat=ready]").waitFor();
  assert.deepEqual(await texts(frame), ["How can we help?"]);
  await write("Hello");
  await said("I am the agent.");

  await write("I want a person");
  await frame.locator("[data-with=person]").waitFor();
  await staff.page.locator("[data-page=inbox][data-waiting='1']").waitFor();
  await staff.page.locator("[data-session-link]").click();
  const session = staff.page.locator("[data-session][data-with=person]");
  await session.getByText("I want a person").waitFor();
  assert.deepEqual(await findings(staff.page), []);
  await session.locator("[data-action=take]").click();
  await session.locator("#person").fill("Ann");
  await session.locator("#answer").fill("Ann here. What is it?");
  await session.locator("[data-action=say]").click();
  await said("Ann here. What is it?");

  // The server dies; both sides continue where they were.
  await server.restart();
  await write("It is broken");
  await session.getByText("It is broken").waitFor();
  await session.locator("#note").fill("seems angry");
  await session.locator("[data-action=note]").click();
  await session.getByText("seems angry").waitFor();
  await session.locator("[data-action=give-back]").click();
  await frame.locator("[data-with=agent]").waitFor();
  await write("And now?");
  await said("I am back.");
  assert.ok(!(await texts(frame)).some((text) => text.includes("seems angry")), "a note is not the customer's");

  await staff.page.locator("[data-session] [data-action=close]").click();
  await frame.locator("[data-with=closed]").waitFor();
  await staff.page.locator("[data-session] [data-action=reopen]").click();
  await frame.locator("[data-with=agent]").waitFor();
  const all = (await texts(frame)).map((text) => text.replace(/^Ann\n/, ""));
  for (const text of ["Hello", "I want a person", "Ann here. What is it?", "It is broken", "And now?"]) {
    assert.equal(all.filter((one) => one === text).length, 1, `${text} in ${all.join(" | ")}`);
  }
  await customer.close();
  await staff.close();
  await server.stop();
  shop.end();
});

test("the agent suggests a reply on demand, which the person changes and sends; nothing is sent by itself", async () => {
  const shop = await site();
  const server = await serve(undefined, { ...desk(shop.origin), "script.jsonl": script({ text: "Your parcel comes today.", repeat: true }) });
  const say = async (text: string): Promise<void> => {
    const { run } = await server.ask<{ run: string }>("api/chat/desk/threads/t/messages", { text });
    await untilStatus(server, run, "ok");
  };
  await say("I want a person");
  await say("Where is my parcel?");
  const { page, complaints, close } = await open(server, "#/inbox");
  await page.locator("[data-session-link]").click();
  const session = page.locator("[data-session][data-with=person]");
  await session.locator("[data-action=take]").click();
  await session.locator("[data-action=suggest]").click();
  const field = session.locator("#answer");
  await page.waitForFunction(() => (document.querySelector<HTMLTextAreaElement>("#answer")?.value ?? "") !== "");
  assert.equal(await field.inputValue(), "Your parcel comes today.");
  const texts = async (): Promise<string[]> => (await server.ask<{ text: string }[]>("api/chat/desk/threads/t/messages")).map((one) => one.text);
  assert.ok(!(await texts()).some((text) => text.includes("parcel comes")), "it is not sent");
  // Words of the person's own are not replaced.
  await field.fill("It comes tomorrow.");
  await session.locator("[data-action=suggest]").click();
  await session.locator("[data-suggestion=held]").waitFor();
  assert.equal(await field.inputValue(), "It comes tomorrow.");
  assert.deepEqual(await findings(page), []);
  await session.locator("[data-action=use-suggestion]").click();
  await field.fill(`${await field.inputValue()} Surely.`);
  await session.locator("[data-action=say]").click();
  await session.getByText("Your parcel comes today. Surely.").waitFor();
  assert.equal((await texts()).at(-1), "Your parcel comes today. Surely.");
  assert.deepEqual(complaints, []);
  await close();
  await server.stop();
  shop.end();
});
