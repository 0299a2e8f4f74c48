//! Lists and objects as text, in the styles of OpenAPI.
//!
//! A value that a style has no form for is refused: a list or an object inside a list or an object.

use serde_json::Value;

use super::filled::as_text;
use super::scope::Source;
use crate::config::QueryStyle;
use crate::encode;
use crate::error::HttpError;

/// A value in a path or a header: `a,b`, `name,value`, or `name=value` where the placeholder is `{name*}`.
pub(crate) fn simple(
    source: &Source,
    value: &Value,
    encode: impl Fn(&str) -> String,
) -> Result<String, HttpError> {
    let between = if matches!(source, Source::Exploded(_)) { "=" } else { "," };
    joined(value, ",", between, encode)
}

/// A value in a query whose style is not stated: the items of a list with commas, an object as JSON.
pub(crate) fn in_query(value: &Value, encode: impl Fn(&str) -> String) -> Result<String, HttpError> {
    match value {
        Value::Object(_) => Ok(encode(&value.to_string())),
        other => joined(other, ",", ",", encode),
    }
}

fn joined(
    value: &Value,
    separator: &str,
    between: &str,
    encode: impl Fn(&str) -> String,
) -> Result<String, HttpError> {
    let texts: Vec<String> = match value {
        Value::Array(items) => items.iter().map(|item| plain(item, &encode)).collect::<Result<_, _>>()?,
        Value::Object(members) => members
            .iter()
            .filter(|(_, member)| !member.is_null())
            .map(|(name, member)| Ok(format!("{}{between}{}", encode(name), plain(member, &encode)?)))
            .collect::<Result<_, HttpError>>()?,
        other => return plain(other, &encode),
    };
    Ok(texts.join(separator))
}

/// A value that is neither a list nor an object.
fn plain(value: &Value, encode: impl Fn(&str) -> String) -> Result<String, HttpError> {
    match value {
        Value::Array(_) | Value::Object(_) => Err(HttpError::bad_argument(
            "a list or an object inside a list or an object cannot be written here",
        )),
        value => Ok(encode(&as_text(value))),
    }
}

/// A pair, or one for each item of a list.
pub(crate) fn form_pairs(name: &str, value: &Value) -> Vec<String> {
    match value {
        Value::Null => Vec::new(),
        Value::Array(items) => {
            items.iter().map(|item| format!("{name}={}", encode::component(&as_text(item)))).collect()
        }
        value => vec![format!("{name}={}", encode::component(&as_text(value)))],
    }
}

/// The pairs of a value in a query. `is_taken` says which names belong to other parameters.
pub(crate) fn styled_pairs(
    name: &str,
    value: &Value,
    (style, explode): (QueryStyle, bool),
    is_taken: impl Fn(&str) -> bool,
) -> Result<Vec<String>, HttpError> {
    let pair = |text: String| Ok(vec![format!("{name}={text}")]);
    match (style, value) {
        (_, Value::Null) => Ok(Vec::new()),
        (QueryStyle::Json, value) => pair(encode::component(&value.to_string())),
        (QueryStyle::DeepObject, Value::Object(_)) => {
            member_pairs(value, |member| Ok(format!("{name}%5B{member}%5D")))
        }
        (QueryStyle::DeepObject, _) => Err(HttpError::bad_argument(format!(
            "`{name}` is not an object, as the style deepObject needs it"
        ))),
        (_, Value::Object(_)) if explode => member_pairs(value, |member| {
            if is_taken(member) {
                let message =
                    format!("the member `{member}` would be sent as another parameter of that name");
                return Err(HttpError::bad_argument(message));
            }
            Ok(member.to_owned())
        }),
        (_, Value::Array(items)) if explode => {
            items.iter().map(|item| Ok(format!("{name}={}", plain(item, encode::component)?))).collect()
        }
        (style, value) => {
            let separator = style.separator();
            pair(joined(value, separator, separator, encode::component)?)
        }
    }
}

/// A pair for each member of an object that is not null.
fn member_pairs(
    object: &Value,
    name: impl Fn(&str) -> Result<String, HttpError>,
) -> Result<Vec<String>, HttpError> {
    let members = object.as_object().into_iter().flatten().filter(|(_, member)| !member.is_null());
    members
        .map(|(member, value)| {
            Ok(format!("{}={}", name(&encode::component(member))?, plain(value, encode::component)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_style_writes_objects_and_lists() {
        let wish = json!({"color": "r&d", "size": 0, "none": null});
        let list = json!(["a", "b c"]);
        let pairs = |value: &Value, style, explode| {
            styled_pairs("w", value, (style, explode), |name| name == "key").unwrap().join("&")
        };
        for (value, style, explode, expected) in [
            (&wish, QueryStyle::Form, true, "color=r%26d&size=0"),
            (&wish, QueryStyle::Form, false, "w=color,r%26d,size,0"),
            (&wish, QueryStyle::DeepObject, true, "w%5Bcolor%5D=r%26d&w%5Bsize%5D=0"),
            (&wish, QueryStyle::PipeDelimited, false, "w=color%7Cr%26d%7Csize%7C0"),
            (
                &wish,
                QueryStyle::Json,
                false,
                "w=%7B%22color%22%3A%22r%26d%22%2C%22size%22%3A0%2C%22none%22%3Anull%7D",
            ),
            (&list, QueryStyle::Form, true, "w=a&w=b%20c"),
            (&list, QueryStyle::Form, false, "w=a,b%20c"),
            (&list, QueryStyle::SpaceDelimited, false, "w=a%20b%20c"),
            (&json!(7), QueryStyle::Form, true, "w=7"),
        ] {
            assert_eq!(pairs(value, style, explode), expected, "{style:?} {explode}");
        }
        let taken = styled_pairs("w", &json!({"key": 1}), (QueryStyle::Form, true), |name| name == "key");
        assert!(taken.unwrap_err().to_string().contains("`key`"));
        for nested in [json!({"a": {"b": 1}}), json!([[1]]), json!([{"a": 1}])] {
            assert!(styled_pairs("w", &nested, (QueryStyle::Form, true), |_| false).is_err(), "{nested}");
        }
    }
}
