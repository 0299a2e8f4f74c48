// What a timeline shows, in a form that can be compared.
import type { Locator } from "playwright-core";

/** Its elements with their `data-*` attributes and texts, but for the boxes where a person answers. */
export function seenOf(timeline: Locator): Promise<string[]> {
  return timeline.evaluate((root) => {
    const lines: string[] = [];
    for (const element of [root, ...root.querySelectorAll("*")]) {
      if (element.closest("[data-ask]")) continue;
      const told = [...element.attributes].filter(({ name }) => name.startsWith("data-")).map(({ name, value }) => `${name}=${value}`);
      const own = [...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE).map((node) => node.textContent);
      const text = own.join(" ").replace(/\s+/g, " ").trim();
      if (told.length > 0 || text !== "") lines.push(`${told.sort().join(" ")} ${text}`.trim());
    }
    return lines;
  });
}
