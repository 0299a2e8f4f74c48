// What entries say in words. Pure: the texts come from the dictionary that is handed in.
import type { TextKey } from "../i18n/index.ts";
import type { CallEntry, EndEntry, NoteEntry, RewriteEntry } from "../state/view.ts";

type Say = (key: TextKey, values?: Record<string, string | number>) => string;

/** The beginning of a sentence that the tool's name ends. */
export function callText(entry: CallEntry, t: Say): string {
  switch (entry.state) {
    case "writing":
      return t(entry.tool ? "call.writing" : "call.writing.some");
    case "ready":
    case "chosen":
    case "approved":
      return t("call.chosen");
    case "asked":
      return t("call.asked");
    case "running":
      return t("call.running");
    case "ok":
      return t("call.ok");
    case "denied":
      return t("call.denied");
    case "cancelled":
      return t("call.cancelled");
    case "timeout":
      return t("call.timeout");
    default:
      return t("call.failed");
  }
}

export function endText(entry: EndEntry, t: Say): string {
  if (entry.exit) return t(`exit.${entry.exit}` as TextKey);
  if (entry.status === "ok") return t("end.ok");
  if (entry.status === "cancelled") return t("exit.cancelled");
  return t("end.error", { kind: entry.errorKind ?? "" });
}

export function noteText(entry: NoteEntry, t: Say): string {
  const values = { text: entry.text, detail: entry.detail ?? "" };
  return t(`note.${entry.note}` as TextKey, values).trim();
}

/** Why a request could not be used, by what the reader of replies said. */
export function rewriteWhy(entry: RewriteEntry, t: Say): string {
  const tools = entry.errors
    .map((error) => (typeof error === "object" && error !== null && "tool" in error ? String(error.tool) : ""))
    .filter((tool) => tool !== "");
  const tool = [...new Set(tools)].join(", ");
  if (entry.code === "unknown_tool") return t("rewrite.unknown_tool", { tool });
  if (entry.code.includes("valid") || entry.code.includes("argument")) return t("rewrite.arguments", { tool });
  return t("rewrite.form", { code: entry.code });
}
