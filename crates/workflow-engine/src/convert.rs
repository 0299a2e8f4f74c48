//! Turning a value into the type of the slot it goes into: only where nothing is lost.

use std::sync::Arc;

use serde_json::{Number, Value};
use workflow_model::DataFlowType;

/// The value as the slot takes it.
///
/// # Errors
/// What the slot takes and what came. Objects and lists never become text.
pub(crate) fn convert(value: &Arc<Value>, to: DataFlowType) -> Result<Arc<Value>, String> {
    let kept = || Ok(Arc::clone(value));
    match (to, &**value) {
        (DataFlowType::Wildcard | DataFlowType::ConvertibleAny, _)
        | (DataFlowType::String | DataFlowType::Binary, Value::String(_))
        | (DataFlowType::Boolean, Value::Bool(_))
        | (DataFlowType::Object, Value::Object(_))
        | (DataFlowType::Array, Value::Array(_)) => kept(),
        (DataFlowType::Integer, Value::Number(number)) if !number.is_f64() => kept(),
        (DataFlowType::Integer, Value::Number(number)) => match exact_integer(number) {
            Some(whole) => Ok(Arc::new(whole)),
            None => Err(mismatch(to, value)),
        },
        (DataFlowType::Float, Value::Number(number)) if number.is_f64() => kept(),
        (DataFlowType::Float, Value::Number(number)) => match exact_float(number) {
            Some(float) => Ok(Arc::new(float)),
            None => Err(format!("takes {to}, but got the whole number {number}, which a float would round")),
        },
        (DataFlowType::String, Value::Number(number)) => Ok(Arc::new(number.to_string().into())),
        (DataFlowType::String, Value::Bool(flag)) => Ok(Arc::new(flag.to_string().into())),
        (
            DataFlowType::String
            | DataFlowType::Integer
            | DataFlowType::Float
            | DataFlowType::Boolean
            | DataFlowType::Object
            | DataFlowType::Array
            | DataFlowType::Binary,
            _,
        ) => Err(mismatch(to, value)),
    }
}

/// A float that is a whole number within the range in which floats are exact.
fn exact_integer(number: &Number) -> Option<Value> {
    const LIMIT: f64 = 9_007_199_254_740_992.0;
    let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= LIMIT)?;
    #[expect(clippy::cast_possible_truncation, reason = "whole and within the exact range")]
    Some(Value::from(float as i64))
}

/// A whole number as a float that equals it.
fn exact_float(number: &Number) -> Option<Value> {
    let whole = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))?;
    let float = number.as_f64()?;
    #[expect(clippy::cast_possible_truncation, reason = "a float made from 64 bits fits 128")]
    let is_exact = float as i128 == whole;
    is_exact.then(|| Value::from(float))
}

fn mismatch(to: DataFlowType, value: &Value) -> String {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    format!("takes {to}, but got {found}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_is_lost_or_guessed() {
        use DataFlowType::{Array, Boolean, Float, Integer, Object, String, Wildcard};
        for (value, to, expected) in [
            (json!(3), Float, Ok(json!(3.0))),
            (json!(3.0), Integer, Ok(json!(3))),
            (json!(1_i64 << 60), Float, Ok(json!(1_152_921_504_606_846_976.0))),
            (json!(i64::MIN), Float, Ok(json!(-9_223_372_036_854_775_808.0))),
            (
                json!(9_007_199_254_740_993_i64),
                Float,
                Err("takes FLOAT, but got the whole number 9007199254740993, which a float would round"),
            ),
            (
                json!(u64::MAX),
                Float,
                Err("takes FLOAT, but got the whole number 18446744073709551615, which a float would round"),
            ),
            (json!(3.5), Integer, Err("takes INTEGER, but got a number")),
            (json!(12.5), String, Ok(json!("12.5"))),
            (json!(true), String, Ok(json!("true"))),
            (json!({"a": 1}), String, Err("takes STRING, but got an object")),
            (json!("1"), Integer, Err("takes INTEGER, but got a text")),
            (json!(1), Boolean, Err("takes BOOLEAN, but got a number")),
            (json!([]), Object, Err("takes OBJECT, but got a list")),
            (json!([1]), Array, Ok(json!([1]))),
            (json!(null), Wildcard, Ok(json!(null))),
            (json!(u64::MAX), Integer, Ok(json!(u64::MAX))),
        ] {
            let got = convert(&Arc::new(value.clone()), to).map(|value| (*value).clone());
            assert_eq!(got, expected.map_err(str::to_owned), "{value} {to}");
        }
    }
}
