// What a person chose: language and theme. Kept in the browser.
import { en } from "./i18n/en.ts";
import { zh } from "./i18n/zh.ts";
import { type Language, type Messages, type TextKey, fill, languageOf } from "./i18n/index.ts";

export type Theme = "auto" | "light" | "dark";

const TEXTS: Record<Language, Messages> = { en, zh };

class Preferences {
  language: Language = $state(languageOf(localStorage.getItem("weft.language"), navigator.languages));
  theme: Theme = $state(themeOf(localStorage.getItem("weft.theme")));
  private isDeveloper: boolean = $state(localStorage.getItem("weft.developer") === "on");
  private readonly dark = matchMedia("(prefers-color-scheme: dark)");

  constructor() {
    this.dark.addEventListener("change", () => this.show());
    this.show();
  }

  /** Whether raw events and the log are shown. */
  get developer(): boolean {
    return this.isDeveloper;
  }

  set developer(on: boolean) {
    this.isDeveloper = on;
    localStorage.setItem("weft.developer", on ? "on" : "off");
  }

  setLanguage(language: Language): void {
    this.language = language;
    localStorage.setItem("weft.language", language);
    this.show();
  }

  setTheme(theme: Theme): void {
    this.theme = theme;
    localStorage.setItem("weft.theme", theme);
    this.show();
  }

  private show(): void {
    const isDark = this.theme === "dark" || (this.theme === "auto" && this.dark.matches);
    document.documentElement.dataset["theme"] = isDark ? "dark" : "light";
    document.documentElement.lang = this.language === "zh" ? "zh-CN" : "en";
  }
}

function themeOf(kept: string | null): Theme {
  return kept === "light" || kept === "dark" ? kept : "auto";
}

export const prefs = new Preferences();

/** The text of a key in the chosen language, with `{name}` filled in. */
export function t(key: TextKey, values: Record<string, string | number> = {}): string {
  return fill(TEXTS[prefs.language][key] ?? key, values);
}
