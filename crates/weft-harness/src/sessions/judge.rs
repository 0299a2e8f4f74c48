//! Judgement of the conversations at the end.

use serde_json::Value;

use super::backend::Backend;
use super::client::{Course, said_by_person};
use super::servers::Servers;
use super::{Fault, SessionsSoak};

/// Author and beginning of the text of a message.
type Line = (&'static str, String);

/// Judges all sessions; gives a summary.
pub(super) fn judge(
    soak: &SessionsSoak,
    servers: &Servers,
    backend: &Backend,
    kills: u64,
    faults: &mut Vec<Fault>,
) -> String {
    let mut timers = Timers::default();
    for session in 0..soak.sessions {
        let judged = judge_session(soak, servers, session, &mut timers);
        faults.extend(judged.err().map(|fault| format!("s{session}: {fault}")));
    }
    // A timer that goes off while its server dies does so no second time.
    if timers.missing > kills {
        faults.push(format!("{} timers did not fire, and {kills} servers were killed", timers.missing));
    }
    faults.append(&mut judge_counts(soak, backend, kills));
    format!("{} timers fired, {} not", timers.fired, timers.missing)
}

#[derive(Default)]
struct Timers {
    fired: u64,
    missing: u64,
}

fn judge_session(
    soak: &SessionsSoak,
    servers: &Servers,
    session: u64,
    timers: &mut Timers,
) -> Result<(), Fault> {
    let course = Course::new(session, soak.messages);
    let read = servers.read(&format!("/api/chat/desk/threads/s{session}/messages"))?;
    let mut lines = Vec::new();
    for message in read.as_array().into_iter().flatten() {
        let (author, text) = (message["author"].as_str().unwrap_or_default(), message["text"].as_str());
        match author {
            // Notes are for the agent.
            "note" => {}
            "timer" if lines.last().is_none_or(|(before, _)| matches!(*before, "timer" | "user")) => {
                return Err(format!("a timer fired without silence: {}", shown(&read)));
            }
            "timer" | "user" | "agent" | "flow" | "action" | "person" => {
                lines.push((author, text.unwrap_or_default().to_owned()));
            }
            other => return Err(format!("a message by {other}")),
        }
    }
    let fired = lines.iter().filter(|(author, _)| *author == "timer").count() as u64;
    timers.fired += fired;
    let ends_with_timer = lines.last().is_some_and(|(author, _)| *author == "timer");
    let is_kept = matches!(course, Course::Handoff(_));
    timers.missing += u64::from(!ends_with_timer && !is_kept);
    lines.retain(|(author, _)| *author != "timer");
    let expected = expected(course, session, soak.messages);
    let is_same = lines.len() == expected.len()
        && lines.iter().zip(&expected).all(|((author, text), (wanted, beginning))| {
            author == wanted
                && (text.starts_with(beginning) || (*author == "flow" && text == "Try tomorrow."))
        });
    if !is_same {
        return Err(format!("it reads {}", shown(&read)));
    }
    let state = servers.read(&format!("/api/sessions/s{session}"))?;
    let with = if is_kept { "person" } else { "agent" };
    if state["with"] != with {
        return Err(format!("it is with {}, not {with}", state["with"]));
    }
    Ok(())
}

fn expected(course: Course, session: u64, messages: u64) -> Vec<Line> {
    let mut lines = Vec::new();
    for message in 0..messages {
        if matches!(course, Course::Person(_, to) if to == message) {
            lines.push(("person", said_by_person(session)));
        }
        lines.push(("user", course.text(session, message)));
        lines.extend(course.author(message).map(|author| match author {
            "flow" => (author, "Request 7".to_owned()),
            "action" => (author, "You are being connected".to_owned()),
            _ => (author, format!("Answer to m{message} of s{session}.")),
        }));
    }
    lines
}

/// The conversation in short.
fn shown(read: &Value) -> String {
    let lines = read.as_array().into_iter().flatten();
    let line =
        |message: &Value| format!("{}: {}", message["author"].as_str().unwrap_or("?"), message["text"]);
    lines.map(line).collect::<Vec<_>>().join(" | ")
}

/// The model was asked about each of its messages, again only where a server died, and each flow began once.
fn judge_counts(soak: &SessionsSoak, backend: &Backend, kills: u64) -> Vec<Fault> {
    let mut counts = backend.counts();
    let mut faults = std::mem::take(&mut counts.faults);
    for session in 0..soak.sessions {
        let course = Course::new(session, soak.messages);
        for message in 0..soak.messages {
            let name = format!("m{message} of s{session}");
            let asked = counts.asked.get(&name).copied().unwrap_or(0);
            let called = counts.called.get(&name).copied().unwrap_or(0);
            let (asks, calls) = match course.author(message) {
                Some("agent") => (1..=1 + kills, 0..=0),
                Some("flow") => (0..=0, u64::from(kills == 0)..=1),
                _ => (0..=0, 0..=0),
            };
            if !asks.contains(&asked) || !calls.contains(&called) {
                faults
                    .push(format!("{name}: the model was asked {asked} times, the endpoint {called} times"));
            }
        }
    }
    faults
}
