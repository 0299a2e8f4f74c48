import type { Messages } from "./index.ts";
import { zh as canvas } from "./zh-canvas.ts";
import { zh as events } from "./events.gen.ts";
import { zh as page } from "./zh-page.ts";

export const zh: Messages = { ...page, ...canvas, ...events };
