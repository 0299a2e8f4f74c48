//! ComfyTavern's own small nodes: messages, rules of replacement, random numbers.

use std::hash::{BuildHasher, Hasher};

use regex::Regex;
use serde_json::{Value, json};
use workflow_engine::{Inputs, NodeCatalog, NodeContext, NodeError, Outputs};
use workflow_model::{DataFlowType, NodeDefinition, SlotDefinition};

use crate::define::{Computed, any, as_text, list, text};

pub(crate) fn register(catalog: &mut NodeCatalog) {
    catalog.register(create_message());
    catalog.register(merge_messages());
    catalog.register(apply_regex());
    catalog.register(random_number());
}

fn create_message() -> Computed {
    let definition = NodeDefinition::new("core:CreateMessage", "Makes a message of a conversation.")
        .input("role", text("who speaks: `system`, `user` or `assistant`").with_default("user"))
        .input("content", text("what is said").required())
        .output(
            "message",
            SlotDefinition::new(DataFlowType::Object, "{role, content}").with_category("ChatMessage"),
        )
        .pure();
    Computed::new(definition, |_, inputs| {
        let role = inputs.get("role").map_or_else(|| "user".to_owned(), |role| as_text(role));
        Ok(Outputs::value(json!({"role": role, "content": inputs.text("content")?})))
    })
}

fn merge_messages() -> Computed {
    let definition =
        NodeDefinition::new("core:MergeMessages", "Puts messages and lists of messages into one list.")
            .input(
                "messages",
                any("messages or lists of them, in the order of their edges").multi().required(),
            )
            .output("messages", list("all messages").with_category("ChatHistory"))
            .pure();
    Computed::new(definition, |_, inputs| {
        let parts = inputs.all("messages");
        let merged =
            parts.iter().flat_map(|part| part.as_array().cloned().unwrap_or_else(|| vec![(**part).clone()]));
        Ok(Outputs::value(merged.collect::<Vec<Value>>()))
    })
}

fn apply_regex() -> Computed {
    let definition =
        NodeDefinition::new("core:ApplyRegex", "Applies rules of replacement one after the other.")
            .input("text", text("the text").required())
            .input(
                "rules",
                list("rules: {pattern, replacement, enabled?}").with_category("RegexRuleArray").required(),
            )
            .output("text", text("the text after all rules"))
            .pure();
    Computed::new(definition, |_, inputs| {
        let rules = inputs.required("rules")?.as_array().cloned().unwrap_or_default();
        let mut current = inputs.text("text")?.to_owned();
        for rule in rules.iter().filter(|rule| rule.get("enabled") != Some(&Value::Bool(false))) {
            current = apply_rule(&current, rule)?;
        }
        Ok(Outputs::value(current))
    })
}

fn apply_rule(text: &str, rule: &Value) -> Result<String, NodeError> {
    let pattern = rule.get("pattern").and_then(Value::as_str);
    let pattern = pattern.ok_or_else(|| NodeError::fatal(format!("a rule needs a `pattern`: {rule}")))?;
    let replacement = rule.get("replacement").and_then(Value::as_str).unwrap_or_default();
    let regex = Regex::new(pattern).map_err(|_| {
        NodeError::fatal(format!("`{pattern}` is not a valid regular expression")).with_code("bad_pattern")
    })?;
    Ok(regex.replace_all(text, replacement).into_owned())
}

fn random_number() -> Computed {
    let number = |description: &str, default: i64| {
        SlotDefinition::new(DataFlowType::Integer, description).with_default(default)
    };
    let definition = NodeDefinition::new("core:RandomNumber", "Gives a random whole number.")
        .input("min", number("the smallest it may be", 0))
        .input("max", number("the greatest it may be", 100))
        .input(
            "seed",
            SlotDefinition::new(DataFlowType::Integer, "the same seed gives the same number").optional(),
        )
        .output("value", SlotDefinition::new(DataFlowType::Integer, "the number"));
    Computed::new(definition, draw)
}

fn draw(_ctx: &NodeContext, inputs: &Inputs) -> Result<Outputs, NodeError> {
    let whole =
        |slot: &str, default: i64| inputs.get(slot).and_then(|value| value.as_i64()).unwrap_or(default);
    let (min, max) = (whole("min", 0), whole("max", 100));
    if min > max {
        return Err(NodeError::fatal(format!("`min` {min} is greater than `max` {max}")));
    }
    let drawn = match inputs.get("seed").and_then(|seed| seed.as_i64()) {
        Some(seed) => mixed(seed.cast_unsigned()),
        // Keys of a new `RandomState` come from the operating system.
        None => mixed(std::hash::RandomState::new().build_hasher().finish()),
    };
    let span = u128::from(min.abs_diff(max)) + 1;
    let offset = i128::try_from((u128::from(drawn) * span) >> 64).unwrap_or(0);
    let value = i64::try_from(i128::from(min) + offset).unwrap_or(max);
    Ok(Outputs::value(value))
}

/// Spreads a number over all 64 bits.
fn mixed(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
