//! A schema that was read once and is shared from then on.

use std::collections::HashSet;
use std::sync::Arc;

use agent_types::{ObservationCode, Problem};
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{PatternOptions, ValidationError, Validator};
use protocol_action::RawArgument;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::coerce::Coercer;
use crate::node::Nodes;
use crate::problem::{self, shown};
use crate::weight::Weight;

/// Code of a name that the schema does not declare.
const UNKNOWN: &str = ObservationCode::UnknownParameter.as_str();

/// Steps back of a pattern with look-around or references at most, and bytes of a compiled one.
const BACKTRACKS: usize = 20_000;
const PATTERN_BYTES: usize = 1 << 20;

/// Reason for which a schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the schema cannot be used: {message}")]
#[non_exhaustive]
pub struct SchemaError {
    /// Message of the validator.
    pub message: String,
}

impl SchemaError {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "bad_schema"
    }
}

/// A value that changed its type, or its spelling, to fit.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Coercion {
    /// JSON pointer to the value.
    pub path: String,
    /// Value as written.
    pub from: Value,
    /// Value after the coercion.
    pub to: Value,
}

/// Arguments by a schema, with all that was changed and all that does not fit.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Typed {
    /// Arguments; complete only if `problems` is empty.
    pub arguments: Map<String, Value>,
    /// Changes made to the written values.
    pub coercions: Vec<Coercion>,
    /// Faults of the arguments, in the order of the schema's walk.
    pub problems: Vec<Problem>,
    /// Flag of a safe repair that the JSON text needed.
    pub json_repaired: bool,
}

/// A schema, compiled. Cheap to clone and to share.
#[derive(Debug, Clone)]
pub struct CompiledSchema(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    nodes: Nodes,
    validator: Validator,
    weight: Weight,
    /// Kept where a value must be looked at before it is checked.
    schema: Option<Value>,
}

impl CompiledSchema {
    /// Compiles a schema of arguments. References within it are followed, references elsewhere are refused: nothing is fetched.
    ///
    /// # Errors
    /// What the validator does not accept, and a schema that stands for more checks than can be made.
    pub fn new(schema: &Value) -> Result<Self, SchemaError> {
        let weight = Weight::measure(schema).map_err(|message| SchemaError { message })?;
        let validator = jsonschema::options()
            .with_draft(draft_of(schema))
            .with_pattern_options(
                PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS).size_limit(PATTERN_BYTES),
            )
            .build(schema)
            .map_err(|error| SchemaError { message: error.to_string() })?;
        let kept = (weight == Weight::DependsOnValue).then(|| schema.clone());
        Ok(Self(Arc::new(Inner { nodes: Nodes::of_arguments(schema), validator, weight, schema: kept })))
    }

    /// Returns `true` for a value that fits as it is.
    #[must_use]
    pub fn is_valid(&self, value: &Value) -> bool {
        self.can_check(value) && self.0.validator.is_valid(value)
    }

    /// Returns `true` for a value that can be checked in reasonable time.
    fn can_check(&self, value: &Value) -> bool {
        self.0.schema.as_ref().is_none_or(|schema| self.0.weight.allows(schema, value))
    }

    /// Types the arguments of a call as a reply holds them.
    #[must_use]
    pub fn type_raw(&self, arguments: &[RawArgument]) -> Typed {
        self.typed(|coercer| coercer.fields(0, arguments, ""))
    }

    /// Types arguments that are JSON already.
    #[must_use]
    pub fn type_json(&self, arguments: Value) -> Typed {
        if !arguments.is_object() {
            let mut problem = problem::invalid("", "object", &arguments);
            problem.message = format!("the arguments must be an object, got {}", shown(&arguments));
            return Typed { problems: vec![problem], ..Typed::default() };
        }
        self.typed(|coercer| coercer.json(0, arguments, ""))
    }

    pub(crate) fn nodes(&self) -> &Nodes {
        &self.0.nodes
    }

    fn typed(&self, read: impl FnOnce(&mut Coercer<'_>) -> Value) -> Typed {
        let mut coercer = Coercer::new(&self.0.nodes);
        let value = read(&mut coercer);
        let mut problems = std::mem::take(&mut coercer.problems);
        if coercer.gave_up() || !self.can_check(&value) {
            problems.push(problem::too_deep());
        } else if !self.0.validator.is_valid(&value) {
            self.validate(&value, &mut problems);
        }
        without_consequences(&mut problems);
        let arguments = match value {
            Value::Object(arguments) => arguments,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Map::new()
            }
        };
        Typed { arguments, coercions: coercer.coercions, problems, json_repaired: coercer.json_repaired }
    }

    /// Adds what the validator finds where nothing was found yet.
    fn validate(&self, value: &Value, problems: &mut Vec<Problem>) {
        let found: HashSet<String> = problems
            .iter()
            .filter(|problem| problem.code != UNKNOWN)
            .map(|problem| problem.value_path().to_owned())
            .collect();
        let known = |path: &str| ancestors(path).any(|ancestor| found.contains(ancestor));
        for error in self.0.validator.iter_errors(value) {
            // The alternatives were told apart before: what is wrong inside the chosen one says more.
            let is_union = matches!(
                error.kind(),
                ValidationErrorKind::AnyOf { .. } | ValidationErrorKind::OneOfNotValid { .. }
            );
            let place = error.instance_path().to_string();
            if is_union && found.iter().any(|path| path.starts_with(&place)) {
                continue;
            }
            let more = problems_of(&error);
            problems.extend(more.into_iter().filter(|problem| !known(problem.value_path())));
        }
    }
}

/// A path, and every path above it.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('/').map(|(index, _)| index).skip(1).chain([path.len()]);
    ends.map(|end| &path[..end])
}

fn draft_of(schema: &Value) -> jsonschema::Draft {
    match schema.get("$schema").and_then(Value::as_str) {
        Some(uri) if uri.contains("draft-07") => jsonschema::Draft::Draft7,
        Some(uri) if uri.contains("draft-06") => jsonschema::Draft::Draft6,
        Some(uri) if uri.contains("draft-04") => jsonschema::Draft::Draft4,
        Some(uri) if uri.contains("2019-09") => jsonschema::Draft::Draft201909,
        Some(_) | None => jsonschema::Draft::Draft202012,
    }
}

/// Problems for an error of the validator, with messages of this crate.
fn problems_of(error: &ValidationError<'_>) -> Vec<Problem> {
    let path = error.instance_path().to_string();
    let got = error.instance();
    let invalid = |expected: String| vec![problem::invalid(&path, expected, got)];
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            vec![problem::missing(&path, property.as_str().unwrap_or_default())]
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            unexpected.iter().map(|name| problem::unknown(&path, name, None)).collect()
        }
        ValidationErrorKind::Enum { options } => match options.as_array() {
            Some(members) => vec![problem::not_a_member(&path, members, got)],
            None => invalid(error.to_string()),
        },
        ValidationErrorKind::Constant { expected_value } => {
            vec![problem::not_a_member(&path, std::slice::from_ref(&**expected_value), got)]
        }
        ValidationErrorKind::Type { kind } => invalid(match kind {
            TypeKind::Single(kind) => kind.to_string(),
            TypeKind::Multiple(kinds) => {
                kinds.iter().map(|kind| kind.to_string()).collect::<Vec<_>>().join(" or ")
            }
        }),
        ValidationErrorKind::Minimum { limit } => invalid(format!("at least {limit}")),
        ValidationErrorKind::Maximum { limit } => invalid(format!("at most {limit}")),
        ValidationErrorKind::ExclusiveMinimum { limit } => invalid(format!("more than {limit}")),
        ValidationErrorKind::ExclusiveMaximum { limit } => invalid(format!("less than {limit}")),
        ValidationErrorKind::MinLength { limit } => invalid(format!("at least {limit} characters long")),
        ValidationErrorKind::MaxLength { limit } => invalid(format!("at most {limit} characters long")),
        ValidationErrorKind::MinItems { limit } => invalid(format!("a list of at least {limit} items")),
        ValidationErrorKind::MaxItems { limit } => invalid(format!("a list of at most {limit} items")),
        ValidationErrorKind::Pattern { pattern } => invalid(format!("a text that matches {pattern}")),
        ValidationErrorKind::Format { format } => invalid(format!("a text in the format {format}")),
        ValidationErrorKind::MultipleOf { multiple_of } => invalid(format!("a multiple of {multiple_of}")),
        ValidationErrorKind::UniqueItems => invalid("a list without equal items".into()),
        _ => invalid(format!("what the schema says at {}", error.schema_path())),
    }
}

/// Takes out required names that an unknown one was probably meant for: one fault, one message.
fn without_consequences(problems: &mut Vec<Problem>) {
    let meant: HashSet<String> = problems
        .iter()
        .filter(|problem| problem.code == UNKNOWN)
        .filter_map(|problem| {
            let near = problem.suggest.as_ref()?;
            let (parent, _) = problem.value_path().rsplit_once('/')?;
            Some(problem::joined(parent, near))
        })
        .collect();
    problems.retain(|problem| {
        problem.code != ObservationCode::MissingParameter.as_str() || !meant.contains(problem.value_path())
    });
}
