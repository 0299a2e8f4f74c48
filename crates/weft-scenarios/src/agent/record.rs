//! A scenario from a run that was: the replies of the model, what its tools answered, and what came of it.

use agent_types::{ApprovalState, EventBody, Observation, StoredEvent, ToolStatus};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The name under which the observation of a call is kept with its end.
const OBSERVATION: &str = "observation";

/// A scenario in which an agent says and does what it did in a run.
///
/// Its tools are stubs that answer as the tools did; what an agent inside a call said is part of that call's answer.
///
/// # Errors
/// Reason for which the run cannot be written as a scenario, in a sentence.
pub fn recorded(id: &str, agent: &str, events: &[StoredEvent]) -> Result<Value, String> {
    let mut recording = Recording::default();
    for kept in
        events.iter().filter(|kept| kept.event.place.path.is_none() && kept.event.place.depth.is_none())
    {
        recording.take(kept)?;
    }
    let message = recording.message.ok_or("the beginning of the run was deleted")?;
    let mut stubs = Vec::new();
    for (name, replies) in recording.replies {
        // What the tool takes is what the agent's own tool of that name takes.
        stubs.push(json!({"name": name, "reply": replies}));
    }
    let mut turns = vec![json!({"user": message})];
    turns.extend(recording.deeds);
    Ok(json!({
        "id": id,
        "title": format!("recorded from {}", events.first().map_or("", |kept| kept.event.run.as_str())),
        "agent": agent,
        "tools": stubs,
        "script": recording.script,
        "turns": turns,
        "expect": {"exit": recording.exit, "text": recording.text, "calls": recording.calls},
    }))
}

/// Parts of a scenario, collected from the events of a run.
#[derive(Default)]
struct Recording {
    message: Option<String>,
    script: Vec<Value>,
    arguments: Map<String, Value>,
    calls: Vec<Value>,
    replies: indexmap::IndexMap<String, Vec<Value>>,
    deeds: Vec<Value>,
    text: Value,
    exit: Option<&'static str>,
}

impl Recording {
    fn take(&mut self, kept: &StoredEvent) -> Result<(), String> {
        let call = kept.event.place.call.as_ref().map(agent_types::CallId::as_str).unwrap_or_default();
        match &kept.event.body {
            EventBody::RunStarted { message, .. } => self.message.clone_from(message),
            EventBody::AgentLlmFinished { text, reasoning, tool_calls, finish, usage, .. } => {
                let mut reply = json!({"text": text, "finish": finish,
                    "usage": {"input": usage.input, "output": usage.output}});
                if let Some(reasoning) = reasoning {
                    reply["reasoning"] = reasoning.as_str().into();
                }
                if let Some(calls) = tool_calls {
                    reply["tool_calls"] = (**calls).clone();
                }
                self.script.push(reply);
            }
            EventBody::AgentCallReady { arguments, .. } => {
                self.arguments.insert(call.to_owned(), Value::Object((**arguments).clone()));
            }
            EventBody::AgentToolStarted { tool } => {
                let arguments = self.arguments.get(call).cloned().unwrap_or_default();
                self.calls.push(json!({"tool": tool, "arguments": arguments}));
            }
            EventBody::AgentToolFinished { tool, status, .. } if *status != ToolStatus::Refused => {
                let record = kept
                    .record
                    .as_ref()
                    .and_then(|record| record.values.iter().find(|(name, _)| **name == *OBSERVATION));
                let observation = record.and_then(|(_, value)| Observation::deserialize(&**value).ok());
                let observation = observation.ok_or("the results of the run's calls are not kept")?;
                let reply = reply_of(tool.as_str(), *status, &observation.text);
                self.replies.entry(tool.to_string()).or_default().push(reply);
            }
            EventBody::AgentToolApproval { tool, state, reason } => match state {
                ApprovalState::Approved => self.deeds.push(json!({"do": "approve", "tool": tool})),
                ApprovalState::Denied => {
                    self.deeds.push(json!({"do": "deny", "tool": tool, "reason": reason}));
                }
                ApprovalState::Edited => {
                    return Err(
                        "a person changed the arguments of a call, which a scenario cannot express".into()
                    );
                }
                _ => {}
            },
            EventBody::AgentMessage { text, .. } => self.text = text.as_str().into(),
            EventBody::RunFinished { exit, .. } | EventBody::RunWaiting { exit, .. } => {
                self.exit = exit.map(agent_types::ExitReason::as_str);
            }
            _ => {}
        }
        Ok(())
    }
}

/// Reply of a stub that gives the model the same observation.
fn reply_of(tool: &str, status: ToolStatus, observation: &str) -> Value {
    let text = observation.split("\nNote - ").next().unwrap_or_default();
    if status == ToolStatus::Ok {
        let result =
            text.strip_prefix(&format!("Tool {tool} executed successfully. Result: ")).unwrap_or(text);
        // A value is recording as compact JSON.
        return match serde_json::from_str::<Value>(result) {
            Ok(value) if !value.is_string() && *result == *value.to_string() => json!({"ok": value}),
            _ => json!({"ok": result}),
        };
    }
    let message = text.strip_prefix(&format!("Error - Tool {tool} failed: ")).unwrap_or(text);
    json!({"error": message})
}
