//! JSON: reading, selecting, merging, setting.

use std::sync::Arc;

use http_caller::JsonQuery;
use serde_json::{Map, Value};
use workflow_engine::{NodeCatalog, NodeError, Outputs, Prepared, Problem};
use workflow_model::{DataFlowType, NodeDefinition};

use crate::define::{Computed, any, list, made, required_text, setting, text};

pub(crate) fn register(catalog: &mut NodeCatalog) {
    catalog.register(parse());
    catalog.register(select());
    catalog.register(merge());
    catalog.register(set());
}

fn parse() -> Computed {
    let definition = NodeDefinition::new("core:JsonParse", "Reads JSON from a text.")
        .input("text", text("the JSON").required())
        .output("value", any("what it says"))
        .pure();
    Computed::new(definition, |_, inputs| {
        let parsed: Value =
            agent_types::read_json(inputs.text("text")?.trim().as_bytes()).map_err(|error| {
                NodeError::fatal(format!("the text is not valid JSON: {error}")).with_code("bad_json")
            })?;
        Ok(Outputs::value(parsed))
    })
}

fn select() -> Computed {
    let definition = NodeDefinition::new("core:JsonSelect", "Finds parts of a value by a path (RFC 9535).")
        .input("value", any("where to look").required())
        .output("value", any("the first match; not taken where there is none"))
        .output("matches", list("all matches"))
        .config(
            "path",
            setting(DataFlowType::String, "the path, as in `$.items[?@.price < 10].name`").required(),
        )
        .pure();
    Computed::new(definition, |ctx, inputs| {
        let query: &JsonQuery = made(ctx)?;
        let found = query.all(inputs.required("value")?);
        let matches = found.map_err(|error| NodeError::fatal(error.to_string()))?;
        let outputs = match matches.first() {
            Some(first) => Outputs::value(first.clone()),
            None => Outputs::none(),
        };
        Ok(outputs.with("matches", matches))
    })
    .prepared(|config| {
        let source = required_text(config, "path")?;
        let parsed = JsonQuery::parse(&source);
        parsed.map(Prepared::new).map_err(|error| {
            vec![Problem::setting("path", format!("`{source}` is not a valid JSONPath: {error}"))]
        })
    })
}

fn merge() -> Computed {
    let definition = NodeDefinition::new(
        "core:JsonMerge",
        "Merges objects: members of later ones win, objects inside are merged too.",
    )
    .input("values", any("the values, in the order of their edges").multi().required())
    .output("value", any("all in one"))
    .pure();
    Computed::new(definition, |_, inputs| {
        let mut values = inputs.all("values").into_iter();
        let Some(first) = values.next() else { return Ok(Outputs::value(Value::Object(Map::new()))) };
        let merged = values.fold((*first).clone(), |mut merged, value| {
            merge_into(&mut merged, &value);
            merged
        });
        Ok(Outputs::value(merged))
    })
}

/// Objects are merged member by member; everything else is replaced. JSON is never deep enough to matter here:
/// what comes from a file or a model is at most 128 levels deep.
fn merge_into(target: &mut Value, source: &Value) {
    match (target, source) {
        (Value::Object(target), Value::Object(source)) => {
            for (key, value) in source {
                match target.get_mut(key) {
                    Some(own) => merge_into(own, value),
                    None => {
                        target.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        (target, source) => target.clone_from(source),
    }
}

fn set() -> Computed {
    let definition = NodeDefinition::new("core:JsonSet", "Sets a part of a value.")
        .input("value", any("the value; absent means an empty object").optional())
        .input("set", any("what the part is set to").required())
        .output("value", any("the value with its new part"))
        .config(
            "pointer",
            setting(
                DataFlowType::String,
                "a JSON pointer, as in `/items/0/name`; `-` adds to a list, missing objects are made",
            )
            .required(),
        )
        .pure();
    Computed::new(definition, |ctx, inputs| {
        let pointer: &Vec<String> = made(ctx)?;
        let start = inputs.get("value").filter(|value| !value.is_null());
        let mut value = start.map_or_else(|| Value::Object(Map::new()), |value| (**value).clone());
        let place = place_of(&mut value, pointer)?;
        place.clone_from(inputs.required("set")?);
        Ok(Outputs::shared(Arc::new(value)))
    })
    .prepared(|config| {
        let pointer = required_text(config, "pointer")?;
        if !pointer.is_empty() && !pointer.starts_with('/') {
            return Err(vec![Problem::setting(
                "pointer",
                format!("`{pointer}` must be empty or begin with `/`"),
            )]);
        }
        let parts = pointer.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~"));
        Ok(Prepared::new(parts.collect::<Vec<String>>()))
    })
}

fn place_of<'v>(value: &'v mut Value, pointer: &[String]) -> Result<&'v mut Value, NodeError> {
    let mut at = value;
    for part in pointer {
        if at.is_null() {
            *at = Value::Object(Map::new());
        }
        at = match at {
            Value::Object(map) => map.entry(part.clone()).or_insert(Value::Null),
            Value::Array(items) => {
                let length = items.len();
                let index = if part == "-" { Some(length) } else { part.parse::<usize>().ok() };
                if index == Some(length) {
                    items.push(Value::Null);
                }
                let place = index.and_then(|index| items.get_mut(index));
                place.ok_or_else(|| {
                    NodeError::fatal(format!("`{part}` is not an index of a list of {length}"))
                })?
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                return Err(NodeError::fatal(format!(
                    "`{part}` would be set in a value that is not an object or list"
                )));
            }
        };
    }
    Ok(at)
}
