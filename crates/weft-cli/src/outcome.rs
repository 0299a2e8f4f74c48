//! Printing the outcome of a run, and the exit code that it gives.

use agent_runtime::{Exchange, PendingCall, exit_status};
use agent_types::{AskKind, ExitReason, Observation, ObservationCode, RunStatus};
use serde_json::{Value, json};
use weft_runs::RunOutcome;

use crate::arguments::Output;
use crate::failure::{Exit, Failure};
use crate::output;

/// Kinds of ends that are limits: of time, of passes, of what a budget counts.
const LIMITS: [&str; 9] = [
    "timeout",
    "max_passes",
    "max_starts",
    "budget_exceeded",
    "turns",
    "tool_calls",
    "tokens",
    "cost_usd",
    "node_starts",
];

/// Prints the outcome of a run, and why it did not end well.
pub(crate) fn print(form: Output, outcome: &RunOutcome) -> Result<Exit, Failure> {
    let reason = match outcome {
        RunOutcome::Workflow(outcome) => return print_workflow(form, outcome),
        outcome => outcome.exit(),
    };
    let Some(reason) = reason else { return Ok(Exit::Ok) };
    // The text before a call that waits is not an answer.
    let is_answer = exit_status(reason) != RunStatus::Waiting || matches!(outcome, RunOutcome::Session(_));
    if is_answer || form == Output::Json {
        print_text(form, outcome)?;
    }
    Ok(print_failure(form, outcome, reason))
}

/// Prints the text of an agent, or its whole outcome.
pub(crate) fn print_text(form: Output, outcome: &RunOutcome) -> Result<(), Failure> {
    match (form, outcome) {
        (Output::Json, RunOutcome::Agent(outcome)) => output::json(outcome),
        (Output::Json, RunOutcome::Session(handled)) => output::json(handled),
        (Output::Text, outcome) if !outcome.text().is_empty() => output::line(outcome.text()),
        _ => Ok(()),
    }
}

/// Prints why an agent's run did not end well, if it did not.
pub(crate) fn print_failure(form: Output, outcome: &RunOutcome, reason: ExitReason) -> Exit {
    if let RunOutcome::Agent(outcome) = outcome
        && reason == ExitReason::Completed
        && outcome.partial
    {
        let message = outcome.error.clone().unwrap_or_else(|| "the answer did not reach its end".to_owned());
        Failure::new(Exit::Limit, "partial", message).print(form);
        return Exit::Limit;
    }
    let exit = exit_of_reason(reason);
    if exit != Exit::Ok {
        failure_of(outcome, reason).print(form);
    }
    exit
}

/// Prints the outcome of a workflow's run.
fn print_workflow(form: Output, outcome: &workflow_engine::RunOutcome) -> Result<Exit, Failure> {
    let exit = exit_of_workflow(outcome);
    if let Some(error) = &outcome.error
        && form != Output::Text
    {
        Failure::new(exit, error.kind.clone(), error.to_string()).print(form);
    }
    match form {
        Output::Json => {
            let mut result =
                json!({"run": outcome.run, "status": outcome.status, "outputs": outcome.outputs});
            if let Some(error) = &outcome.error {
                result["error"] = json!({"kind": error.kind, "message": error.message, "path": error.path});
            }
            if !outcome.asks.is_empty() {
                result["asks"] = json!(outcome.asks);
            }
            output::json(&result)?;
        }
        Output::Jsonl => {}
        Output::Text => {
            match outcome.outputs.values().collect::<Vec<_>>()[..] {
                [Value::String(text)] => output::line(text)?,
                [] => {}
                _ => output::pretty(&outcome.outputs)?,
            }
            if let Some(error) = &outcome.error {
                Failure::new(exit, error.kind.clone(), error.to_string()).print(form);
            }
            for ask in &outcome.asks {
                note!("{}: {}", ask.ask, ask.prompt.as_deref().unwrap_or_default());
            }
            if let [ask, ..] = &outcome.asks[..] {
                let one =
                    if outcome.asks.len() == 1 { String::new() } else { format!(" --ask '{}'", ask.ask) };
                if ask.tool.is_some() {
                    note!("help: weft runs approve {}{one}", outcome.run);
                } else {
                    note!("help: weft runs answer {}{one} VALUE", outcome.run);
                }
            }
        }
    }
    Ok(exit)
}

fn exit_of_workflow(outcome: &workflow_engine::RunOutcome) -> Exit {
    match outcome.error.as_ref().and_then(|error| error.code.as_deref()) {
        Some("llm_failed") => return Exit::Unreachable,
        Some("llm_authentication" | "no_model") => return Exit::Configuration,
        Some("tool_error") => return Exit::Tool,
        _ => {}
    }
    match (outcome.status, outcome.error.as_ref().map(|error| error.kind.as_str())) {
        (RunStatus::Ok, _) => Exit::Ok,
        (RunStatus::Cancelled, _) => Exit::Interrupted,
        (RunStatus::Waiting, _) => Exit::NeedsPerson,
        (RunStatus::Error, Some(kind)) if LIMITS.contains(&kind) => Exit::Limit,
        (RunStatus::Error, _) => Exit::Failed,
    }
}

/// The exit code of an agent's end.
pub(crate) fn exit_of_reason(exit: ExitReason) -> Exit {
    match exit {
        ExitReason::Completed
        | ExitReason::HandedOff
        | ExitReason::Closed
        | ExitReason::FlowCompleted
        | ExitReason::FlowSilent => Exit::Ok,
        ExitReason::LlmFailed => Exit::Unreachable,
        ExitReason::ToolError => Exit::Tool,
        ExitReason::MaxTurns | ExitReason::BudgetExceeded | ExitReason::LoopDetected => Exit::Limit,
        ExitReason::AwaitingApproval | ExitReason::AwaitingResult | ExitReason::NeedsReconciliation => {
            Exit::NeedsPerson
        }
        ExitReason::Cancelled => Exit::Interrupted,
        _ => Exit::Failed,
    }
}

/// Failure of an agent's run, with the fix.
fn failure_of(outcome: &RunOutcome, reason: ExitReason) -> Failure {
    let error = outcome.error();
    let message = error.clone().unwrap_or_else(|| format!("the run ended: {reason}"));
    let failure = Failure::new(exit_of_reason(reason), reason.as_str(), message);
    let run = outcome.run();
    match reason {
        ExitReason::AwaitingApproval => {
            let question = outcome.pending().iter().find(|pending| pending.kind == AskKind::Question);
            if let Some(PendingCall { ask, tool, prompt, .. }) = question {
                let prompt = prompt.as_deref().unwrap_or("it asks something");
                return failure.with_help(format!("{tool}: {prompt} Answer with: weft runs answer {run} --ask {ask} VALUE"));
            }
            let tools: Vec<&str> = outcome.pending().iter().map(|pending| pending.tool.as_str()).collect();
            failure.with_help(format!("{} must be approved: weft runs approve {run}", tools.join(", ")))
        }
        ExitReason::NeedsReconciliation => {
            failure.with_help(format!("say what became of it: weft runs answer {run} retry, skip or done"))
        }
        ExitReason::AwaitingResult => {
            failure.with_help(format!("when the result is there: weft runs answer {run} VALUE"))
        }
        ExitReason::LlmFailed if error.as_deref().is_some_and(|error| error.contains("the script ")) => {
            failure.with_help("the scripted replies are used up or do not fit; see `weft test` and the guide on models")
        }
        ExitReason::LlmFailed => {
            failure.with_help("is the model's server up, and the key right? see OPENAI_BASE_URL, OPENAI_MODEL, OPENAI_API_KEY and [models] in weft.toml")
        }
        ExitReason::BudgetExceeded => {
            failure.with_help("raise that limit in budgets of the agent's profile, or of the agent that called it")
        }
        ExitReason::LoopDetected => failure.with_help(
            "the same call gave the same result again and again: say more in the tool's answer or description",
        ),
        ExitReason::MaxTurns => failure.with_help("raise budgets.turns in the agent's profile"),
        ExitReason::SelfCorrectionFailed => {
            let message = corrections(outcome).unwrap_or_else(|| failure.message.clone());
            let failure = Failure { message, ..failure };
            failure.with_help(
                "see `weft prompt`, make the schema simpler or try another model; budgets.corrections in the agent's profile allows more replies",
            )
        }
        _ => failure,
    }
}

/// The conversation after a run of an agent.
fn history_of(outcome: &RunOutcome) -> &[Exchange] {
    match outcome {
        RunOutcome::Agent(outcome) => &outcome.history,
        RunOutcome::Session(handled) => {
            handled.outcome.as_ref().map(|outcome| outcome.history.as_slice()).unwrap_or_default()
        }
        _ => &[],
    }
}

/// Faults of the last unusable replies, and their number.
fn corrections(outcome: &RunOutcome) -> Option<String> {
    let turns = history_of(outcome).iter().rev().map_while(|exchange| match exchange {
        Exchange::Turn(turn) => turn.observations().find(|seen| is_fault(seen.code)),
        _ => None,
    });
    let faults: Vec<&Observation> = turns.collect();
    let last = faults.first()?;
    let about = if last.tool.is_empty() { String::new() } else { format!(" for `{}`", last.tool) };
    let count = match faults.len() {
        1 => "a reply".to_owned(),
        count => format!("{count} replies in a row"),
    };
    Some(format!("{count} could not be used, the last{about}: {}", last.text))
}

/// Returns `true` for a fault of a reply, `false` for a fault of a tool.
fn is_fault(code: ObservationCode) -> bool {
    use ObservationCode as Code;
    matches!(
        code,
        Code::UnknownTool
            | Code::UnknownParameter
            | Code::MissingParameter
            | Code::DuplicateParameter
            | Code::InvalidArgument
            | Code::Malformed
            | Code::OutputSchema
    )
}
