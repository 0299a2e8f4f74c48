//! Values, expressions and branches.

use serde_json::{Map, Value};
use workflow_engine::{
    Expression, ExpressionError, Inputs, NodeCatalog, NodeContext, NodeError, Outputs, Prepared, Problem,
    Scope,
};
use workflow_model::{DataFlowType, DynamicSlots, NodeDefinition};

use crate::define::{Computed, any, as_text, made, required_text, setting};

pub(crate) fn register(catalog: &mut NodeCatalog) {
    catalog.register(constant());
    catalog.register(expression());
    catalog.register(condition());
    catalog.register(switch());
}

fn constant() -> Computed {
    let definition = NodeDefinition::new("core:Const", "Gives a value.")
        .output("value", any("the value"))
        .config("value", setting(DataFlowType::Wildcard, "the value"))
        .pure();
    Computed::new(definition, |ctx, _| Ok(Outputs::value(ctx.config("value").cloned().unwrap_or_default())))
}

fn expression() -> Computed {
    let definition = NodeDefinition::new("core:Expression", "Calculates a value with an expression in CEL.")
        .input(
            "values",
            any("an object whose members are names in the expression, or any value called `values`"),
        )
        .output("value", any("the result"))
        .config(
            "cel",
            setting(
                DataFlowType::String,
                "the expression over `values`, `vars` and every other input that it names",
            )
            .required(),
        )
        .dynamic_inputs(DynamicSlots::NamedIn("cel"))
        .pure();
    Computed::new(definition, |ctx, inputs| {
        let expression: &Expression = made(ctx)?;
        expression
            .evaluate(|name| named(ctx, inputs, name))
            .map(Outputs::value)
            .map_err(|error| failed(&error))
    })
    .prepared(|config| compile(config, &Scope::open()).map(Prepared::new))
}

/// A name of an expression: an input, `vars`, or a member of `values`.
fn named(ctx: &NodeContext, inputs: &Inputs, name: &str) -> Option<Value> {
    if name == "vars" {
        return Some((**ctx.variables()).clone());
    }
    let own = inputs.get(name).map(|value| (**value).clone());
    own.or_else(|| inputs.get("values")?.get(name).cloned())
}

fn condition() -> Computed {
    let definition = NodeDefinition::new("core:Condition", "Sends a value one way or the other.")
        .input("value", any("the value").required())
        .output("then", any("the value, where the expression is true"))
        .output("else", any("the value, where it is false"))
        .config("cel", setting(DataFlowType::String, "the expression over `value`, `vars` and every other input that it names; it must be true or false").required())
        .dynamic_inputs(DynamicSlots::NamedIn("cel"))
        .routes()
        .pure();
    Computed::new(definition, |ctx, inputs| {
        let expression: &Expression = made(ctx)?;
        let value = inputs.required("value")?.clone();
        let holds =
            expression.evaluate_bool(|name| named(ctx, inputs, name)).map_err(|error| failed(&error))?;
        Ok(Outputs::none().with_shared(if holds { "then" } else { "else" }, value))
    })
    .prepared(|config| compile(config, &Scope::open()).map(Prepared::new))
}

fn compile(config: &Map<String, Value>, scope: &Scope) -> Result<Expression, Vec<Problem>> {
    let source = required_text(config, "cel")?;
    Expression::compile(&source, scope).map_err(|error| vec![Problem::setting("cel", error.to_string())])
}

fn failed(error: &ExpressionError) -> NodeError {
    NodeError::fatal(error.to_string()).with_kind(agent_types::NodeErrorKind::Condition)
}

/// The slots of a switch, in file order.
enum Cases {
    /// The value as text is the name of its slot.
    Names(Vec<String>),
    /// The first expression that is true names the slot.
    Expressions(Vec<(String, Expression)>),
}

fn switch() -> Computed {
    let definition = NodeDefinition::new("core:Switch", "Sends a value to one of several outputs.")
        .input("value", any("the value").required())
        .output("default", any("the value, where no case fits"))
        .config(
            "cases",
            setting(DataFlowType::Wildcard, "a list of texts, each an output for values that are this text; or an object of output → expression over `value`, of which the first that is true counts").required(),
        )
        .dynamic_outputs(DynamicSlots::KeysOf("cases"))
        .routes()
        .pure();
    Computed::new(definition, |ctx, inputs| {
        let cases: &Cases = made(ctx)?;
        let value = inputs.required("value")?;
        let slot = match cases {
            Cases::Names(names) => {
                let text = as_text(value);
                names.iter().find(|name| **name == text).cloned()
            }
            Cases::Expressions(cases) => first_case(ctx, inputs, cases)?,
        };
        let slot = slot.unwrap_or_else(|| "default".to_owned());
        Ok(Outputs::none().with_shared(slot, value.clone()))
    })
    .prepared(|config| cases(config).map(Prepared::new))
}

fn first_case(
    ctx: &NodeContext,
    inputs: &Inputs,
    cases: &[(String, Expression)],
) -> Result<Option<String>, NodeError> {
    for (slot, expression) in cases {
        if expression.evaluate_bool(|name| named(ctx, inputs, name)).map_err(|error| failed(&error))? {
            return Ok(Some(slot.clone()));
        }
    }
    Ok(None)
}

fn cases(config: &Map<String, Value>) -> Result<Cases, Vec<Problem>> {
    let fault = |message: String| Problem::setting("cases", message);
    match config.get("cases") {
        Some(Value::Array(names)) => {
            let texts: Option<Vec<String>> =
                names.iter().map(|name| name.as_str().map(str::to_owned)).collect();
            texts.map(Cases::Names).ok_or_else(|| vec![fault("expected texts in the list".to_owned())])
        }
        Some(Value::Object(map)) => {
            let scope = Scope::new().with("value").with("vars");
            let mut faults = Vec::new();
            let mut cases = Vec::new();
            for (slot, source) in map {
                match Expression::compile(source.as_str().unwrap_or_default(), &scope) {
                    Ok(expression) => cases.push((slot.clone(), expression)),
                    Err(error) => faults.push(fault(format!("`{slot}`: {error}"))),
                }
            }
            if faults.is_empty() { Ok(Cases::Expressions(cases)) } else { Err(faults) }
        }
        Some(other) => Err(vec![fault(format!("expected a list or an object, found {other}"))]),
        None => Err(vec![fault("this setting is required".to_owned())]),
    }
}
