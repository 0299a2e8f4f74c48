// The key of the user: whoever has it has the conversation. It stays in this browser.

/** The key for a widget: that of this browser, or a new one where none can be kept. */
export function keyOf(widget: string): string {
  const place = `weft.widget.${widget}`;
  try {
    const kept = localStorage.getItem(place);
    if (kept !== null && /^[0-9a-f]{64}$/.test(kept)) return kept;
    const drawn = draw();
    localStorage.setItem(place, drawn);
    return drawn;
  } catch {
    // A browser may keep nothing for a frame of another site.
    return draw();
  }
}

function draw(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(32)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
