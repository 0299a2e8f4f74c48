import type { ToolSummary } from "../api/types.gen.ts";

export interface Group {
  namespace: string;
  tools: ToolSummary[];
}

/** What people made comes before what is built in. */
const LAST = ["node", "system"];

/** Tools by namespace, those that fit all words of a search. */
export function byNamespace(tools: readonly ToolSummary[], wanted: string): Group[] {
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  const groups = new Map<string, ToolSummary[]>();
  for (const tool of tools) {
    const text = `${tool.id} ${tool.title ?? ""} ${tool.description}`.toLowerCase();
    if (!words.every((word) => text.includes(word))) continue;
    const at = tool.id.indexOf(":");
    const namespace = at < 0 ? "" : tool.id.slice(0, at);
    groups.set(namespace, [...(groups.get(namespace) ?? []), tool]);
  }
  const rank = (namespace: string): number => LAST.indexOf(namespace) + 1;
  return [...groups]
    .map(([namespace, its]) => ({ namespace, tools: its.sort((one, other) => one.id.localeCompare(other.id)) }))
    .sort((one, other) => rank(one.namespace) - rank(other.namespace) || one.namespace.localeCompare(other.namespace));
}
