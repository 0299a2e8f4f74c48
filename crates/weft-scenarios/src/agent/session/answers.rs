//! Answers to open questions of a case.

use agent_runtime::PendingCall;
use agent_types::RunId;
use weft_runs::Answer;

use super::super::case::{Deed, Turn};
use super::super::observed::Seen;
use super::{Session, Start};
use crate::Fault;

impl Session {
    /// Answers an open question, and resumes the run.
    pub(super) async fn answer(&mut self, turn: &Turn, seen: &mut Seen) -> Result<(), Fault> {
        let open = self.open.take().ok_or("nothing waits for an answer")?;
        let wanted = turn.tool.as_deref();
        let named = |pending: &&PendingCall| wanted.is_none_or(|tool| pending.tool.as_str() == tool);
        let pending = open.pending.iter().filter(named).nth(turn.nth).cloned();
        let pending = pending.ok_or("no such call waits for an answer")?;
        let answer = match turn.r#do {
            Some(Deed::Approve) => Answer::Approve { arguments: None },
            Some(Deed::Deny) => Answer::Deny { reason: turn.reason.clone().unwrap_or_default() },
            Some(Deed::Edit) => {
                let arguments = turn.arguments.clone().unwrap_or_default();
                if self.agent.check_arguments(pending.tool.as_str(), &arguments).is_some() {
                    // They do not fit: nothing is answered, and the call waits as before.
                    return self.go(Start::Resume(Box::new(open)), seen).await;
                }
                Answer::Approve { arguments: Some(arguments) }
            }
            _ => Answer::Value(turn.value.clone().unwrap_or_default()),
        };
        self.record_answer(&open.run, &pending.ask, &answer)?;
        self.go(Start::Resume(Box::new(open)), seen).await
    }

    fn record_answer(&self, run: &RunId, ask: &str, answer: &Answer) -> Result<(), Fault> {
        let store = &self.lasting.store;
        let asks = store.asks(run).map_err(|error| error.to_string())?;
        let asked = asks.iter().find(|asked| *asked.summary.ask == *ask);
        let asked = asked.ok_or_else(|| format!("the run does not ask `{ask}`"))?;
        let value = answer.to_value(run, &asked.summary).map_err(|error| error.to_string())?;
        store.answer(run, ask, &value).map_err(|error| error.to_string())
    }
}
