// What the tests of the canvas share.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Locator, Page } from "playwright-core";
import { open, type Look, type Seen, type Server } from "./harness.ts";

/** Counts to `n`: state, a step, next; with a result outside. */
export const COUNT = `{
  "name": "count",
  "x-colour": "green",
  "description": "Counts.",
  "interfaceInputs": {"to": {"key": "to", "dataFlowType": "INTEGER", "required": true, "x-unit": "steps"}},
  "interfaceOutputs": {"n": {"key": "n", "dataFlowType": "INTEGER"}, "text": {"key": "text", "dataFlowType": "STRING"}},
  "nodes": [
    {"id": "in", "type": "core:GroupInput", "position": {"x": 0, "y": 0}, "x-note": [1.0, 12345678901234567890]},
    {"id": "loop", "type": "core:LoopZone", "position": {"x": 320, "y": 0}, "width": 920, "height": 420, "configValues": {
      "state": [{"key": "n", "dataFlowType": "INTEGER", "initial": 0}, {"key": "text", "dataFlowType": "STRING", "initial": ""}, {"key": "to", "dataFlowType": "INTEGER"}],
      "mode": "until", "condition": "state.n >= state.to", "x-kept": true}},
    {"id": "state", "type": "core:LoopState", "parentNode": "loop", "position": {"x": 0, "y": 48}},
    {"id": "add", "type": "core:Expression", "parentNode": "loop", "position": {"x": 190, "y": 72}, "configValues": {"cel": "n + 1"}},
    {"id": "say", "type": "core:TextTemplate", "parentNode": "loop", "position": {"x": 190, "y": 240}, "configValues": {"template": "{{ before }}{{ n }} "}},
    {"id": "next", "type": "core:LoopNext", "parentNode": "loop", "position": {"x": 772, "y": 48}},
    {"id": "out", "type": "core:GroupOutput", "position": {"x": 1320, "y": 0}}
  ],
  "edges": [
    {"id": "e0", "source": "in", "sourceHandle": "to", "target": "loop", "targetHandle": "to"},
    {"id": "e1", "source": "state", "sourceHandle": "n", "target": "add", "targetHandle": "n", "x-label": "kept"},
    {"id": "e2", "source": "add", "sourceHandle": "value", "target": "next", "targetHandle": "n"},
    {"id": "e3", "source": "state", "sourceHandle": "text", "target": "say", "targetHandle": "before"},
    {"id": "e4", "source": "add", "sourceHandle": "value", "target": "say", "targetHandle": "n"},
    {"id": "e5", "source": "say", "sourceHandle": "text", "target": "next", "targetHandle": "text"},
    {"id": "e6", "source": "loop", "sourceHandle": "n", "target": "out", "targetHandle": "n"},
    {"id": "e7", "source": "loop", "sourceHandle": "text", "target": "out", "targetHandle": "text"}
  ],
  "viewport": {"x": 1.5, "y": 2, "zoom": 1}
}
`;

export interface Bench extends Seen {
  board: Locator;
  /** A box on the board. */
  node(key: string): Locator;
  /** A slot of a box. */
  slot(key: string, side: "input" | "output", name: string): Locator;
  /** The file as it lies in the project. */
  file(id: string): string;
}

/** Opens a workflow and waits until it is drawn and checked. */
export async function openCanvas(server: Server, id: string, look: Look = {}): Promise<Bench> {
  const seen = await open(server, `#/canvas/${id}`, look);
  const { page } = seen;
  await page.locator(`[data-canvas="${id}"] [data-board="ready"]`).waitFor();
  return {
    ...seen,
    board: page.locator("[data-board]"),
    node: (key) => page.locator(`.svelte-flow__node[data-node="${key}"]`),
    slot: (key, side, name) => page.locator(`.svelte-flow__node[data-node="${key}"] [data-side="${side}"][data-slot="${name}"]`),
    file: (name) => readFileSync(join(server.folder, "workflows", `${name}.json`), "utf8"),
  };
}

export async function checked(page: Page, how: "ok" | "problems"): Promise<void> {
  await page.locator(`[data-checked="${how}"]`).waitFor();
}

/** Waits until nothing, or something, is unsaved. */
export async function unsaved(page: Page, count: number): Promise<void> {
  await page.locator(`[data-unsaved="${count}"]`).waitFor();
}

/** Presses Tab until the keyboard stands on what the selector names. */
export async function tabTo(page: Page, selector: string): Promise<void> {
  for (let presses = 0; presses < 120; presses += 1) {
    const there = await page.evaluate((wanted) => document.activeElement?.matches(wanted) ?? false, selector);
    if (there) return;
    await page.keyboard.press("Tab");
  }
  assert.fail(`the Tab key does not lead to ${selector}`);
}

/** Opens a list with a key, types, and takes the first that may be taken. */
export async function choose(page: Page, key: string, dialog: string, typed: string): Promise<void> {
  if (key !== "") await page.keyboard.press(key);
  await page.locator(`[data-dialog="${dialog}"]`).waitFor();
  await page.keyboard.type(typed);
  await page.keyboard.press("Enter");
}

/** Drags from one point to another, in steps as a hand does. */
export async function drag(page: Page, from: { x: number; y: number }, to: { x: number; y: number }): Promise<void> {
  await page.mouse.move(from.x, from.y);
  await page.mouse.down();
  for (let step = 1; step <= 8; step += 1) {
    await page.mouse.move(from.x + ((to.x - from.x) * step) / 8, from.y + ((to.y - from.y) * step) / 8);
  }
  await page.mouse.up();
}

export async function middle(locator: Locator): Promise<{ x: number; y: number }> {
  const box = await locator.boundingBox();
  assert(box, "it is not on the screen");
  return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
}

export { findings } from "./axe.ts";
