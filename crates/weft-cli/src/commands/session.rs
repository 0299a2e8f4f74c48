//! `weft session`: the seat of the person who answers in place of the agent.

use serde_json::json;
use weft_runs::{
    ChatMessage, LocalRuns, RunService, SeatAction, SessionInfo, SessionRequest, ThreadAction, ThreadName,
};

use super::agent::fixed;
use super::{Context, block_on};
use crate::arguments::{Output, SeatArguments, SessionCommand};
use crate::failure::{Exit, Failure};
use crate::{inputs, output};

pub(super) fn run(context: &Context, command: SessionCommand) -> Result<Exit, Failure> {
    let runs = fixed(context.project(None)?);
    let (seat, action) = match command {
        SessionCommand::List { waiting } => return list(context, &runs, waiting),
        SessionCommand::Show { session } => return show(context, &runs, &session),
        SessionCommand::Take { seat, reason } => (seat, SeatAction::Take { reason }),
        SessionCommand::Say { seat, text } => (seat, SeatAction::Say { text: read(text)? }),
        SessionCommand::Note { seat, text } => (seat, SeatAction::Note { text: read(text)? }),
        SessionCommand::GiveBack { seat } => (seat, SeatAction::GiveBack),
        SessionCommand::Close { seat } => (seat, SeatAction::Close),
        SessionCommand::Reopen { seat } => (seat, SeatAction::Reopen),
        SessionCommand::ForgetProfile { seat } => (seat, SeatAction::ForgetProfile),
    };
    let SeatArguments { session, person } = seat;
    let info = block_on(runs.act(SessionRequest { session, person, action }))??;
    print_info(context, &info)?;
    Ok(Exit::Ok)
}

fn read(text: String) -> Result<String, Failure> {
    if text == "-" { inputs::stdin() } else { Ok(text) }
}

fn list(context: &Context, runs: &LocalRuns, waiting: bool) -> Result<Exit, Failure> {
    let mut sessions = block_on(runs.sessions())??;
    sessions.retain(|info| !waiting || info.waiting_ms.is_some());
    match context.output {
        Output::Json => output::json(&sessions)?,
        Output::Jsonl => sessions.iter().try_for_each(output::json)?,
        Output::Text => sessions.iter().try_for_each(|info| output::line(&line_of(info)))?,
    }
    Ok(Exit::Ok)
}

fn show(context: &Context, runs: &LocalRuns, session: &str) -> Result<Exit, Failure> {
    let (info, messages) = block_on(async {
        let info = runs.session(session).await?;
        let name = ThreadName::new(info.agent.clone(), session);
        let messages = runs.thread(&name, ThreadAction::Read).await?.messages();
        Ok::<_, Failure>((info, messages))
    })??;
    if context.output != Output::Text {
        let mut shown = json!(info);
        shown["messages"] = json!(messages);
        output::json(&shown)?;
        return Ok(Exit::Ok);
    }
    output::line(&line_of(&info))?;
    if !info.profile.is_empty() {
        output::line(&format!("profile: {}", json!(info.profile)))?;
    }
    messages.iter().try_for_each(|message| output::line(&line_of_message(message)))?;
    Ok(Exit::Ok)
}

fn print_info(context: &Context, info: &SessionInfo) -> Result<(), Failure> {
    match context.output {
        Output::Text => output::line(&line_of(info)),
        Output::Json | Output::Jsonl => output::json(info),
    }
}

/// A session on a line.
fn line_of(info: &SessionInfo) -> String {
    let mut line = format!("{}\t{}", info.session, info.with.as_str());
    if let (Some(since), Some(action)) = (&info.since, &info.action) {
        line.extend(["\tsince ", since, " (", action, ")"]);
    }
    for (label, value) in [("reason", &info.reason), ("taken by", &info.person)] {
        line += &value.as_ref().map(|value| format!("\t{label} {value}")).unwrap_or_default();
    }
    if let Some(waited) = info.waiting_ms {
        line.extend(["\twaits for ", &(waited / 1000).to_string(), " s"]);
    }
    line
}

/// A message on a line: its author, its time and its text.
pub(super) fn line_of_message(message: &ChatMessage) -> String {
    let author = json!(message.author);
    let mut line = author.as_str().unwrap_or_default().to_owned();
    if let Some(name) = &message.name {
        line.extend([" ", name]);
    }
    let tools: Vec<&str> = message.calls.iter().map(|call| call.tool.as_str()).collect();
    let calls = if tools.is_empty() { String::new() } else { format!(" [{}]", tools.join(", ")) };
    let failed = if message.failed { " (failed)" } else { "" };
    format!("{line}{failed}: {}{calls}", message.text)
}
