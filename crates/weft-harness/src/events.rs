//! Events that a subscription has received.

use agent_types::{Delivery, EventSubscription, TraceEvent};

/// Takes the events that a subscription has received so far.
///
/// # Panics
/// Panics when the subscription lost events.
pub fn events(subscription: &mut EventSubscription) -> Vec<TraceEvent> {
    let mut events = Vec::new();
    while let Some(watched) = subscription.try_next() {
        match watched {
            Delivery::Events(batch) => events.extend(batch.iter().cloned()),
            Delivery::Lagged(missed) => panic!("{missed} events lost"),
        }
    }
    events
}
