//! Laws of grammars: encoded calls are accepted, whatever the tools; damaged ones are not.

use std::path::PathBuf;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Map, Value, json};
use tool_schema::{CallChoice, GrammarFormat, GrammarOptions, OfferedTool, ToolSet, grammar, grammar_with};

use super::gbnf::Gbnf;
use super::lark::Lark;

/// A schema, and a strategy for the values under it.
#[derive(Debug, Clone)]
struct Typed {
    schema: Value,
    values: BoxedStrategy<Value>,
}

fn typed(schema: Value, values: impl Strategy<Value = Value> + 'static) -> Typed {
    Typed { schema, values: values.boxed() }
}

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-zA-Z ,.'-]{1,12}",
        Just("a < b".to_owned()),
        Just("&amp;".to_owned()),
        Just("]]>".to_owned()),
        Just("</p>".to_owned()),
        Just("\n".to_owned()),
        Just("7".to_owned()),
        Just("null".to_owned()),
        Just("<ACTION>".to_owned()),
        "[é中😀\"{}\\[\\]]{1,3}",
    ];
    vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

fn leaf() -> impl Strategy<Value = Typed> {
    prop_oneof![
        Just(typed(json!({"type": "string"}), text().prop_map(Value::from))),
        (0_usize..4, 4_usize..12).prop_map(|(min, max)| typed(
            json!({"type": "string", "minLength": min, "maxLength": max}),
            vec("[a-z <&]", min..=max).prop_map(|letters| letters.concat().into())
        )),
        Just(typed(json!({"type": "integer"}), (-1_000_000_i64..1_000_000).prop_map(Value::from))),
        (-50_i64..50, 0_i64..200).prop_map(|(low, size)| typed(
            json!({"type": "integer", "minimum": low, "maximum": low + size}),
            (low..=low + size).prop_map(Value::from)
        )),
        Just(typed(json!({"type": "number"}), (-1e12..1e12_f64).prop_map(Value::from))),
        (-5_i32..5, 1_i32..9).prop_map(|(low, size)| typed(
            json!({"type": "number", "minimum": low, "maximum": low + size}),
            (0..=size * 100)
                .prop_map(move |hundredths| (f64::from(low) + f64::from(hundredths) / 100.0).into())
        )),
        Just(typed(json!({"type": "boolean"}), any::<bool>().prop_map(Value::from))),
        vec(text(), 1..4).prop_map(|members| typed(
            json!({"type": "string", "enum": members.clone()}),
            prop::sample::select(members).prop_map(Value::from)
        )),
        Just(typed(
            json!({"type": ["integer", "null"]}),
            prop_oneof![Just(Value::Null), any::<i32>().prop_map(Value::from)]
        )),
        Just(typed(json!({}), text().prop_map(Value::from))),
        Just(typed(
            json!({"type": "object"}),
            btree_map("[a-z]{1,5}", text(), 0..3).prop_map(|map| json!(map))
        )),
    ]
}

fn value() -> impl Strategy<Value = Typed> {
    leaf().prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            (inner.clone(), any::<bool>()).prop_map(|(item, nullable)| {
                let kind = if nullable { json!(["array", "null"]) } else { json!("array") };
                typed(
                    json!({"type": kind, "items": item.schema}),
                    vec(item.values, 0..4).prop_map(Value::Array),
                )
            }),
            vec((inner, any::<bool>()), 1..4).prop_map(|fields| object(&fields)),
        ]
    })
}

/// An object whose fields are named in order; some are required.
fn object(fields: &[(Typed, bool)]) -> Typed {
    let names = || (0..fields.len()).map(|index| format!("p{index}"));
    let schemas: Map<String, Value> =
        names().zip(fields.iter().map(|(field, _)| field.schema.clone())).collect();
    let required: Vec<String> =
        names().zip(fields).filter(|(_, (_, required))| *required).map(|(name, _)| name).collect();
    let values: Vec<BoxedStrategy<Option<Value>>> = fields
        .iter()
        .map(|(field, required)| {
            let value = field.values.clone();
            if *required { value.prop_map(Some).boxed() } else { proptest::option::of(value).boxed() }
        })
        .collect();
    let values = values.prop_map(|values| {
        let given = values.into_iter().enumerate();
        let given = given.filter_map(|(index, value)| Some((format!("p{index}"), value?)));
        Value::Object(given.collect())
    });
    let schema =
        json!({"type": "object", "properties": schemas, "required": required, "additionalProperties": false});
    typed(schema, values)
}

/// A tool's parameters, and arguments that fit.
pub(super) fn call() -> impl Strategy<Value = (Value, Value)> {
    vec((value(), any::<bool>()), 0..4)
        .prop_map(|fields| object(&fields))
        .prop_flat_map(|tool| (Just(tool.schema), tool.values))
}

pub(super) fn tool_set(name: &str, schema: &Value) -> ToolSet {
    ToolSet::of_tools([OfferedTool::new(name, "", schema.clone()).unwrap()]).unwrap()
}

pub(super) fn required(tools: &ToolSet, format: GrammarFormat) -> String {
    let options = GrammarOptions { call: CallChoice::Required, ..GrammarOptions::default() };
    grammar_with(tools, format, options).text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_written_is_let_through((schema, arguments) in call(), at in any::<prop::sample::Index>()) {
        let tools = tool_set("kb:find", &schema);
        let written = tools.encode(&[("kb:find", arguments.as_object().unwrap())]).unwrap();
        let text = format!("I look for it.\n{written}");
        let lark = Lark::new(&grammar(&tools, GrammarFormat::Lark).text);
        let (read, accepted) = lark.reads(&text);
        prop_assert!(accepted, "{}\nread {:?} of\n{}", schema, &text[..read], text);
        // A grammar that lets a cut text end would let the model stop in the middle.
        let start = text.find("<ACTION>").unwrap() + "<ACTION>".len();
        let cut = start + at.index(text.len() - start);
        if text.is_char_boundary(cut) {
            prop_assert!(!lark.accepts(&text[..cut]), "{}", &text[..cut]);
        }
        let bad = damaged(&written, at.index(5));
        prop_assert!(!lark.accepts(&bad), "{}", bad);
        let gbnf = Gbnf::new(&required(&tools, GrammarFormat::Gbnf));
        prop_assert!(gbnf.accepts(&written), "{}\n{}", written, required(&tools, GrammarFormat::Gbnf));
        prop_assert!(!gbnf.accepts(&bad), "{}", bad);
    }
}

/// Tools of a public collection, where it is; `WEFT_DATA` names its folder.
fn public_tools() -> Option<Vec<(String, Value)>> {
    let folder = std::env::var_os("WEFT_DATA").map(PathBuf::from)?;
    let text = std::fs::read_to_string(folder.join("bfcl/tools.jsonl")).ok()?;
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    Some(lines.map(|tool| (tool["name"].as_str().unwrap().to_owned(), tool["parameters"].clone())).collect())
}

/// A value under a schema, of the kinds that the collection has.
fn some_value(schema: &Value, runner: &mut TestRunner) -> Value {
    let draw = |strategy: BoxedStrategy<Value>, runner: &mut TestRunner| {
        strategy.new_tree(runner).unwrap().current()
    };
    if let Some(members) = schema.get("enum").and_then(Value::as_array) {
        return draw(prop::sample::select(members.clone()).boxed(), runner);
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("integer") => {
            let low = schema.get("minimum").and_then(Value::as_i64).unwrap_or(-9);
            draw((low..low + 50).prop_map(Value::from).boxed(), runner)
        }
        Some("number") => draw((0_u32..4000).prop_map(|n| (f64::from(n) / 8.0).into()).boxed(), runner),
        Some("boolean") => draw(any::<bool>().prop_map(Value::from).boxed(), runner),
        Some("array") => {
            let count = draw((1_usize..4).prop_map(Value::from).boxed(), runner).as_u64().unwrap();
            let item = schema.get("items").cloned().unwrap_or(json!({"type": "string"}));
            (0..count).map(|_| some_value(&item, runner)).collect()
        }
        Some("object") => {
            let fields = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
            Value::Object(
                fields.iter().map(|(name, field)| (name.clone(), some_value(field, runner))).collect(),
            )
        }
        Some(_) | None => draw(text().prop_map(Value::from).boxed(), runner),
    }
}

/// Damage that the law knows: each leaves a block that must be refused.
fn damaged(block: &str, index: usize) -> String {
    let last = block.rfind("</").unwrap();
    let before = block[..last].rfind("</").unwrap();
    match index % 5 {
        0 => block.replacen("\n  <", "\n  <zz_", 1),
        1 => format!("{}{}", &block[..before], &block[last..]),
        2 => block[..last].to_owned(),
        3 => format!("{}<zz>1</zz>{}", &block[..before], &block[before..]),
        _ => format!("{}<{}", &block[..before], &block[before + 2..]),
    }
}

#[test]
fn two_hundred_public_tools_are_written_and_let_through() {
    let Some(all) = public_tools() else {
        eprintln!("SKIPPED: no public tools; set WEFT_DATA to the folder that holds bfcl/tools.jsonl");
        return;
    };
    let mut runner =
        TestRunner::new_with_rng(Config::default(), TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let step = all.len() / 220;
    let mut count = 0;
    for (index, (name, schema)) in all.iter().step_by(step).enumerate() {
        let tools = tool_set(name, schema);
        let made = grammar(&tools, GrammarFormat::Lark);
        let arguments = some_value(schema, &mut runner);
        // Some declare members that their type forbids.
        if !made.refused.is_empty() || !tools.tools()[0].schema.is_valid(&arguments) {
            continue;
        }
        count += 1;
        let block = tools.encode(&[(name, arguments.as_object().unwrap())]).unwrap();
        let text = format!("So.\n{block}");
        let lark = Lark::new(&made.text);
        let (read, accepted) = lark.reads(&text);
        assert!(accepted, "{name} {schema}\nread {:?} of\n{text}", &text[..read]);
        let bad = format!("So.\n{}", damaged(&block, index));
        assert!(!lark.accepts(&bad), "{bad}");
        let gbnf = Gbnf::new(&required(&tools, GrammarFormat::Gbnf));
        assert!(gbnf.accepts(&block) && !gbnf.accepts(&damaged(&block, index)), "{block}");
    }
    assert!(count >= 200, "{count}");
}
