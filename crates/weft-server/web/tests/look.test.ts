import assert from "node:assert/strict";
import { after, test } from "node:test";
import { gzipSync } from "node:zlib";
import { type Page } from "playwright-core";
import { findings } from "./axe.ts";
import { type Files, closeBrowser, open, runUntil, serve } from "./harness.ts";
import { BOSS, forms } from "./projects.ts";

after(closeBrowser);

/** Most that the first view may weigh, compressed. */
const LIGHT = 150 * 1024;

const EVERYTHING: Files = { ...forms(9), ...BOSS };

/** Whether something is wider than the window. */
const isTooWide = (page: Page): Promise<string[]> =>
  page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    const wide = [...document.querySelectorAll("main *")].filter((one) => {
      const { right, width: own } = one.getBoundingClientRect();
      return own > 0 && right > width + 1 && !one.closest("[data-scrolls], pre, .visually-hidden");
    });
    return wide.map((one) => one.outerHTML.slice(0, 120));
  });

test("the first view weighs at most 150 KB, asks only this server, and breaks none of its rules", async () => {
  const server = await serve(undefined, BOSS);
  const { page, context, complaints, foreign, close } = await open(server);
  const network = await context.newCDPSession(page);
  await network.send("Network.enable");
  await network.send("Network.setCacheDisabled", { cacheDisabled: true });
  const loaded = new Map<string, number>();
  page.on("response", (response) => {
    const path = new URL(response.url()).pathname;
    if (/^\/(api|ws)\b/.test(path)) return;
    void response.body().then((body) => loaded.set(path, gzipSync(body).length), () => undefined);
  });
  await page.evaluate(() => (document.documentElement.dataset["old"] = ""));
  await page.reload();
  await page.locator("html:not([data-old]) [data-page=timeline][data-loaded=true]").waitFor();
  await page.waitForLoadState("networkidle");
  const weight = [...loaded.values()].reduce((sum, bytes) => sum + bytes, 0);
  console.log(`first view: ${weight} bytes compressed`, Object.fromEntries(loaded));
  assert(loaded.has("/assets/index.js") && weight <= LIGHT, String(weight));
  assert.equal(await page.locator("script:not([src]), style, [onclick]").count(), 0);
  for (const name of ["chat", "canvas", "tools", "runs"]) {
    await page.locator(`[data-nav=${name}]`).click();
    await page.locator(`[data-view=${name}]`).waitFor();
  }
  await page.waitForLoadState("networkidle");
  assert.deepEqual([complaints, foreign], [[], []]);
  await close();
  await server.stop();
});

test("language and colours are the browser's at first, then those that were chosen", async () => {
  const server = await serve(undefined, BOSS);
  const { page, close } = await open(server, "#/", { language: "zh", theme: "dark" });
  await page.locator("html[lang='zh-CN'][data-theme=dark]").waitFor();
  assert.equal(await page.locator("[data-nav=timeline]").innerText(), "时间线");
  assert.match(await page.title(), /时间线/);
  await page.locator("[data-action=language]").click();
  await page.locator("html[lang=en]").waitFor();
  assert.equal(await page.locator("[data-nav=timeline]").innerText(), "Timeline");
  await page.locator("[data-action=theme]").click();
  await page.locator("html[data-theme=light] [data-theme-choice=light]").waitFor();
  await page.reload();
  await page.locator("html[lang=en][data-theme=light] [data-view]").waitFor();
  await page.locator("[data-action=theme]").click();
  await page.locator("html[data-theme=dark] [data-theme-choice=dark]").waitFor();
  await page.locator("[data-action=theme]").click();
  await page.emulateMedia({ colorScheme: "light" });
  await page.locator("html[data-theme=light] [data-theme-choice=auto]").waitFor();
  await close();
  await server.stop();
});

for (const theme of ["light", "dark"] as const) {
  test(`everybody can use each page, in the ${theme} theme`, async () => {
    const server = await serve(undefined, EVERYTHING);
    const done = await runUntil(server, { agent: "boss", message: "Count", approve: "all" }, "ok");
    const waits = await runUntil(server, { agent: "boss", message: "Count" }, "waiting");
    const failed = await runUntil(server, { workflow: "count", inputs: { n: "x" } }, "error").catch(() => done);
    const { page, close } = await open(server, "#/", { theme });
    const pages: [string, string][] = [
      [`#/timeline/${done}`, "[data-timeline][data-state=ok]"],
      [`#/timeline/${waits}`, "[data-ask-state=open]"],
      [`#/timeline/${failed}`, "[data-timeline]"],
      [`#/chat/boss/new`, "[data-page=chat][data-loaded=true]"],
      ["#/runs", "[data-runs]"],
      [`#/runs/${done}`, "[data-replay][data-loaded=true] [data-timeline]"],
      ["#/tools", "[data-page=tools][data-loaded=true]"],
      ["#/tools/draw", "[data-try]"],
    ];
    for (const [hash, selector] of pages) {
      await page.evaluate((text) => (location.hash = text), hash);
      await page.locator(selector).first().waitFor();
      assert.deepEqual(await findings(page), [], hash);
    }
    await page.locator("[data-switch=developer]").first().waitFor({ state: "detached" });
    await page.locator("[data-action=add-to-agent]").click();
    await page.locator("[data-dialog] [data-diff-line]").first().waitFor();
    assert.deepEqual(await findings(page), [], "a dialog");
    await close();
    await server.stop();
  });
}

test("timeline and chat fit a phone", async () => {
  const server = await serve(undefined, BOSS);
  const waits = await runUntil(server, { agent: "boss", message: "Count" }, "waiting");
  const { page, close } = await open(server, `#/timeline/${waits}`, { phone: true });
  await page.locator("[data-ask-state=open]").waitFor();
  assert.deepEqual(await isTooWide(page), []);
  await page.locator("[data-action=approve]").click();
  await page.locator("[data-timeline][data-state=ok]").waitFor();
  assert.deepEqual(await isTooWide(page), []);
  await page.locator("[data-nav=chat]").click();
  await page.locator("[data-page=chat][data-loaded=true]").waitFor();
  await page.getByLabel("Write a message").fill("Count");
  await page.locator("[data-action=send]").click();
  await page.locator("[data-call-state=asked] [data-action=approve]").click();
  await page.locator("[data-page=chat][data-state=ok]").waitFor();
  assert.deepEqual(await isTooWide(page), []);
  const composer = await page.getByLabel("Write a message").boundingBox();
  assert(composer && composer.y + composer.height < 844, "what is written stays in sight");
  assert.deepEqual(await findings(page), []);
  await close();
  await server.stop();
});

test("the keyboard alone asks, approves and looks around", async () => {
  const server = await serve(undefined, BOSS);
  const { page, close } = await open(server);
  await page.locator("[data-page=timeline][data-loaded=true]").waitFor();
  const tabTo = async (selector: string): Promise<void> => {
    for (let presses = 0; presses < 40; presses += 1) {
      await page.keyboard.press("Tab");
      if (await page.evaluate((wanted) => document.activeElement?.matches(wanted) ?? false, selector)) return;
    }
    assert.fail(`the keyboard does not reach ${selector}`);
  };
  await tabTo("#message");
  await page.keyboard.type("Count");
  await page.keyboard.press("Enter");
  await page.locator("[data-action=approve]").waitFor();
  await tabTo("[data-action=approve]");
  await page.keyboard.press("Enter");
  await page.locator("[data-timeline][data-state=ok]").waitFor();
  await tabTo("[data-nav=tools]");
  await page.keyboard.press("Enter");
  await page.locator("[data-page=tools][data-loaded=true]").waitFor();
  await close();
  await server.stop();
});
