import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { type Server as HttpServer, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { after, test } from "node:test";
import { closeBrowser, open, serve } from "./harness.ts";
import { BOSS, forms } from "./projects.ts";

after(closeBrowser);

/** Says back what it was sent. */
async function echo(): Promise<{ port: number; end: () => void }> {
  const server: HttpServer = createServer((request, response) => {
    response.setHeader("content-type", "application/json");
    request.pipe(response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { port: (server.address() as AddressInfo).port, end: () => server.close() };
}

test("tools are listed by their origin, found by words, and prompt as a model reads them", async () => {
  const server = await serve(undefined, BOSS);
  const { page, complaints, close } = await open(server, "#/tools");
  await page.locator("[data-page=tools][data-loaded=true]").waitFor();
  await page.locator("[data-namespace=workflow] [data-tool-link='workflow:count']").waitFor();
  await page.locator("[data-namespace=system] [data-tool-link='system:get_current_time']").waitFor();
  await page.getByLabel("Find a tool").fill("counts to a number");
  await page.locator("[data-tool-link='system:get_current_time']").waitFor({ state: "detached" });
  await page.locator("[data-tool-link='workflow:count']").click();
  const detail = page.locator("[data-tool-detail='workflow:count']");
  await detail.waitFor();
  assert.match(await detail.locator("[data-schema=n]").innerText(), /n\s+integer[\s\S]*how far/);
  const prompt = await detail.locator("[data-prompt]").innerText();
  assert.match(prompt, /<workflow__count>[\s\S]*Counts to a number/);
  assert.equal(await detail.locator("[data-used-agent=boss]").count(), 1);
  assert.deepEqual(complaints, []);
  await close();
  await server.stop();
});

test("a field keeps every key, whatever it grows to", async () => {
  const { port, end } = await echo();
  const server = await serve(undefined, forms(port));
  const { page, complaints, close } = await open(server, "#/tools/draw");
  const field = page.locator("[data-try] [data-field='/title']").getByRole("textbox");
  await field.click();
  const typed = "0123456789".repeat(12);
  await page.keyboard.type(typed);
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.type("and on");
  assert.equal(await field.inputValue(), `${typed}\nand on`);
  assert.deepEqual(complaints, []);
  await close();
  await server.stop();
  await end();
});

test("a form copes with unions, references, null, lists and what lies within; raw JSON goes both ways", async () => {
  const { port, end } = await echo();
  const server = await serve(undefined, forms(port));
  const { page, complaints, close } = await open(server, "#/tools/draw");
  const form = page.locator("[data-try]");
  await form.waitFor();
  const field = (path: string) => form.locator(`[data-field='${path}']`);
  await field("/title").getByRole("textbox").fill("Sun");
  await page.locator("[data-checked=problems]").waitFor();
  await form.locator("[data-null='/note']").check();
  assert.equal(await field("/count").getByRole("textbox").getAttribute("placeholder"), "default: 2");
  await field("/count").getByRole("textbox").fill("2.5");
  await page.locator("[data-schema-form][data-valid=false]").waitFor();
  assert.equal(await form.locator("[data-action=call]").isDisabled(), true);
  await field("/count").getByRole("textbox").fill("3");
  await field("/colour").getByRole("combobox").selectOption("green");
  await field("/tags").locator("[data-action=add]").click();
  await field("/tags").locator("[data-action=add-item]").click();
  await field("/tags").getByRole("textbox").fill("sky");
  await form.locator("[data-variant='/shape']").selectOption("Box");
  await field("/shape/width").getByRole("textbox").fill("4.5");
  await field("/place").locator("[data-action=add]").click();
  await field("/place/page").getByRole("textbox").fill("1");
  await field("/place/corner/x").getByRole("textbox").fill("0");
  await field("/place/corner/y").getByRole("textbox").fill("-1");
  await page.locator("[data-checked=ok]").waitFor();

  await form.locator("[data-action=as-json]").click();
  const raw = form.locator("[data-json-field=arguments]");
  const value = {
    ...{ title: "Sun", count: 3, note: null, colour: "green", tags: ["sky"] },
    ...{ shape: { kind: "box", width: 4.5 }, place: { page: 1, corner: { x: 0, y: -1 } } },
  };
  assert.deepEqual(JSON.parse(await raw.inputValue()), value);
  await raw.fill("{");
  await page.locator("[data-schema-form=json][data-valid=false]").waitFor();
  const changed = { ...value, title: "Moon", shape: { kind: "circle", radius: 2 } };
  await raw.fill(JSON.stringify(changed));
  await form.locator("[data-action=as-form]").click();
  assert.equal(await field("/title").getByRole("textbox").inputValue(), "Moon");
  assert.equal(await field("/shape/radius").getByRole("textbox").inputValue(), "2");

  await page.locator("[data-checked=ok]").waitFor();
  await page.getByText("As a model would write it").click();
  const written = page.locator("[data-action-text]", { hasText: "Moon" });
  assert.match(await written.innerText(), /<ACTION>[\s\S]*draw[\s\S]*<title>Moon<\/title>/);
  await form.locator("[data-action=call]").click();
  const result = page.locator("[data-call-result=ok]");
  await result.waitFor();
  assert.match(await result.innerText(), /Moon[\s\S]*circle/);
  assert.deepEqual(complaints, []);
  await close();
  await server.stop();
  end();
});

test("what does not fit is prompt at the form, and a failed call says why", async () => {
  const { port, end } = await echo();
  end();
  const server = await serve(undefined, forms(port));
  const { page, close } = await open(server, "#/tools/draw");
  const form = page.locator("[data-try]");
  await form.locator("[data-action=as-json]").click();
  await form.locator("[data-json-field=arguments]").fill('{"titel": "Sun", "note": null, "shape": {"kind": "circle", "radius": 1}}');
  await page.locator("[data-checked=problems]").waitFor();
  assert.match(await form.locator("[data-problems]").innerText(), /titel[\s\S]*did you mean 'title'/);
  await form.locator("[data-json-field=arguments]").fill('{"title": "Sun", "note": null, "shape": {"kind": "circle", "radius": 1}}');
  await page.locator("[data-checked=ok]").waitFor();
  await form.locator("[data-action=call]").click();
  await page.locator("[data-call-result]:not([data-call-result=ok])").waitFor();
  await close();
  await server.stop();
});

test("a tool is given to an assistant: the difference first, then the file", async () => {
  const server = await serve("examples/desk", {
    "workflows/count.json": BOSS["workflows/count.json"] as object,
  });
  const profile = join(server.folder, "agents/desk/agent_profile.json");
  const before = readFileSync(profile, "utf8");
  const { page, close } = await open(server, "#/tools/workflow:count");
  await page.locator("[data-action=add-to-agent]").click();
  const dialog = page.locator("[data-dialog=add-to-agent]");
  await dialog.locator("[data-diff-line=added]").first().waitFor();
  const added = await dialog.locator("[data-diff-line=added]").allInnerTexts();
  assert.match(added.join("\n"), /"workflow:count"/);
  assert.match(await dialog.innerText(), /agent_profile\.json/);
  assert.equal(readFileSync(profile, "utf8"), before);
  await dialog.locator("[data-action=write]").click();
  await page.locator("[data-used-agent=desk]").waitFor();
  await dialog.waitFor({ state: "detached" });
  const written = JSON.parse(readFileSync(profile, "utf8")) as { tool_ids_inventory: string[] };
  assert.deepEqual(written, {
    ...(JSON.parse(before) as object),
    tool_ids_inventory: [...(JSON.parse(before) as typeof written).tool_ids_inventory, "workflow:count"],
  });
  await page.locator("[data-action=add-to-agent]").click();
  await dialog.locator("[data-state=has-it]").waitFor();
  assert.equal(await dialog.locator("[data-action=write]").isDisabled(), true);
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  await close();
  await server.stop();
});
