//! The words of a catalogue in each language.

use protocol_action::Lang;
use serde_json::Value;

use super::schema_part::SchemaPart;
use crate::node::{Bound, Limits};
use crate::toolset::OfferedTool;

/// The words of a language.
#[derive(Debug, Clone, Copy)]
pub(super) struct Words {
    /// Code of the language in translations; absent, that of the definitions themselves.
    lang: Option<&'static str>,
    pub(super) tools: &'static str,
    pub(super) skills: &'static str,
    pub(super) required: &'static str,
    default: &'static str,
    example: &'static str,
    pub(super) json_hint: &'static str,
    pub(super) no_parameters: &'static str,
    pub(super) one_of: &'static str,
    pub(super) either: &'static str,
    to: &'static str,
    at_least: &'static str,
    at_most: &'static str,
    characters: &'static str,
    items: &'static str,
    pattern: &'static str,
    format: &'static str,
    multiple_of: &'static str,
    unique: &'static str,
}

impl Words {
    pub(super) const fn new(lang: Lang) -> Self {
        match lang {
            Lang::En => Self {
                lang: None,
                tools: "## Tools",
                skills: "## Skills",
                required: "required",
                default: "default",
                example: "e.g.",
                json_hint: "elements, or JSON in CDATA",
                no_parameters: "no parameters",
                one_of: "one of these",
                either: "either",
                to: " to ",
                at_least: "at least ",
                at_most: "at most ",
                characters: " characters",
                items: " items",
                pattern: "pattern",
                format: "format",
                multiple_of: "multiple of",
                unique: "no item twice",
            },
            Lang::Zh => Self {
                lang: Some("zh"),
                tools: "## 工具",
                skills: "## 技能",
                required: "必填",
                default: "默认",
                example: "例如",
                json_hint: "子标签，或 CDATA 中的 JSON",
                no_parameters: "无参数",
                one_of: "以下之一",
                either: "或",
                to: " 到 ",
                at_least: "至少 ",
                at_most: "至多 ",
                characters: " 个字符",
                items: " 项",
                pattern: "模式",
                format: "格式",
                multiple_of: "步长",
                unique: "各项不重复",
            },
        }
    }

    /// Description of a tool in the language, where it has one in it.
    pub(super) fn description<'t>(&self, tool: &'t OfferedTool) -> &'t str {
        self.translated(tool).map_or(tool.description.as_str(), |own| own.description.as_str())
    }

    /// Description of a parameter in the language, where the tool has one in it.
    pub(super) fn parameter<'t>(&self, tool: &'t OfferedTool, name: &str) -> Option<&'t str> {
        self.translated(tool)?.parameters.get(name).map(String::as_str)
    }

    fn translated<'t>(&self, tool: &'t OfferedTool) -> Option<&'t agent_types::ToolWords> {
        tool.translations.get(self.lang?)
    }

    /// Notes of a schema on a value besides its type: default, bounds, form, an example.
    pub(super) fn notes(
        &self,
        limits: &Limits,
        part: &SchemaPart<'_>,
        default: Option<&Value>,
    ) -> Vec<String> {
        let mut notes = Vec::new();
        notes
            .extend(default.or_else(|| part.get("default")).map(|value| format!("{} {value}", self.default)));
        notes.extend(self.bounds(limits));
        notes.extend(self.count(limits.min_length, limits.max_length, self.characters));
        notes.extend(self.count(limits.min_items, limits.max_items, self.items));
        let shown = [
            ("multipleOf", self.multiple_of),
            ("format", self.format),
            ("contentEncoding", self.format),
            ("pattern", self.pattern),
        ];
        for (keyword, word) in shown {
            notes.extend(part.get(keyword).map(|value| format!("{word} {}", plain(value))));
        }
        notes.extend((part.get("uniqueItems") == Some(&Value::Bool(true))).then(|| self.unique.to_owned()));
        if let Some([first, ..]) = part.get("examples").and_then(Value::as_array).map(Vec::as_slice) {
            notes.push(format!("{} {first}", self.example));
        }
        notes
    }

    fn bounds(&self, limits: &Limits) -> Option<String> {
        let one = |bound: &Bound, open: &str, closed: &str| {
            format!("{} {}", if bound.exclusive { open } else { closed }, bound.value)
        };
        match (&limits.lower, &limits.upper) {
            (Some(low), Some(high)) if !low.exclusive && !high.exclusive => {
                Some(format!("{}{}{}", low.value, self.to, high.value))
            }
            (Some(low), Some(high)) => Some(format!("{}, {}", one(low, ">", "≥"), one(high, "<", "≤"))),
            (Some(low), None) => Some(one(low, ">", "≥")),
            (None, Some(high)) => Some(one(high, "<", "≤")),
            (None, None) => None,
        }
    }

    fn count(&self, least: Option<u64>, most: Option<u64>, what: &str) -> Option<String> {
        match (least.filter(|least| *least > 0), most) {
            (Some(least), Some(most)) if least == most => Some(format!("{least}{what}")),
            (Some(least), Some(most)) => Some(format!("{least}{}{most}{what}", self.to)),
            (Some(least), None) => Some(format!("{}{least}{what}", self.at_least)),
            (None, Some(most)) => Some(format!("{}{most}{what}", self.at_most)),
            (None, None) => None,
        }
    }
}

/// A value of a keyword without quotation marks.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
