import { en } from "./en.ts";

export type Language = "en" | "zh";
export type TextKey = keyof typeof en;
export type Messages = Record<TextKey, string>;

/** The kept language, else the browser's. */
export function languageOf(kept: string | null, wanted: readonly string[]): Language {
  if (kept === "en" || kept === "zh") return kept;
  const first = wanted.find((tag) => /^(zh|en)\b/i.test(tag));
  return first?.toLowerCase().startsWith("zh") ? "zh" : "en";
}

/** Puts values in the place of `{name}`. */
export function fill(text: string, values: Record<string, string | number>): string {
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));
}
