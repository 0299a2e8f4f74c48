//! Events from outside that set an agent to work.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use workflow_engine::{Expression, Scope};

use crate::text_or_object::text_or_object;

/// Event from outside that starts an agent: its name, or the name with a condition over the payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum SubscribedEvent {
    /// Just the name.
    Name(String),
    /// The name with a condition.
    Filtered {
        /// The name.
        #[serde(rename = "type")]
        name: String,
        /// CEL over `payload` and `event`; the event counts where it is true.
        #[serde(skip_serializing_if = "Option::is_none")]
        filter_condition: Option<String>,
        /// Keys that weft does not know.
        #[serde(flatten)]
        extra: BTreeMap<String, Value>,
    },
}

/// Entry that is an object.
#[derive(Deserialize)]
struct FilteredEvent {
    #[serde(rename = "type")]
    name: String,
    filter_condition: Option<String>,
    #[serde(flatten)]
    extra: BTreeMap<String, Value>,
}

impl From<FilteredEvent> for SubscribedEvent {
    fn from(event: FilteredEvent) -> Self {
        let FilteredEvent { name, filter_condition, extra } = event;
        Self::Filtered { name, filter_condition, extra }
    }
}

impl<'de> Deserialize<'de> for SubscribedEvent {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "the name of an event, or an object with its `type`";
        text_or_object::<_, _, FilteredEvent>(deserializer, expected, Self::Name)
    }
}

impl SubscribedEvent {
    /// The name of the event.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Name(name) | Self::Filtered { name, .. } => name,
        }
    }

    /// Checks name and condition. A condition that cannot be evaluated does not hold.
    pub(crate) fn takes(&self, event: &str, payload: &Value) -> bool {
        if self.name() != event {
            return false;
        }
        let condition = match self {
            Self::Name(_) => None,
            Self::Filtered { filter_condition, .. } => filter_condition.as_ref(),
        };
        let Some(condition) = condition else { return true };
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
    use crate::profile::AgentProfile;

    #[test]
    fn names_and_conditions_decide() {
        let profile: AgentProfile = serde_json::from_value(json!({"id": "a", "subscribed_event_types":
            ["tick", {"type": "order", "filter_condition": "payload.total > 10"}]}))
        .unwrap();
        let takes = |event: &str, payload: Value| profile.listens_to(event, &payload);
        assert!(takes("tick", Value::Null));
        assert!(takes("order", json!({"total": 11})));
        assert!(!takes("order", json!({"total": 10})));
        assert!(!takes("order", json!({})));
        assert!(!takes("tock", Value::Null));
    }
    #[test]
    fn entries_of_another_shape_are_refused() {
        let fault = |listed: Value| {
            let file = json!({"id": "a", "subscribed_event_types": [listed]}).to_string();
            AgentProfile::from_json(&file).unwrap_err().to_string()
        };
        assert!(fault(json!(7)).ends_with("expected the name of an event, or an object with its `type`"));
        assert!(fault(json!({"filter_condition": "true"})).ends_with("missing field `type`"));
    }
}
