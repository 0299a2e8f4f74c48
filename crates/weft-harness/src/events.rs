//! Events that a subscription has received.

use agent_types::{EventSubscription, TraceEvent, Watched};

/// Takes the events that a subscription has received so far.
///
/// # Panics
/// Panics when the subscription lost events.
pub fn events(subscription: &mut EventSubscription) -> Vec<TraceEvent> {
    let mut events = Vec::new();
    while let Some(watched) = subscription.try_next() {
        match watched {
            Watched::Events(batch) => events.extend(batch.iter().cloned()),
            Watched::Lagged(missed) => panic!("{missed} events lost"),
        }
    }
    events
}
