//! Typing and validating one call, and compiling a schema.

use anyhow::{Context, Result, ensure};
use protocol_action::parse;
use serde_json::{Value, json};
use tool_schema::{OfferedTool, ToolSet};

use crate::measure::{Work, medians};
use crate::table::{Aim, Figure, begin, row};

const SMALL: &str = "<ACTION><search><query>rust parsers</query><limit>5</limit></search></ACTION>";

/// Seven parameters; two are spelled in a way that only coercion accepts.
const TYPICAL: &str = "<ACTION><book_room>
<guest>Ada Lovelace</guest><nights>3</nights><price>120.50</price><breakfast>True</breakfast>
<room>DOUBLE</room><tags><item>quiet</item><item>high floor</item></tags>
<address><street>12 St James's Square</street><city>London</city><zip>4711</zip></address>
</book_room></ACTION>";

const TYPICAL_JSON: &str = r#"<ACTION><book_room>{"guest": "Ada Lovelace", "nights": 3, "price": 120.5, "breakfast": true,
"room": "double", "tags": ["quiet", "high floor"], "address": {"street": "12 St James's Square", "city": "London", "zip": 4711}}</book_room></ACTION>"#;

/// One table.
pub(crate) fn run() -> Result<()> {
    begin("Coercion and validation of one call");
    let tools = ToolSet::of_tools([
        OfferedTool::new("search", "Searches.", search())?,
        OfferedTool::new("book_room", "Books a room.", book_room())?,
    ])?;
    let limit = Aim::AtMost(Figure::Nanos(5e3));
    for (what, text, wanted) in [
        ("two parameters", SMALL, json!({"query": "rust parsers", "limit": 5})),
        ("seven parameters, nested", TYPICAL, booking()),
        ("the same as JSON", TYPICAL_JSON, booking()),
    ] {
        let parsed = parse(text, &tools);
        let decision = tools.interpret(&parsed);
        let call = decision.calls().next().with_context(|| format!("{:?}", decision.results))?;
        ensure!(Value::Object(call.arguments.clone()) == wanted, "{:?}", call.arguments);
        let figures = medians(&mut [
            Work::repeated(|| tools.interpret(&parsed)),
            Work::repeated(|| tools.interpret(&parse(text, &tools))),
        ]);
        row(&format!("{what}: coercion and validation"), Figure::Nanos(figures[0]), limit);
        row(&format!("{what}: reading too"), Figure::Nanos(figures[1]), Aim::None);
    }
    for (what, schema) in [("two parameters", search()), ("seven parameters, nested", book_room())] {
        let compile = Work::repeated(|| OfferedTool::new("tool", "", schema.clone()));
        row(&format!("{what}: compiling the schema"), Figure::Nanos(medians(&mut [compile])[0]), Aim::None);
    }
    Ok(())
}

fn booking() -> Value {
    json!({
        "guest": "Ada Lovelace", "nights": 3, "price": 120.5, "breakfast": true, "room": "double",
        "tags": ["quiet", "high floor"],
        "address": {"street": "12 St James's Square", "city": "London", "zip": 4711},
    })
}

fn search() -> Value {
    json!({
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "minimum": 1, "maximum": 50}},
        "required": ["query"],
        "additionalProperties": false,
    })
}

fn book_room() -> Value {
    json!({
        "type": "object",
        "properties": {
            "guest": {"type": "string", "minLength": 1},
            "nights": {"type": "integer", "minimum": 1},
            "price": {"type": "number"},
            "breakfast": {"type": "boolean"},
            "room": {"enum": ["single", "double", "suite"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "address": {
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}, "zip": {"type": "integer"}},
                "required": ["street", "city"],
                "additionalProperties": false,
            },
        },
        "required": ["guest", "nights", "room"],
        "additionalProperties": false,
    })
}
