// A loop of three nodes is built and run by keyboard alone.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { choose, checked, tabTo, unsaved } from "./canvas.ts";
import { closeBrowser, open, serve, type Server } from "./harness.ts";

let server: Server;
before(async () => {
  server = await serve(undefined, { "weft.toml": "", "workflows/.keep": "" });
});
after(async () => {
  await closeBrowser();
  await server.stop();
});

test("a loop of three nodes is built and run without a mouse", async () => {
  const { page, complaints, close } = await open(server, "#/canvas");
  await page.locator('[data-list="ready"]').waitFor();
  await tabTo(page, "#new-workflow");
  await page.keyboard.type("tally");
  await page.keyboard.press("Enter");
  await page.locator('[data-canvas="tally"] [data-board="ready"]').waitFor();
  await tabTo(page, "[data-board]");

  // The loop, with a value that it carries.
  await choose(page, "n", "add", "loop");
  await page.locator('[data-board][data-focus="loop_zone"]').waitFor();
  await page.keyboard.press("Enter");
  await tabTo(page, '[data-action="add-state"]');
  await page.keyboard.press("Enter");
  await page.locator("#state-name-0").waitFor();
  await tabTo(page, "#state-name-0");
  await page.keyboard.press("Control+A");
  await page.keyboard.type("n");
  await page.keyboard.press("Tab");
  await page.keyboard.type("whole");
  await page.keyboard.press("Escape");

  // The step inside of it: it stands in the loop because the loop is chosen.
  await page.locator("[data-board]:focus").waitFor();
  await choose(page, "n", "add", "expression");
  await page.locator('[data-board][data-focus="expression"]').waitFor();
  await page.keyboard.press("Enter");
  await tabTo(page, "#config-cel");
  await page.keyboard.type("n + 10");
  await page.keyboard.press("Escape");
  await page.locator("[data-board]:focus").waitFor();

  // From the rail into the step, from the step into the other rail.
  await choose(page, "c", "connect-from", "n");
  await choose(page, "", "connect-to", "this pass · n");
  await page.locator('[data-board][data-wires="1"]').waitFor();
  await choose(page, "c", "connect-from", "value");
  await choose(page, "", "connect-to", "next pass · n");
  await page.locator('[data-board][data-wires="2"]').waitFor();

  // What comes out.
  await page.keyboard.press("Escape");
  await choose(page, "n", "add", "outputs");
  await page.locator('[data-board][data-focus="group_output"]').waitFor();
  await choose(page, "c", "connect-from", "");
  await choose(page, "", "connect-to", "loop · n");
  await page.locator('[data-board][data-wires="3"]').waitFor();
  await checked(page, "ok");

  await page.keyboard.press("r");
  await page.locator('[data-drawer="run"]').waitFor();
  await tabTo(page, '[data-action="start"]');
  await page.keyboard.press("Enter");
  await page.locator('[data-run-status="ok"]').waitFor();
  await unsaved(page, 0);
  assert.equal(await page.locator('[data-output="n"] span.value').textContent(), "30");
  await page.locator('[data-node="loop_zone"] [data-passes="3"]').waitFor();
  const guide = readFileSync(new URL("../../../../docs/guide/canvas.md", import.meta.url), "utf8");
  const shown = /```json workflows\/tally\.json\n([^`]+)```/.exec(guide)?.[1] ?? "";
  const saved = readFileSync(join(server.folder, "workflows/tally.json"), "utf8");
  assert.deepEqual(JSON.parse(saved), JSON.parse(shown), "the guide shows what comes out");
  assert.deepEqual(complaints, []);
  await close();
});

test("arrow keys walk from box to box, Alt moves, and the list of keys says so", async () => {
  const { page, close } = await open(server, "#/canvas/tally");
  await page.locator('[data-canvas="tally"] [data-board="ready"]').waitFor();
  await tabTo(page, "[data-board]");
  const focus = () => page.locator("[data-board]").getAttribute("data-focus");
  const seen = new Set<string | null>([await focus()]);
  for (const key of ["ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown"]) {
    await page.keyboard.press(key);
    seen.add(await focus());
  }
  assert(seen.has("expression") && seen.size >= 4, [...seen].join());
  assert.equal(await page.locator("[data-board]").getAttribute("aria-activedescendant"), `box-${await focus()}`);
  await page.keyboard.press("?");
  await page.locator('[data-dialog="keys"]').waitFor();
  await page.keyboard.press("Escape");
  await page.locator('[data-dialog="keys"]').waitFor({ state: "detached" });
  await page.locator("[data-board]:focus").waitFor();
  await close();
});
