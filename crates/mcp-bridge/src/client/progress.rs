//! Steps of calls, on their way to whoever made the call.

use std::collections::{HashMap, VecDeque};

use parking_lot::{Mutex, MutexGuard};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use tokio::sync::mpsc;

/// Steps of a call that may wait to be told; more are passed over.
const BEHIND: usize = 64;

/// Steps that are kept while nobody follows their call; the oldest go first.
const EARLY: usize = 64;

/// Where the steps of calls go, by their tokens.
#[derive(Debug, Default)]
pub(super) struct Progress(Mutex<Routes>);

#[derive(Debug, Default)]
struct Routes {
    calls: HashMap<ProgressToken, mpsc::Sender<ProgressNotificationParam>>,
    /// A token is known when its request is on the way, and a quick server may have told of it by then.
    early: VecDeque<ProgressNotificationParam>,
}

impl Progress {
    /// The steps of a call from its first one on.
    pub(super) fn follow(&self, token: &ProgressToken) -> mpsc::Receiver<ProgressNotificationParam> {
        let (tell, steps) = mpsc::channel(BEHIND);
        let mut routes = self.lock();
        let (own, others) = routes.early.drain(..).partition(|step| step.progress_token == *token);
        routes.early = others;
        let own: VecDeque<_> = own;
        for step in own {
            // No more are kept than fit.
            drop(tell.try_send(step));
        }
        routes.calls.insert(token.clone(), tell);
        steps
    }

    /// The call is over.
    pub(super) fn forget(&self, token: &ProgressToken) {
        self.lock().calls.remove(token);
    }

    /// A step was told.
    pub(super) fn tell(&self, step: ProgressNotificationParam) {
        let mut routes = self.lock();
        if let Some(call) = routes.calls.get(&step.progress_token) {
            // Whoever does not keep up misses some of it, which is no loss.
            drop(call.try_send(step));
            return;
        }
        if routes.early.len() == EARLY {
            routes.early.pop_front();
        }
        routes.early.push_back(step);
    }

    fn lock(&self) -> MutexGuard<'_, Routes> {
        // Nothing that can panic runs under this lock.
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::NumberOrString;

    use super::*;

    fn token(number: i64) -> ProgressToken {
        ProgressToken(NumberOrString::Number(number))
    }

    fn told(steps: &mut mpsc::Receiver<ProgressNotificationParam>) -> Vec<f64> {
        std::iter::from_fn(|| steps.try_recv().ok()).map(|step| step.progress).collect()
    }

    #[test]
    fn what_is_told_before_anybody_follows_is_not_lost() {
        let progress = Progress::default();
        let tell =
            |number: i64, value: f64| progress.tell(ProgressNotificationParam::new(token(number), value));
        tell(1, 1.0);
        tell(2, 7.0);
        tell(1, 2.0);
        let mut first = progress.follow(&token(1));
        tell(1, 3.0);
        assert_eq!(told(&mut first), [1.0, 2.0, 3.0]);
        assert_eq!(told(&mut progress.follow(&token(2))), [7.0]);
        // Calls that are over leave no more behind than what is kept.
        progress.forget(&token(1));
        for _ in 0..3 * EARLY {
            tell(1, 4.0);
        }
        assert_eq!(progress.lock().early.len(), EARLY);
        assert_eq!(progress.lock().calls.len(), 1);
    }
}
