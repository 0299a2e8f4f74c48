//! Parameters that a file declares, as they are offered to a model.

use agent_types::nearest;
use serde_json::{Map, Value, json};

/// Fault of the parameters that a file declares.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParametersError {
    /// They are something else than the schema of an object.
    #[error("`parameters` must be the JSON Schema of an object")]
    NotAnObject,
    /// A parameter is required that is not declared, and so can never be given.
    #[error("`parameters` require `{name}`, which `properties` do not declare{}", .near.as_deref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    Undeclared {
        /// The parameter.
        name: String,
        /// The declared one that was probably meant.
        near: Option<String>,
    },
}

impl ParametersError {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "bad_schema"
    }
}

/// Schema of a tool without parameters.
#[must_use]
pub fn no_parameters() -> Value {
    json!({"type": "object", "properties": {}})
}

/// Parameters as a model sees them: without hidden ones, and without `default` keywords, whose values are applied before
/// the call.
///
/// ```
/// use serde_json::json;
/// use tool_schema::OfferedParameters;
///
/// let declared = json!({"properties": {"n": {"type": "integer", "default": 1}, "tenant": {}}, "required": ["n", "tenant"]});
/// let offered = OfferedParameters::new(declared, &["tenant".to_owned()])?;
/// assert_eq!(offered.schema, json!({"properties": {"n": {"type": "integer"}}, "required": [], "type": "object"}));
/// assert_eq!(offered.defaults["n"], 1);
/// # Ok::<(), tool_schema::ParametersError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct OfferedParameters {
    /// JSON Schema of the arguments.
    pub schema: Value,
    /// Values of parameters that a call leaves out.
    pub defaults: Map<String, Value>,
}

impl OfferedParameters {
    /// The parameters of a declaration, without the hidden ones.
    ///
    /// # Errors
    /// The declaration is not the schema of an object, or requires what it does not declare.
    pub fn new(declared: Value, hidden: &[String]) -> Result<Self, ParametersError> {
        if !declared.is_object() || declared.get("type").is_some_and(|kind| kind != "object") {
            return Err(ParametersError::NotAnObject);
        }
        let offered = Self::split(declared, hidden);
        offered.declare_what_they_require()?;
        Ok(offered)
    }

    fn split(mut schema: Value, hidden: &[String]) -> Self {
        let mut defaults = Map::new();
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            properties.retain(|name, _| !hidden.contains(name));
            for (name, schema) in properties {
                if let Some(default) =
                    schema.as_object_mut().and_then(|schema| schema.shift_remove("default"))
                {
                    defaults.insert(name.clone(), default);
                }
            }
        }
        if let Some(Value::Array(required)) = schema.get_mut("required") {
            let is_asked =
                |name: &str| !hidden.iter().any(|hidden| hidden == name) && !defaults.contains_key(name);
            required.retain(|name| name.as_str().is_none_or(is_asked));
        }
        if let Some(object) = schema.as_object_mut() {
            object.entry("type").or_insert_with(|| "object".into());
        }
        Self { schema, defaults }
    }

    /// Checks that required parameters are declared: an undeclared one could never be given, unless the schema lets in more
    /// than it declares.
    fn declare_what_they_require(&self) -> Result<(), ParametersError> {
        let says_more = ["$ref", "allOf", "anyOf", "oneOf", "patternProperties"];
        let lets_in = ["additionalProperties", "unevaluatedProperties"];
        let is_open = says_more.iter().any(|key| self.schema.get(key).is_some())
            || lets_in.iter().any(|key| self.schema.get(key).is_some_and(|value| *value != false));
        let properties = self.schema.get("properties").and_then(Value::as_object);
        let Some(properties) = properties.filter(|_| !is_open) else { return Ok(()) };
        let required = self.schema.get("required").and_then(Value::as_array).into_iter().flatten();
        match required.filter_map(Value::as_str).find(|name| !properties.contains_key(*name)) {
            Some(name) => {
                let near = nearest(name, properties.keys().map(String::as_str)).map(str::to_owned);
                Err(ParametersError::Undeclared { name: name.to_owned(), near })
            }
            None => Ok(()),
        }
    }
}
