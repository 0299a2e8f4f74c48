//! The seat of the person who answers in place of the agent: taken, answered from, given back.

use agent_runtime::Exchange;
use agent_types::Timestamp;

use crate::conversation::{Author, Entry, Said};
use crate::error::{OrchestratorError, SeatError};
use crate::orchestrator::Orchestrator;
use crate::session::{Phase, SessionState};
use crate::store::Session;

/// Name of the action where a person acts without one of the file.
const BY_HAND: &str = "person";

/// Action of a person on a session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SeatAction {
    /// The person answers from now on, in place of the agent.
    Take {
        /// Reason.
        reason: Option<String>,
    },
    /// The person says something to the user.
    Say {
        /// The text.
        text: String,
    },
    /// The agent answers again, and has read what was said meanwhile.
    GiveBack,
    /// The session sends no replies any more.
    Close,
    /// A closed session is opened.
    Reopen,
    /// A note that the user does not see.
    Note {
        /// The text.
        text: String,
    },
    /// The profile of the user is deleted.
    ForgetProfile,
}

impl Orchestrator {
    /// Executes an action of a person, also while a message of the session is handled. Of two persons who take a session
    /// at once, one gets it, in whichever processes they are.
    ///
    /// # Errors
    /// The action does not apply, or the session cannot be read or kept.
    pub async fn act(
        &self,
        session: &str,
        person: &str,
        action: &SeatAction,
    ) -> Result<Session, OrchestratorError> {
        let shared = self.shared();
        let now = shared.clock.now();
        let mut kept = shared.store.load(session).await?;
        let before = loop {
            let stored = kept.state.clone();
            apply(&mut kept.state, person, action, now)?;
            if kept.state.phase == Phase::Open && stored.phase != Phase::Open {
                kept.state.rest(&shared.flows.0.timers, now);
            }
            match shared.swap(session, &mut kept).await? {
                None => break stored,
                // Another process has changed the session meanwhile.
                Some(_) => kept = shared.store.load(session).await?,
            }
        };
        if let Some(entry) = entry_of(&before, person, action, now) {
            shared.store.append(session, std::slice::from_ref(&entry)).await?;
            kept.entries.push(entry);
        }
        Ok(kept)
    }
}

fn apply(
    state: &mut SessionState,
    person: &str,
    action: &SeatAction,
    now: Timestamp,
) -> Result<(), SeatError> {
    match (action, &mut state.phase) {
        (SeatAction::ForgetProfile, _) => state.profile.clear(),
        (SeatAction::Note { .. }, _) => {}
        (SeatAction::Reopen, Phase::Closed { .. }) | (SeatAction::GiveBack, Phase::HandedOver { .. }) => {
            state.phase = Phase::Open;
        }
        (SeatAction::Reopen, _) => return Err(SeatError::NotClosed),
        (_, Phase::Closed { .. }) => return Err(SeatError::Closed),
        (SeatAction::Take { .. }, Phase::HandedOver { person: Some(other), .. }) if *other != *person => {
            return Err(SeatError::Taken { person: other.clone() });
        }
        (SeatAction::Take { .. } | SeatAction::Say { .. }, Phase::HandedOver { person: taken, .. }) => {
            taken.get_or_insert_with(|| person.to_owned());
        }
        (SeatAction::Take { reason }, Phase::Open) => {
            let (action, reason) = (BY_HAND.to_owned(), reason.clone());
            state.phase = Phase::HandedOver { since: now, action, reason, person: Some(person.to_owned()) };
            state.timers.clear();
        }
        (SeatAction::GiveBack | SeatAction::Say { .. }, Phase::Open) => return Err(SeatError::NotHandedOff),
        (SeatAction::Close, _) => {
            state.phase = Phase::Closed { since: now, action: BY_HAND.to_owned() };
            state.timers.clear();
        }
    }
    Ok(())
}

/// The entry that an action adds to the conversation.
fn entry_of(before: &SessionState, person: &str, action: &SeatAction, now: Timestamp) -> Option<Entry> {
    let note = |text: String| Entry::from(Said::new(Author::Note, now).by(person).text(text));
    match (action, &before.phase) {
        (SeatAction::Say { text }, _) => {
            let read = Exchange::user(format!("Note - a person answered the user: {text}"));
            Some(Entry::new(read, Said::new(Author::Person, now).by(person).text(text.clone())))
        }
        (SeatAction::Note { text }, _) => Some(note(text.clone())),
        (SeatAction::GiveBack, Phase::HandedOver { since, .. }) => {
            let read = format!("Note - human took over from {since} to {now}");
            Some(Entry::new(Exchange::user(read), Said::new(Author::Note, now).by(person)))
        }
        _ => None,
    }
}
