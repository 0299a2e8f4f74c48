// What is saved, what is kept, and what happens when two save.
import assert from "node:assert/strict";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { COUNT, openCanvas, unsaved, type Bench } from "./canvas.ts";
import { closeBrowser, open, serve, type Server } from "./harness.ts";

let server: Server;
before(async () => {
  server = await serve(undefined, { "weft.toml": "", "workflows/kept.json": COUNT, "workflows/shared.json": COUNT, "workflows/draft.json": COUNT, "workflows/deep/gone.json": COUNT });
});
after(async () => {
  await closeBrowser();
  await server.stop();
});

async function retitle(bench: Bench, title: string): Promise<void> {
  const { page } = bench;
  await bench.board.focus();
  await page.keyboard.press("Escape");
  await page.locator('[data-details="workflow"] #workflow-name').fill(title);
  await unsaved(page, 1);
}

test("a save changes what was changed, and no other byte of meaning", async () => {
  const bench = await openCanvas(server, "kept");
  await retitle(bench, "Counts up");
  await bench.page.locator('[data-action="save"]').click();
  await unsaved(bench.page, 0);
  const squeezed = (text: string) => text.replace(/\s+/g, "");
  const wanted = squeezed(COUNT).replace(`"name":"count"`, `"name":"Countsup"`);
  assert.equal(squeezed(bench.file("kept")), wanted);
  assert.deepEqual(bench.complaints, []);
  await bench.close();
});

test("two who save: both versions are shown, mine can be kept, theirs can be taken, undo brings mine back", async () => {
  const bench = await openCanvas(server, "shared");
  const { page } = bench;
  const other = (name: string) => {
    writeFileSync(join(server.folder, "workflows/shared.json"), COUNT.replace(`"name": "count"`, `"name": "${name}"`));
  };
  await retitle(bench, "mine");
  other("theirs");
  await page.keyboard.press("Control+s");
  const dialog = page.locator('[data-dialog="conflict"]');
  await dialog.waitFor();
  assert.match((await dialog.locator('[data-side="mine"]').textContent()) ?? "", /"mine"/);
  assert.match((await dialog.locator('[data-side="theirs"]').textContent()) ?? "", /"theirs"/);
  await dialog.locator('[data-action="mine"]').click();
  await unsaved(page, 0);
  assert.match(bench.file("shared"), /"name": "mine"/);

  await retitle(bench, "mine again");
  other("theirs again");
  await page.keyboard.press("Control+s");
  await dialog.locator('[data-action="theirs"]').click();
  await unsaved(page, 0);
  assert.equal(await page.locator("#workflow-name").inputValue(), "theirs again");
  await page.locator('[data-action="undo"]').click();
  assert.equal(await page.locator("#workflow-name").inputValue(), "mine again");
  assert.match(bench.file("shared"), /"name": "theirs again"/);
  await bench.close();
});

test("another's save is shown at once, and what is unsaved here stays", async () => {
  const path = join(server.folder, "workflows/watched.json");
  const write = (name: string) => writeFileSync(path, COUNT.replace(`"name": "count"`, `"name": "${name}"`));
  write("first");
  const bench = await openCanvas(server, "watched");
  const { page } = bench;
  await bench.board.focus();
  await page.keyboard.press("Escape");
  const name = page.locator('[data-details="workflow"] #workflow-name');
  write("second");
  await page.locator('[data-notice="info"]').waitFor();
  assert.equal(await name.inputValue(), "second");
  await unsaved(page, 0);
  await retitle(bench, "mine");
  write("third");
  await page.locator('[data-banner="outside"][data-outside="changed"]').waitFor();
  assert.equal(await name.inputValue(), "mine");
  await page.locator('[data-action="compare"]').click();
  const dialog = page.locator('[data-dialog="conflict"]');
  await dialog.locator('[data-action="theirs"]').click();
  await unsaved(page, 0);
  assert.equal(await name.inputValue(), "third");
  await bench.close();
});

test("a file that is broken by hand is shown as broken with its line, never as removed", async () => {
  const path = join(server.folder, "workflows/torn.json");
  writeFileSync(path, COUNT);
  const bench = await openCanvas(server, "torn");
  const { page } = bench;
  writeFileSync(path, '{ "name": "x",\n "nodes": [ }');
  const banner = page.locator('[data-banner="outside"][data-outside="broken"]');
  await banner.waitFor();
  assert.match((await banner.textContent()) ?? "", /broken: line 2, column 13/);
  await retitle(bench, "mine");
  await page.keyboard.press("Control+s");
  const dialog = page.locator('[data-dialog="conflict"][data-broken]');
  await dialog.waitFor();
  assert.match((await dialog.textContent()) ?? "", /is broken \(line 2, column 13/);
  await dialog.locator('[data-action="mine"]').click();
  await unsaved(page, 0);
  assert.match(readFileSync(path, "utf8"), /"mine"/);
  await bench.close();
  writeFileSync(path, '{ "name": "x",\n "nodes": [ }');
  const again = await open(server, "#/canvas/torn");
  await again.page.getByRole("alert").waitFor();
  assert.match(await again.page.getByRole("alert").innerText(), /line 2, column 13/);
  await again.close();
});

test("a file that is gone when it is saved can be written anew", async () => {
  const { page, close } = await open(server, "#/canvas");
  await page.locator('[data-workflow="deep/gone"]').click();
  await page.locator('[data-canvas="deep/gone"] [data-board="ready"]').waitFor();
  await page.locator("#workflow-name").fill("still here");
  await unsaved(page, 1);
  const path = join(server.folder, "workflows/deep/gone.json");
  rmSync(path);
  await page.keyboard.press("Control+s");
  const dialog = page.locator('[data-dialog="conflict"]');
  await dialog.waitFor();
  assert.equal(await dialog.locator('[data-action="theirs"]').count(), 0);
  // Later is an answer too: nothing is lost by it.
  await dialog.locator('[data-action="later"]').click();
  await unsaved(page, 1);
  await page.keyboard.press("Control+s");
  await dialog.locator('[data-action="mine"]').click();
  await unsaved(page, 0);
  assert.match(readFileSync(path, "utf8"), /"still here"/);
  await close();
});

test("a draft outlives a reload, and leaving asks first", async () => {
  const bench = await openCanvas(server, "draft");
  const { page } = bench;
  await retitle(bench, "half done");
  const asked: string[] = [];
  page.on("dialog", (dialog) => {
    asked.push(dialog.type());
    void (asked.length === 1 ? dialog.dismiss() : dialog.accept());
  });
  await page.locator('[data-nav="runs"]').click();
  await page.locator('[data-view="canvas"]').waitFor();
  assert.deepEqual(asked, ["confirm"]);
  await page.reload();
  await page.locator('[data-banner="draft"]').waitFor();
  assert.equal(await page.locator("#workflow-name").inputValue(), "half done");
  assert.match(bench.file("draft"), /"name": "count"/);
  await page.locator('[data-action="discard"]').click();
  await unsaved(page, 0);
  assert.equal(await page.locator("#workflow-name").inputValue(), "count");
  await bench.close();
});
