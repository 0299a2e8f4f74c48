//! Events from outside that set an agent to work.

use serde_json::Value;
use workflow_engine::{Expression, Scope};

use crate::profile::AgentProfile;

/// The key of a profile that lists what its agent listens to.
const KEY: &str = "subscribed_event_types";

/// Subscription of an agent: an event name, and a condition over the payload.
pub(crate) struct Subscription<'p> {
    name: &'p str,
    condition: Option<&'p str>,
}

/// Subscriptions of a profile: `"name"`, or `{"type": "name", "filter_condition": CEL}`.
pub(crate) fn subscriptions(profile: &AgentProfile) -> impl Iterator<Item = Subscription<'_>> {
    let listed = profile.extra.get(KEY).and_then(Value::as_array).into_iter().flatten();
    listed.filter_map(|entry| match entry {
        Value::String(name) => Some(Subscription { name, condition: None }),
        entry => Some(Subscription {
            name: entry.get("type")?.as_str()?,
            condition: entry.get("filter_condition").and_then(Value::as_str),
        }),
    })
}

impl AgentProfile {
    /// Returns `true` for an event that triggers the agent: `subscribed_event_types` name it, and the condition
    /// there holds.
    #[must_use]
    pub fn listens_to(&self, event: &str, payload: &Value) -> bool {
        subscriptions(self).any(|subscription| subscription.takes(event, payload))
    }
}

impl Subscription<'_> {
    /// Returns `true` for a matching event. A condition that cannot be evaluated does not hold.
    pub(crate) fn takes(&self, event: &str, payload: &Value) -> bool {
        if self.name != event {
            return false;
        }
        let Some(condition) = self.condition else { return true };
        let scope = Scope::new().with("payload").with("event");
        let value = |name: &str| match name {
            "payload" => Some(payload.clone()),
            "event" => Some(event.into()),
            _ => None,
        };
        Expression::compile(condition, &scope)
            .and_then(|condition| condition.evaluate_bool(value))
            .unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_and_conditions_decide() {
        let profile: AgentProfile = serde_json::from_value(json!({"id": "a", "subscribed_event_types":
            ["tick", {"type": "order", "filter_condition": "payload.total > 10"}]}))
        .unwrap();
        let takes = |event: &str, payload: Value| {
            subscriptions(&profile).any(|subscription| subscription.takes(event, &payload))
        };
        assert!(takes("tick", Value::Null));
        assert!(takes("order", json!({"total": 11})));
        assert!(!takes("order", json!({"total": 10})));
        assert!(!takes("order", json!({})));
        assert!(!takes("tock", Value::Null));
    }
}
