//! Common ground of the dialects: the question that a request puts, and the reader of its answer.

use serde_json::{Map, Value, json};

use super::answer::Answer;
use crate::{Constraint, LlmError, LlmRequest, ModelInfo, ModelParameters};

/// Texts to stop at that servers take at most.
const MAX_STOPS: usize = 4;

/// Name under which servers know the schema of an answer; it means nothing to them.
const SCHEMA_NAME: &str = "answer";

/// Reader of the events of an answer in one dialect.
pub(super) trait Dialect: Send + Sync {
    /// Takes an event, whose name is empty where it has none.
    fn read(&mut self, event: &str, data: &Value, answer: &mut Answer) -> Result<(), LlmError>;

    /// Takes the end of the answer.
    fn end(&mut self, answer: &mut Answer) {
        let _ = answer;
    }
}

/// A request with the settings that it is sent with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question<'q> {
    pub(super) request: &'q LlmRequest,
    pub(super) parameters: &'q ModelParameters,
    pub(super) info: &'q ModelInfo,
}

impl Question<'_> {
    /// Sets the parameters that are given, under the names that the dialect has for them; those of `place` stand
    /// inside it.
    pub(super) fn set(&self, body: &mut Value, place: &str, names: &[(&str, &str)]) {
        let ModelParameters { temperature, top_p, max_tokens, seed, stop, .. } = self.parameters;
        for (own, name) in names {
            let value = match *own {
                "temperature" => temperature.map(Value::from),
                "top_p" => top_p.map(Value::from),
                "max_tokens" => max_tokens.map(Value::from),
                "seed" => seed.map(Value::from),
                "stop" => self.stops(stop),
                _ => None,
            };
            match (value, place) {
                (None, _) => {}
                (Some(value), "") => body[*name] = value,
                (Some(value), place) => body[place][*name] = value,
            }
        }
    }

    /// The texts at which the model stops: those of the settings, and the end of a block where the entry says so.
    fn stops(&self, own: &[String]) -> Option<Value> {
        let end = self.request.stop_at.filter(|_| self.info.stop_at_block && own.len() < MAX_STOPS);
        let all: Vec<&str> = own.iter().map(String::as_str).chain(end).collect();
        (!all.is_empty()).then(|| json!(all))
    }

    /// The schema of the answer under a name. Strict servers take only schemas that leave nothing open.
    pub(super) fn named_schema(schema: &Value) -> Value {
        json!({"name": SCHEMA_NAME, "strict": is_strict(schema), "schema": schema})
    }

    /// Adds the grammar and the further fields of the settings; those count over ours.
    pub(super) fn add_extra(&self, body: &mut Value) {
        let mut extra = self.request.constraint.as_ref().map(Constraint::body).unwrap_or_default();
        extra.extend(self.parameters.extra.clone());
        merge(body, extra);
    }
}

fn merge(into: &mut Value, from: Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(known @ Value::Object(_)), Value::Object(inner)) => merge(known, inner),
            (_, value) => into[key] = value,
        }
    }
}

/// Returns `true` when each object of a schema requires all its properties and has no others.
fn is_strict(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => {
            let properties = members.get("properties").and_then(Value::as_object);
            let required = members.get("required").and_then(Value::as_array);
            let is_closed = properties.is_none_or(|properties| {
                members.get("additionalProperties") == Some(&Value::Bool(false))
                    && required.is_some_and(|required| required.len() == properties.len())
            });
            is_closed && members.values().all(is_strict)
        }
        Value::Array(parts) => parts.iter().all(is_strict),
        _ => true,
    }
}

/// The entries of a list; of a single entry itself, of nothing none.
pub(super) fn parts(value: &Value) -> &[Value] {
    match value {
        Value::Array(entries) => entries,
        Value::Null => &[],
        single => std::slice::from_ref(single),
    }
}

/// The text of a text, of a part that holds one, or of several.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(text_of).collect(),
        part => part["text"].as_str().unwrap_or_default().to_owned(),
    }
}
