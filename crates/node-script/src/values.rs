//! JSON values as JavaScript has them.

use rquickjs::object::Property;
use rquickjs::{Array, BigInt, Ctx, Object, Result, String as JsString, Value as JsValue};
use serde_json::{Number, Value};

/// The greatest whole number up to which each has a float of its own.
const MAX_SAFE: u64 = (1 << 53) - 1;

/// A value for the code. A whole number that a float cannot hold is a `BigInt`.
pub(crate) fn to_js<'js>(ctx: &Ctx<'js>, value: &Value) -> Result<JsValue<'js>> {
    Ok(match value {
        Value::Null => JsValue::new_null(ctx.clone()),
        Value::Bool(flag) => JsValue::new_bool(ctx.clone(), *flag),
        Value::Number(number) => number_to_js(ctx, number)?,
        Value::String(text) => JsString::from_str(ctx.clone(), text)?.into_value(),
        Value::Array(items) => {
            let list = Array::new(ctx.clone())?;
            for (index, item) in items.iter().enumerate() {
                list.set(index, to_js(ctx, item)?)?;
            }
            list.into_value()
        }
        Value::Object(members) => {
            let object = Object::new(ctx.clone())?;
            for (name, member) in members {
                // A plain assignment to `__proto__` would be another thing.
                let member = Property::from(to_js(ctx, member)?).writable().enumerable().configurable();
                object.prop(name.as_str(), member)?;
            }
            object.into_value()
        }
    })
}

fn number_to_js<'js>(ctx: &Ctx<'js>, number: &Number) -> Result<JsValue<'js>> {
    Ok(match (number.as_i64(), number.as_u64()) {
        (Some(whole), _) if whole.unsigned_abs() > MAX_SAFE => {
            BigInt::from_i64(ctx.clone(), whole)?.into_value()
        }
        (None, Some(whole)) => BigInt::from_u64(ctx.clone(), whole)?.into_value(),
        _ => JsValue::new_number(ctx.clone(), number.as_f64().unwrap_or(f64::NAN)),
    })
}
