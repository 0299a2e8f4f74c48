//! Timers of a session that go off.

use agent_types::{EventBody, ExitReason};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Turn;
use super::said::reply_said;
use crate::error::OrchestratorError;
use crate::executor::Decision;
use crate::flows::Trigger;
use crate::message::Handled;
use crate::session::Phase;
use crate::timer::{Timer, TimerStep};
use crate::turn_context::TurnContext;

/// Question of a timer to the agent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) timer: String,
    message: String,
}

impl Turn<'_> {
    /// Lets a timer go off.
    pub(crate) async fn fire(mut self, timer: &Timer) -> Result<Handled, OrchestratorError> {
        let resumed = self.cx.was_in_agent();
        self.begin(None, Some(&timer.id), resumed);
        self.cx.is_answered = false;
        let asked = match &timer.step {
            TimerStep::Ask(template) => {
                Some(Asked { timer: timer.id.clone(), message: self.fill(template, &Value::Null) })
            }
            TimerStep::Reply(_) | TimerStep::Flow(_) | TimerStep::Action(_) => None,
        };
        let message = format!("the timer `{}` went off", timer.id);
        let line = EventBody::LogLine { level: "info".into(), message };
        // A run that is resumed asks the same.
        self.events.emit_with(line, asked.as_ref().map(|asked| json!(asked)).as_ref());
        let result = match asked {
            Some(asked) => self.ask_for_timer(resumed, asked).await,
            None => self.fire_step(timer).await,
        };
        self.finish(result, true)
    }

    async fn fire_step(&mut self, timer: &Timer) -> Result<Handled, OrchestratorError> {
        let why = format!("timer \"{}\"", timer.id);
        let target = match &timer.step {
            TimerStep::Reply(template) => {
                let text = Some(self.fill(template, &Value::Null));
                let handled = self.handled(ExitReason::FlowCompleted, text, None);
                return self.after_timer(handled, &timer.id).await;
            }
            TimerStep::Ask(template) => {
                let message = self.fill(template, &Value::Null);
                return self
                    .ask_for_timer(self.cx.was_in_agent(), Asked { timer: timer.id.clone(), message })
                    .await;
            }
            TimerStep::Flow(at) => Trigger::Flow(*at),
            TimerStep::Action(at) => Trigger::Action(*at),
        };
        let (decision, flow, action) = self.run_one(target, &why, &Map::new()).await?;
        let handled = match decision {
            Decision::End { exit, text, error } => {
                Handled { flow, action, ..self.handled(exit, text, error) }
            }
            Decision::Ask(_) | Decision::Continue => self.continued(flow, action),
        };
        self.after_timer(handled, &timer.id).await
    }

    /// Asks the agent in place of a user.
    pub(super) async fn ask_for_timer(
        &mut self,
        resumed: bool,
        asked: Asked,
    ) -> Result<Handled, OrchestratorError> {
        let Asked { timer, message } = asked;
        (self.message.text, self.asked_by) = (message, Some(timer.clone()));
        let handled = self.ask_agent(resumed, None).await?;
        self.after_timer(handled, &timer).await
    }

    /// Says and keeps the reply of a timer.
    async fn after_timer(&mut self, handled: Handled, timer: &str) -> Result<Handled, OrchestratorError> {
        let mut handled = Handled { timer: Some(timer.to_owned()), ..handled };
        if handled.outcome.is_none() {
            self.say(&mut handled);
            let reply = reply_said(self, &handled);
            self.record(reply.into_iter().collect()).await?;
        }
        self.kept.state.end(&self.key);
        if self.kept.state.phase != Phase::Open {
            self.kept.state.timers.clear();
        }
        self.save().await?;
        Ok(handled)
    }
}

/// The question of the timer whose run is resumed.
pub(super) fn recorded_question(cx: &TurnContext) -> Option<Asked> {
    let recorded = cx.recorded_value(|body| matches!(body, EventBody::LogLine { .. }))?;
    serde_json::from_value(recorded).ok()
}
