//! Text that lists the tools for the model.

mod members;
mod schema_part;
mod skeleton;
mod words;

use std::fmt::Write;

use agent_types::estimate_tokens;
use protocol_action::{Lang, prompt_rules};
use serde::Serialize;

use crate::toolset::OfferedTool;
use members::MemberList;
use words::Words;

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

    /// The rules of calls, whose example is a call of one of the tools.
    #[must_use]
    pub fn rules(&self) -> String {
        prompt_rules(self.lang, &skeleton::example(self.tools.iter().chain(&self.skills).copied()))
    }

    /// The list of the tools: for each its purpose, its parameters and a call to be filled in.
    #[must_use]
    pub fn render(&self) -> String {
        let words = Words::new(self.lang);
        let mut out = String::new();
        let tools = (words.tools, &self.tools, Listed::Tool);
        let skills = (words.skills, &self.skills, Listed::Skill);
        for (heading, tools, listed) in [tools, skills] {
            if tools.is_empty() {
                continue;
            }
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{}{heading}", if out.is_empty() { "" } else { "\n" });
            for tool in tools {
                write_tool(&mut out, tool, listed, &words);
            }
        }
        out.truncate(out.trim_end().len());
        out
    }

    /// Returns the size of the list.
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

impl OfferedTool {
    /// A call with its required parameters on one line, to be filled in.
    #[must_use]
    pub fn call_form(&self) -> String {
        skeleton::line(self)
    }
}

/// Heading under which a tool is listed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Listed {
    Tool,
    Skill,
}

/// Display name of a skill, where its id does not say the same.
fn skill_name(tool: &OfferedTool) -> Option<String> {
    let own = tool.name.rsplit([':', '/']).next().unwrap_or_default();
    let title = words::one_line(tool.title.as_deref()?);
    (!title.is_empty() && title != own).then_some(title)
}

fn write_tool(out: &mut String, tool: &OfferedTool, listed: Listed, words: &Words) {
    let mut description = words::one_line(words.description(tool));
    if let Some(name) = skill_name(tool).filter(|name| listed == Listed::Skill && *name != description) {
        let dash = if description.is_empty() { "" } else { " — " };
        description = format!("{name}{dash}{description}");
    }
    let separator = if description.is_empty() { "" } else { ": " };
    let call = skeleton::line(tool);
    if tool.schema.nodes().get(0).fields.is_empty() {
        let _ = writeln!(out, "- {call}{separator}{description} ({})", words.no_parameters);
        return;
    }
    let _ = writeln!(out, "- {call}{separator}{description}");
    MemberList { out, tool, words }.parameters();
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
    fn a_skill_has_its_display_name() {
        let line = |title: &str, description: &str| {
            let schema = json!({"type": "object", "properties": {}});
            let mut tool = OfferedTool::new("workflow:greet", description, schema).unwrap();
            tool.title = Some(title.to_owned());
            let skills = Catalogue::new(Lang::En).skill(&tool).render();
            assert!(!Catalogue::new(Lang::En).tool(&tool).render().contains("Welcome"));
            skills.lines().nth(1).unwrap().split_once("</workflow__greet>").unwrap().1.to_owned()
        };
        assert_eq!(line("Welcome", "Greets."), ": Welcome — Greets. (no parameters)");
        assert_eq!(line("Welcome\nall", ""), ": Welcome all (no parameters)");
        assert_eq!(line("greet", "Greets."), ": Greets. (no parameters)");
    }

    #[test]
    fn the_catalogue_is_short_and_complete() {
        let tools = tools();
        let catalogue = Catalogue::new(Lang::En).skill(&tools[0]).tool(&tools[1]).tool(&tools[2]);
        insta::assert_snapshot!(catalogue.render(), @r#"
        ## Tools
        - <plot><points><item><x>…</x></item></points></plot>: Draws points.
          - <points> (array of {x: number, y?: number}, required)
          - <width> (integer, 1 to 9, e.g. 3)
          - <style> (object, elements, or JSON in CDATA)
          - <label> (string or null)
          - <extra> (any, elements, or JSON in CDATA): Anything.
        - <mcp__clock_now_d61f17></mcp__clock_now_d61f17>: The time. (no parameters)

        ## Skills
        - <workflow__summarize_text><text>…</text></workflow__summarize_text>: Shortens a long text. Use it when only the main points matter.
          - <text> (string, required): The text.
          - <length> ("short" | "long", default "short")
        "#);
        assert!(Catalogue::new(Lang::Zh).tool(&tools[0]).render().starts_with("## 工具\n"));
    }

    /// A tool whose schema says something at every place.
    fn order() -> OfferedTool {
        let mut definition = agent_types::ToolDefinition::new(
            "order".parse().unwrap(),
            "Orders goods.",
            json!({"type": "object", "required": ["lines", "to"], "$defs": {"day": {"type": "string", "format": "date"}},
                "properties": {
                    "lines": {"type": "array", "minItems": 1, "maxItems": 9, "uniqueItems": true, "description": "What to order.",
                        "items": {"type": "object", "required": ["sku", "count"], "properties": {
                            "sku": {"type": "string", "pattern": "^[A-Z]{3}$", "description": "Code of the\n article."},
                            "count": {"type": "integer", "exclusiveMinimum": 0, "multipleOf": 5},
                            "note": {"type": "string", "maxLength": 80, "default": "none"}}}},
                    "to": {"anyOf": [
                        {"type": "object", "description": "A shop.", "required": ["kind", "shop"],
                            "properties": {"kind": {"const": "shop"}, "shop": {"type": "string", "minLength": 2}}},
                        {"type": "object", "required": ["kind"], "properties": {"kind": {"const": "home"}}}]},
                    "on": {"$ref": "#/$defs/day", "description": "Day of delivery.", "examples": ["2026-03-01"]},
                    "by": {"$ref": "#/$defs/day"},
                    "at": {"type": "array", "prefixItems": [{"type": "number"}, {"type": "number"}]},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}}}}),
        );
        definition = definition.translated("zh", "订购商品。", &[("lines", "订购的内容")]);
        OfferedTool::from_definition(definition).unwrap()
    }

    #[test]
    fn all_that_the_schema_says_is_listed() {
        insta::assert_snapshot!(Catalogue::new(Lang::En).tool(&order()).render(), @r#"
        ## Tools
        - <order><lines><item><sku>…</sku><count>…</count></item></lines><to><kind>shop</kind><shop>…</shop></to></order>: Orders goods.
          - <lines> (array, required, 1 to 9 items, no item twice): What to order.
            - <item> (object)
              - <sku> (string, required, pattern ^[A-Z]{3}$): Code of the article.
              - <count> (integer, required, > 0, multiple of 5)
              - <note> (string, default "none", at most 80 characters)
          - <to> (one of these, required)
            - either (object): A shop.
              - <kind> ("shop", required)
              - <shop> (string, required, at least 2 characters)
            - either ({kind: "home"})
          - <on> (string, format date, e.g. "2026-03-01"): Day of delivery.
          - <by> (string, format date)
          - <at> (array of [number, number])
          - <labels> (object of string, elements, or JSON in CDATA)
        "#);
        insta::assert_snapshot!(Catalogue::new(Lang::Zh).tool(&order()).render(), @r#"
        ## 工具
        - <order><lines><item><sku>…</sku><count>…</count></item></lines><to><kind>shop</kind><shop>…</shop></to></order>: 订购商品。
          - <lines> (array, 必填, 1 到 9 项, 各项不重复): 订购的内容
            - <item> (object)
              - <sku> (string, 必填, 模式 ^[A-Z]{3}$): Code of the article.
              - <count> (integer, 必填, > 0, 步长 5)
              - <note> (string, 默认 "none", 至多 80 个字符)
          - <to> (以下之一, 必填)
            - 或 (object): A shop.
              - <kind> ("shop", 必填)
              - <shop> (string, 必填, 至少 2 个字符)
            - 或 ({kind: "home"})
          - <on> (string, 格式 date, 例如 "2026-03-01"): Day of delivery.
          - <by> (string, 格式 date)
          - <at> (array of [number, number])
          - <labels> (object of string, 子标签，或 CDATA 中的 JSON)
        "#);
    }

    #[test]
    fn the_example_of_the_rules_is_a_call_of_a_tool() {
        let tools = tools();
        let rules = Catalogue::new(Lang::En).tool(&tools[2]).tool(&tools[1]).tool(&tools[0]).rules();
        insta::assert_snapshot!(rules.lines().skip(4).take(5).collect::<Vec<_>>().join("\n"), @"
        <ACTION>
          <workflow__summarize_text>
            <text>…</text>
          </workflow__summarize_text>
        </ACTION>
        ");
        let general = Catalogue::new(Lang::En).rules();
        assert!(general.contains("<tool_name>"), "{general}");
    }

    #[test]
    fn a_call_to_be_filled_in_is_read_without_a_repair() {
        for tool in tools().into_iter().chain([order()]) {
            let (name, line) = (tool.name.clone(), skeleton::line(&tool));
            let set = crate::ToolSet::of_tools([tool]).unwrap();
            let parsed = protocol_action::parse(&format!("<ACTION>{line}</ACTION>"), &set);
            assert_eq!((parsed.calls.len(), parsed.diagnostics.len()), (1, 0), "{line}");
            assert_eq!(set.get(&parsed.calls[0].tool).unwrap().name, name);
        }
    }
}
