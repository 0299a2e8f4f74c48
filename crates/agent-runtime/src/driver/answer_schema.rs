//! Answers that must be JSON of a schema.

use agent_types::Problem;
use serde::de::IgnoredAny;
use serde_json::Value;
use tool_schema::{CompiledSchema, SchemaError};

/// Places in a text at which a value is looked for.
const MAX_TRIES: usize = 32;

/// The schema of answers.
#[derive(Debug, Clone)]
pub struct AnswerSchema {
    schema: CompiledSchema,
    of_object: bool,
}

impl AnswerSchema {
    /// Compiles the JSON Schema.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn new(schema: &Value) -> Result<Self, SchemaError> {
        let of_object = schema.get("type").is_none_or(|kind| kind == "object");
        Ok(Self { schema: CompiledSchema::new(schema)?, of_object })
    }

    /// The value that an answer gives.
    ///
    /// # Errors
    /// A description, for the model, of what is wrong with the answer.
    pub fn read(&self, text: &str) -> Result<Value, String> {
        let text = json_in(text).ok_or("it does not hold a JSON value; write the JSON alone")?;
        self.check(agent_types::read_json(text.as_bytes()).map_err(|error| error.to_string())?)
    }

    /// The same for a value.
    pub(crate) fn check(&self, value: Value) -> Result<Value, String> {
        if self.schema.is_valid(&value) {
            return Ok(value);
        }
        if !self.of_object || !value.is_object() {
            return Err(format!("{} does not fit", shortened(&value)));
        }
        let typed = self.schema.type_json(value);
        if typed.problems.is_empty() {
            return Ok(Value::Object(typed.arguments));
        }
        Err(Problem::messages(&typed.problems))
    }
}

fn shortened(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(100) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The JSON that a text holds: the text itself, what stands in a fence, or the first object or list in it.
fn json_in(text: &str) -> Option<&str> {
    let text = text.trim();
    let is_json = |text: &&str| serde_json::from_str::<IgnoredAny>(text).is_ok();
    if is_json(&text) {
        return Some(text);
    }
    let fenced = text.split("```").skip(1).step_by(2);
    let fenced =
        fenced.map(|block| block.split_once('\n').map_or(block, |(_, body)| body).trim()).filter(is_json);
    let opened = text.match_indices(['{', '[']).take(MAX_TRIES);
    let opened = opened.filter_map(|(at, _)| {
        let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<IgnoredAny>();
        values.next()?.ok()?;
        text.get(at..at + values.byte_offset())
    });
    fenced.chain(opened).next()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<Value, &str>) {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "maximum": 10}},
            "required": ["n"], "additionalProperties": false});
        let found = AnswerSchema::new(&schema).unwrap().read(text);
        assert_eq!(found, expected.map_err(str::to_owned), "{text:?}");
    }

    #[test]
    fn a_value_is_found_where_models_put_it() {
        check(" {\"n\": 4}\n", Ok(json!({"n": 4})));
        check("Here it is:\n```json\n{\"n\": 4}\n```\n", Ok(json!({"n": 4})));
        check("It is {\"n\": \"4\"}, as asked.", Ok(json!({"n": 4})));
        check("It is 4.", Err("it does not hold a JSON value; write the JSON alone"));
        check("[1]", Err("[1] does not fit"));
        let long = "the whole number `18446744073709551616` does not fit 64 bits; write it as a text at line 1 column 7";
        check("{\"n\": 18446744073709551616}", Err(long));
        check("It is {\"n\": 18446744073709551616}.", Err(long));
    }

    #[test]
    fn values_that_do_not_fit_are_reported() {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "maximum": 10}}});
        let fault = AnswerSchema::new(&schema).unwrap().read("{\"n\": 40}").unwrap_err();
        assert!(fault.contains("40") && fault.contains("10"), "{fault}");
    }
}
