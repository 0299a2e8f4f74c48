import { en as canvas } from "./en-canvas.ts";
import { en as events } from "./events.gen.ts";
import { en as page } from "./en-page.ts";

export const en = { ...page, ...canvas, ...events };
