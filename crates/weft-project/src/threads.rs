//! Conversations: the exchanges of an agent that belong together, over many runs.

use agent_runtime::{AgentState, Exchange};
use agent_types::RunId;
use run_store::{RunFilter, RunPhase};
use serde_json::Value;

use crate::error::ProjectError;
use crate::project::Project;
use crate::store::AgentPlan;

impl Project {
    /// Puts what a run has added behind its thread.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn extend_thread(
        &self,
        agent: &str,
        thread: &str,
        exchanges: &[Exchange],
    ) -> Result<(), ProjectError> {
        if let Some(store) = self.store()? {
            let messages: Vec<Value> =
                exchanges.iter().filter_map(|exchange| serde_json::to_value(exchange).ok()).collect();
            store.add_messages(&thread_key(agent, thread), &messages);
        }
        Ok(())
    }

    /// The conversation of a thread as it is kept.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn thread_state(&self, agent: &str, thread: &str) -> Result<AgentState, ProjectError> {
        Ok(AgentState::from_history(self.history(agent, Some(thread))?))
    }

    /// The run of a thread that waits for a person, if there is one.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn waiting_run(&self, agent: &str, thread: &str) -> Result<Option<RunId>, ProjectError> {
        let Some(store) = self.store()? else { return Ok(None) };
        let filter = RunFilter {
            phase: Some(RunPhase::Waiting),
            agent: Some(agent.to_owned()),
            thread: Some(thread.to_owned()),
            ..RunFilter::default()
        };
        Ok(store.runs(&filter)?.into_iter().next().map(|record| record.new.run))
    }

    /// Forgets the last thing that was said in a thread, with all that came of it. Gives whether there was any.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn undo_exchange(&self, agent: &str, thread: &str) -> Result<bool, ProjectError> {
        let history = self.history(agent, Some(thread))?;
        let last = history
            .iter()
            .rposition(|exchange| matches!(exchange, Exchange::User { .. } | Exchange::Event { .. }));
        let (Some(last), Some(store)) = (last, self.store()?) else { return Ok(false) };
        store.cut_thread(&thread_key(agent, thread), last);
        Ok(true)
    }

    /// The conversation before a run: that of its thread, else the one that its plan has.
    pub(crate) fn history_before(
        &self,
        plan: &AgentPlan,
        thread: Option<&str>,
    ) -> Result<Vec<Exchange>, ProjectError> {
        match thread {
            Some(_) => self.history(&plan.agent, thread),
            None => Ok(plan.history.clone()),
        }
    }

    fn history(&self, agent: &str, thread: Option<&str>) -> Result<Vec<Exchange>, ProjectError> {
        let (Some(thread), Some(store)) = (thread, self.store()?) else { return Ok(Vec::new()) };
        let messages = store.messages(&thread_key(agent, thread))?;
        Ok(messages.into_iter().filter_map(|message| serde_json::from_value(message).ok()).collect())
    }
}

/// Threads of different agents are different threads.
fn thread_key(agent: &str, thread: &str) -> String {
    // Ids may have a slash of their own, and threads of workflows have a colon.
    let agent = agent.replace('%', "%25").replace('/', "%2F").replace(':', "%3A");
    format!("{agent}/{thread}")
}
