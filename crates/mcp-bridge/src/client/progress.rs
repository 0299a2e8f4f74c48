//! Progress notifications, routed to the calls that they belong to.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use tokio::sync::mpsc;

/// Capacity for unread notifications of a call; further ones are dropped.
const BEHIND: usize = 64;

/// Capacity for notifications of calls without a subscriber; the oldest are dropped first.
const EARLY: usize = 64;

/// Routes of progress notifications, by token.
#[derive(Debug, Default)]
pub(super) struct Progress(Mutex<Routes>);

#[derive(Debug, Default)]
struct Routes {
    calls: HashMap<ProgressToken, mpsc::Sender<ProgressNotificationParam>>,
    /// Notifications that arrived before their token was known: a fast server may answer while the request is being
    /// sent.
    early: VecDeque<ProgressNotificationParam>,
}

impl Progress {
    /// The steps of a call from its first one on.
    pub(super) fn follow(&self, token: &ProgressToken) -> mpsc::Receiver<ProgressNotificationParam> {
        let (sender, steps) = mpsc::channel(BEHIND);
        let mut routes = self.0.lock();
        let (own, others) = routes.early.drain(..).partition(|step| step.progress_token == *token);
        routes.early = others;
        let own: VecDeque<_> = own;
        for step in own {
            // No more are kept than fit.
            drop(sender.try_send(step));
        }
        routes.calls.insert(token.clone(), sender);
        steps
    }

    /// The call is over.
    pub(super) fn forget(&self, token: &ProgressToken) {
        self.0.lock().calls.remove(token);
    }

    /// Routes a notification.
    pub(super) fn record(&self, step: ProgressNotificationParam) {
        let mut routes = self.0.lock();
        if let Some(call) = routes.calls.get(&step.progress_token) {
            // A slow caller misses some steps, which does no harm.
            drop(call.try_send(step));
            return;
        }
        if routes.early.len() == EARLY {
            routes.early.pop_front();
        }
        routes.early.push_back(step);
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::NumberOrString;

    use super::*;

    fn token(number: i64) -> ProgressToken {
        ProgressToken(NumberOrString::Number(number))
    }

    fn received(steps: &mut mpsc::Receiver<ProgressNotificationParam>) -> Vec<f64> {
        std::iter::from_fn(|| steps.try_recv().ok()).map(|step| step.progress).collect()
    }

    #[test]
    fn what_is_told_before_anybody_follows_is_not_lost() {
        let progress = Progress::default();
        let record =
            |number: i64, value: f64| progress.record(ProgressNotificationParam::new(token(number), value));
        record(1, 1.0);
        record(2, 7.0);
        record(1, 2.0);
        let mut first = progress.follow(&token(1));
        record(1, 3.0);
        assert_eq!(received(&mut first), [1.0, 2.0, 3.0]);
        assert_eq!(received(&mut progress.follow(&token(2))), [7.0]);
        // Calls that are over leave no more behind than what is kept.
        progress.forget(&token(1));
        for _ in 0..3 * EARLY {
            record(1, 4.0);
        }
        assert_eq!(progress.0.lock().early.len(), EARLY);
        assert_eq!(progress.0.lock().calls.len(), 1);
    }
}
