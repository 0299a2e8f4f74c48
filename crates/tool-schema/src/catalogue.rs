//! Text that lists the tools for the model.

use std::fmt::Write;

use agent_types::estimate_tokens;
use protocol_action::Lang;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::node::{Node, NodeId, Nodes, Types};
use crate::toolset::OfferedTool;

/// Deepest nesting of a type that is written out.
const MAX_DEPTH: usize = 3;

/// Maximum number of members or fields written out for one parameter.
const MAX_LISTED: usize = 24;

/// The tools and skills of an agent as a model reads them.
#[derive(Debug, Clone)]
pub struct Catalogue<'t> {
    lang: Lang,
    tools: Vec<&'t OfferedTool>,
    skills: Vec<&'t OfferedTool>,
}

/// Size of a catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CatalogueSize {
    /// Tools and skills together.
    pub tools: usize,
    /// Bytes of the text.
    pub bytes: usize,
    /// Tokens, estimated by [`estimate_tokens`].
    pub tokens: usize,
}

impl<'t> Catalogue<'t> {
    /// An empty catalogue whose headings are in a language.
    #[must_use]
    pub fn new(lang: Lang) -> Self {
        Self { lang, tools: Vec::new(), skills: Vec::new() }
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(mut self, tool: &'t OfferedTool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds a skill.
    #[must_use]
    pub fn skill(mut self, tool: &'t OfferedTool) -> Self {
        self.skills.push(tool);
        self
    }

    /// The text.
    #[must_use]
    pub fn render(&self) -> String {
        let words = Words::new(self.lang);
        let mut out = String::new();
        for (heading, tools) in [(words.tools, &self.tools), (words.skills, &self.skills)] {
            if tools.is_empty() {
                continue;
            }
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{}{heading}", if out.is_empty() { "" } else { "\n" });
            for tool in tools {
                write_tool(&mut out, tool, words);
            }
        }
        out.truncate(out.trim_end().len());
        out
    }

    /// Returns the size of the text.
    #[must_use]
    pub fn size(&self) -> CatalogueSize {
        let text = self.render();
        CatalogueSize {
            tools: self.tools.len() + self.skills.len(),
            bytes: text.len(),
            tokens: estimate_tokens(&text),
        }
    }
}

/// The words of a language.
#[derive(Debug, Clone, Copy)]
struct Words {
    tools: &'static str,
    skills: &'static str,
    required: &'static str,
    default: &'static str,
    example: &'static str,
    json_hint: &'static str,
    no_parameters: &'static str,
}

impl Words {
    const fn new(lang: Lang) -> Self {
        match lang {
            Lang::En => Self {
                tools: "## Tools",
                skills: "## Skills",
                required: "required",
                default: "default",
                example: "e.g.",
                json_hint: "elements, or JSON in CDATA",
                no_parameters: "no parameters",
            },
            Lang::Zh => Self {
                tools: "## 工具",
                skills: "## 技能",
                required: "必填",
                default: "默认",
                example: "例如",
                json_hint: "子标签，或 CDATA 中的 JSON",
                no_parameters: "无参数",
            },
        }
    }
}

fn write_tool(out: &mut String, tool: &OfferedTool, words: Words) {
    let nodes = tool.schema.nodes();
    let root = nodes.get(0);
    let description = one_line(&tool.description);
    let separator = if description.is_empty() { "" } else { ": " };
    let _ = write!(out, "- {}{separator}{description}", tag(&tool.name));
    if root.fields.is_empty() {
        let _ = writeln!(out, " ({})", words.no_parameters);
        return;
    }
    out.push('\n');
    for (name, &id) in &root.fields {
        let property = tool.parameters.pointer("/properties").and_then(|properties| properties.get(name));
        write_parameter(out, tool, name, id, property, words);
    }
}

fn write_parameter(
    out: &mut String,
    tool: &OfferedTool,
    name: &str,
    id: NodeId,
    property: Option<&Value>,
    words: Words,
) {
    let nodes = tool.schema.nodes();
    let node = nodes.get(id);
    let mut notes = vec![type_words(nodes, id, 0)];
    if nodes.get(0).required.iter().any(|required| required == name) {
        notes.push(words.required.into());
    }
    if let Some(default) = tool.defaults.get(name).or_else(|| property?.get("default")) {
        notes.push(format!("{} {default}", words.default));
    }
    notes.extend(bounds(property.and_then(Value::as_object)));
    if let Some([first, ..]) = property.and_then(|p| p.get("examples")?.as_array()).map(Vec::as_slice) {
        notes.push(format!("{} {first}", words.example));
    }
    if takes_json(node) {
        notes.push(words.json_hint.into());
    }
    let description = property.and_then(|p| p.get("description")?.as_str()).unwrap_or_default();
    let description = one_line(description);
    let separator = if description.is_empty() { "" } else { ": " };
    let (tag, _) = crate::encode::text_tags(name, &nodes.get(0).fields);
    let _ = writeln!(out, "  - {tag} ({}){separator}{description}", notes.join(", "));
}

/// Written form of the tool's tag.
fn tag(name: &str) -> String {
    let is_tag = name.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
    if is_tag { format!("<{name}>") } else { format!("<tool name=\"{name}\">") }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns `true` for a value whose structure the schema does not declare.
fn takes_json(node: &Node) -> bool {
    let free_object = node.types.has(Types::OBJECT) && node.fields.is_empty();
    free_object || (node.is_any() && node.types.is_empty())
}

fn type_words(nodes: &Nodes, id: NodeId, depth: usize) -> String {
    let node = nodes.get(id);
    if let Some(members) = &node.members {
        let listed: Vec<String> = members.iter().take(MAX_LISTED).map(ToString::to_string).collect();
        let more = if members.len() > MAX_LISTED { " | …" } else { "" };
        return format!("{}{more}", listed.join(" | "));
    }
    if !node.branches.is_empty() {
        let mut parts: Vec<String> = Vec::new();
        for &branch in &node.branches {
            let words = if depth < MAX_DEPTH { type_words(nodes, branch, depth + 1) } else { "…".into() };
            if !parts.contains(&words) {
                parts.push(words);
            }
        }
        return parts.join(" | ");
    }
    let words = node.types.words();
    if node.types.is_empty() {
        return "any".into();
    }
    let with_shape = |kind: &str, shape: String| words.replacen(kind, &shape, 1);
    match node.item {
        Some(item) if node.types.has(Types::ARRAY) && depth < MAX_DEPTH => {
            return with_shape("array", format!("array of {}", type_words(nodes, item, depth + 1)));
        }
        Some(_) | None => {}
    }
    if node.types.has(Types::OBJECT) && !node.fields.is_empty() && depth < MAX_DEPTH {
        let fields: Vec<String> = node
            .fields
            .iter()
            .take(MAX_LISTED)
            .map(|(name, &field)| {
                let optional = if node.required.contains(name) { "" } else { "?" };
                format!("{name}{optional}: {}", type_words(nodes, field, depth + 1))
            })
            .collect();
        let more = if node.fields.len() > MAX_LISTED { ", …" } else { "" };
        return with_shape("object", format!("{{{}{more}}}", fields.join(", ")));
    }
    words
}

fn bounds(property: Option<&Map<String, Value>>) -> Option<String> {
    let property = property?;
    match (property.get("minimum"), property.get("maximum")) {
        (Some(min), Some(max)) => Some(format!("{min} to {max}")),
        (Some(min), None) => Some(format!("≥ {min}")),
        (None, Some(max)) => Some(format!("≤ {max}")),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tools() -> Vec<OfferedTool> {
        let mut summary = OfferedTool::new(
            "workflow:summarize_text",
            "Shortens a long text.\nUse it when only the main points matter.",
            json!({"type": "object", "required": ["text"], "properties": {
                "text": {"type": "string", "description": "The text."},
                "length": {"type": "string", "enum": ["short", "long"]}}}),
        )
        .unwrap();
        summary.defaults.insert("length".into(), json!("short"));
        let plot = OfferedTool::new(
            "plot",
            "Draws points.",
            json!({"type": "object", "required": ["points"], "properties": {
                "points": {"type": "array", "items": {"type": "object", "required": ["x"],
                    "properties": {"x": {"type": "number"}, "y": {"type": "number"}}}},
                "width": {"type": "integer", "minimum": 1, "maximum": 9, "examples": [3]},
                "style": {"type": "object"},
                "label": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "extra": {"description": "Anything."}}}),
        )
        .unwrap();
        let now = OfferedTool::new("mcp:clock/now", "The time.", json!({"type": "object", "properties": {}}))
            .unwrap();
        vec![summary, plot, now]
    }

    #[test]
    fn the_catalogue_is_short_and_complete() {
        let tools = tools();
        let catalogue = Catalogue::new(Lang::En).skill(&tools[0]).tool(&tools[1]).tool(&tools[2]);
        insta::assert_snapshot!(catalogue.render(), @r#"
        ## Tools
        - <plot>: Draws points.
          - <points> (array of {x: number, y?: number}, required)
          - <width> (integer, 1 to 9, e.g. 3)
          - <style> (object, elements, or JSON in CDATA)
          - <label> (string or null)
          - <extra> (any, elements, or JSON in CDATA): Anything.
        - <tool name="mcp:clock/now">: The time. (no parameters)

        ## Skills
        - <tool name="workflow:summarize_text">: Shortens a long text. Use it when only the main points matter.
          - <text> (string, required): The text.
          - <length> ("short" | "long", default "short")
        "#);
        assert!(Catalogue::new(Lang::Zh).tool(&tools[0]).render().starts_with("## 工具\n"));
    }
}
