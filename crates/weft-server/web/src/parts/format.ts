// Times and amounts for people.

import { brief } from "./brief.ts";
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

/** `512 B`, `1.5 KiB`, `5.0 MiB`. */
export function bytes(count: number): string {
  return count < 1024 ? `${count} B` : count < 1024 * 1024 ? `${(count / 1024).toFixed(1)} KiB` : `${(count / 1024 / 1024).toFixed(1)} MiB`;
}

/** The beginning of a text, on one line. */
export function short(text: string, length = 120): string {
  return brief(text, length);
}

/** Arguments on one line: `city: Paris, days: 3`. */
export function inline(values: Record<string, unknown>, length = 120): string {
  const parts = Object.entries(values).map(([name, value]) => {
    return `${visible(name)}: ${visible(brief(value, 60))}`;
  });
  return short(parts.join(", "), length);
}
