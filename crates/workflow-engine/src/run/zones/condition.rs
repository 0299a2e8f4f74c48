//! The condition between two passes of a zone.

use std::sync::Arc;

use serde_json::Value;
use workflow_model::ZoneMode;

use super::values::outputs_map;
use super::zone_run::ZoneRun;
use crate::expression::{cel_map, to_cel};
use crate::outputs::Outputs;
use crate::plan::data::PlanData;
use crate::plan::zone::Condition;

/// Results of the pass at which a condition is read, and of the one before it.
pub(super) struct PassResults<'z> {
    pub(super) out: Option<&'z Outputs>,
    pub(super) last: Option<&'z Outputs>,
}

/// Evaluates the condition of a zone at a pass; `true` ends the zone. `inputs` are those of the zone.
///
/// # Errors
/// The reason why the condition is neither true nor false.
pub(super) fn is_over(
    plan: &PlanData,
    zone: &ZoneRun,
    pass: u64,
    results: &PassResults<'_>,
    inputs: impl Fn() -> Value,
) -> Result<bool, String> {
    let zone_plan = zone.plan(plan);
    let holds = match &zone_plan.condition {
        None => return Ok(false),
        Some(Condition::Key(which, name)) => match zone.key_value(plan, *which, results.out) {
            Some(value) => value
                .as_bool()
                .ok_or_else(|| format!("the condition `{name}` is {value}, not true or false"))?,
            None => return Err(format!("the condition `{name}` has no value in this pass")),
        },
        Some(Condition::Expression(expression)) => {
            let decided = expression.decide(|name| match name {
                "state" => {
                    let wanted = expression.members("state");
                    let used = |key: &&Arc<str>| wanted.is_none_or(|wanted| wanted.contains(&***key));
                    let values = zone_plan.keys.iter().zip(zone.state()).filter(|(key, _)| used(key));
                    Some(cel_map(values.map(|(key, value)| (&**key, to_cel(value)))))
                }
                "index" => Some(to_cel(&pass.into())),
                "item" => Some(zone.item(pass).map_or(cel::Value::Null, |item| to_cel(&item))),
                "out" => Some(outputs_map(results.out)),
                "last" => Some(outputs_map(results.last)),
                "vars" => Some(to_cel(&plan.variables)),
                "inputs" => Some(to_cel(&inputs())),
                _ => None,
            });
            decided.map_err(|error| error.to_string())?
        }
    };
    Ok(holds != (zone_plan.spec.mode == ZoneMode::While))
}
