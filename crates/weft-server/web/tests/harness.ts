// A real server for a project of its own, and a real browser. Tests wait for `data-*` attributes, never for time.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { type Browser, type BrowserContext, type Page, chromium } from "playwright-core";

const here = dirname(fileURLToPath(import.meta.url));
const repository = join(here, "../../../..");
const dist = join(here, "../dist");
const target = process.env["CARGO_TARGET_DIR"] ?? join(repository, "target");

/** Longest wait for anything, in milliseconds; only what never comes takes so long. */
export const PATIENCE = 20_000;

const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

const isFromDisk = process.env["WEFT_PAGE"] === "disk";

export type Files = Record<string, string | object>;

export interface Server {
  url: string;
  token: string;
  folder: string;
  stop(): Promise<void>;
  /** Kills the process and starts another one at the same address, with the same token or another one. */
  restart(token?: string): Promise<void>;
  /** Kills the process; the project stays. */
  kill(): Promise<void>;
  /** Asks the server as the page would. */
  ask<T>(path: string, body?: unknown, method?: string): Promise<T>;
}

const servers = new Set<Server>();

// What still runs when a test fails must not outlive it.
const running = new Set<ChildProcess>();
process.once("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

function program(): string {
  const given = process.env["WEFT_BIN"];
  const built = join(target, "debug/weft");
  const found = given ?? built;
  assert(existsSync(found), `${found} is not there; build it first: cargo build -p weft-cli`);
  return found;
}

function chromiumPath(): string {
  const given = process.env["WEFT_CHROMIUM"];
  const places = given ? [given] : ["chromium", "chromium-browser", "google-chrome"].map((name) => `/usr/bin/${name}`);
  const found = places.find((path) => existsSync(path));
  assert(found, `there is no browser at ${places.join(", ")}; install Chromium, or say where it is with WEFT_CHROMIUM`);
  return found;
}

let isFresh = isFromDisk;

/** The program must hold the page that was built last. */
async function mustBeFresh(url: string): Promise<void> {
  if (isFresh) return;
  const served = await (await fetch(`${url}/manifest.json`)).text();
  assert(served === readFileSync(join(dist, "manifest.json"), "utf8"), "the program holds an older page: cargo build -p weft-cli");
  isFresh = true;
}

/** Copies a project of the repository, adds or replaces files, and serves it. */
export async function serve(from: string | undefined, files: Files = {}): Promise<Server> {
  const folder = mkdtempSync(join(tmpdir(), "weft-page-"));
  if (from) cpSync(join(repository, from), folder, { recursive: true });
  rmSync(join(folder, ".weft"), { recursive: true, force: true });
  for (const [name, value] of Object.entries(files)) {
    const path = join(folder, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, typeof value === "string" ? value : JSON.stringify(value, null, 2));
  }
  const environment = { ...process.env };
  for (const name of Object.keys(environment)) if (/_(API_KEY|BASE_URL|MODEL)$/.test(name)) delete environment[name];
  const start = (port: string, given: string): ChildProcess => {
    const child = spawn(program(), ["serve", "--port", port, "--output", "json", "-C", folder], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...environment, WEFT_TOKEN: given },
    });
    running.add(child);
    return child;
  };
  const token = `page-${randomUUID()}`;
  let child = start("0", token);
  const { url } = await firstLine(child);
  await mustBeFresh(url);
  const kill = async (): Promise<void> => {
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await ended;
    running.delete(child);
  };
  const server: Server = {
    url,
    token,
    folder,
    async stop() {
      servers.delete(server);
      if (running.has(child)) await kill();
      rmSync(folder, { recursive: true, force: true });
    },
    kill,
    async restart(other = token) {
      if (running.has(child)) await kill();
      child = start(new URL(url).port, other);
      await firstLine(child);
    },
    async ask<T>(path: string, body?: unknown, method = body === undefined ? "GET" : "POST") {
      const response = await fetch(`${url}/${path}`, {
        method,
        headers: {
          authorization: `Bearer ${token}`,
          accept: "application/json",
          ...(body === undefined ? {} : { "content-type": "application/json" }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      assert(response.ok, `${path}: ${response.status} ${text}`);
      return JSON.parse(text) as T;
    },
  };
  servers.add(server);
  return server;
}

function firstLine(child: ChildProcess): Promise<{ url: string }> {
  return new Promise((resolve, reject) => {
    let complaints = "";
    child.stderr?.on("data", (piece: Buffer) => (complaints += piece.toString()));
    child.once("exit", (code) => reject(new Error(`weft serve ended with ${code}: ${complaints}`)));
    assert(child.stdout);
    createInterface(child.stdout).once("line", (line) => {
      child.removeAllListeners("exit");
      resolve(JSON.parse(line) as { url: string });
    });
  });
}

/** A script: one reply a line. */
export function script(...replies: object[]): string {
  return replies.map((reply) => JSON.stringify(reply)).join("\n") + "\n";
}

/** The ACTION text of one call. */
export function action(tool: string, args: Record<string, string> = {}): string {
  const parts = Object.entries(args).map(([name, value]) => `<${name}>${value}</${name}>`);
  return `<ACTION><tool name="${tool}">${parts.join("")}</tool></ACTION>`;
}

export interface Look {
  language?: "en" | "zh";
  theme?: "light" | "dark";
  /** Phone width. */
  phone?: boolean;
}

let browser: Browser | undefined;

/** A page that is connected, and what it complained about. */
export interface Seen {
  page: Page;
  context: BrowserContext;
  complaints: string[];
  /** Addresses outside of the server that were asked for. */
  foreign: string[];
  open(hash: string): Promise<void>;
  close(): Promise<void>;
}

export async function open(server: Server, hash = "#/", look: Look = {}): Promise<Seen> {
  // A page that the test hands over has no address of which the browser knows that it is local.
  const args = isFromDisk ? [...FLAGS, "--disable-features=LocalNetworkAccessChecks"] : FLAGS;
  browser ??= await chromium.launch({ executablePath: chromiumPath(), args });
  const context = await browser.newContext({
    locale: look.language === "zh" ? "zh-CN" : "en-GB",
    colorScheme: look.theme ?? "light",
    viewport: look.phone ? { width: 390, height: 844 } : { width: 1280, height: 860 },
    timezoneId: "UTC",
    reducedMotion: "reduce",
  });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  const complaints: string[] = [];
  const foreign: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => {
    const address = request.url();
    if (!address.startsWith(server.url) && !address.startsWith("data:") && !address.startsWith("blob:")) foreign.push(address);
  });
  if (isFromDisk) await fromDisk(context, server);
  await page.goto(`${server.url}/#token=${server.token}`);
  await page.locator("[data-view]").waitFor();
  const seen: Seen = {
    page,
    context,
    complaints,
    foreign,
    async open(address) {
      await page.evaluate((text) => (location.hash = text), address);
    },
    close: () => context.close(),
  };
  if (hash !== "#/") await seen.open(hash);
  return seen;
}

/** Serves the page's files as they lie on the disk, under the server's own rules: for work on the page without building the program. */
async function fromDisk(context: BrowserContext, server: Server): Promise<void> {
  const headers = Object.fromEntries((await fetch(`${server.url}/`)).headers);
  for (const name of ["content-length", "content-encoding", "etag", "transfer-encoding"]) delete headers[name];
  const types: Record<string, string> = { html: "text/html", js: "text/javascript", css: "text/css", svg: "image/svg+xml" };
  await context.route(
    (address) => address.origin === server.url && !/^\/(api|ws|v1|mcp|hooks|widget)\b/.test(address.pathname),
    (route) => {
      const path = new URL(route.request().url()).pathname;
      const file = join(dist, path === "/" ? "index.html" : path);
      const type = types[file.split(".").at(-1) ?? ""] ?? "application/octet-stream";
      return existsSync(file)
        ? route.fulfill({ body: readFileSync(file), headers: { ...headers, "content-type": `${type}; charset=utf-8` } })
        : route.fulfill({ status: 404 });
    },
  );
}

/** Ends the browser, and what failed tests left, of which it keeps a picture; the last thing that a test file does. */
export async function closeBrowser(): Promise<void> {
  const left = browser?.contexts().flatMap((context) => context.pages()) ?? [];
  for (const [index, page] of left.entries()) {
    const path = join(target, `page-failures/${basename(process.argv[1] ?? "test")}-${index + 1}`);
    await page.screenshot({ path: `${path}.png` }).catch(() => undefined);
    const html = await page.content().catch(String);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(`${path}.html`, html);
    console.log(`a page was left at ${page.url().replace(/token=.*/, "token=…")}; it is kept as ${path}.png`);
  }
  await browser?.close();
  browser = undefined;
  for (const server of servers) await server.stop();
}

/** Begins a run and waits until it stands so. */
export async function runUntil(server: Server, body: object, status: string): Promise<string> {
  const { run } = await server.ask<{ run: string }>("api/runs", body);
  await untilStatus(server, run, status);
  return run;
}

/** Waits until a run stands so; asks the server, which knows. */
export async function untilStatus(server: Server, run: string, status: string): Promise<void> {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const shown = await server.ask<{ status: string }>(`api/runs/${run}`);
    if (shown.status === status) return;
    assert(Date.now() < end, `${run} is ${shown.status}, not ${status}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}
