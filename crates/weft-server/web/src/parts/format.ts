// Times and amounts for people.

import { visible } from "./visible.ts";

/** `0.3 s`, `12 s`, `2 min`, `3 h`, with the language's own words. */
export function span(ms: number, language: string): string {
  const unit = (value: number, name: string, digits = 0): string =>
    new Intl.NumberFormat(language, {
      style: "unit",
      unit: name,
      unitDisplay: "short",
      maximumFractionDigits: digits,
    }).format(value);
  if (ms < 1000) return unit(Math.round(ms), "millisecond");
  if (ms < 10_000) return unit(ms / 1000, "second", 1);
  if (ms < 100_000) return unit(Math.round(ms / 1000), "second");
  if (ms < 6_000_000) return unit(Math.round(ms / 60_000), "minute");
  return unit(Math.round(ms / 3_600_000), "hour");
}

/** A moment: the time of today, else with its date. */
export function moment(ts: string, language: string, now: Date = new Date()): string {
  const date = new Date(ts);
  if (Number.isNaN(date.getTime())) return ts;
  const isToday = date.toDateString() === now.toDateString();
  const hours = { hourCycle: "h23" } as const;
  const options: Intl.DateTimeFormatOptions = isToday
    ? { ...hours, hour: "2-digit", minute: "2-digit", second: "2-digit" }
    : { ...hours, year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" };
  return new Intl.DateTimeFormat(language, options).format(date);
}

export function number(value: number, language: string): string {
  return new Intl.NumberFormat(language).format(value);
}

/** The beginning of a text, on one line. */
export function short(text: string, length = 120): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
}

/** Arguments on one line: `city: Paris, days: 3`. */
export function inline(values: Record<string, unknown>, length = 120): string {
  const parts = Object.entries(values).map(([name, value]) => {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    return `${visible(name)}: ${short(visible(text), 60)}`;
  });
  return short(parts.join(", "), length);
}
