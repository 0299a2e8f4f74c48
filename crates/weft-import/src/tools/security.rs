//! Security schemes as credentials from secrets.

use http_caller::AuthConfig;
use serde_json::Value;

use super::schema::Schemas;

/// Authentication of an operation, and the parts that cannot be imported. An operation that may also be called without
/// is called
/// without.
pub(super) fn auth_of(
    schemas: &Schemas<'_>,
    operation: &Value,
    notes: &mut Vec<String>,
) -> Option<AuthConfig> {
    let ledger = schemas.ledger();
    let document = ledger.document();
    let stated = operation.get("security").or_else(|| document.get("security"))?;
    let required = stated.as_array()?;
    if required.iter().any(|choice| choice.as_object().is_none_or(serde_json::Map::is_empty)) {
        ledger.mapped(stated);
        return None;
    }
    let declared = document.pointer("/components/securitySchemes");
    for choice in required {
        let names: Vec<&String> = choice.as_object()?.keys().collect();
        let [name] = names[..] else { continue };
        let scheme = declared.and_then(|declared| declared.get(name));
        let Some(scheme) = scheme.and_then(|scheme| schemas.resolved(scheme).ok()) else { continue };
        if let Some(auth) = auth(name, scheme) {
            ledger.mapped(choice);
            for key in ["type", "in", "name", "scheme"] {
                scheme.get(key).into_iter().for_each(|part| ledger.mapped(part));
            }
            return Some(auth);
        }
    }
    notes.push("its security scheme cannot be taken over; add `auth` by hand".into());
    None
}

fn auth(name: &str, scheme: &Value) -> Option<AuthConfig> {
    let word = |key: &str| scheme.get(key).and_then(Value::as_str).unwrap_or_default();
    let secret = |suffix: &str| format!("{{$secret.{}{suffix}}}", variable(name));
    let scheme_word = word("scheme").to_ascii_lowercase();
    match (word("type"), word("in"), scheme_word.as_str()) {
        ("apiKey", "header", _) => {
            Some(AuthConfig::Header { name: word("name").to_owned(), value: secret("") })
        }
        ("apiKey", "query", _) => {
            Some(AuthConfig::Query { name: word("name").to_owned(), value: secret("") })
        }
        ("http", _, "bearer") | ("oauth2" | "openIdConnect", _, _) => {
            Some(AuthConfig::Bearer { token: secret("") })
        }
        ("http", _, "basic") => {
            Some(AuthConfig::Basic { username: secret("_USER"), password: secret("_PASSWORD") })
        }
        _ => None,
    }
}

/// A name as that of a variable: `api_key` as `API_KEY`.
fn variable(name: &str) -> String {
    let upper = name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
    upper.collect()
}
