import assert from "node:assert/strict";
import { test } from "node:test";
import { type Block, type Span, readMarkdown } from "./markdown.ts";

const flat = (spans: Span[]): string =>
  spans.map((span) => (span.kind === "text" ? span.text : span.kind === "code" ? `\`${span.text}\`` : `${span.kind}${span.kind === "link" ? `<${span.href}>` : ""}(${flat(span.spans)})`)).join("");
const shape = (blocks: Block[]): string[] =>
  blocks.map((block) => {
    switch (block.kind) {
      case "paragraph": return `p ${flat(block.spans)}`;
      case "heading": return `h${block.level} ${flat(block.spans)}`;
      case "code": return `code ${block.language}: ${block.text}`;
      case "quote": return `> ${shape(block.blocks).join(" / ")}`;
      case "list": return `list ${block.start ?? "-"}: ${block.items.map((item) => shape(item).join(" / ")).join(" ; ")}`;
      case "table": return `table ${[block.head, ...block.rows].map((row) => row.map(flat).join(",")).join(" ; ")}`;
      case "rule": return "rule";
    }
  });

for (const [text, expected] of [
  ["One\ntwo\n\nThree", ["p One\ntwo", "p Three"]],
  ["# Title\ntext **bold *and* more** `a*b*` ~~no~~", ["h1 Title", "p text strong(bold em(and) more) `a*b*` del(no)"]],
  ["```rust\nfn main() {}\n\n# no title\n```\nafter", ["code rust: fn main() {}\n\n# no title", "p after"]],
  ["```\nstill being written", ["code : still being written"]],
  ["- one\n- two\n  more\n  - inner\n\n3. three\n4. four", ["list -: p one ; p two\nmore / list -: p inner", "list 3: p three ; p four"]],
  ["> said\n> again\nafter", ["> p said\nagain", "p after"]],
  ["| a | b |\n|---|:-:|\n| 1 | x\\|y |\n| 2 |", ["table a,b ; 1,x|y ; 2,"]],
  ["---", ["rule"]],
  ["[a](https://a.example/x) [b](javascript:alert(1)) https://c.example/y.", ["p link<https://a.example/x>(a) [b](javascript:alert(1)) link<https://c.example/y>(https://c.example/y)."]],
  ["<img src=x onerror=alert(1)> snake_case_name 2 * 3 * 4", ["p <img src=x onerror=alert(1)> snake_case_name 2 * 3 * 4"]],
  ["", []],
] as const) {
  test(`markdown: ${JSON.stringify(text).slice(0, 40)}`, () => assert.deepEqual(shape(readMarkdown(text)), expected));
}

test("hostile texts are read in time", () => {
  for (const piece of ["*", "[", "`", "> ", "- ", "|", "**a", "_a_"]) {
    const start = performance.now();
    readMarkdown(piece.repeat(20_000));
    assert.ok(performance.now() - start < 2000, piece);
  }
});
