//! The page about weft.toml, made from its schema.

use std::fmt::Write;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};
use weft_project::Settings;

use crate::files::{HEAD, cell};

/// Every section with its keys.
pub(crate) fn page() -> Result<String, std::fmt::Error> {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Settings>();
    let schema = schema.to_value();
    let definitions = schema["$defs"].as_object().cloned().unwrap_or_default();
    let mut page = format!(
        "{HEAD}# weft.toml\n\nThe settings of a project. Every key may be left out; an unknown one is an error, with the near one as a suggestion.\n"
    );
    let sections: Vec<(&String, &Value)> = schema["properties"].as_object().into_iter().flatten().collect();
    let (tables, plain): (Vec<_>, Vec<_>) =
        sections.into_iter().partition(|(_, section)| table(section, &definitions).is_some());
    page.push_str("\n| key | type | what it is for |\n| --- | --- | --- |\n");
    for (key, section) in plain {
        row(&mut page, key, section, false, &definitions)?;
    }
    for (name, section) in tables {
        let Some((properties, required)) = table(section, &definitions) else { continue };
        let heading = if section.get("additionalProperties").is_some() {
            format!("{name}.<name>")
        } else {
            name.clone()
        };
        write!(page, "\n## [{heading}]\n\n{}\n", description(section))?;
        page.push_str("\n| key | type | what it is for |\n| --- | --- | --- |\n");
        for (key, property) in properties {
            row(&mut page, key, property, required.contains(&key.as_str()), &definitions)?;
        }
    }
    Ok(page)
}

/// The keys of a section, and its required keys; `None` if the section is not a table.
fn table<'s>(
    section: &'s Value,
    definitions: &'s Map<String, Value>,
) -> Option<(&'s Map<String, Value>, Vec<&'s str>)> {
    let inner = section.get("additionalProperties").filter(|inner| inner.is_object()).unwrap_or(section);
    let inner = resolved(inner, definitions);
    let required = inner["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    Some((inner["properties"].as_object()?, required))
}

fn resolved<'s>(schema: &'s Value, definitions: &'s Map<String, Value>) -> &'s Value {
    let name = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/"));
    name.and_then(|name| definitions.get(name)).unwrap_or(schema)
}

fn row(
    page: &mut String,
    key: &str,
    property: &Value,
    required: bool,
    definitions: &Map<String, Value>,
) -> std::fmt::Result {
    let required = if required { ", required" } else { "" };
    let default = property.get("default").filter(|default| !default.is_null());
    let default = default.map(|default| format!(" Default `{default}`.")).unwrap_or_default();
    let kind = kind(property, definitions);
    writeln!(page, "| `{key}` | {kind}{required} | {}{default} |", cell(description(property)))
}

fn description(schema: &Value) -> &str {
    schema["description"].as_str().unwrap_or_default()
}

/// The type in TOML's words, or the words that may stand there.
fn kind(property: &Value, definitions: &Map<String, Value>) -> String {
    let property = property["anyOf"].get(0).unwrap_or(property);
    let property = resolved(property, definitions);
    if let Some(choices) = property["oneOf"].as_array() {
        let words: Vec<String> = choices.iter().map(|choice| format!("`{}`", choice["const"])).collect();
        return words.join(", ");
    }
    let word = property["type"].as_str().or_else(|| property["type"].get(0)?.as_str());
    match word {
        Some("array") => format!("list of {}", kind(&property["items"], definitions)),
        Some("object") => "table".into(),
        Some(word) => word.to_owned(),
        None => "any".into(),
    }
}
