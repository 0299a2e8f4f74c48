//! Grammar and reader agree: what a grammar lets through is read back, and damage of each kind is refused or repaired by
//! name.

use proptest::collection::vec;
use proptest::prelude::*;
use protocol_action::{parse, unread_call};
use serde_json::{Value, json};
use tool_schema::{GrammarFormat, ToolSet, grammar};

use super::gbnf::Gbnf;
use super::lark::Lark;
use super::laws::{call, required, tool_set};
use super::tools;

/// Tools with parameters of each kind that damage is about.
fn offered() -> ToolSet {
    let text = json!({"type": "string"});
    let put = json!({"type": "object", "additionalProperties": false, "required": ["path", "n"], "properties": {
        "path": text, "n": {"type": "integer"}, "tags": {"type": "array", "items": text},
        "城市": text, "user.name": text, "$filter": {"anyOf": [text, {"type": "array", "items": text}]}}});
    let find = json!({"type": "object", "additionalProperties": false, "required": ["query"], "properties": {"query": text}});
    let ping = json!({"type": "object", "additionalProperties": false, "properties": {}});
    tools(&[("put", put), ("find", find), ("ping", ping)])
}

fn block(inner: &str) -> String {
    format!("<ACTION>\n  {inner}\n</ACTION>")
}

fn put(members: &str) -> String {
    block(&format!("<put>\n    <path>notes/x</path>\n    <n>42</n>{members}\n  </put>"))
}

/// Result of the reader for a text: `read`, or the code of what it refused, repaired or did not read.
fn made_of(tools: &ToolSet, text: &str) -> String {
    let parsed = parse(text, tools);
    if let Some(error) = parsed.errors().next() {
        return format!("refused {}", error.code.as_str());
    }
    let decision = tools.interpret(&parsed);
    if let Some(fault) = decision.faults().next() {
        return format!("refused {}", fault.code());
    }
    let calls = decision.results.iter().filter_map(|result| result.as_ref().ok());
    let repairs: Vec<&str> = calls.flat_map(|call| &call.repairs).map(|code| code.as_str()).collect();
    match (parsed.calls.is_empty(), repairs.is_empty()) {
        (true, _) => unread_call(text, tools)
            .map_or("text".to_owned(), |found| format!("unread {}", found.kind.as_str())),
        (false, true) if parsed.text_after.trim().is_empty() => "read".to_owned(),
        (false, true) => "read, text behind".to_owned(),
        (false, false) => format!("repaired {}", repairs.join(", ")),
    }
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let tools = offered();
    assert_eq!(made_of(&tools, text), expected, "{text}");
    let is_whole = expected == "read";
    // Blanks are laid out in one way by the grammars; text is not constrained.
    if !expected.starts_with("unread") {
        assert_eq!(Lark::new(&grammar(&tools, GrammarFormat::Lark).text).accepts(text), is_whole, "{text}");
    }
    assert_eq!(Gbnf::new(&required(&tools, GrammarFormat::Gbnf)).accepts(text), is_whole, "{text}");
}

#[test]
fn names_as_the_model_may_write_them_are_let_through_and_read() {
    check(&put(""), "read");
    check(&put("\n    <tags>\n      <item>a</item>\n    </tags>"), "read");
    check(
        &put("\n    <城市>Oslo</城市>\n    <user.name>Ann</user.name>\n    <$filter>all</$filter>"),
        "read",
    );
    check(&block("<ping></ping>"), "read");
}

#[test]
fn damage_is_refused_by_name() {
    let whole = put("");
    // A value never swallows its only close tag.
    check(&whole.replace("notes/x</path>", "notes/x</path> (the old one)"), "refused malformed_xml");
    let tags = "\n    <tags>\n      <item>a</item>, <item>b</item>\n    </tags>";
    check(&put(tags), "refused malformed_xml");
    check(&whole.replace("<n>42</n>", ""), "refused missing_parameter");
    check(&whole.replace("<n>42</n>", "<n>many</n>"), "refused invalid_argument");
    check(&whole.replace("<n>42</n>", "<n>42</n>\n    <m>1</m>"), "refused unknown_parameter");
    check(
        &whole.replace("notes/x</path>\n    <n>42</n>", "notes/x <n>42</n></path>"),
        "refused missing_parameter",
    );
    // Foreign names under string or list.
    check(&put("\n    <$filter><a>1</a><b>2</b></$filter>"), "refused invalid_argument");
    check(&whole.replace("put>", "putt>"), "refused unknown_tool");
    check(&whole[..whole.len() - 20], "refused truncated");
    check("<ACTION>\n</ACTION>", "refused empty_action");
}

#[test]
fn damage_with_one_meaning_is_repaired_by_name() {
    check(&block("<ping><when>now</when></ping>"), "repaired extra_parameter");
    check(&block("<find>dock</find>"), "repaired bare_text");
    check(&block("<find>\n    <query>\n      dock\n    </query>\n  </find>"), "repaired value_layout");
    check(&put("").replace("<n>42</n>", "<n><item>42</item></n>"), "repaired coerced");
}

#[test]
fn what_is_no_block_is_not_silent() {
    let whole = put("");
    check(&format!("{whole}\nObservation: it is done."), "read, text behind");
    check(&format!("```xml\n{whole}\n```"), "unread fence");
    check("<put><path>notes/x</path><n>42</n></put>", "unread bare_tag");
    check("<ping><when>now</when></ping>", "unread bare_tag");
    check(
        "<function_calls><invoke name=\"put\"><parameter name=\"n\">42</parameter></invoke></function_calls>",
        "unread dialect",
    );
    check("{\"name\": \"put\", \"arguments\": {\"path\": \"a\", \"n\": 1}}", "unread json");
}

/// A change of a text at a place.
#[derive(Debug, Clone)]
enum Edit {
    Remove(usize),
    Insert(&'static str),
    Repeat(usize),
}

fn edit() -> impl Strategy<Value = (prop::sample::Index, Edit)> {
    const PIECES: [&str; 12] =
        ["<", ">", "/", " ", "\n", "</p0>", "<p0>", "<item>", "7", "&", "<![CDATA[", "</ACTION>"];
    let edit = prop_oneof![
        (1_usize..9).prop_map(Edit::Remove),
        prop::sample::select(&PIECES[..]).prop_map(Edit::Insert),
        (1_usize..9).prop_map(Edit::Repeat),
    ];
    (any::<prop::sample::Index>(), edit)
}

/// The text with a change; the same where a character would be cut.
fn edited(text: &str, (at, edit): &(prop::sample::Index, Edit)) -> String {
    let at = at.index(text.len());
    let Some((start, rest)) = text.split_at_checked(at) else { return text.to_owned() };
    match edit {
        Edit::Insert(piece) => format!("{start}{piece}{rest}"),
        Edit::Remove(length) => rest.get(*length..).map_or(text.to_owned(), |rest| format!("{start}{rest}")),
        Edit::Repeat(length) => {
            rest.get(..*length).map_or(text.to_owned(), |again| format!("{start}{again}{rest}"))
        }
    }
}

/// The schema without lengths of texts, which grammars leave to the validation of arguments.
fn without_lengths(mut schema: Value) -> Value {
    if let Some(members) = schema.as_object_mut() {
        members.retain(|key, value| !matches!(key.as_str(), "minLength" | "maxLength") || !value.is_number());
    }
    match &mut schema {
        Value::Object(members) => {
            members.values_mut().for_each(|value| *value = without_lengths(value.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| *value = without_lengths(value.take())),
        _ => {}
    }
    schema
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever was changed in a block: if a grammar lets it through, the reader runs it, and reads valid arguments.
    #[test]
    fn what_is_let_through_is_read_back((schema, arguments) in call(), edits in vec(edit(), 0..4)) {
        let tools = tool_set("kb:find", &without_lengths(schema));
        let written = tools.encode(&[("kb:find", arguments.as_object().unwrap())]).unwrap();
        let text = edits.iter().fold(written, |text, edit| edited(&text, edit));
        let lark = Lark::new(&grammar(&tools, GrammarFormat::Lark).text);
        let gbnf = Gbnf::new(&required(&tools, GrammarFormat::Gbnf));
        if text.contains("<ACTION>") && lark.accepts(&text) || gbnf.accepts(&text) {
            let parsed = parse(&text, &tools);
            let decision = tools.interpret(&parsed);
            prop_assert_eq!(parsed.errors().count(), 0, "{}", text);
            prop_assert_eq!(decision.faults().count(), 0, "{}", text);
            prop_assert!(!parsed.calls.is_empty(), "{}", text);
            for call in decision.results.iter().flatten() {
                prop_assert!(tools.tools()[0].schema.is_valid(&Value::Object(call.arguments.clone())), "{}", text);
            }
        }
    }
}
