// What the parts of the canvas share.
import { getContext, setContext } from "svelte";
import type { Editor } from "./editor.svelte.ts";
import type { End } from "./model/connect.ts";
import type { Runner } from "./runner.svelte.ts";

export interface Canvas {
  editor: Editor;
  runner: Runner;
  /** The end that an edge is being drawn from, so that slots can say what fits. */
  pulling(): { end: End; side: "input" | "output" } | null;
  /** Whether boxes are so small and many that only their shapes are drawn. */
  coarse(): boolean;
  openPasses(path: string): void;
  openDetails(): void;
}

const KEY = Symbol("canvas");

export function giveCanvas(canvas: Canvas): void {
  setContext(KEY, canvas);
}

export function useCanvas(): Canvas {
  return getContext<Canvas>(KEY);
}
