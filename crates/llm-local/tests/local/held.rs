//! Whatever a model would say, under the grammar it says what is read and valid: here it says anything, by chance.

use llm_local::LocalOptions;
use llm_provider::{Constraint, Finish, GrammarForm, ModelParameters, complete};
use proptest::prelude::*;
use proptest::sample::select;
use protocol_action::parse;
use serde_json::{Map, Value, json};
use tool_schema::{
    CallChoice, GrammarFormat, GrammarOptions, GrammarScope, OfferedTool, ToolSet, grammar_with,
};

use super::{question, tiny_model};

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({"type": "string"})),
        (0_u8..4, 4_u8..20)
            .prop_map(|(min, max)| json!({"type": "string", "minLength": min, "maxLength": max})),
        Just(json!({"type": "integer"})),
        (-20_i32..20, 0_i32..300)
            .prop_map(|(low, size)| json!({"type": "integer", "minimum": low, "maximum": low + size})),
        (0_i32..5, 1_i32..9).prop_map(
            |(low, size)| json!({"type": "number", "exclusiveMinimum": low, "maximum": low + size})
        ),
        Just(json!({"type": "boolean"})),
        Just(json!({"type": "string", "enum": ["a < b", "c&d", "plain"]})),
        Just(json!({"type": ["integer", "null"]})),
        Just(json!({"type": ["string", "array"], "items": {"type": "integer"}})),
        Just(json!({"type": "object"})),
        Just(json!({"anyOf": [{"type": "integer"}, {"type": "string"}]})),
        Just(json!({})),
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    let value = leaf().prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            (inner.clone(), 0_u8..3)
                .prop_map(|(item, min)| json!({"type": "array", "items": item, "minItems": min})),
            prop::collection::vec((inner, any::<bool>()), 1..3).prop_map(object),
        ]
    });
    prop::collection::vec((value, any::<bool>()), 0..4).prop_map(object)
}

fn object(fields: impl AsRef<[(Value, bool)]>) -> Value {
    let fields = fields.as_ref();
    let names: Vec<String> = (0..fields.len()).map(|index| format!("p{index}")).collect();
    let required: Vec<&String> =
        names.iter().zip(fields).filter(|(_, (_, required))| *required).map(|(name, _)| name).collect();
    let properties: Map<String, Value> =
        names.iter().cloned().zip(fields.iter().map(|(schema, _)| schema.clone())).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 10, ..ProptestConfig::with_cases(40) })]

    #[test]
    fn a_held_model_writes_valid_calls(schemas in prop::collection::vec(schema(), 1..4), seed in any::<u64>()) {
        let names = ["find", "kb:Query", "math.add"];
        let tools = schemas.iter().zip(names).map(|(schema, name)| OfferedTool::new(name, "", schema.clone()).unwrap());
        let tools = ToolSet::of_tools(tools).unwrap();
        let options = GrammarOptions { scope: GrammarScope::Narrow, call: CallChoice::Required };
        let made = grammar_with(&tools, GrammarFormat::Lark, options);
        prop_assert!(made.refused.is_empty(), "{:?}", made.refused);
        let (model, _folder) = tiny_model(seed, LocalOptions::default());
        // A limit would cut free text; a block continues to its end.
        let chance = ModelParameters {
            temperature: Some(1.0), seed: Some(seed), max_tokens: Some(10), ..ModelParameters::default()
        };
        let constraint = Constraint { form: GrammarForm::Lark, text: made.text.into() };
        let request = question("Call something.", chance).with_constraint(Some(constraint));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let answer = runtime.block_on(complete(&model, request)).unwrap();
        // By chance, lists of lists may outgrow the window.
        prop_assume!(answer.finish != Finish::Length);
        prop_assert_eq!(answer.finish, Finish::Stop);
        let parsed = parse(&answer.text, &tools);
        prop_assert!(parsed.diagnostics.is_empty(), "{:?}\n{}", parsed.diagnostics, answer.text);
        let decision = tools.interpret(&parsed);
        let faults: Vec<_> = decision.faults().collect();
        prop_assert!(faults.is_empty(), "{:?}\n{}", faults, answer.text);
        prop_assert_eq!(decision.calls().count(), 1, "{}", answer.text);
    }

    #[test]
    fn a_held_model_that_may_talk_writes_text_or_a_call(seed in any::<u64>(), word in select(vec!["Hi", "Why?"])) {
        let tools = [OfferedTool::new("find", "", json!({"type": "object", "properties": {"q": {"type": "integer"}}})).unwrap()];
        let tools = ToolSet::of_tools(tools).unwrap();
        let options = GrammarOptions { scope: GrammarScope::Narrow, call: CallChoice::Auto };
        let made = grammar_with(&tools, GrammarFormat::Lark, options);
        let (model, _folder) = tiny_model(seed, LocalOptions::default());
        let chance = ModelParameters {
            temperature: Some(1.0), seed: Some(seed), max_tokens: Some(60), ..ModelParameters::default()
        };
        let constraint = Constraint { form: GrammarForm::Lark, text: made.text.into() };
        let request = question(word, chance).with_constraint(Some(constraint));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let answer = runtime.block_on(complete(&model, request)).unwrap();
        let decision = tools.interpret(&parse(&answer.text, &tools));
        prop_assert_eq!(decision.faults().count(), 0, "{}", answer.text);
    }
}
