// The pictures of docs/images, of the example project as a person sees it.
import { mkdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Look, type Seen, closeBrowser, open, runUntil, serve } from "./harness.ts";
import { COUNT } from "./projects.ts";

const images = join(dirname(fileURLToPath(import.meta.url)), "../../../../docs/images");
/** Most that a picture may weigh. */
const LIGHT = 200 * 1024;

mkdirSync(images, { recursive: true });
const only = process.argv[2];

const desk = JSON.parse(readFileSync(join(images, "../../examples/desk/agents/desk/agent_profile.json"), "utf8")) as object;
const server = await serve("examples/desk", {
  "workflows/count.json": COUNT,
  "agents/desk/agent_profile.json": { ...desk, approval: { tools: { "system:get_current_time": "ask" } } },
});
const counted = await runUntil(server, { workflow: "count", inputs: { n: 12 } }, "ok");
const looped = await runUntil(server, { workflow: "agent_loop", inputs: { query: "When does the dock open?" } }, "ok");
const question = "When does the dock open, and what does the notice say?";
const done = await runUntil(server, { agent: "desk", message: question, approve: "all" }, "ok");
const waits = await runUntil(server, { agent: "desk", message: question }, "waiting");

async function picture(name: string, hash: string, look: Look, ready: (seen: Seen) => Promise<unknown>): Promise<void> {
  if (only !== undefined && !name.includes(only)) return;
  const seen = await open(server, hash, look);
  await ready(seen);
  const path = join(images, `${name}.png`);
  await seen.page.screenshot({ path, animations: "disabled", caret: "hide" });
  const { size } = statSync(path);
  if (size > LIGHT) throw new Error(`${name}.png has ${size} bytes`);
  console.log(`${name}.png: ${size} bytes`);
  await seen.close();
}

const there = (selector: string) => (seen: Seen) => seen.page.locator(selector).first().waitFor();
const timeline = there("[data-timeline][data-state=ok]");
await picture("timeline", `#/timeline/${done}`, {}, timeline);
await picture("timeline-dark", `#/timeline/${done}`, { theme: "dark" }, timeline);
await picture("timeline-phone", `#/timeline/${waits}`, { phone: true }, there("[data-timeline]"));
await picture("timeline-zh", `#/timeline/${done}`, { language: "zh" }, timeline);
/** The board as large as it can be, with what a run left on it. */
const board = async ({ page }: Seen) => {
  await page.locator("[data-node=loop] [data-passes='4']").waitFor();
  await page.locator("[data-tab=run]").click();
  await page.locator(".fold").click();
  await page.locator(".unfold").waitFor();
};
await picture("canvas", `#/canvas/agent_loop?run=${looped}`, {}, board);
await picture("canvas-dark", `#/canvas/agent_loop?run=${looped}`, { theme: "dark" }, board);
await picture("canvas-run", `#/canvas/count?run=${counted}`, {}, there("[data-node=loop] [data-passes='12']"));
await picture("loop", `#/loop/${looped}?pass=1`, {}, async ({ page }) => {
  await page.locator("[data-pass-shown='1'] [data-action=difference]").click();
  await page.locator("[data-diff-line=added]").first().waitFor();
});
await picture("replay", `#/runs/${done}`, {}, there("[data-replay][data-loaded=true] [data-timeline]"));
await picture("runs", "#/runs", {}, there("[data-runs]"));
await picture("tools", "#/tools/workflow:summarize_text", {}, there("[data-loaded=true] [data-try]"));
await picture("tools-dark", "#/tools/workflow:summarize_text", { theme: "dark" }, there("[data-loaded=true] [data-try]"));
for (const look of [{}, { theme: "dark" }, { phone: true }] as Look[]) {
  const name = look.phone ? "chat-phone" : look.theme === "dark" ? "chat-dark" : "chat";
  await picture(name, "#/chat/desk", look, async ({ page }) => {
    await page.getByLabel("Write a message").fill(question);
    await page.keyboard.press("Enter");
    await page.locator("[data-action=approve]").click();
    await page.locator("[data-run-bubble] [data-answer]").waitFor();
  });
}
await server.stop();
await closeBrowser();
