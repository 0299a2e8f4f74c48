//! End of a run.

use agent_types::{EventBody, EventSink, RunStatus};

use super::context::RunContext;
use super::trace::Trace;
use crate::machine::{Conversation, End, is_partial};
use crate::outcome::{PendingCall, RunOutcome, exit_status};

/// Emits the end of a run and puts its outcome together.
pub(super) fn finish(
    context: &RunContext,
    conversation: &Conversation,
    root: &Trace,
    end: End,
) -> RunOutcome {
    let partial = end.is_partial || is_partial(end.exit);
    let status = exit_status(end.exit);
    if status != RunStatus::Waiting {
        context.log.resume();
    }
    match status {
        _ if context.inside.is_some() => {}
        RunStatus::Waiting => {
            context.log.resume_with_news();
            let asks = end.pending.iter().map(PendingCall::summary);
            root.emit(EventBody::RunWaiting { exit: Some(end.exit), asks: asks.collect() });
        }
        status => root.emit(EventBody::RunFinished {
            status,
            exit: Some(end.exit),
            kind: end.kind.clone(),
            partial: Some(partial),
            message: end.error.clone(),
        }),
    }
    // A run that waits for the same as before emits nothing.
    context.log.resume_with_news();
    let mut usage = conversation.usage();
    usage += context.meter.total();
    RunOutcome {
        run: context.log.run().clone(),
        exit: end.exit,
        text: conversation.text().unwrap_or_default().to_owned(),
        value: conversation.value().cloned(),
        partial,
        usage,
        pending: end.pending,
        error: end.error,
        kind: end.kind,
        warning: conversation.warning().map(str::to_owned),
        history: conversation.history().to_vec(),
    }
}
