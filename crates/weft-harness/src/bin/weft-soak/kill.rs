//! Kills a real process behind each of its events; another one resumes.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use agent_types::RunId;
use serde_json::{Value, json};

use crate::Fault;
use crate::child::{EFFECTS, RUN, open, say};
use crate::flow::ANSWER;

/// Process that is killed.
pub(crate) struct Victim {
    /// The word for its process.
    word: &'static str,
    /// Description, for people.
    what: &'static str,
}

pub(crate) const WORKFLOW: Victim = Victim { word: "child", what: "a workflow's run" };
pub(crate) const AGENT: Victim = Victim { word: "agent", what: "an agent's run" };

/// Results of an undisturbed run.
struct Whole {
    outputs: Value,
    events: usize,
    effects: usize,
}

pub(crate) fn run(victim: &Victim, every: usize) -> Result<(), Fault> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut seen = Vec::new();
    let outputs = to_the_end(victim, folder.path(), "start", &mut seen)?.ok_or("it printed no outputs")?;
    let effects = effects(folder.path())?.len();
    let whole = Whole { outputs, events: seen.len(), effects };
    let mut killed = 0;
    for at in (1..=whole.events).step_by(every) {
        kill_at(victim, at, &whole)
            .map_err(|fault| format!("killed behind event {at} of {}: {fault}", whole.events))?;
        killed += 1;
    }
    let Victim { what, .. } = victim;
    say(&format!("killed {what} {killed} times, of {} events: always the same end", whole.events))
}

fn kill_at(victim: &Victim, at: usize, whole: &Whole) -> Result<(), Fault> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut seen = Vec::new();
    let mut child = spawn(victim, folder.path(), "start")?;
    // A run that ends, or waits, before the fatal event is none that could be killed there.
    let died = read(&mut child, Some(at), &mut seen)?.is_none();
    if died {
        child.kill().map_err(|error| error.to_string())?;
    }
    child.wait().map_err(|error| error.to_string())?;
    if !died {
        answer_all(folder.path())?;
    }
    let outputs = to_the_end(victim, folder.path(), "resume", &mut seen)?;
    if let Some(outputs) = outputs.filter(|outputs| *outputs != whole.outputs) {
        return Err(format!("outputs {outputs}, not {}", whole.outputs));
    }
    let mut effects = effects(folder.path())?;
    let count = effects.len();
    effects.sort();
    effects.dedup();
    if effects.len() != count || count != whole.effects {
        return Err(format!("{count} effects, {} of them different", effects.len()));
    }
    let kept = open(folder.path())?.events(&RunId::new(RUN), 0, usize::MAX);
    let kept = kept.map_err(|error| error.to_string())?;
    for (at, kept) in kept.iter().enumerate() {
        if kept.event.seq != at as u64 + 1 {
            return Err(format!("event {} stands at place {}", kept.event.seq, at + 1));
        }
    }
    for event in &seen {
        let seq = event["seq"].as_u64().and_then(|seq| usize::try_from(seq).ok()).unwrap_or(0);
        let found = kept.get(seq - 1).and_then(|kept| serde_json::to_value(&kept.event).ok());
        if found.as_ref() != Some(event) {
            return Err(format!("a subscriber received {event}, and the log has {found:?}"));
        }
    }
    Ok(())
}

/// Resumes a run, answering its questions, until it ends; returns its outputs, unless it had ended before.
fn to_the_end(
    victim: &Victim,
    folder: &Path,
    how: &str,
    seen: &mut Vec<Value>,
) -> Result<Option<Value>, Fault> {
    let mut how = how;
    for _ in 0..50 {
        let mut child = spawn(victim, folder, how)?;
        let end = read(&mut child, None, seen)?.ok_or("it printed no outcome")?;
        child.wait().map_err(|error| error.to_string())?;
        match end["outcome"].as_str() {
            Some("ok") => return Ok(Some(end["outputs"].clone())),
            Some("ended") => return Ok(None),
            Some("waiting") => answer_all(folder)?,
            _ => return Err(format!("it ended: {end}")),
        }
        how = "resume";
    }
    Err("it asks for ever".to_owned())
}

/// Answers open questions: that of the workflow, and those about the outcome of effects, which the file of effects
/// settles.
fn answer_all(folder: &Path) -> Result<(), Fault> {
    let store = open(folder)?;
    let run = RunId::new(RUN);
    let effects = effects(folder)?;
    for ask in store.asks(&run).map_err(|error| error.to_string())? {
        if ask.answer.is_some() {
            continue;
        }
        let path = &*ask.summary.ask;
        let happened = effects.contains(&format!("{RUN}/{path}"));
        let value = match path {
            "ask" => ANSWER.into(),
            _ if happened => json!({"outcome": "done", "value": "done"}),
            _ => json!({"outcome": "retry"}),
        };
        store.answer(&run, path, &value).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn spawn(victim: &Victim, folder: &Path, how: &str) -> Result<Child, Fault> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.arg(victim.word).arg(folder).arg(how).stdout(Stdio::piped());
    command.spawn().map_err(|error| error.to_string())
}

/// Reads events until there are `most`, or the process prints its outcome.
fn read(child: &mut Child, most: Option<usize>, seen: &mut Vec<Value>) -> Result<Option<Value>, Fault> {
    let stdout = child.stdout.take().ok_or("no stdout")?;
    for line in BufReader::new(stdout).lines() {
        let line = line.map_err(|error| error.to_string())?;
        let value: Value = serde_json::from_str(&line).map_err(|error| error.to_string())?;
        if value.get("outcome").is_some() {
            return Ok(Some(value));
        }
        seen.push(value);
        if most.is_some_and(|most| seen.len() >= most) {
            return Ok(None);
        }
    }
    Ok(None)
}

fn effects(folder: &Path) -> Result<Vec<String>, Fault> {
    match std::fs::read_to_string(folder.join(EFFECTS)) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error.to_string()),
    }
}
