//! One call, with its limits; it always ends in an outcome.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, select};
use serde_json::{Map, Value, json};

use crate::context::ToolContext;
use crate::output::{ToolError, ToolErrorKind, ToolOutput};
use crate::own_folders::OwnFolders;
use crate::tasks::{TaskBoard, TaskState};
use crate::tool::{Answer, Tool};

/// Time that a call's inner run has to end after the call was given up.
const WIND_UP: Duration = Duration::from_millis(50);

/// End of a call.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum CallEnd {
    /// The call answered.
    Ok(ToolOutput),
    /// The call failed with an error.
    Failed(ToolError),
    /// The code of the tool panicked.
    Panicked {
        /// Message of the panic.
        message: String,
    },
    /// The call did not answer in time.
    TimedOut {
        /// The limit.
        limit: Duration,
    },
    /// The run was cancelled.
    Cancelled,
}

/// A call that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct CallOutcome {
    /// End of the call.
    pub end: CallEnd,
    /// Duration of the call.
    pub took: Duration,
}

impl Tool {
    /// Runs one call. The arguments must fit the schema.
    ///
    /// # Cancel safety
    /// Dropping the future drops the call.
    pub async fn invoke(&self, arguments: Map<String, Value>, cx: ToolContext) -> CallOutcome {
        match self.settings().answer {
            Answer::Whole => self.invoke_now(arguments, cx).await,
            Answer::Handle => CallOutcome { end: self.hand_over(arguments, cx), took: Duration::ZERO },
        }
    }

    /// Starts the call as a task and answers with the task.
    fn hand_over(&self, arguments: Map<String, Value>, cx: ToolContext) -> CallEnd {
        let Some(board) = cx.services.get::<TaskBoard>() else {
            return CallEnd::Failed(ToolError::new(ToolErrorKind::Refused, "long work is not possible here"));
        };
        match board.start(self.clone(), arguments, cx) {
            Some(task) => CallEnd::Ok(ToolOutput::Json(json!({"task": task, "state": TaskState::Running}))),
            None => CallEnd::Failed(ToolError::failed("too many tasks are under way; cancel one or wait")),
        }
    }

    /// Runs a call to its end, also where it is to answer with a task.
    pub(crate) async fn invoke_now(&self, arguments: Map<String, Value>, mut cx: ToolContext) -> CallOutcome {
        let limit = self.settings().limit();
        let started = cx.clock.elapsed();
        cx.deadline = Some(started + limit);
        let (clock, cancel) = (cx.clock.clone(), cx.cancel.clone());
        let own = cx.services.get::<OwnFolders>().unwrap_or_default();
        let inside = cancel.child_token();
        cx.cancel = inside.clone();
        let mut call = Box::pin(async {
            // The room is never closed.
            let _room = match self.room() {
                Some(room) => room.acquire().await.ok(),
                None => None,
            };
            self.handler().call(arguments, &cx).await
        });
        let stopped = std::pin::pin!(async {
            match select(std::pin::pin!(cancel.cancelled()), clock.sleep(limit)).await {
                Either::Left(_) => CallEnd::Cancelled,
                Either::Right(_) => CallEnd::TimedOut { limit },
            }
        });
        let end = match select(AssertUnwindSafe(call.as_mut()).catch_unwind(), stopped).await {
            Either::Left((Ok(Ok(output)), _)) => CallEnd::Ok(output),
            Either::Left((Ok(Err(error)), _)) if error.kind == ToolErrorKind::Cancelled => CallEnd::Cancelled,
            Either::Left((Ok(Err(error)), _)) => CallEnd::Failed(own.in_error(error)),
            Either::Left((Err(panic), _)) => CallEnd::Panicked { message: panic_message(&*panic) },
            Either::Right((end, _)) => {
                inside.cancel();
                if self.has_inner_run() {
                    let winds_up = AssertUnwindSafe(call.as_mut()).catch_unwind();
                    select(winds_up, clock.sleep(WIND_UP)).await;
                }
                end
            }
        };
        // What a call that was given up says while it is dropped changes nothing.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(call)));
        CallOutcome { end, took: clock.elapsed().saturating_sub(started) }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use agent_types::{
        Budget, BudgetLimits, CallId, EventLocation, Recorder, RunId, Timestamp, VirtualClock,
    };
    use schemars::JsonSchema;
    use serde::Deserialize;

    use super::*;
    use crate::tool::ToolSettings;

    #[derive(Deserialize, JsonSchema)]
    struct Args {
        mode: String,
    }

    fn tool() -> Tool {
        Tool::try_func("t", "Does what it is told.", |Args { mode }, cx: ToolContext| async move {
            match mode.as_str() {
                "ok" => Ok(json!({"a": 1})),
                "fail" => Err(ToolError::failed("no luck")),
                "panic" => panic!("boom"),
                _ => {
                    cx.clock.sleep(Duration::from_hours(1)).await;
                    Ok(json!(null))
                }
            }
        })
        .unwrap()
        .with_settings(ToolSettings::default().with_timeout(Duration::from_secs(5)))
    }

    fn context(clock: &VirtualClock) -> ToolContext {
        let clock: Arc<dyn agent_types::Clock> = Arc::new(clock.clone());
        let sink = Recorder::new(RunId::new("r"), Arc::clone(&clock));
        let budget = Budget::new(BudgetLimits::default());
        ToolContext::new(
            CallId::new("c"),
            "t".parse().unwrap(),
            clock,
            budget,
            sink,
            EventLocation::default(),
        )
    }

    async fn run(mode: &str) -> CallEnd {
        let clock = VirtualClock::new(Timestamp::default());
        let arguments = json!({"mode": mode}).as_object().unwrap().clone();
        let tool = tool();
        let call = tool.invoke(arguments, context(&clock));
        let time = async {
            loop {
                tokio::task::yield_now().await;
                clock.advance_to_next();
            }
        };
        tokio::select! {
            // What the last step of time set off comes before the next step.
            biased;
            outcome = call => outcome.end,
            () = time => unreachable!("time never ends"),
        }
    }

    #[tokio::test]
    async fn every_way_to_end_is_an_outcome() {
        assert_eq!(run("ok").await, CallEnd::Ok(ToolOutput::Json(json!({"a": 1}))));
        assert_eq!(run("fail").await, CallEnd::Failed(ToolError::failed("no luck")));
        assert_eq!(run("panic").await, CallEnd::Panicked { message: "boom".into() });
        assert_eq!(run("hang").await, CallEnd::TimedOut { limit: Duration::from_secs(5) });
    }

    #[tokio::test]
    async fn a_cancelled_call_ends_at_once() {
        let clock = VirtualClock::new(Timestamp::default());
        let cx = context(&clock);
        cx.cancel.cancel();
        let arguments = json!({"mode": "hang"}).as_object().unwrap().clone();
        assert_eq!(tool().invoke(arguments, cx).await.end, CallEnd::Cancelled);
    }
}
