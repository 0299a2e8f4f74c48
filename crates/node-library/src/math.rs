//! Arithmetic, one operation a mode.

use serde_json::Value;
use workflow_engine::{NodeCatalog, NodeError, Outputs};
use workflow_model::{ConfigDefinition, DataFlowType, ModeDefinition, Modes, NodeDefinition};

use crate::define::{Computed, number};

/// Arithmetic operation of a mode.
enum Operation {
    One(fn(f64) -> f64),
    Two(fn(f64, f64) -> f64),
}

/// Every mode: name, title, operation.
const OPERATIONS: [(&str, &str, Operation); 35] = [
    ("add", "a + b", Operation::Two(|a, b| a + b)),
    ("subtract", "a − b", Operation::Two(|a, b| a - b)),
    ("multiply", "a × b", Operation::Two(|a, b| a * b)),
    ("divide", "a ÷ b", Operation::Two(|a, b| a / b)),
    ("modulo", "rest of a ÷ b", Operation::Two(|a, b| a % b)),
    ("power", "a to the power of b", Operation::Two(f64::powf)),
    ("min", "the smaller", Operation::Two(f64::min)),
    ("max", "the greater", Operation::Two(f64::max)),
    ("average", "(a + b) ÷ 2", Operation::Two(f64::midpoint)),
    ("difference", "distance of a and b", Operation::Two(|a, b| (a - b).abs())),
    ("hypot", "length of the vector (a, b)", Operation::Two(f64::hypot)),
    ("atan2", "angle of the vector (b, a)", Operation::Two(f64::atan2)),
    ("abs", "without its sign", Operation::One(f64::abs)),
    ("negate", "−a", Operation::One(|a| -a)),
    ("sign", "−1, 0 or 1", Operation::One(|a| if a == 0.0 { 0.0 } else { a.signum() })),
    ("reciprocal", "1 ÷ a", Operation::One(|a| 1.0 / a)),
    ("square", "a × a", Operation::One(|a| a * a)),
    ("cube", "a × a × a", Operation::One(|a| a * a * a)),
    ("sqrt", "square root", Operation::One(f64::sqrt)),
    ("cbrt", "cube root", Operation::One(f64::cbrt)),
    ("floor", "down to a whole number", Operation::One(f64::floor)),
    ("ceil", "up to a whole number", Operation::One(f64::ceil)),
    ("round", "to the nearest whole number", Operation::One(f64::round)),
    ("trunc", "without its fraction", Operation::One(f64::trunc)),
    ("fract", "its fraction", Operation::One(f64::fract)),
    ("exp", "e to the power of a", Operation::One(f64::exp)),
    ("ln", "natural logarithm", Operation::One(f64::ln)),
    ("log2", "logarithm to base 2", Operation::One(f64::log2)),
    ("log10", "logarithm to base 10", Operation::One(f64::log10)),
    ("sin", "sine", Operation::One(f64::sin)),
    ("cos", "cosine", Operation::One(f64::cos)),
    ("tan", "tangent", Operation::One(f64::tan)),
    ("asin", "arc sine", Operation::One(f64::asin)),
    ("acos", "arc cosine", Operation::One(f64::acos)),
    ("atan", "arc tangent", Operation::One(f64::atan)),
];

const MODE_KEY: &str = "operationMode";
const DEFAULT_MODE: &str = "add";

pub(crate) fn register(catalog: &mut NodeCatalog) {
    catalog.register(math_operation());
}

fn math_operation() -> Computed {
    let mut modes = Modes::new(MODE_KEY, DEFAULT_MODE);
    for (name, title, operation) in &OPERATIONS {
        let mut mode = ModeDefinition::new(*title).input("a", number("the first number").with_default(0));
        if let Operation::Two(_) = operation {
            mode = mode.input("b", number("the second number").with_default(0));
        }
        modes = modes.mode(*name, mode);
    }
    let definition = NodeDefinition::new("core:MathOperation", "Calculates with one or two numbers.")
        .output("result", number("the result; a whole number without a fraction"))
        .config(
            MODE_KEY,
            ConfigDefinition::new(DataFlowType::String, "which operation").with_default(DEFAULT_MODE),
        )
        .modes(modes)
        .pure();
    Computed::new(definition, |ctx, inputs| {
        let mode = ctx.config(MODE_KEY).and_then(Value::as_str).unwrap_or(DEFAULT_MODE);
        let operand = |slot| inputs.get(slot).and_then(|value| value.as_f64()).unwrap_or(0.0);
        let Some((_, _, operation)) = OPERATIONS.iter().find(|(name, _, _)| *name == mode) else {
            return Err(NodeError::fatal(format!("the mode `{mode}` is unknown")));
        };
        let result = match operation {
            Operation::One(calculate) => calculate(operand("a")),
            Operation::Two(calculate) => calculate(operand("a"), operand("b")),
        };
        as_number(result).map(Outputs::value).ok_or_else(|| {
            NodeError::fatal(format!("`{mode}` has no result for these numbers")).with_code("no_number")
        })
    })
}

/// Converts to a number in JSON: whole ones without a fraction, `None` for NaN and infinities.
pub(crate) fn as_number(result: f64) -> Option<Value> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if result.fract() == 0.0 && result.abs() <= EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "whole and within the exact range")]
        return Some(Value::from(result as i64));
    }
    serde_json::Number::from_f64(result).map(Value::Number)
}
