// 画布与循环检查器的文字。
import type { en } from "./en-canvas.ts";

export const zh: Record<keyof typeof en, string> = {
  "page.canvas": "画布",
  "page.loop": "循环",
};
