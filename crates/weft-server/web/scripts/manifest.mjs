// Writes dist/manifest.json: every source file with its SHA-256. A Rust test compares it with the sources.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";

const others = ["index.html", "package.json", "package-lock.json", "public/icon.svg", "svelte.config.js", "vite.config.ts"];
const sources = readdirSync("src", { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && !entry.name.endsWith(".test.ts"))
  .map((entry) => `${entry.parentPath}/${entry.name}`);
const digest = (name) =>
  createHash("sha256").update(readFileSync(name, "utf8").replaceAll("\r\n", "\n")).digest("hex");
const entries = [...others, ...sources].sort().map((name) => [name, digest(name)]);
writeFileSync("dist/manifest.json", JSON.stringify(Object.fromEntries(entries), null, 1) + "\n");
