import assert from "node:assert/strict";
import { after, test } from "node:test";
import { type Seen, closeBrowser, open, runUntil, serve, untilStatus } from "./harness.ts";
import { BOSS, SLOW } from "./projects.ts";
import { seenOf } from "./seen.ts";

after(closeBrowser);

/** Cuts the page's socket so many times, each time behind some frames. */
async function cutting({ page }: Seen, times: number, frames: number): Promise<() => number> {
  let cuts = 0;
  await page.routeWebSocket(/\/ws$/, (socket) => {
    const server = socket.connectToServer();
    let passed = 0;
    server.onMessage((frame) => {
      socket.send(frame);
      passed += 1;
      if (passed !== frames || cuts === times) return;
      cuts += 1;
      void socket.close();
      void server.close();
    });
  });
  return () => cuts;
}

test("a socket that is cut five times in a run ends in the view of an uncut one", async () => {
  const server = await serve(undefined, BOSS);
  const cut = await open(server);
  const cuts = await cutting(cut, 5, 9);
  await cut.page.reload();
  await cut.page.getByLabel("What should the assistant do?").fill("Count");
  await cut.page.keyboard.press("Enter");
  await cut.page.locator("[data-action=approve]").click();
  const end = cut.page.locator("[data-timeline][data-state=ok]");
  await end.waitFor();
  assert.equal(cuts(), 5);
  const run = await end.getAttribute("data-run");
  const uncut = await open(server, `#/timeline/${run}`);
  const whole = uncut.page.locator("[data-timeline][data-state=ok]");
  await whole.waitFor();
  assert.deepEqual(await seenOf(end), await seenOf(whole));
  assert.equal(await end.locator(".missed").count(), 0);
  await cut.close();
  await uncut.close();
  await server.stop();
});

test("a server that went away is told, and what to do about it", async () => {
  const server = await serve(undefined, BOSS);
  const { page, close } = await open(server, "#/runs");
  await page.locator("[data-page=runs][data-loaded=true]").waitFor();
  await server.stop();
  await page.locator("[data-nav=tools]").click();
  const alert = page.getByRole("alert");
  await alert.waitFor();
  assert.match(await alert.innerText(), /The server cannot be reached\.\s+Is weft serve still running\?/);
  await alert.getByRole("button", { name: "Try again" }).waitFor();
  await close();
});

test("a run whose server died is interrupted, not running, and resumes where it is looked at", async () => {
  const server = await serve(undefined, { ...BOSS, "workflows/slow.json": SLOW });
  const run = await runUntil(server, { workflow: "slow", inputs: {} }, "running");
  const { page, close } = await open(server, `#/timeline/${run}`);
  await page.locator(`[data-run='${run}'][data-run-status=running]`).waitFor();
  await server.restart();
  await page.locator(`[data-run='${run}'][data-run-status=interrupted]`).waitFor();
  assert.equal(await page.locator("[data-action=stop]").count(), 0);
  await page.locator("[data-action=resume]").click();
  await page.locator(`[data-run='${run}'][data-run-status=running] [data-action=stop]`).waitFor();
  await untilStatus(server, run, "running");
  await close();
  await server.stop();
});

test("a lost connection is shown within three seconds, on a page that follows no run", async () => {
  const server = await serve(undefined, BOSS);
  const { page, close } = await open(server, "#/tools");
  await page.locator("[data-view=tools][data-connection=open]").waitFor();
  await server.kill();
  await page.locator("[data-offline]").waitFor({ timeout: 3000 });
  await server.restart();
  await page.locator("[data-view=tools][data-connection=open]").waitFor();
  assert.equal(await page.locator("[data-offline]").count(), 0);
  await close();
  await server.stop();
});

test("a second tab needs no token; one that the server no longer takes is asked for, and every tab has the new one", async () => {
  const server = await serve(undefined, BOSS);
  const { page, context, close } = await open(server, "#/runs");
  const second = await context.newPage();
  await second.goto(`${server.url}/#/tools`);
  await second.locator("[data-page=tools]").waitFor();
  const token = "another-token-0123456789";
  await server.restart(token);
  await page.locator("[data-state=no-token] .refused").waitFor();
  await page.getByLabel("Address or token").fill(token);
  await page.keyboard.press("Enter");
  await page.locator("[data-view=runs][data-connection=open]").waitFor();
  await second.locator("[data-view=tools][data-connection=open]").waitFor();
  await close();
  await server.stop();
});

test("without a token the page says where one is, and takes it", async () => {
  const server = await serve(undefined, BOSS);
  const { page, close } = await open(server);
  await page.evaluate(() => {
    sessionStorage.clear();
    localStorage.clear();
  });
  await page.goto(`${server.url}/`);
  await page.reload();
  await page.locator("[data-state=no-token]").waitFor();
  await page.getByLabel("Address or token").fill("wrong-wrong-wrong-wrong");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").waitFor();
  await page.getByLabel("Address or token").fill(`${server.url}/#token=${server.token}`);
  await page.keyboard.press("Enter");
  await page.locator("[data-page=timeline][data-loaded=true]").waitFor();
  await close();
  await server.stop();
});
