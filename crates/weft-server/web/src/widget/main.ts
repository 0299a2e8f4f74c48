// The chat that other sites embed, in a frame of its own. It knows one agent and one conversation.
import "./widget.css";
import { Chat } from "./chat.ts";
import { keyOf } from "./key.ts";
import { wordsOf, type Words } from "./words.ts";

interface Look {
  title: string;
  greeting: string | null;
  language: "en" | "zh" | null;
  theme: "auto" | "light" | "dark";
}

/** The address of this widget, without a slash at its end. */
const address = location.pathname.replace(/\/$/, "");

async function start(root: HTMLElement): Promise<void> {
  const look = (await (await fetch(`${address}/look`)).json()) as Look;
  const language = look.language ?? (navigator.language.startsWith("zh") ? "zh" : "en");
  const words: Words = wordsOf(language);
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  document.documentElement.dataset["theme"] = themeOf(look.theme);
  const name = address.split("/").at(-1) ?? "";
  new Chat(root, { address, key: keyOf(name), words, title: look.title, greeting: look.greeting ?? "" }).start();
}

function themeOf(theme: Look["theme"]): "light" | "dark" {
  if (theme !== "auto") return theme;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

const root = document.getElementById("widget");
if (root) void start(root);
