//! Forms as text of a grammar: Lark and GBNF differ in little more than how they spell things.

use std::fmt::Write as _;

use indexmap::IndexMap;

use super::form::{Form, FormId, Json, List, Start, Text, Tool};
use super::free::{self, OPENER};
use super::pattern::Pattern;
use super::text::{ENTITIES, NONCHARACTERS, excluded, excluded_first, literal};
use super::{CallChoice, GrammarOptions, GrammarScope};

/// Syntax of a grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Lark,
    Gbnf,
}

/// llama.cpp writes a repetition out; more than these are left open.
const MAX_GBNF_TIMES: u64 = 64;
/// A section of more characters is bounded by its pieces and not by its characters.
const MAX_COUNTED: u64 = 500;
/// The same as [`MAX_GBNF_TIMES`] for characters of a text.
const MAX_GBNF_TEXT: u64 = 256;

/// A part of a row.
#[derive(Debug, Clone)]
enum Piece {
    /// Text, to be put together with its neighbours.
    Literal(String),
    Expression(String),
}

/// Writes one grammar.
pub(super) struct Writer {
    dialect: Dialect,
    options: GrammarOptions,
    /// Rules by their names, in the order in which they were needed.
    rules: IndexMap<String, String>,
    /// Names of shared rules by what they say.
    shared: IndexMap<String, String>,
}

impl Writer {
    pub(super) fn new(dialect: Dialect, options: GrammarOptions) -> Self {
        Self { dialect, options, rules: IndexMap::new(), shared: IndexMap::new() }
    }

    /// Free text or a block, or a block alone.
    pub(super) fn grammar(mut self, tools: &[Tool]) -> String {
        let root = if self.is_lark() { "start" } else { "root" };
        self.rules.insert(root.to_owned(), String::new());
        let has_calls = !tools.is_empty();
        if has_calls {
            let calls = self.call_list(tools);
            self.rules.insert("body".into(), format!("{calls} {}", literal("\n</ACTION>")));
        }
        let start = match self.options.call {
            CallChoice::Required if has_calls => format!("{} body", literal(OPENER)),
            CallChoice::Required | CallChoice::Auto => self.free_text(has_calls),
        };
        self.rules[0] = start;
        self.text()
    }

    /// Content between the tags of a block, with its last line break.
    pub(super) fn calls(mut self, tools: &[Tool]) -> String {
        self.rules.insert("root".into(), String::new());
        let calls = self.call_list(tools);
        self.rules[0] = format!("{calls} {}", literal("\n"));
        self.text()
    }

    fn text(&self) -> String {
        let mut out = String::new();
        let is = if self.is_lark() { ":" } else { " ::=" };
        for (name, rule) in &self.rules {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{name}{is} {rule}");
        }
        out
    }

    const fn is_lark(&self) -> bool {
        matches!(self.dialect, Dialect::Lark)
    }

    fn free_text(&mut self, has_calls: bool) -> String {
        if !self.is_lark() {
            let rules = free::rules(if has_calls { "body" } else { "none" });
            self.rules.extend(rules);
            if !has_calls {
                // Nothing may follow an opener: a character class that holds none.
                self.rules.insert("none".into(), "[^\\x00-\\U0010FFFF]".into());
            }
            return "f0".into();
        }
        let opened = free::opened();
        self.rules.insert("FREE".into(), format!("/(?s:.+)/ & ~/{opened}/"));
        if !has_calls {
            return "FREE".into();
        }
        let before = match self.options.scope {
            GrammarScope::Wide => format!("/(?s:.*)/ & ~/{opened}/"),
            // No fences, no JSON, no elements: whatever would hide the block from the reader.
            GrammarScope::Narrow => r"/([^<`~\{\[\x00-\x08\x0B\x0C\x0E-\x1F]{1,400}\n)?/".into(),
        };
        self.rules.insert("BEFORE".into(), before);
        self.rules.insert("lead[lazy]".into(), format!("BEFORE {}", literal(OPENER)));
        "FREE | lead body".into()
    }

    fn call_list(&mut self, tools: &[Tool]) -> String {
        let names: Vec<String> = (0..tools.len()).map(|index| format!("t{index}")).collect();
        for (name, tool) in names.iter().zip(tools) {
            self.rules.insert(name.clone(), String::new());
            let call = self.call(tool, name);
            self.rules.insert(name.clone(), call);
        }
        let any = format!("({})", names.join(" | "));
        match self.options.scope {
            GrammarScope::Wide => self.times(&any, 1, 16),
            GrammarScope::Narrow => any,
        }
    }

    fn call(&mut self, tool: &Tool, name: &str) -> String {
        let mut row = vec![Piece::Literal(format!("\n  {}", tool.open))];
        let Form::Object { fields, .. } = &tool.forms[tool.root] else { return joined(row) };
        if !fields.is_empty() {
            let parts = self.content(tool, name, tool.root);
            if fields.iter().any(|field| field.required) {
                row.extend(parts);
            } else {
                row.push(Piece::Expression(format!("({})?", joined(parts))));
            }
        }
        row.push(Piece::Literal(tool.close.clone()));
        joined(row)
    }

    /// Content between two tags.
    fn content(&mut self, tool: &Tool, name: &str, id: FormId) -> Vec<Piece> {
        let expression = match &tool.forms[id] {
            Form::Literals(texts) => return vec![one_text_of(texts)],
            Form::Text(text) => self.text_form(*text),
            Form::Number(pattern) => self.number(pattern),
            Form::Json(kind) => self.json(*kind),
            Form::List(list) => return self.list(tool, name, list),
            Form::Object { fields, depth } => {
                let mut parts = Vec::new();
                for field in fields {
                    let mut row = vec![Piece::Literal(format!("\n{}{}", indent(*depth), field.tags.0))];
                    row.extend(self.shared_content(tool, name, field.form));
                    row.push(Piece::Literal(field.tags.1.clone()));
                    if field.required {
                        parts.extend(row);
                    } else {
                        parts.push(Piece::Expression(format!("({})?", joined(row))));
                    }
                }
                parts.push(Piece::Literal(format!("\n{}", indent(depth - 1))));
                return parts;
            }
            Form::OneOf(forms) => {
                let options: Vec<String> = forms
                    .iter()
                    .map(|form| {
                        let row = self.shared_content(tool, name, *form);
                        joined(row)
                    })
                    .collect();
                format!("({})", options.join(" | "))
            }
        };
        vec![Piece::Expression(expression)]
    }

    /// Content as in [`Self::content`], with lists and objects as separate rules, so that repeated content is written
    /// once.
    fn shared_content(&mut self, tool: &Tool, name: &str, id: FormId) -> Vec<Piece> {
        if !matches!(tool.forms[id], Form::List(_) | Form::Object { .. }) {
            return self.content(tool, name, id);
        }
        let rule = format!("{name}v{id}");
        if !self.rules.contains_key(&rule) {
            self.rules.insert(rule.clone(), String::new());
            let row = self.content(tool, name, id);
            let row = joined(row);
            self.rules.insert(rule.clone(), row);
        }
        vec![Piece::Expression(rule)]
    }

    fn list(&mut self, tool: &Tool, name: &str, list: &List) -> Vec<Piece> {
        let mut item = |form: FormId| {
            let mut row = vec![Piece::Literal(format!("\n{}<item>", indent(list.depth)))];
            row.extend(self.shared_content(tool, name, form));
            row.push(Piece::Literal("</item>".into()));
            joined(row)
        };
        let first: Vec<String> = list.first.iter().map(|form| item(*form)).collect();
        let rest = list.rest.map(item);
        let known = first.len() as u64;
        let mut tail = match rest {
            Some(rest) if list.max > known => {
                self.times(&format!("({rest})"), list.min.saturating_sub(known), list.max - known)
            }
            Some(_) | None => String::new(),
        };
        for (index, item) in first.into_iter().enumerate().rev() {
            let index = index as u64;
            if index >= list.max {
                continue;
            }
            let row = if tail.is_empty() { item } else { format!("{item} {tail}") };
            tail = if index < list.min { row } else { format!("({row})?") };
        }
        vec![Piece::Expression(tail), Piece::Literal(format!("\n{}", indent(list.depth - 1)))]
    }

    fn times(&self, expression: &str, min: u64, max: u64) -> String {
        match (min, max) {
            (1, 1) => expression.to_owned(),
            (0, 1) => format!("{expression}?"),
            (min, max) if self.is_lark() || max <= MAX_GBNF_TIMES => format!("{expression}{{{min},{max}}}"),
            (0, _) => format!("{expression}*"),
            (1, _) => format!("{expression}+"),
            (min, _) => format!("{expression}{{{min},}}"),
        }
    }

    /// The name of a rule that says this; one that is there is used again.
    fn share(&mut self, prefix: &str, rule: &str) -> String {
        if let Some(name) = self.shared.get(rule) {
            return name.clone();
        }
        let name = format!("{prefix}{}", self.shared.len());
        self.shared.insert(rule.to_owned(), name.clone());
        self.rules.insert(name.clone(), rule.to_owned());
        name
    }

    fn number(&mut self, pattern: &Pattern) -> String {
        if self.is_lark() {
            self.share("N", &format!("/{}/", pattern.regex()))
        } else {
            self.share("n", &pattern.gbnf())
        }
    }

    fn text_form(&mut self, text: Text) -> String {
        let name = if self.is_lark() { self.lark_text(text) } else { self.gbnf_text(text) };
        if text.min == 0 { format!("{name}?") } else { name }
    }

    fn lark_text(&mut self, text: Text) -> String {
        let scope = self.options.scope;
        let (least, most) = (text.min.max(1) - 1, text.max.max(1) - 1);
        let entity = format!("&({});", ENTITIES.join("|"));
        let class = format!("[^<&{}{NONCHARACTERS}]", excluded(scope));
        let first = match text.start {
            Start::Anything => {
                format!("([^<&{}{}{NONCHARACTERS}]|{entity})", excluded_first(scope), excluded(scope))
            }
            Start::Letter => "[A-Za-z]".into(),
        };
        let plain = self.share("T", &format!("/{first}({class}|{entity}){{{least},{most}}}/"));
        if text.start == Start::Letter {
            return plain;
        }
        let section = self.lark_section(text);
        let sections = match scope {
            GrammarScope::Wide => self.times(&section, 1, 8),
            GrammarScope::Narrow => section,
        };
        self.share("x", &format!("{plain} | {sections}"))
    }

    /// A CDATA section as one terminal: in two, the lexer would take `]]` into the first.
    fn lark_section(&mut self, text: Text) -> String {
        let scope = self.options.scope;
        let (least, most) = (text.min.max(1) - 1, text.max.max(1) - 1);
        // A line break at each end may be layout.
        let layout = if scope == GrammarScope::Wide { 2 } else { 0 };
        let control = format!(r"\x00-\x08\x0B\x0C\x0E-\x1F{NONCHARACTERS}");
        let blanks = if scope == GrammarScope::Narrow { r"\n\r\t " } else { "" };
        if text.exact && most <= MAX_COUNTED {
            let body = format!(
                r"/[^{blanks}{control}][^{control}]{{{least},{}}}/ & ~/(?s:.*)\]\]>(?s:.*)/",
                most + layout
            );
            let body = self.share("B", &body);
            return self.share("C", &format!("\"<![CDATA[\" {body} \"]]>\""));
        }
        // Counting characters and looking for the end at once costs a state for each number; pieces cost nothing.
        let piece = |first: &str| format!(r"([^\]{first}{control}]|\][^\]{control}]|\]\]+[^\]>{control}])");
        let body = match scope {
            GrammarScope::Narrow => format!(r"{}{}{{{least},199}}\]*", piece(blanks), piece("")),
            GrammarScope::Wide if text.min == 0 => format!(r"{}{{0,{}}}\]*", piece(""), text.max + layout),
            GrammarScope::Wide => {
                format!(r"({}{{{},{}}}\]*|\]+)", piece(""), text.min, text.max + layout)
            }
        };
        self.share("C", &format!(r"/<!\[CDATA\[{body}\]\]>/"))
    }

    fn gbnf_text(&mut self, text: Text) -> String {
        let Text { min, max, start, .. } = text;
        let scope = self.options.scope;
        let (least, most) = (min.max(1) - 1, max.max(1) - 1);
        let entities: Vec<String> = ENTITIES.iter().map(|name| format!("\"{name}\"")).collect();
        let entity = self.share("e", &format!("\"&\" ({}) \";\"", entities.join(" | ")));
        let any = self.share("a", &format!("[^<&{}] | {entity}", excluded(scope)));
        let first = match start {
            Start::Anything => {
                let class = format!("[^<&{}{}] | {entity}", excluded_first(scope), excluded(scope));
                self.share("b", &class)
            }
            Start::Letter => "[A-Za-z]".into(),
        };
        let more = match (least, most) {
            (_, 0) => String::new(),
            (0, most) if most >= MAX_GBNF_TEXT => format!(" {any}*"),
            (least, most) if most >= MAX_GBNF_TEXT => format!(" {any}{{{least},}}"),
            (least, most) => format!(" {any}{{{least},{most}}}"),
        };
        let plain = format!("{first}{more}");
        if start == Start::Letter {
            return self.share("x", &plain);
        }
        let control = r"\x00-\x08\x0B\x0C\x0E-\x1F";
        let body = self.share(
            "d",
            &format!(r#"([^\]{control}] | "]" [^\]{control}] | "]]" "]"* [^\]>{control}])* "]"*"#),
        );
        let section = self.share("c", &format!("\"<![CDATA[\" {body} \"]]>\""));
        let sections = match scope {
            GrammarScope::Wide => format!("{section}+"),
            GrammarScope::Narrow => section,
        };
        self.share("x", &format!("{plain} | {sections}"))
    }

    fn json(&mut self, kind: Json) -> String {
        let depth = match self.options.scope {
            GrammarScope::Wide => 6,
            GrammarScope::Narrow => 2,
        };
        let plain = self.json_value(kind, depth, JsonContext::Text);
        if self.options.scope == GrammarScope::Narrow {
            return plain;
        }
        let section = self.json_value(kind, depth, JsonContext::Section);
        self.share("y", &format!("{plain} | \"<![CDATA[\" {section} \"]]>\""))
    }

    fn json_value(&mut self, kind: Json, depth: u32, context: JsonContext) -> String {
        let most = match self.options.scope {
            GrammarScope::Wide => 255,
            GrammarScope::Narrow => 3,
        };
        match kind {
            Json::Array => {
                let item = self.json_value(Json::Any, depth - 1, context);
                let more = self.times(&format!("(\",\" {item})"), 0, most);
                self.share("ja", &format!("\"[\" ({item} {more})? \"]\""))
            }
            Json::Object => {
                let (key, value) =
                    (self.json_string(context), self.json_value(Json::Any, depth - 1, context));
                let more = match self.options.scope {
                    GrammarScope::Wide => self.times(&format!("(\",\" {key} \":\" {value})"), 0, most),
                    // Two members could have one name.
                    GrammarScope::Narrow => String::new(),
                };
                self.share("jo", &format!("\"{{\" ({key} \":\" {value} {more})? \"}}\""))
            }
            Json::Any => {
                let number = match self.options.scope {
                    GrammarScope::Wide => Pattern::numbers(),
                    GrammarScope::Narrow => Pattern::short_numbers(),
                };
                let mut options = vec![self.json_string(context), self.number(&number)];
                options.extend(["true", "false", "null"].map(literal));
                if depth > 0 {
                    options.push(self.json_value(Json::Array, depth, context));
                    options.push(self.json_value(Json::Object, depth, context));
                }
                self.share("jv", &options.join(" | "))
            }
        }
    }

    fn json_string(&mut self, context: JsonContext) -> String {
        let longest = match self.options.scope {
            GrammarScope::Wide => 65_536,
            GrammarScope::Narrow => 60,
        };
        if self.is_lark() {
            let escape = r#"\\["\\bfnrt]|\\u00([01][0-9a-f]|3e)"#;
            let control = format!(r"\x00-\x1F{NONCHARACTERS}");
            let pieces = match context {
                JsonContext::Text => format!(r#"([^"\\<&{control}]|{escape}){{0,{longest}}}"#),
                // No `]]>`, which would end the section.
                JsonContext::Section => format!(
                    r#"([^"\\\]{control}]|{escape}|\]([^"\\\]{control}]|{escape})|\]\]+([^"\\\]>{control}]|{escape})){{0,{longest}}}\]*"#
                ),
            };
            return self.share("J", &format!("/\"{pieces}\"/"));
        }
        let escape = r#""\\" (["\\bfnrt] | "u00" ([01] [0-9a-f] | "3e"))"#;
        let escape = self.share("je", escape);
        let pieces = match context {
            JsonContext::Text => format!(r#"([^"\\<&\x00-\x1F] | {escape})*"#),
            JsonContext::Section => {
                let class = |more: &str| format!(r#"([^"\\\]{more}\x00-\x1F] | {escape})"#);
                let (any, no_end) = (class(""), class(">"));
                format!(r#"({any} | "]" {any} | "]]" "]"* {no_end})* "]"*"#)
            }
        };
        self.share("js", &format!(r#""\"" {pieces} "\"""#))
    }
}

/// Context of JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JsonContext {
    Text,
    Section,
}

fn indent(depth: usize) -> String {
    "  ".repeat(depth)
}

fn joined(pieces: Vec<Piece>) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut text = String::new();
    for piece in pieces {
        match piece {
            Piece::Literal(more) => text.push_str(&more),
            Piece::Expression(expression) => {
                if !text.is_empty() {
                    parts.push(literal(&std::mem::take(&mut text)));
                }
                parts.push(expression);
            }
        }
    }
    if !text.is_empty() || parts.is_empty() {
        parts.push(literal(&text));
    }
    parts.join(" ")
}

fn one_text_of(texts: &[String]) -> Piece {
    if let [only] = texts {
        return Piece::Literal(only.clone());
    }
    let literals: Vec<String> =
        texts.iter().filter(|text| !text.is_empty()).map(|text| literal(text)).collect();
    let mark = if literals.len() < texts.len() { "?" } else { "" };
    Piece::Expression(format!("({}){mark}", literals.join(" | ")))
}
