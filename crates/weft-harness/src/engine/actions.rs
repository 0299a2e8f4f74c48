//! Actions on a run while it executes.

use std::time::Duration;

use serde_json::Value;
use workflow_engine::RunRemote;

use super::{known_keys, object};
use weft_scenarios::Fault;
use weft_scenarios::Pattern;

const KNOWN: [&str; 6] = ["cancel", "crash", "answer", "subscribe_slow", "drop_events", "drop_handle"];

/// Actions on a run while it executes.
pub(crate) struct Actions(Vec<Action>);

struct Action {
    on: When,
    what: String,
    ask: String,
    value: Value,
    done: bool,
}

enum When {
    Event(Pattern),
    After(Duration),
}

impl Actions {
    pub(crate) fn read(value: Option<&Value>) -> Result<Self, Fault> {
        let mut actions = Vec::new();
        for action in value.and_then(Value::as_array).into_iter().flatten() {
            let map = object(action)?;
            known_keys(map, &["on", "after_ms", "do", "ask", "value"])?;
            let on = match (map.get("on"), map.get("after_ms").and_then(Value::as_u64)) {
                (Some(event), _) => When::Event(Pattern::read(event)?),
                (None, Some(ms)) => When::After(Duration::from_millis(ms)),
                (None, None) => return Err("an action needs `on` or `after_ms`".to_owned()),
            };
            let text = |key: &str| map.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let what = text("do");
            if !KNOWN.contains(&what.as_str()) {
                return Err(format!("the action `{what}` is not known here"));
            }
            let value = map.get("value").cloned().unwrap_or_default();
            actions.push(Action { on, what, ask: text("ask"), value, done: false });
        }
        Ok(Self(actions))
    }

    /// Time until the next action by time.
    pub(crate) fn next_due(&self, now: Duration) -> Option<Duration> {
        let open = self.0.iter().filter(|action| !action.done);
        let due = open.filter_map(|action| match action.on {
            When::After(after) => Some(after.saturating_sub(now)),
            When::Event(_) => None,
        });
        due.min()
    }

    pub(crate) async fn on_event(&mut self, event: &Value, run: &RunRemote) -> Result<(), Fault> {
        for action in &mut self.0 {
            if !action.done && matches!(&action.on, When::Event(pattern) if pattern.matches(event)) {
                action.act(run).await?;
            }
        }
        Ok(())
    }

    pub(crate) async fn on_time(&mut self, now: Duration, run: &RunRemote) -> Result<(), Fault> {
        for action in &mut self.0 {
            if !action.done && matches!(action.on, When::After(after) if after <= now) {
                action.act(run).await?;
            }
        }
        Ok(())
    }

    fn done(&self, what: &str) -> bool {
        self.0.iter().any(|action| action.done && action.what == what)
    }

    pub(crate) fn wants_slow_watcher(&self) -> bool {
        self.done("subscribe_slow")
    }

    /// The event with which the process ends.
    pub(crate) fn crash_pattern(&self) -> Option<Pattern> {
        self.0.iter().find_map(|action| match &action.on {
            When::Event(pattern) if action.what == "crash" => Some(pattern.clone()),
            When::Event(_) | When::After(_) => None,
        })
    }

    pub(crate) fn has_crashed(&self) -> bool {
        self.done("crash")
    }

    pub(crate) fn all_done(&self) -> bool {
        self.0.iter().all(|action| action.done)
    }
}

impl Action {
    async fn act(&mut self, run: &RunRemote) -> Result<(), Fault> {
        self.done = true;
        match self.what.as_str() {
            "cancel" | "drop_handle" => run.cancel(),
            "crash" => run.abort(),
            "answer" if !run.answer(&self.ask, self.value.clone()).await => {
                return Err(format!("no open question `{}`", self.ask));
            }
            _ => {}
        }
        Ok(())
    }
}
