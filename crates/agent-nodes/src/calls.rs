//! Calls as values, checked before any of them runs.

use std::collections::HashSet;
use std::sync::Arc;

use agent_runtime::machine::{CallFacts, ReadyCall, observe};
use agent_runtime::{CallRecord, Turn};
use agent_types::{CallId, Observation, ObservationCode};
use protocol_action::Span;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use tool_registry::{Snapshot, Tool};
use tool_schema::CallFault;
use workflow_engine::NodeError;

use crate::agent_env::AgentEnv;
use crate::define::as_text;

/// Requested call.
struct Item {
    id: CallId,
    tool: String,
    arguments: Map<String, Value>,
    /// Reason for refusing it, if known.
    refuse: Option<String>,
    is_echo: bool,
    native: Option<usize>,
    /// Observations that follow the results for the model.
    notes: Vec<Observation>,
}

/// The calls of one start of a node, with their tools.
pub(crate) struct Requested {
    items: Vec<Item>,
    pub(crate) tools: Snapshot,
    /// Names of tools that there would be.
    others: Snapshot,
}

impl Requested {
    /// Reads calls: a list or a single one, `{tool, arguments}` each, arguments as an object or as JSON text.
    pub(crate) fn read(value: &Value, env: &AgentEnv<'_>) -> Result<Self, NodeError> {
        let parsed = value.as_str().map(json_text).transpose()?.flatten();
        let value = parsed.as_ref().unwrap_or(value);
        let items: Vec<&Value> = match value {
            Value::Null => Vec::new(),
            Value::String(text) if text.is_empty() => Vec::new(),
            Value::Array(items) => items.iter().collect(),
            one => vec![one],
        };
        let prefix = env.call_prefix();
        let mut items: Vec<Item> = items
            .into_iter()
            .zip(1..)
            .map(|(item, number)| read(item, &prefix, number))
            .collect::<Result<_, _>>()?;
        let mut seen = HashSet::new();
        for (item, number) in items.iter_mut().zip(1..) {
            item.id = env.own_id(&item.id);
            item.tool = env.canonical(&item.tool);
            if !seen.insert(item.id.clone()) {
                // A call of the same name is another one.
                item.id = CallId::new(format!("{}#{number}", item.id));
            }
        }
        let mut tools: Vec<Tool> = Vec::new();
        let mut missing = false;
        for item in &items {
            let is_known = |tool: &Tool| tool.id().as_str() == item.tool;
            if tools.iter().any(is_known) {
                continue;
            }
            match env.tools(Some(std::slice::from_ref(&item.tool))) {
                Ok(found) => tools.extend(found.tools().cloned()),
                // The caller gets the error as an observation.
                Err(error) if error.code.as_deref() == Some("unknown_tool") => {}
                Err(error) => return Err(error),
            }
            missing |= !tools.iter().any(is_known);
        }
        let tools = Snapshot::new(tools).map_err(|error| NodeError::fatal(error.to_string()))?;
        let others = if missing { env.tools(None)? } else { Snapshot::default() };
        Ok(Self { items, tools, others })
    }

    /// One call of a tool.
    pub(crate) fn single(
        tool: Tool,
        arguments: Map<String, Value>,
        env: &AgentEnv<'_>,
    ) -> Result<Self, NodeError> {
        let id = env.own_id(&CallId::new(format!("{}1", env.call_prefix())));
        let name = tool.id().to_string();
        let (refuse, is_echo, native, notes) = (None, false, None, Vec::new());
        let item = Item { id, tool: name, arguments, refuse, is_echo, native, notes };
        let tools = Snapshot::new([tool]).map_err(|error| NodeError::fatal(error.to_string()))?;
        Ok(Self { items: vec![item], tools, others: Snapshot::default() })
    }

    /// Types the arguments; gives the calls as a turn, and those that may run. Where one call is wrong, none of them does.
    pub(crate) fn check(&self) -> Result<(Turn, Vec<ReadyCall>), NodeError> {
        let items = self.items.iter().enumerate();
        let checked: Vec<Result<ReadyCall, Observation>> =
            items.map(|(index, item)| self.check_one(index, item)).collect::<Result<_, _>>()?;
        let is_whole = checked.iter().all(Result::is_ok);
        let (mut turn, mut ready) = (Turn::default(), Vec::new());
        for (item, checked) in self.items.iter().zip(checked) {
            let observation = match checked {
                Ok(call) if is_whole => {
                    ready.push(call);
                    None
                }
                Ok(call) => Some(observe::refused(
                    &call.id,
                    call.tool.as_str(),
                    "another call in this block is wrong",
                )),
                Err(observation) => Some(observation),
            };
            turn.calls.push(item.record(observation));
            turn.notes.extend(item.notes.iter().cloned());
        }
        Ok((turn, ready))
    }

    fn check_one(&self, index: usize, item: &Item) -> Result<Result<ReadyCall, Observation>, NodeError> {
        let span = Span::default();
        let Some(tool) = self.tools.get(&item.tool) else {
            let set = self.others.tool_set().map_err(|error| NodeError::fatal(error.to_string()))?;
            return Ok(Err(observe::of_fault(&item.id, &set.unknown_tool(&item.tool, span))));
        };
        let schema = tool.schema().map_err(|error| NodeError::fatal(error.to_string()))?;
        let typed = schema.type_json(Value::Object(item.arguments.clone()));
        if !typed.problems.is_empty() {
            let fault = CallFault::Arguments { tool: item.tool.clone(), problems: typed.problems, span };
            return Ok(Err(observe::of_fault(&item.id, &fault)));
        }
        Ok(Ok(ReadyCall {
            index,
            id: item.id.clone(),
            tool: tool.id().clone(),
            arguments: Arc::new(typed.arguments),
            repairs: Vec::new(),
            is_echo: item.is_echo,
            facts: CallFacts::from_tool(tool),
        }))
    }

    /// Reason for refusing the call of a position.
    pub(crate) fn refusal(&self, position: usize) -> Option<String> {
        self.items.get(position)?.refuse.clone()
    }

    /// Returns `true` for a question inside one of the calls.
    pub(crate) fn is_inside(&self, ask: &str) -> bool {
        let is_in =
            |item: &Item| ask.strip_prefix(item.id.as_str()).is_some_and(|rest| rest.starts_with('/'));
        self.items.iter().any(is_in)
    }
}

impl Item {
    fn record(&self, observation: Option<Observation>) -> CallRecord {
        CallRecord {
            id: self.id.clone(),
            tool: self.tool.clone(),
            arguments: self.arguments.clone(),
            edited: None,
            native: self.native,
            attachments: Vec::new(),
            observation,
        }
    }
}

/// The value of a text that is JSON.
fn json_text(text: &str) -> Result<Option<Value>, NodeError> {
    match agent_types::read_json(text.as_bytes()) {
        Ok(value) => Ok(Some(value)),
        Err(error) if serde_json::from_str::<IgnoredAny>(text).is_ok() => {
            Err(NodeError::fatal(format!("the calls cannot be read: {error}")).with_code("bad_call"))
        }
        Err(_) => Ok(None),
    }
}

fn read(item: &Value, prefix: &str, number: usize) -> Result<Item, NodeError> {
    let bad = |message: String| NodeError::fatal(message).with_code("bad_call");
    let word = |key: &str| item.get(key).and_then(Value::as_str);
    let tool =
        word("tool").or_else(|| word("name")).ok_or_else(|| bad(format!("a call needs a `tool`: {item}")))?;
    let arguments = match item.get("arguments").or_else(|| item.get("parameters")) {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(arguments)) => arguments.clone(),
        Some(Value::String(text)) => agent_types::read_json(text.as_bytes())
            .map_err(|error| bad(format!("the arguments of `{tool}` are not a JSON object: {error}")))?,
        Some(other) => return Err(bad(format!("the arguments of `{tool}` are not an object: {other}"))),
    };
    let notes = item.get("notes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default().iter();
    let id = word("call").filter(|id| !id.is_empty());
    Ok(Item {
        id: id.map_or_else(|| CallId::new(format!("{prefix}{number}")), CallId::new),
        tool: tool.to_owned(),
        arguments,
        refuse: item.get("refuse").filter(|reason| !reason.is_null()).map(as_text),
        is_echo: item.get("echo").and_then(Value::as_bool).unwrap_or(false),
        native: item.get("native").and_then(Value::as_u64).and_then(|at| usize::try_from(at).ok()),
        notes: notes
            .map(|text| Observation {
                call: None,
                tool: String::new(),
                code: ObservationCode::Note,
                text: as_text(text),
            })
            .collect(),
    })
}
