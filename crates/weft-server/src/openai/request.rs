//! Request of an OpenAI client, as a run of an agent.

use agent_runtime::{Exchange, Turn};
use http::StatusCode;
use llm_provider::Attachment;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use weft_runs::{AgentPlan, AgentRequest, WhenBusy};

use crate::problem::Problem;

/// The body of a request. What an agent's profile decides, such as the temperature, is passed over.
#[derive(Debug, Deserialize)]
pub(super) struct ChatBody {
    model: String,
    messages: Vec<Message>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    #[serde(default)]
    response_format: Option<ResponseFormat>,
    #[serde(default)]
    n: Option<u64>,
    #[serde(default)]
    tools: Option<Vec<Value>>,
    /// Fields that this server adds.
    #[serde(default)]
    weft: Option<Extension>,
}

#[derive(Debug, Default, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ResponseFormat {
    Text,
    JsonObject,
    JsonSchema { json_schema: SchemaChoice },
}

#[derive(Debug, Deserialize)]
struct SchemaChoice {
    schema: Value,
}

/// Fields that this server adds.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Extension {
    /// Set when the answer lists the agent's steps.
    steps: bool,
    /// The conversation that the last message belongs to; the earlier messages are then those of the server.
    thread: Option<String>,
    /// Values that tools may use and no model sees or sets.
    context: Map<String, Value>,
    /// Reaction to a run of the conversation that executes: `queue`, `steer` or `reject`.
    busy: WhenBusy,
    /// Id of the message, as the header `Idempotency-Key`.
    message_id: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Message {
    role: String,
    #[serde(default)]
    content: Option<Value>,
}

/// Form of the answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    pub(super) stream: bool,
    pub(super) usage: bool,
    pub(super) steps: bool,
}

/// A run, and how its answer is given.
pub(super) struct Wanted {
    pub(super) request: AgentRequest,
    pub(super) form: Form,
}

fn refused(code: &'static str, detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, code, detail)
}

pub(super) fn read(body: ChatBody) -> Result<Wanted, Problem> {
    let ChatBody { model, messages, stream, stream_options, response_format, n, tools, weft } = body;
    if n.is_some_and(|n| n != 1) {
        return Err(refused("unsupported", "an agent gives one answer: `n` must be 1"));
    }
    if tools.is_some_and(|tools| !tools.is_empty()) {
        let problem = refused("unsupported", "an agent has tools of its own and takes none from a request");
        return Err(problem.with_help("give them to the agent in its profile"));
    }
    let Extension { steps, thread, context, busy, message_id } = weft.unwrap_or_default();
    let Said { instructions, mut history, message, attachments } = said(messages)?;
    if thread.is_some() {
        history.clear();
    }
    let schema = match response_format {
        None | Some(ResponseFormat::Text) => None,
        Some(ResponseFormat::JsonObject) => Some(json!({"type": "object"})),
        Some(ResponseFormat::JsonSchema { json_schema }) => Some(json_schema.schema),
    };
    let plan = AgentPlan {
        agent: model,
        message,
        attachments,
        history,
        instructions,
        schema,
        values: context,
        message_id,
        ..AgentPlan::default()
    };
    let usage = stream_options.unwrap_or_default().include_usage;
    Ok(Wanted {
        request: AgentRequest { plan, thread, busy, ..AgentRequest::default() },
        form: Form { stream: stream.unwrap_or(false), usage, steps },
    })
}

/// A conversation, taken apart.
struct Said {
    instructions: Option<String>,
    history: Vec<Exchange>,
    message: String,
    attachments: Vec<Attachment>,
}

fn said(messages: Vec<Message>) -> Result<Said, Problem> {
    let mut instructions: Vec<String> = Vec::new();
    let mut history: Vec<Exchange> = Vec::new();
    for Message { role, content } in messages {
        let (text, attachments) = content_of(content)?;
        match role.as_str() {
            "system" | "developer" => instructions.push(text),
            "user" => history.push(Exchange::User { text, attachments }),
            "assistant" => history.push(Exchange::Turn(Turn { text, ..Turn::default() })),
            "tool" | "function" => {
                let detail = "results of tools are not taken: an agent calls its tools itself";
                return Err(refused("unsupported", detail));
            }
            other => return Err(refused("bad_value", format!("unknown role `{other}`"))),
        }
    }
    match history.pop() {
        Some(Exchange::User { text, attachments }) => {
            let instructions = (!instructions.is_empty()).then(|| instructions.join("\n\n"));
            Ok(Said { instructions, history, message: text, attachments })
        }
        _ => Err(refused("bad_value", "the last message must be one of the user")),
    }
}

/// A text, or parts of text and images.
fn content_of(content: Option<Value>) -> Result<(String, Vec<Attachment>), Problem> {
    let parts = match content {
        None | Some(Value::Null) => return Ok((String::new(), Vec::new())),
        Some(Value::String(text)) => return Ok((text, Vec::new())),
        Some(Value::Array(parts)) => parts,
        Some(_) => return Err(refused("bad_value", "`content` must be a text or a list of parts")),
    };
    let (mut texts, mut attachments) = (Vec::new(), Vec::new());
    for part in parts {
        let text = |pointer: &str| part.pointer(pointer).and_then(Value::as_str);
        match text("/type") {
            Some("text") => texts.extend(text("/text").map(str::to_owned)),
            Some("image_url") => {
                let url =
                    text("/image_url/url").ok_or_else(|| refused("bad_value", "an image without `url`"))?;
                attachments.push(Attachment::from_url("image/png", url));
            }
            Some("file") => {
                let data = text("/file/file_data")
                    .ok_or_else(|| refused("bad_value", "a file without `file_data`"))?;
                let file = Attachment::from_url("application/octet-stream", data);
                attachments.push(match text("/file/filename") {
                    Some(name) => file.with_name(name),
                    None => file,
                });
            }
            other => {
                let detail = format!("parts of type `{}` are not taken", other.unwrap_or_default());
                return Err(refused("unsupported", detail));
            }
        }
    }
    Ok((texts.join("\n"), attachments))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_json(body: Value) -> Result<Wanted, Problem> {
        read(serde_json::from_value(body).unwrap())
    }

    #[test]
    fn a_conversation_becomes_history_instructions_and_a_message() {
        let wanted = read_json(json!({"model": "desk", "temperature": 0.5, "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"},
            {"role": "user", "content": [{"type": "text", "text": "what is this"},
                {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,AAAA"}}]}]}))
        .unwrap();
        let plan = wanted.request.plan;
        assert_eq!((plan.agent.as_str(), plan.message.as_str()), ("desk", "what is this"));
        assert_eq!(plan.instructions.as_deref(), Some("Be brief."));
        assert_eq!(plan.history.len(), 2);
        assert_eq!(plan.attachments[0].mime, "image/jpeg");
        assert!(!wanted.form.stream && !wanted.form.steps);
    }

    #[track_caller]
    fn refuses(change: &Value, expected: &str) {
        let mut body = json!({"model": "desk", "messages": [{"role": "user", "content": "hi"}]});
        for (key, value) in change.as_object().unwrap() {
            body[key] = value.clone();
        }
        let problem = read_json(body).err().unwrap();
        assert!(problem.detail.contains(expected), "{}", problem.detail);
        assert_eq!(problem.status, StatusCode::BAD_REQUEST);
    }

    #[test]
    fn s57_clients_bring_neither_tools_nor_their_results() {
        refuses(&json!({"tools": [{"type": "function"}]}), "tools of its own");
        refuses(&json!({"messages": [{"role": "tool", "content": "42"}]}), "results of tools");
        refuses(&json!({"messages": []}), "last message");
        refuses(&json!({"messages": [{"role": "assistant", "content": "x"}]}), "last message");
        refuses(&json!({"n": 2}), "one answer");
        refuses(
            &json!({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}),
            "input_audio",
        );
    }
}
