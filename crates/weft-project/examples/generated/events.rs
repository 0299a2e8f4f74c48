//! The reference of events, their rows in the table of codes, and their labels on the page.

use std::fmt::Write;
use std::path::Path;

use agent_types::{EventBody, EventRole, EventSubject};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use crate::files::cell;

const REFERENCE: &str = "docs/reference/events.md";
const CODES: &str = "docs/reference/codes.md";
/// Markers around what is generated of a page that is written by hand.
const MARKERS: (&str, &str) = ("<!-- events: cargo xtask codegen -->\n", "<!-- end of the events -->\n");

/// The files that are made from the table of events.
pub(crate) fn files() -> Result<Vec<(&'static str, String)>, Box<dyn std::error::Error>> {
    Ok(vec![
        (REFERENCE, within(REFERENCE, &reference()?)?),
        (CODES, within(CODES, &codes()?)?),
        ("crates/weft-server/web/src/i18n/events.gen.ts", labels()?),
    ])
}

/// A page of the repository with another text between its markers.
fn within(path: &str, text: &str) -> Result<String, Box<dyn std::error::Error>> {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path))?;
    let parts =
        page.split_once(MARKERS.0).and_then(|(head, rest)| Some((head, rest.split_once(MARKERS.1)?.1)));
    let (head, tail) = parts.ok_or_else(|| format!("{path} lacks the markers of the events"))?;
    Ok(format!("{head}{}{text}{}{tail}", MARKERS.0, MARKERS.1))
}

/// Every event with its data, then the forms that the data has.
fn reference() -> Result<String, std::fmt::Error> {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<EventBody>();
    let schema = schema.to_value();
    let variants = schema["oneOf"].as_array().into_iter().flatten();
    let mut page = String::from("| type | meaning | of | data |\n| --- | --- | --- | --- |\n");
    for (row, variant) in EventBody::TABLE.iter().zip(variants) {
        let subject = subject(row.subject);
        let of = match row.role {
            EventRole::Opens => format!("opens a {subject}"),
            EventRole::Closes => format!("closes a {subject}"),
            EventRole::Piece => format!("{subject}, a piece"),
            _ => subject.to_owned(),
        };
        let data = fields(&variant["properties"]["data"]);
        writeln!(page, "| `{}` | {} | {of} | {} |", row.name, cell(row.about), cell(&data))?;
    }
    page.push_str("\n| form | what it holds |\n| --- | --- |\n");
    for (name, form) in schema["$defs"].as_object().into_iter().flatten() {
        let holds = match form["oneOf"].as_array() {
            Some(words) => {
                let words: Vec<String> =
                    words.iter().filter_map(|word| Some(format!("`{}`", word["const"].as_str()?))).collect();
                words.join(", ")
            }
            None if form["properties"].is_object() => fields(form),
            None => kind(form),
        };
        writeln!(page, "| {name} | {} |", cell(&holds))?;
    }
    Ok(page)
}

const fn subject(subject: EventSubject) -> &'static str {
    match subject {
        EventSubject::Run => "run",
        EventSubject::Node => "node",
        EventSubject::Loop => "loop",
        EventSubject::Pass => "pass",
        EventSubject::Turn => "turn",
        EventSubject::Model => "request to the model",
        EventSubject::Call => "call",
        EventSubject::Session => "session",
        _ => "project",
    }
}

/// Keys of an object with their forms; a question mark stands behind one that may be left out.
fn fields(object: &Value) -> String {
    let required: Vec<&Value> = object["required"].as_array().into_iter().flatten().collect();
    let properties: Vec<(&String, &Value)> = object["properties"].as_object().into_iter().flatten().collect();
    let field = |(key, form): &(&String, &Value)| {
        let mark = if required.iter().any(|name| *name == key.as_str()) { "" } else { "?" };
        format!("`{key}{mark}` {}", kind(form))
    };
    properties.iter().map(field).collect::<Vec<_>>().join(", ")
}

/// The form of a value in one word, or a few.
fn kind(form: &Value) -> String {
    let form = form["anyOf"].get(0).unwrap_or(form);
    if let Some(name) = form["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
        return name.to_owned();
    }
    match form["type"].as_str().or_else(|| form["type"].get(0)?.as_str()) {
        Some("array") => format!("list of {}", kind(&form["items"])),
        Some(word) => word.to_owned(),
        None => "any".to_owned(),
    }
}

/// Rows of the table of codes.
fn codes() -> Result<String, std::fmt::Error> {
    let mut page = String::from("| code | meaning |\n| --- | --- |\n");
    for row in EventBody::TABLE {
        writeln!(page, "| `{}` | {} |", row.name, cell(row.about))?;
    }
    Ok(page)
}

/// Labels of the page in both languages.
fn labels() -> Result<String, Box<dyn std::error::Error>> {
    let mut text = String::from("// Written by `cargo xtask codegen` from the table of events.\n");
    let table = |label: fn(&agent_types::EventInfo) -> &str| -> Result<String, serde_json::Error> {
        let rows = EventBody::TABLE.iter().map(|row| (format!("event.{}", row.name), label(row).into()));
        serde_json::to_string_pretty(&Value::Object(rows.collect::<Map<_, _>>()))
    };
    write!(text, "export const en = {};\n\n", table(|row| row.label())?)?;
    writeln!(text, "export const zh = {};", table(|row| row.zh)?)?;
    Ok(text)
}
