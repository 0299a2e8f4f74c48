//! Grammars for constrained decoding: free text, or one block that the reader takes as it is.
//!
//! Every grammar describes one layout, the one that [`ToolSet::encode`] writes, so that a model has no blanks to get lost in.
//! Everything is bounded: a small model ends a list or a number only where it must.

mod form;
mod free;
mod pattern;
mod structural_tag;
mod text;
mod write;

use protocol_action::encode::call_tags;
use serde::Serialize;

use self::form::{Forms, Tool};
use self::write::{Dialect, Writer};
use crate::toolset::ToolSet;

/// The language of a grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GrammarFormat {
    /// Lark as `llguidance` reads it.
    Lark,
    /// GBNF, the grammars of llama.cpp.
    Gbnf,
    /// A structural tag with a GBNF grammar inside, as servers with XGrammar read it: vLLM, SGLang.
    StructuralTag,
}

/// Share of the calls that the schemas allow which a grammar accepts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum GrammarScope {
    /// Whatever [`ToolSet::encode`] writes, up to large bounds: 65,536 characters a text, 256 items a list, 16 calls a block.
    #[default]
    Wide,
    /// Limits for a small model, whose output would otherwise not end: one call, one line of 120 characters
    /// a text (200 in CDATA), 8 items a list, 9 digits a number, and of alternatives the first.
    Narrow,
}

/// Permission for the model to answer in text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum CallChoice {
    /// Text, or text and a block.
    #[default]
    Auto,
    /// A block and nothing else.
    Required,
}

/// Options of a grammar.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct GrammarOptions {
    /// Share of the allowed calls that the grammar accepts.
    pub scope: GrammarScope,
    /// Permission for text.
    pub call: CallChoice,
}

/// A grammar, and what it leaves out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Grammar {
    /// Its language.
    pub format: GrammarFormat,
    /// The grammar: text of its language, or JSON.
    pub text: String,
    /// Number of tools whose calls it accepts.
    pub tools: usize,
    /// Tools of which no call can be written.
    pub refused: Vec<RefusedTool>,
    /// Keywords of schemas that the grammar does not enforce; the validator does, after the call is read.
    pub loose: Vec<LooseKeyword>,
}

/// A tool of which no call can be written, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RefusedTool {
    /// Canonical name.
    pub tool: String,
    /// JSON pointer to the parameter that has no legal value, or that cannot be written.
    pub path: String,
    /// Reason of the refusal.
    pub why: String,
}

/// A keyword that is left to the validator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LooseKeyword {
    /// Canonical name of the tool.
    pub tool: String,
    /// JSON pointer to the parameter.
    pub path: String,
    /// The keyword, such as `pattern`.
    pub keyword: String,
}

/// The grammar of free text or calls of these tools: everything that [`ToolSet::encode`] writes of valid arguments.
///
/// Excluded: control characters, parameters that are not declared, exponents where numbers have bounds.
/// Tools whose calls cannot be written are left out and reported.
///
/// ```
/// use serde_json::json;
/// use tool_schema::{GrammarFormat, ToolSet, grammar};
/// use agent_types::ToolDefinition;
///
/// let schema = json!({"type": "object", "properties": {"unit": {"enum": ["c", "f"]}}, "required": ["unit"]});
/// let tools = ToolSet::new([ToolDefinition::new("get_weather".parse()?, "", schema)])?;
/// let lark = grammar(&tools, GrammarFormat::Lark);
/// assert!(lark.text.contains(r#"("c" | "f")"#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn grammar(tools: &ToolSet, format: GrammarFormat) -> Grammar {
    grammar_with(tools, format, GrammarOptions::default())
}

/// The same, made for a purpose.
#[must_use]
pub fn grammar_with(tools: &ToolSet, format: GrammarFormat, options: GrammarOptions) -> Grammar {
    let mut made = Grammar { format, text: String::new(), tools: 0, refused: Vec::new(), loose: Vec::new() };
    let mut calls = Vec::new();
    for tool in tools.tools() {
        let (open, close) = call_tags(tool.tag(), tools);
        let mut forms = Forms::new(tool.schema.nodes(), options.scope);
        let root = forms.arguments();
        made.loose.extend(forms.loose.drain(..).map(|(path, keyword)| LooseKeyword {
            tool: tool.name.clone(),
            path,
            keyword: keyword.to_owned(),
        }));
        match root {
            Ok(root) => calls.push(Tool { open, close, root, forms: forms.into_table() }),
            Err(refusal) => made.refused.push(RefusedTool {
                tool: tool.name.clone(),
                path: refusal.path,
                why: refusal.why,
            }),
        }
    }
    made.tools = calls.len();
    made.text = match format {
        GrammarFormat::Lark => Writer::new(Dialect::Lark, options).grammar(&calls),
        GrammarFormat::Gbnf => Writer::new(Dialect::Gbnf, options).grammar(&calls),
        GrammarFormat::StructuralTag => structural_tag::grammar(&calls, options),
    };
    made
}
