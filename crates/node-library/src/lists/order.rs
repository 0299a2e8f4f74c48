//! `core:Sort`.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};
use workflow_engine::{Expression, NodeCatalog, NodeError, Outputs, Prepared, Problem};
use workflow_model::{ConfigDefinition, DataFlowType};

use super::items::{Listed, compile, items, of_list, values};
use crate::define::{list, made, setting};

pub(super) fn register(catalog: &mut NodeCatalog) {
    catalog.register(sort());
}

/// A key of the order.
struct Key {
    /// The value that is compared; the item itself without one.
    by: Option<Expression>,
    descending: bool,
}

fn sort() -> Listed {
    let definition = of_list(
        "core:Sort",
        "Sorts a list by one or several keys: false, true, numbers, then texts by their characters. Items with equal keys keep their order; those without a key, or with null, come last.",
    )
    .output("items", list("the items in order"))
    .config("by", by())
    .config(
        "descending",
        setting(DataFlowType::Boolean, "the greatest first, for keys that do not say").with_default(false),
    );
    Listed {
        definition,
        prepare: |config| keys(config).map(Prepared::new),
        work: |ctx, inputs| {
            let all = items(inputs, "items")?;
            let keys: &Vec<Key> = made(ctx)?;
            let mut rows: Vec<(Vec<Option<Value>>, &Value)> =
                all.iter().map(|item| (Vec::with_capacity(keys.len()), item)).collect();
            for key in keys {
                let values = match &key.by {
                    Some(by) => values(ctx, inputs, all, by)?,
                    None => all.iter().cloned().map(Some).collect(),
                };
                for ((row, _), (index, value)) in rows.iter_mut().zip(values.into_iter().enumerate()) {
                    row.push(comparable(value, index)?);
                }
            }
            rows.sort_by(|(left, _), (right, _)| {
                let pairs = keys.iter().zip(left.iter().zip(right));
                let orders =
                    pairs.map(|(key, (left, right))| order(left.as_ref(), right.as_ref(), key.descending));
                orders.fold(Ordering::Equal, Ordering::then)
            });
            Ok(Outputs::value(rows.into_iter().map(|(_, item)| item.clone()).collect::<Vec<Value>>()))
        },
    }
}

fn by() -> ConfigDefinition {
    setting(
        DataFlowType::Wildcard,
        "an expression in CEL over `item`, `index`, `with` and `vars`, or a list of them, the most important first: a text, or {cel, descending}; the item itself without it",
    )
}

fn keys(config: &Map<String, Value>) -> Result<Vec<Key>, Vec<Problem>> {
    let fault = |key: &str, message: String| Problem::setting(key, message);
    let descending = match config.get("descending") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(flag)) => *flag,
        Some(other) => {
            return Err(vec![fault("descending", format!("expected true or false, found {other}"))]);
        }
    };
    let named = match config.get("by") {
        None | Some(Value::Null) => return Ok(vec![Key { by: None, descending }]),
        Some(Value::Array(keys)) if keys.is_empty() => {
            return Err(vec![fault("by", "expected at least one key".to_owned())]);
        }
        Some(Value::Array(keys)) => keys.as_slice(),
        Some(one) => std::slice::from_ref(one),
    };
    let (mut keys, mut faults) = (Vec::new(), Vec::new());
    for value in named {
        match key(value, descending) {
            Ok(key) => keys.push(key),
            Err(problem) => faults.push(problem),
        }
    }
    if faults.is_empty() { Ok(keys) } else { Err(faults) }
}

fn key(value: &Value, descending: bool) -> Result<Key, Problem> {
    let wrong =
        || Problem::setting("by", format!("expected an expression or {{cel, descending}}, found {value}"));
    let (source, descending) = match value {
        Value::String(source) => (source.as_str(), descending),
        Value::Object(members) => {
            if let Some(unknown) = members.keys().find(|name| !["cel", "descending"].contains(&name.as_str()))
            {
                let near = agent_types::nearest(unknown, ["cel", "descending"]).map(str::to_owned);
                return Err(Problem::setting("by", format!("`{unknown}` is unknown in a key")).suggest(near));
            }
            let own = members.get("descending").map_or(Some(descending), Value::as_bool);
            let source = members.get("cel").and_then(Value::as_str);
            source.zip(own).ok_or_else(wrong)?
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => return Err(wrong()),
    };
    Ok(Key { by: Some(compile(source, "by")?), descending })
}

/// A key that can be compared; null and a missing one are `None`.
fn comparable(value: Option<Value>, index: usize) -> Result<Option<Value>, NodeError> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(value @ (Value::Bool(_) | Value::Number(_) | Value::String(_))) => Ok(Some(value)),
        Some(Value::Array(_) | Value::Object(_)) => {
            let message = format!(
                "item {index}: its key is a list or an object, which have no order; name a member in `by`"
            );
            Err(NodeError::fatal(message).with_code("bad_sort_key"))
        }
    }
}

/// Order of two keys. Those that are missing come last in both directions.
fn order(left: Option<&Value>, right: Option<&Value>, descending: bool) -> Ordering {
    match (left, right) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(left), Some(right)) if descending => compare(right, left),
        (Some(left), Some(right)) => compare(left, right),
    }
}

fn compare(left: &Value, right: &Value) -> Ordering {
    let kind = |value: &Value| match value {
        Value::Bool(_) => 0,
        Value::Number(_) => 1,
        _ => 2,
    };
    match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        _ => kind(left).cmp(&kind(right)),
    }
}

/// Exact order, also of whole numbers that a float cannot hold.
fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    let whole = |number: &Number| number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    let float = |number: &Number| number.as_f64().unwrap_or(0.0);
    match (whole(left), whole(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(left), None) => compare_mixed(left, float(right)),
        (None, Some(right)) => compare_mixed(right, float(left)).reverse(),
        // Numbers of JSON are finite. Both zeros equal the whole number 0, so they equal each other.
        (None, None) => float(left).partial_cmp(&float(right)).unwrap_or(Ordering::Equal),
    }
}

fn compare_mixed(whole: i128, float: f64) -> Ordering {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "floats beyond are beyond every whole number of JSON too"
    )]
    let floor = float.floor() as i128;
    let above = if float.fract() == 0.0 { Ordering::Equal } else { Ordering::Less };
    whole.cmp(&floor).then(above)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_compared_exactly() {
        for (left, right, expected) in [
            (json!(1), json!(1.5), Ordering::Less),
            (json!(-1), json!(-1.5), Ordering::Greater),
            (json!(2.0), json!(2), Ordering::Equal),
            (json!(9_007_199_254_740_993_i64), json!(9_007_199_254_740_992.0), Ordering::Greater),
            (json!(u64::MAX), json!(i64::MIN), Ordering::Greater),
            (json!(1e300), json!(u64::MAX), Ordering::Greater),
            (json!(-0.0), json!(0.0), Ordering::Equal),
            (json!(-0.0), json!(0), Ordering::Equal),
            (json!(true), json!(0), Ordering::Less),
            (json!("10"), json!(9), Ordering::Greater),
        ] {
            assert_eq!(compare(&left, &right), expected, "{left} {right}");
            assert_eq!(compare(&right, &left), expected.reverse(), "{right} {left}");
        }
    }
}
