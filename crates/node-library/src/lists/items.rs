//! Expressions over the items of a list, and what the nodes of lists share.

use agent_types::{EventBody, NodeErrorKind, canonical_json};
use async_trait::async_trait;
use serde_json::{Map, Value};
use workflow_engine::{
    ConvertedValue, Expression, Inputs, Node, NodeContext, NodeError, Outputs, Prepared, Problem, Scope,
};
use workflow_model::{ConfigDefinition, DataFlowType, NodeDefinition, SlotDefinition};

use crate::define::{Prepare, any, list, setting, text_setting};
use crate::math::as_number;

/// Computation over lists.
pub(super) type Work = fn(&NodeContext, &Inputs) -> Result<Outputs, NodeError>;

/// A node over lists. It holds a thread: an evaluation cannot be interrupted, and a list may have many items.
pub(super) struct Listed {
    pub(super) definition: NodeDefinition,
    pub(super) prepare: Prepare,
    pub(super) work: Work,
}

#[async_trait]
impl Node for Listed {
    fn definition(&self) -> &NodeDefinition {
        &self.definition
    }

    fn prepare(&self, config: &Map<String, Value>) -> Result<Prepared, Vec<Problem>> {
        (self.prepare)(config)
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        (self.work)(&ctx, &inputs)
    }
}

/// A type of node that takes one list.
pub(super) fn of_list(node_type: &str, description: &str) -> NodeDefinition {
    with_other(NodeDefinition::new(node_type, description).input("items", list("the list").required()))
}

/// The same with another value for its expressions.
pub(super) fn with_other(definition: NodeDefinition) -> NodeDefinition {
    definition.input("with", other()).pure().blocking()
}

fn other() -> SlotDefinition {
    any("another value that expressions read as `with`, such as an object of several").optional()
}

/// A setting that holds an expression over an item.
pub(super) fn over_item(meaning: &str) -> ConfigDefinition {
    setting(
        DataFlowType::String,
        &format!("{meaning}: an expression in CEL over `item`, `index` (from 0), `with` and `vars`"),
    )
}

/// Compiles the expression of a setting.
pub(super) fn compile(source: &str, key: &str) -> Result<Expression, Problem> {
    let scope = Scope::new().with("item").with("index").with("with").with("vars");
    Expression::compile(source, &scope)
        .map_err(|error| Problem::setting(key, error.to_string()).suggest(error.suggestion()))
}

/// The expression of an optional setting.
pub(super) fn expression(config: &Map<String, Value>, key: &str) -> Result<Option<Expression>, Vec<Problem>> {
    let source = text_setting(config, key)?;
    source.map(|source| compile(&source, key)).transpose().map_err(|problem| vec![problem])
}

/// The expression of a required setting.
pub(super) fn required(config: &Map<String, Value>, key: &str) -> Result<Expression, Vec<Problem>> {
    expression(config, key)?.ok_or_else(|| vec![Problem::setting(key, "this setting is required")])
}

/// The items of a list among the inputs.
pub(super) fn items<'i>(inputs: &'i Inputs, slot: &str) -> Result<&'i [Value], NodeError> {
    let value = inputs.required(slot)?;
    value
        .as_array()
        .map(Vec::as_slice)
        .ok_or_else(|| NodeError::fatal(format!("the input `{slot}` must be a list")))
}

/// The value of an expression for each item; `None` where the item does not have the member that it names.
pub(super) fn values(
    ctx: &NodeContext,
    inputs: &Inputs,
    items: &[Value],
    expression: &Expression,
) -> Result<Vec<Option<Value>>, NodeError> {
    let used = |name: &str| expression.used().any(|used| used == name);
    let with = used("with").then(|| inputs.get("with").map_or(&Value::Null, |with| &**with));
    let shared = Shared {
        with: with.map(ConvertedValue::from),
        vars: used("vars").then(|| ConvertedValue::from(&**ctx.variables())),
    };
    let mut values = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        check_cancel(ctx)?;
        values.push(value(&shared, (index, item), expression)?);
    }
    let missing = values.iter().filter(|value| value.is_none()).count();
    if missing > 0 {
        let message = format!(
            "`{}`: {missing} of {} items lack a member that it names",
            expression.source(),
            items.len()
        );
        ctx.emit(EventBody::LogLine { level: "warn".to_owned(), message });
    }
    Ok(values)
}

/// Values that the evaluations of a node share.
struct Shared {
    with: Option<ConvertedValue>,
    vars: Option<ConvertedValue>,
}

fn value(
    shared: &Shared,
    (index, item): (usize, &Value),
    expression: &Expression,
) -> Result<Option<Value>, NodeError> {
    if item.is_null() && expression.members("item").is_some() {
        return Ok(None);
    }
    let value = expression.evaluate_converted(|name| match name {
        "item" => Some(item.into()),
        "index" => Some((&Value::from(index)).into()),
        "with" => shared.with.clone(),
        "vars" => shared.vars.clone(),
        _ => None,
    });
    match value {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(failed(index, &error.to_string())),
    }
}

/// The same for an expression that must be true or false. A missing member counts as false.
pub(super) fn flags(
    ctx: &NodeContext,
    inputs: &Inputs,
    items: &[Value],
    expression: &Expression,
) -> Result<Vec<bool>, NodeError> {
    let values = values(ctx, inputs, items, expression)?;
    let flags = values.into_iter().enumerate().map(|(index, value)| match value {
        None => Ok(false),
        Some(Value::Bool(flag)) => Ok(flag),
        Some(other) => {
            let source = expression.source();
            Err(failed(index, &format!("`{source}` gives {other}, not true or false")))
        }
    });
    flags.collect()
}

fn failed(index: usize, message: &str) -> NodeError {
    NodeError::fatal(format!("item {index}: {message}")).with_kind(NodeErrorKind::Condition)
}

/// Ends the work of a run that was cancelled, or of an attempt that is not waited for any more.
pub(super) fn check_cancel(ctx: &NodeContext) -> Result<(), NodeError> {
    if ctx.cancel_token().is_cancelled() {
        return Err(NodeError::fatal("the run was cancelled").with_code("cancelled"));
    }
    Ok(())
}

/// A text that two values share exactly when they are equal; `1` and `1.0` are.
pub(super) fn identity(value: Option<&Value>) -> String {
    value.map_or_else(|| "null".to_owned(), |value| canonical_json(&plain_numbers(value)))
}

fn plain_numbers(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            number.as_f64().and_then(as_number).unwrap_or_else(|| value.clone())
        }
        Value::Array(items) => items.iter().map(plain_numbers).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, member)| (name.clone(), plain_numbers(member))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}
