//! State of a conversation beyond its messages.

use std::collections::VecDeque;

use agent_types::{ExitReason, Timestamp};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::timer::Timer;

/// Messages of the user whose replies are remembered, so that one that comes twice is answered once.
const MAX_ANSWERED: usize = 16;

/// Messages under way whose effects are remembered: one in each process, and those that were interrupted.
const MAX_OPEN: usize = 16;

/// Party that answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Phase {
    /// The agent, and the flows.
    #[default]
    Open,
    /// A person; the agent is quiet until the session is given back.
    HandedOver {
        /// Since when.
        since: Timestamp,
        /// The system action.
        action: String,
        /// Reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The person who has taken it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        person: Option<String>,
    },
    /// The session is closed: messages are not answered.
    Closed {
        /// Since when.
        since: Timestamp,
        /// The system action.
        action: String,
    },
}

/// Next due time of a timer, and how often it went off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Armed {
    pub(crate) id: String,
    /// None where it went off as often as it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) due: Option<Timestamp>,
    #[serde(default)]
    pub(crate) fired: u32,
}

/// A message with an id, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answered {
    pub(crate) id: String,
    pub(crate) exit: ExitReason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reply: Option<String>,
}

/// A message that is being handled, and the effects that were begun for it. It is kept before each effect begins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenTurn {
    /// The message's id, else the run's.
    pub(crate) key: String,
    pub(crate) begun: Vec<String>,
}

/// State of a session. It outlives the process in a [`SessionStore`](crate::SessionStore).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionState {
    pub(crate) phase: Phase,
    /// Profile of the user: `{$ctx.profile.name}`.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) profile: Map<String, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) timers: Vec<Armed>,
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    pub(crate) answered: VecDeque<Answered>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "open_turns")]
    pub(crate) open: Vec<OpenTurn>,
}

/// Reads the messages under way; earlier versions kept one.
fn open_turns<'de, D: Deserializer<'de>>(reader: D) -> Result<Vec<OpenTurn>, D::Error> {
    match Value::deserialize(reader)? {
        Value::Null => Ok(Vec::new()),
        one @ Value::Object(_) => OpenTurn::deserialize(one).map(|one| vec![one]).map_err(D::Error::custom),
        list => Vec::deserialize(list).map_err(D::Error::custom),
    }
}

impl SessionState {
    /// Party that answers.
    #[must_use]
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Profile of the user.
    #[must_use]
    pub fn profile(&self) -> &Map<String, Value> {
        &self.profile
    }

    /// Due time of the next timer.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.timers.iter().filter_map(|armed| armed.due).min()
    }

    /// Recorded answer to the message of an id.
    pub(crate) fn answered(&self, id: &str) -> Option<&Answered> {
        self.answered.iter().find(|answered| answered.id == id)
    }

    pub(crate) fn remember(&mut self, answered: Answered) {
        self.answered.push_back(answered);
        while self.answered.len() > MAX_ANSWERED {
            self.answered.pop_front();
        }
    }

    /// Notes that an effect of this message begins; false where it was begun before.
    pub(crate) fn begin(&mut self, key: &str, step: String) -> bool {
        let at = self.open.iter().position(|open| open.key == key).unwrap_or_else(|| {
            if self.open.len() >= MAX_OPEN {
                self.open.remove(0);
            }
            self.open.push(OpenTurn { key: key.to_owned(), begun: Vec::new() });
            self.open.len() - 1
        });
        let open = &mut self.open[at];
        if open.begun.contains(&step) {
            return false;
        }
        open.begun.push(step);
        true
    }

    /// Forgets what was begun for a message that is answered.
    pub(crate) fn end(&mut self, key: &str) {
        self.open.retain(|open| open.key != key);
    }

    /// Replays on another state what has changed since `before`.
    pub(crate) fn replayed(&self, before: &Self, mut on: Self) -> Self {
        if self.phase != before.phase {
            on.phase.clone_from(&self.phase);
        }
        on.profile.retain(|name, _| self.profile.contains_key(name) || !before.profile.contains_key(name));
        let changed = self.profile.iter().filter(|(name, value)| before.profile.get(*name) != Some(*value));
        on.profile.extend(changed.map(|(name, value)| (name.clone(), value.clone())));
        if self.timers != before.timers {
            on.timers.clone_from(&self.timers);
        }
        if on.phase != Phase::Open {
            on.timers.clear();
        }
        for answered in self.answered.iter().filter(|answered| before.answered(&answered.id).is_none()) {
            if on.answered(&answered.id).is_none() {
                on.remember(answered.clone());
            }
        }
        for ended in before.open.iter().filter(|open| self.open.iter().all(|own| own.key != open.key)) {
            on.end(&ended.key);
        }
        for open in self.open.iter().filter(|open| !before.open.contains(open)) {
            for step in &open.begun {
                on.begin(&open.key, step.clone());
            }
        }
        on
    }

    /// The user writes: timers that wait for silence are taken back.
    pub(crate) fn hear(&mut self, timers: &[Timer]) {
        self.timers.retain(|armed| timers.iter().any(|timer| timer.id == armed.id && !timer.is_idle()));
    }

    /// Starts the timers after an answer. A session that is not open has no timers.
    pub(crate) fn rest(&mut self, timers: &[Timer], now: Timestamp) {
        if self.phase != Phase::Open {
            self.timers.clear();
            return;
        }
        self.timers.retain(|armed| timers.iter().any(|timer| timer.id == armed.id));
        for timer in timers {
            if self.timers.iter().all(|armed| armed.id != timer.id) {
                self.timers.push(Armed { id: timer.id.clone(), due: timer.next(now), fired: 0 });
            }
        }
    }

    /// The timer that is due first; it waits for the next time, where there is one.
    pub(crate) fn take_due<'t>(&mut self, timers: &'t [Timer], now: Timestamp) -> Option<&'t Timer> {
        let is_due = |armed: &&mut Armed| armed.due.is_some_and(|due| due <= now);
        loop {
            let armed = self.timers.iter_mut().filter(is_due).min_by_key(|armed| armed.due)?;
            let Some(timer) = timers.iter().find(|timer| timer.id == armed.id) else {
                // The file has it no longer.
                armed.due = None;
                continue;
            };
            armed.fired = armed.fired.saturating_add(1);
            armed.due = if timer.may_fire(armed.fired) { timer.next(now) } else { None };
            return Some(timer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_back() {
        let now = Timestamp::from_millis(5);
        let mut state = SessionState {
            phase: Phase::HandedOver { since: now, action: "human".into(), reason: None, person: None },
            ..SessionState::default()
        };
        assert!(
            state.begin("m1", "flow".into())
                && !state.begin("m1", "flow".into())
                && state.begin("m2", "flow".into())
        );
        state.remember(Answered { id: "m1".into(), exit: ExitReason::HandedOff, reply: None });
        state.profile.insert("name".into(), "Ann".into());
        assert_eq!(state.open.len(), 2);
        let old = serde_json::json!({"open": {"key": "m1", "begun": ["flow"]}});
        assert!(!serde_json::from_value::<SessionState>(old).unwrap().begin("m1", "flow".into()));
        state.timers.push(Armed { id: "idle".into(), due: Some(now), fired: 1 });
        let value = serde_json::to_value(&state).unwrap();
        assert_eq!(value["phase"]["name"], "handed_over");
        assert_eq!(serde_json::from_value::<SessionState>(value).unwrap(), state);
        assert_eq!(serde_json::from_str::<SessionState>("{}").unwrap(), SessionState::default());
    }

    #[test]
    fn a_change_is_replayed_on_what_another_process_has_kept() {
        let now = Timestamp::from_millis(5);
        let answered = |id: &str| Answered { id: id.into(), exit: ExitReason::Completed, reply: None };
        let mut before = SessionState::default();
        before.profile.extend([("a".to_owned(), 1.into()), ("b".to_owned(), 2.into())]);
        before.begin("mine", "flow".into());
        let (mut mine, mut other) = (before.clone(), before.clone());
        mine.profile.insert("a".into(), 3.into());
        mine.end("mine");
        mine.remember(answered("mine"));
        other.phase = Phase::HandedOver { since: now, action: "human".into(), reason: None, person: None };
        other.profile.insert("c".into(), 4.into());
        other.begin("other", "flow".into());
        other.remember(answered("else"));
        let both = mine.replayed(&before, other.clone());
        assert_eq!(both.phase, other.phase);
        assert_eq!(Value::from(both.profile.clone()), serde_json::json!({"a": 3, "b": 2, "c": 4}));
        assert!(both.answered("mine").is_some() && both.answered("else").is_some());
        assert_eq!(both.open, [OpenTurn { key: "other".into(), begun: vec!["flow".into()] }]);
        assert_eq!(other.replayed(&before, mine.clone()).phase, other.phase);
    }
}
