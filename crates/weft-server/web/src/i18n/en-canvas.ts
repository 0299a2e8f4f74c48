// Texts of the canvas and the loop inspector.
export const en = {
  "page.canvas": "Canvas",
  "page.loop": "Loop",
} as const;
