// Drawing: connecting, refusing, containers, copies, undo over zones and groups, layout, problems, tools.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { checked, choose, COUNT, drag, middle, openCanvas, unsaved, type Bench } from "./canvas.ts";
import { closeBrowser, serve, type Server } from "./harness.ts";

let server: Server;
before(async () => {
  server = await serve("examples/desk", {
    "workflows/count.json": COUNT,
    "workflows/parts.json": {
      name: "parts",
      interfaceInputs: { text: { key: "text", dataFlowType: "STRING" } },
      interfaceOutputs: { list: { key: "list", dataFlowType: "ARRAY" } },
      nodes: [
        { id: "in", type: "core:GroupInput", position: { x: 0, y: 0 } },
        { id: "tidy", type: "core:TextReplace", position: { x: 320, y: 0 }, configValues: { pattern: "a", with: "b" } },
        { id: "split", type: "core:TextSplit", position: { x: 640, y: 0 } },
        { id: "out", type: "core:GroupOutput", position: { x: 960, y: 0 } },
      ],
      edges: [
        { id: "e1", source: "in", sourceHandle: "text", target: "tidy", targetHandle: "text" },
        { id: "e2", source: "tidy", sourceHandle: "text", target: "split", targetHandle: "text" },
      ],
    },
  });
});
after(async () => {
  await closeBrowser();
  await server.stop();
});

const wires = (bench: Bench, count: number) => bench.page.locator(`[data-board][data-wires="${count}"]`).waitFor();
const nodes = (bench: Bench, count: number) => bench.page.locator(`[data-board][data-nodes="${count}"]`).waitFor();

test("an edge is drawn where the types fit, refused with a plain reason where they do not", async () => {
  const bench = await openCanvas(server, "parts");
  const { page } = bench;
  await drag(page, await middle(bench.slot("split", "output", "parts")), await middle(bench.slot("tidy", "input", "text")));
  const notice = page.locator('[data-notice="refused"]');
  await notice.waitFor();
  assert.match((await notice.textContent()) ?? "", /takes text, and this one gives list/);
  await wires(bench, 2);
  await drag(page, await middle(bench.slot("split", "output", "parts")), await middle(bench.slot("out", "input", "list")));
  await wires(bench, 3);
  await drag(page, await middle(bench.slot("out", "input", "+")), await middle(bench.slot("tidy", "output", "text")));
  await wires(bench, 4);
  await checked(page, "ok");
  await bench.slot("out", "input", "text").waitFor();
  await page.keyboard.press("Control+z");
  await wires(bench, 3);
  assert.deepEqual(bench.complaints, []);
  await bench.close();
});

test("an edge let go over nothing asks what to add, and joins it", async () => {
  const bench = await openCanvas(server, "parts");
  const { page } = bench;
  const from = await middle(bench.slot("split", "output", "parts"));
  await drag(page, from, { x: from.x + 20, y: from.y + 220 });
  await choose(page, "", "add", "text join");
  await nodes(bench, 5);
  await wires(bench, 3);
  await bench.close();
});

test("nodes move into a loop and out of it, and undo goes over zones and groups to the beginning", async () => {
  const bench = await openCanvas(server, "parts");
  const { page } = bench;
  const parent = (key: string) => page.evaluate((id) => document.querySelector(`[data-node="${id}"]`)?.getBoundingClientRect().x, key);
  await bench.node("split").locator(".title").click();
  await page.keyboard.press("z");
  await page.locator('[data-board][data-chosen="loop_zone"]').waitFor();
  await nodes(bench, 7);
  // An edge would leave the loop: the server says so.
  await bench.node("tidy").locator(".title").click();
  await choose(page, "m", "move", "loop");
  await page.locator('[data-step="2"]').waitFor();
  assert.ok(await parent("tidy"));
  await choose(page, "m", "move", "canvas");
  await page.locator('[data-step="3"]').waitFor();
  await choose(page, "g", "group", "tidy up");
  await page.locator('[data-canvas="parts"][data-unsaved="2"]').waitFor();
  await bench.node("node_group").locator(".title").click();
  await page.keyboard.press("o");
  await page.locator('[data-canvas="tidy_up"] [data-board="ready"]').waitFor();
  await page.locator("[data-board]").focus();
  await choose(page, "n", "add", "text split");
  await nodes(bench, 4);
  await page.locator('[data-trail="parts"]').click();
  await page.locator('[data-canvas="parts"]').waitFor();
  await page.locator("[data-board]").focus();

  await page.keyboard.press("Control+z");
  await page.locator('[data-canvas="tidy_up"] [data-board][data-nodes="3"]').waitFor();
  await page.locator("[data-board]").focus();
  for (let step = 3; step >= 0; step -= 1) {
    await page.keyboard.press("Control+z");
    await page.locator(`[data-canvas="parts"][data-step="${step}"]`).waitFor();
    await page.locator("[data-board]").focus();
  }
  await nodes(bench, 4);
  await wires(bench, 2);
  await unsaved(page, 0);
  for (let step = 1; step <= 4; step += 1) {
    await page.keyboard.press("Control+y");
    await page.locator(`[data-canvas="parts"][data-step="${step}"]`).waitFor();
    await page.locator("[data-board]").focus();
  }
  await nodes(bench, 7);
  await unsaved(page, 2);
  assert.deepEqual(bench.complaints, []);
  await bench.close();
});

test("a node is dragged into a loop and out again", async () => {
  const bench = await openCanvas(server, "count");
  const { page } = bench;
  await page.locator('[data-action="fit"]').click();
  const out = bench.node("out").locator(".head");
  const zone = await bench.node("loop").boundingBox();
  assert(zone);
  const home = await middle(out);
  await drag(page, home, { x: zone.x + zone.width / 2, y: zone.y + zone.height - 40 });
  await page.locator('[data-step="1"]').waitFor();
  await checked(page, "problems");
  await drag(page, await middle(out), home);
  await page.locator('[data-step="2"]').waitFor();
  await checked(page, "ok");
  await bench.close();
});

test("a frame goes around nodes and takes them along; a group opens, and its nodes come back out of it", async () => {
  const bench = await openCanvas(server, "parts");
  const { page } = bench;
  await page.locator('[data-action="fit"]').click();
  await bench.node("tidy").locator(".title").click();
  await page.keyboard.down("Control");
  await bench.node("split").locator(".title").click();
  await page.keyboard.up("Control");
  await page.locator('[data-board][data-chosen="tidy split"]').waitFor();
  await page.keyboard.press("f");
  await nodes(bench, 5);
  const frame = bench.node("frame");
  await frame.waitFor();
  const places = async () => [await middle(frame), await middle(bench.node("tidy")), await middle(bench.node("split"))].map(({ y }) => y);
  const before = await places();
  const grip = await frame.locator(".grip").boundingBox();
  assert(grip);
  const from = { x: grip.x + grip.width - 12, y: grip.y + grip.height / 2 };
  await drag(page, from, { x: from.x, y: from.y + 90 });
  await page.locator('[data-step="2"]').waitFor();
  const moved = (await places()).map((y, at) => Math.round(y - (before[at] ?? 0)));
  assert.ok((moved[0] ?? 0) > 40 && new Set(moved).size === 1, `down by ${moved.join()}`);
  await page.keyboard.press("Control+z");
  await page.keyboard.press("Control+z");
  await nodes(bench, 4);

  await bench.node("tidy").locator(".title").click();
  await choose(page, "g", "group", "one step");
  await bench.node("node_group").locator(".title").click();
  await page.locator('[data-action="dissolve"]').click();
  await bench.node("node_group").waitFor({ state: "detached" });
  await nodes(bench, 4);
  await wires(bench, 2);
  await checked(page, "ok");
  assert.deepEqual(bench.complaints, []);
  await bench.close();
});

test("the board zooms, fits everything, and its map leads to what is out of view", async () => {
  const bench = await openCanvas(server, "count");
  const { page } = bench;
  const zoom = async () => Number(await bench.board.getAttribute("data-zoom"));
  const changes = async (press: () => Promise<void>) => {
    const before = await bench.board.getAttribute("data-zoom");
    await press();
    await page.locator(`[data-board]:not([data-zoom="${before ?? ""}"])`).waitFor();
  };
  const first = await zoom();
  await changes(() => page.getByLabel("Zoom in").click());
  assert.ok((await zoom()) > first);
  await bench.board.focus();
  await changes(() => page.keyboard.press("-"));
  assert.equal(await zoom(), first);
  await page.locator("[data-map]").waitFor();
  const room = await bench.board.boundingBox();
  assert(room);
  const isSeen = async () => {
    const { x } = await middle(bench.node("out"));
    return x > room.x && x < room.x + room.width;
  };
  assert.equal(await isSeen(), false);
  const map = await page.locator("[data-map]").boundingBox();
  assert(map);
  await page.mouse.click(map.x + map.width - 24, map.y + map.height / 2);
  await page.waitForFunction((right) => (document.querySelector('[data-node="out"]')?.getBoundingClientRect().right ?? right) < right, room.x + room.width);
  assert.equal(await isSeen(), true);
  await changes(() => page.keyboard.press("0"));
  await page.locator("[data-map]").waitFor({ state: "detached" });
  // What one has set up stays, also when there is more room.
  const fitted = await zoom();
  await page.locator(".fold").click();
  await page.locator(".unfold").waitFor();
  assert.equal(await zoom(), fitted);
  assert.deepEqual(bench.complaints, []);
  await bench.close();
});

test("copy, paste, delete, by the clipboard of the system", async () => {
  const bench = await openCanvas(server, "count");
  const { page } = bench;
  await nodes(bench, 7);
  await bench.node("loop").locator(".title").click();
  await page.keyboard.press("Control+c");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+v");
  await nodes(bench, 12);
  await wires(bench, 13);
  await page.keyboard.press("Delete");
  await nodes(bench, 7);
  await wires(bench, 8);
  await page.keyboard.press("Control+z");
  await nodes(bench, 12);
  await bench.close();
});

test("the server places the nodes, and loops around what stands in them", async () => {
  const bench = await openCanvas(server, "count");
  const { page } = bench;
  const place = async (key: string) => (await bench.node(key).boundingBox()) ?? { x: 0, y: 0, width: 0, height: 0 };
  await bench.board.focus();
  await page.keyboard.press("l");
  await page.locator('[data-step="1"]').waitFor();
  await page.locator('[data-notice="info"]').waitFor();
  const [loop, add, say, out] = [await place("loop"), await place("add"), await place("say"), await place("out")];
  assert.ok(add.x >= loop.x && add.x + add.width < say.x, "what hangs on something stands to its right");
  assert.ok(say.x + say.width < loop.x + loop.width && loop.x + loop.width < out.x);
  assert.deepEqual(bench.complaints, []);
  await bench.close();
});

test("problems lead to their node, with the name that was meant", async () => {
  const bench = await openCanvas(server, "parts");
  const { page } = bench;
  await bench.node("tidy").locator(".title").click();
  await page.keyboard.press("Delete");
  await checked(page, "problems");
  await page.locator('[data-tab="problems"]').click();
  const line = page.locator('[data-problem="missing_input"]').first();
  await line.click();
  await page.locator('[data-board][data-chosen="split"]').waitFor();
  await page.locator('[data-details="split"]').waitFor();
  assert.match((await page.locator('[data-node="split"] [data-problem="error"]').getAttribute("aria-label")) ?? "", /no value|text|input/i);
  await bench.close();
});

test("the tools of an AvailableTools node are ticked in a list of what there is", async () => {
  const bench = await openCanvas(server, "agent_loop");
  const { page } = bench;
  await bench.node("tools").locator(".title").click();
  const picker = page.locator('[data-picker="tools"]');
  await picker.waitFor();
  await picker.locator('input[aria-label="Search tools"]').fill("summarize");
  await picker.locator('[data-tool="workflow:summarize_text"]').check();
  await unsaved(page, 1);
  await checked(page, "ok");
  await page.keyboard.press("Control+s");
  await unsaved(page, 0);
  assert.deepEqual(JSON.parse(bench.file("agent_loop")).nodes.find((node: { id: string }) => node.id === "tools").configValues, {
    tools: ["workflow:summarize_text"],
  });
  await bench.close();
});

/** Points around a slot at which something else would be pressed. */
function missed(slot: ReturnType<Bench["slot"]>): Promise<string[]> {
  return slot.evaluate((own) => {
    const { x, y, width, height } = own.getBoundingClientRect();
    const board = document.querySelector(".svelte-flow__viewport");
    const zoom = board === null ? 1 : new DOMMatrix(getComputedStyle(board).transform).a;
    return [[0, 0], [-11, 0], [11, 0], [0, -11], [0, 11], [-8, -8], [8, 8]].flatMap(([dx = 0, dy = 0]) => {
      const found = document.elementFromPoint(x + width / 2 + dx * zoom, y + height / 2 + dy * zoom);
      return found?.closest(".slot") === own ? [] : [`${dx} ${dy}: ${found?.getAttribute("class") ?? "nothing"}`];
    });
  });
}

test("a slot is pressed within 24 pixels, above rails, frames and the edges of a selected loop", async () => {
  const bench = await openCanvas(server, "count");
  const { page } = bench;
  const all = [["state", "output", "n"], ["state", "output", "to"], ["loop", "input", "to"], ["add", "input", "n"], ["say", "output", "text"], ["in", "output", "to"]] as const;
  /** Waits until the board stands still. */
  const settled = (): Promise<void> =>
    page.evaluate(async () => {
      const board = document.querySelector(".svelte-flow__viewport") as HTMLElement;
      for (let still = 0, last = ""; still < 10; last = board.style.transform) {
        await new Promise(requestAnimationFrame);
        still = board.style.transform === last ? still + 1 : 0;
      }
    });
  const look = async (when: string): Promise<void> => {
    for (const [node, side, name] of all) assert.deepEqual(await missed(bench.slot(node, side, name)), [], `${when}: ${node} ${name}`);
  };
  await settled();
  await look("at first");
  await page.locator('[data-node="loop"] .head .title').click();
  await page.locator('[data-details="loop"]').waitFor();
  await settled();
  await look("the loop is selected");
  await bench.close();
});

test("a new value's name is replaced by what is typed; its suggestions are edited; removed, it takes its wires along", async () => {
  const bench = await openCanvas(server, "parts");
  const { page } = bench;
  await page.locator("[data-board]").click({ position: { x: 20, y: 20 } });
  await page.locator('[data-details="workflow"]').waitFor();
  await page.locator('[data-action="add-inputs"]').click();
  await page.waitForFunction(() => document.activeElement?.id === "inputs-name-1");
  await page.keyboard.type("size");
  await page.keyboard.press("Tab");
  await bench.slot("in", "output", "size").waitFor();
  await page.locator("#inputs-suggestions-1").fill("small\nlarge");
  await page.keyboard.press("Tab");
  await page.getByLabel("Only these are valid").check();
  await page.keyboard.press("Control+s");
  await unsaved(page, 0);
  const saved = JSON.parse(bench.file("parts")) as { interfaceInputs: Record<string, unknown> };
  assert.deepEqual(saved.interfaceInputs["size"], { key: "size", dataFlowType: "STRING", config: { suggestions: ["small", "large"] }, matchCategories: ["ComboOption"] });
  await wires(bench, 2);
  await page.getByLabel("Remove text").click();
  await wires(bench, 1);
  await bench.slot("in", "output", "text").waitFor({ state: "detached" });
  await page.keyboard.press("Control+z");
  await wires(bench, 2);
  // Long names stay within the panel.
  await bench.node("tidy").locator(".title").click();
  await page.locator("#node-name").fill("A name that is very long indeed, without an end ".repeat(4));
  const panel = page.locator('[data-details="tidy"]');
  assert.equal(await panel.evaluate((box) => box.scrollWidth <= box.clientWidth), true);
  assert.ok((await panel.locator(".way").first().evaluate((way) => way.getBoundingClientRect().height)) > 40, "the wire's names wrap");
  assert.deepEqual(bench.complaints, []);
  await bench.close();
});
