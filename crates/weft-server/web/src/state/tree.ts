// Entries as a tree, the way a person reads them: turns hold their calls, calls hold what happened inside.
import type { Entry } from "./view.ts";

export interface Item {
  entry: Entry;
  children: Item[];
}

/** Entries in the order of their beginning, below what they belong to. */
export function treeOf(entries: readonly Entry[]): Item[] {
  const root: Item[] = [];
  const calls = new Map<string, Item>();
  const turns = new Map<string, Item>();
  for (const entry of entries) {
    const item: Item = { entry, children: [] };
    const scope = entry.call;
    const around = (scope === "" ? root : calls.get(scope)?.children) ?? root;
    switch (entry.kind) {
      case "turn":
        turns.set(scope, item);
        around.push(item);
        break;
      case "said":
      case "end":
        root.push(item);
        break;
      case "step":
        around.push(item);
        break;
      default:
        (turns.get(scope)?.children ?? around).push(item);
    }
    if (entry.kind === "call") calls.set(entry.id.slice("call:".length), item);
  }
  return root;
}

const FAULTS: ReadonlySet<string> = new Set(["failed", "refused", "timeout", "panicked"]);

/** Whether something went wrong in an entry or in what lies within it. */
export function hasFault({ entry, children }: Item): boolean {
  if ((entry.kind === "call" || entry.kind === "step") && FAULTS.has(entry.state)) return true;
  if (entry.kind === "note" && entry.note === "flow_failed") return true;
  return children.some(hasFault);
}
