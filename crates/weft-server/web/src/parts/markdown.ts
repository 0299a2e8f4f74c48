// Markdown as the replies of models use it, read into plain data: what shows it makes elements, and no text becomes markup.

/** A piece of a line. */
export type Span =
  | { kind: "text"; text: string }
  | { kind: "code"; text: string }
  | { kind: "strong" | "em" | "del"; spans: Span[] }
  | { kind: "link"; href: string; spans: Span[] };

export type Block =
  | { kind: "paragraph"; spans: Span[] }
  | { kind: "heading"; level: number; spans: Span[] }
  | { kind: "code"; language: string; text: string }
  | { kind: "quote"; blocks: Block[] }
  | { kind: "list"; start: number | null; items: Block[][] }
  | { kind: "table"; head: Span[][]; rows: Span[][][] }
  | { kind: "rule" };

const FENCE = /^ {0,3}(```+|~~~+)\s*([^`\s]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])\s+(.*)$/;
const RULE = /^ {0,3}([-*_])(\s*\1){2,}\s*$/;
const DELIMITERS = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
/** Quotes and lists within one another at most. */
const DEEPEST = 8;

/** Reads a text; one that ends within a block is read as if the block ended there. */
export function readMarkdown(text: string, depth = 0): Block[] {
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  const blocks: Block[] = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] ?? "";
    const fence = FENCE.exec(line);
    const heading = HEADING.exec(line);
    if (line.trim() === "") {
      at += 1;
    } else if (fence) {
      const end = endOfFence(lines, at + 1, fence[1] ?? "```");
      blocks.push({ kind: "code", language: fence[2] ?? "", text: lines.slice(at + 1, end).join("\n") });
      at = end + 1;
    } else if (heading) {
      blocks.push({ kind: "heading", level: (heading[1] ?? "#").length, spans: readSpans(heading[2] ?? "") });
      at += 1;
    } else if (RULE.test(line)) {
      blocks.push({ kind: "rule" });
      at += 1;
    } else if (/^ {0,3}>/.test(line) && depth < DEEPEST) {
      const end = lines.findIndex((other, index) => index > at && !/^ {0,3}>/.test(other));
      const own = lines.slice(at, end < 0 ? lines.length : end);
      blocks.push({ kind: "quote", blocks: readMarkdown(own.map((one) => one.replace(/^ {0,3}> ?/, "")).join("\n"), depth + 1) });
      at += own.length;
    } else if (ITEM.test(line) && depth < DEEPEST) {
      at = readList(lines, at, depth, blocks);
    } else if (line.includes("|") && DELIMITERS.test(lines[at + 1] ?? "") && (lines[at + 1] ?? "").includes("-")) {
      at = readTable(lines, at, blocks);
    } else {
      const end = endOfParagraph(lines, at + 1);
      blocks.push({ kind: "paragraph", spans: readSpans(lines.slice(at, end).join("\n").trim()) });
      at = end;
    }
  }
  return blocks;
}

function endOfFence(lines: readonly string[], from: number, fence: string): number {
  const end = lines.findIndex((line, index) => index >= from && line.trim().startsWith(fence) && line.trim().replaceAll(fence[0] ?? "`", "") === "");
  return end < 0 ? lines.length : end;
}

function endOfParagraph(lines: readonly string[], from: number): number {
  const begins = (line: string): boolean => line.trim() === "" || FENCE.test(line) || HEADING.test(line) || RULE.test(line) || /^ {0,3}>/.test(line) || ITEM.test(line);
  const end = lines.findIndex((line, index) => index >= from && begins(line));
  return end < 0 ? lines.length : end;
}

function readList(lines: readonly string[], from: number, depth: number, blocks: Block[]): number {
  const number = (line: string): boolean => /^\s*\d/.test(line);
  const first = lines[from] ?? "";
  const indent = (line: string): number => line.length - line.trimStart().length;
  const isNext = (line: string): boolean => ITEM.test(line) && number(line) === number(first) && indent(line) <= indent(first) + 1;
  const items: string[][] = [];
  let at = from;
  for (; at < lines.length; at += 1) {
    const line = lines[at] ?? "";
    if (isNext(line)) {
      items.push([ITEM.exec(line)?.[3] ?? ""]);
    } else if (/^\s{2,}\S/.test(line)) {
      items.at(-1)?.push(line.replace(/^( {1,4}|\t)/, ""));
    } else if (line.trim() === "" && (/^\s{2,}\S/.test(lines[at + 1] ?? "") || isNext(lines[at + 1] ?? ""))) {
      items.at(-1)?.push("");
    } else {
      break;
    }
  }
  const start = number(first) ? Number.parseInt(first.trim(), 10) : null;
  blocks.push({ kind: "list", start, items: items.map((own) => readMarkdown(own.join("\n"), depth + 1)) });
  return at;
}

function readTable(lines: readonly string[], from: number, blocks: Block[]): number {
  const cells = (line: string): Span[][] =>
    line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "").split(/(?<!\\)\|/).map((cell) => readSpans(cell.trim().replaceAll("\\|", "|")));
  const head = cells(lines[from] ?? "");
  let at = from + 2;
  const rows: Span[][][] = [];
  for (; (lines[at] ?? "").includes("|"); at += 1) {
    const row = cells(lines[at] ?? "");
    rows.push(head.map((_, column) => row[column] ?? []));
  }
  blocks.push({ kind: "table", head, rows });
  return at;
}

const SPAN = /(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)|\[([^\]\n]{1,500})\]\(([^()\s]{1,2000})\)|(\*\*|__)(?=\S)([\s\S]*?\S)\5|(~~)(?=\S)([\s\S]*?\S)~~|(?<![\w*])([*_])(?=[^\s*_])([^*_\n]*[^\s*_])\9(?![\w*])|\bhttps?:\/\/[^\s<>()[\]]+[^\s<>()[\].,:;!?"'`*_]/;

/** Reads a line. Addresses that a browser would run are left as text. */
export function readSpans(text: string): Span[] {
  const spans: Span[] = [];
  let rest = text;
  while (rest !== "") {
    const found = SPAN.exec(rest);
    if (found === null) break;
    if (found.index > 0) spans.push({ kind: "text", text: rest.slice(0, found.index) });
    spans.push(spanOf(found));
    rest = rest.slice(found.index + found[0].length);
  }
  if (rest !== "") spans.push({ kind: "text", text: rest });
  return spans;
}

function spanOf(found: RegExpExecArray): Span {
  const [whole, tick, code, label, href, bold, strong, strike, gone, , em] = found;
  if (tick !== undefined) return { kind: "code", text: (code ?? "").trim() };
  if (label !== undefined) return isSafe(href ?? "") ? { kind: "link", href: href ?? "", spans: readSpans(label) } : { kind: "text", text: whole };
  if (bold !== undefined) return { kind: "strong", spans: readSpans(strong ?? "") };
  if (strike !== undefined) return { kind: "del", spans: readSpans(gone ?? "") };
  if (em !== undefined) return { kind: "em", spans: readSpans(em) };
  return { kind: "link", href: whole, spans: [{ kind: "text", text: whole }] };
}

/** Whether a link leads to a page or a mailbox, and nowhere else. */
export function isSafe(href: string): boolean {
  return /^(https?:\/\/|mailto:)/i.test(href);
}
