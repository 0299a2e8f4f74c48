//! Texts that grammars accept and reject.

use serde_json::{Value, json};
use tool_schema::{CallChoice, GrammarFormat, GrammarOptions, grammar, grammar_with};

use super::lark::Lark;
use super::tools;

/// The grammar of one tool with one required parameter; `text` stands between the tags.
#[track_caller]
fn check(schema: &Value, text: &str, expected: bool) {
    let tools = tools(&[("t", json!({"type": "object", "required": ["p"], "properties": {"p": schema}}))]);
    let lark = grammar(&tools, GrammarFormat::Lark).text;
    let block = format!("<ACTION>\n  <t>\n    <p>{text}</p>\n  </t>\n</ACTION>");
    let (read, accepted) = Lark::new(&lark).reads(&block);
    assert_eq!(accepted, expected, "read {:?} of {block}\nwith {lark}", &block[..read]);
}

#[test]
fn texts() {
    let text = json!({"type": "string"});
    for legal in [
        "",
        "a",
        "two words",
        "a\nb",
        "5 &gt; 4",
        "<![CDATA[a < b && c]]>",
        "<![CDATA[]]]]><![CDATA[>]]>",
        "é 中 😀",
        "[1]",
    ] {
        check(&text, legal, true);
    }
    for refused in ["a < b", "a & b", "\u{1}", "<b>a</b>", "<![CDATA[a]]>b", "<![CDATA[a"] {
        check(&text, refused, false);
    }
    let short = json!({"type": "string", "minLength": 2, "maxLength": 3});
    for (text, expected) in [("a", false), ("ab", true), ("a&lt;b", true), ("abcd", false)] {
        check(&short, text, expected);
    }
}

#[test]
fn numbers_members_and_null() {
    let integer = json!({"type": "integer"});
    for (text, expected) in [
        ("7", true),
        ("-12", true),
        ("1.5", false),
        ("007", false),
        ("", false),
        ("99999999999999999999", false),
    ] {
        check(&integer, text, expected);
    }
    let share = json!({"type": "number", "minimum": 0, "maximum": 1});
    for (text, expected) in
        [("0", true), ("0.25", true), ("1", true), ("1.0", true), ("1.5", false), ("-0.1", false)]
    {
        check(&share, text, expected);
    }
    let member = json!({"enum": ["a<b", "c", 3, null, true]});
    for (text, expected) in
        [("<![CDATA[a<b]]>", true), ("c", true), ("3", true), ("null", true), ("true", true), ("d", false)]
    {
        check(&member, text, expected);
    }
    let maybe = json!({"type": ["integer", "null"]});
    for (text, expected) in [("null", true), ("4", true), ("none", false)] {
        check(&maybe, text, expected);
    }
}

#[test]
fn lists_and_objects() {
    let list = json!({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2});
    let items = |count: usize| format!("{}\n    ", "\n      <item>1</item>".repeat(count));
    check(&list, &items(1), true);
    check(&list, &items(2), true);
    check(&list, &items(3), false);
    check(&list, "[]", false);
    let object = json!({"type": "object", "required": ["b"], "properties": {
        "a": {"type": "integer"}, "b": {"type": "string"}}});
    check(&object, "\n      <a>1</a>\n      <b>x</b>\n    ", true);
    check(&object, "\n      <b>x</b>\n    ", true);
    check(&object, "\n      <a>1</a>\n    ", false);
    check(&object, "\n      <b>x</b>\n      <a>1</a>\n    ", false);
    let free = json!({"type": "object"});
    check(&free, "{}", true);
    check(&free, r#"{"a":[1,null,{"b":"c \" d"}]}"#, true);
    check(&free, r#"<![CDATA[{"a":"x < y]"}]]>"#, true);
    check(&free, r#"{"a":"x < y"}"#, false);
    check(&free, r#"{"a":1"#, false);
}

#[test]
fn a_schema_that_holds_itself_ends() {
    let tree = json!({"type": "object", "properties": {"root": {"$ref": "#/$defs/node"}}, "$defs": {"node": {
        "type": "object", "required": ["name"], "properties": {
            "name": {"type": "string"}, "left": {"$ref": "#/$defs/node"}, "right": {"$ref": "#/$defs/node"},
            "all": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}}});
    let tools = tools(&[("grow", tree)]);
    let made = grammar(&tools, GrammarFormat::Lark);
    assert!(made.text.len() < 40_000, "{}", made.text.len());
    let arguments = json!({"root": {"name": "a", "left": {"name": "b", "all": [{"name": "c"}]}}});
    let text = tools.encode(&[("grow", arguments.as_object().unwrap())]).unwrap();
    assert!(Lark::new(&made.text).accepts(&text), "{text}");
}

#[test]
fn text_is_free_as_long_as_it_opens_nothing() {
    let tools = tools(&[("t", json!({"type": "object", "properties": {}}))]);
    let block = "<ACTION>\n  <t></t>\n</ACTION>";
    let lark = Lark::new(&grammar(&tools, GrammarFormat::Lark).text);
    let free = ["Hello.", "a < b", "Vec<String>", "<b>x</b>", "``` code", "line\nline"];
    for text in free {
        assert!(lark.accepts(text), "{text}");
        assert!(lark.accepts(&format!("{text}\n{block}")), "{text}");
    }
    for text in
        ["<action><t></t></action>", "<tool_call name=\"t\"></tool_call>", "<<<TOOL_CALL>>>{}", "<tool_use>"]
    {
        assert!(!lark.accepts(text), "{text}");
    }
    assert!(!lark.accepts(&format!("{block} and more")));
    assert!(!lark.accepts(&format!("{block}{block}")));
    let options = GrammarOptions { call: CallChoice::Required, ..GrammarOptions::default() };
    let lark = Lark::new(&grammar_with(&tools, GrammarFormat::Lark, options).text);
    assert!(lark.accepts(block) && !lark.accepts("Hello."));
}
