// Drafts: what is not saved yet, kept in the browser.
import type { WorkflowFile } from "./model/file.ts";
import { isObject, parseJson } from "./model/json.ts";
import type { Draft } from "./model/session.ts";

const PREFIX = "weft.draft.";

export interface KeptDraft {
  etag: string | null;
  file: WorkflowFile;
}

export function keepDraft(id: string, draft: Draft | null): void {
  try {
    if (draft === null) localStorage.removeItem(PREFIX + id);
    else localStorage.setItem(PREFIX + id, JSON.stringify(draft));
  } catch {
    // A full or forbidden store keeps no drafts; the guard still asks before the page is left.
  }
}

export function keptDraft(id: string): KeptDraft | null {
  try {
    const text = localStorage.getItem(PREFIX + id);
    if (text === null) return null;
    const draft = JSON.parse(text) as Draft;
    const file = parseJson(draft.text);
    return isObject(file) ? { etag: draft.etag, file } : null;
  } catch {
    return null;
  }
}

/** Ids of workflows that were begun and never saved. */
export function newDrafts(known: ReadonlySet<string>): string[] {
  const ids: string[] = [];
  for (let at = 0; at < localStorage.length; at += 1) {
    const key = localStorage.key(at);
    if (key?.startsWith(PREFIX)) ids.push(key.slice(PREFIX.length));
  }
  return ids.filter((id) => !known.has(id)).sort();
}
