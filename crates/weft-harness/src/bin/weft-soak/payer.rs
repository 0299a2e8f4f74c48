//! The agent's run of the storm: its model and its tools are servers, and its process is killed anywhere.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_runtime::{Agent, AgentProfile, AgentState, exit_status};
use agent_types::{Annotations, Delivery, EventSink, ResumeLog, RunId, SystemClock, ToolDefinition};
use async_trait::async_trait;
use llm_provider::{ModelConfig, ProviderKind};
use run_store::{NewRun, StoreError};
use serde_json::{Map, Value, json};
use tool_registry::{
    Snapshot, Tool, ToolContext, ToolError, ToolErrorKind, ToolHandler, ToolKind, ToolOutput,
};

use crate::Fault;
use crate::child::{RUN, open, say};

/// File with the outcomes of interrupted calls, for the run that is not interrupted.
pub(crate) const FATES: &str = "fates.json";

/// Asks a server to act.
struct Remote {
    address: String,
    folder: PathBuf,
    has_effect: bool,
}

#[async_trait]
impl ToolHandler for Remote {
    async fn call(&self, arguments: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let what = Value::from(arguments);
        match self.fate(cx.call.as_str()) {
            Some(Value::String(_)) => {
                let error = ToolError::new(ToolErrorKind::Refused, "skipped after an interruption");
                return Err(error.with_code("limit_reached"));
            }
            Some(value) => return Ok(ToolOutput::Json(value)),
            None => {}
        }
        let path = if self.has_effect { "pay" } else { "look" };
        let body = json!({"call": cx.call, "what": what}).to_string();
        let answered = post(&self.address, path, &body).map_err(|error| ToolError::failed(error.to_string()));
        answered.map(|()| ToolOutput::Json(json!({ "did": what })))
    }
}

impl Remote {
    fn fate(&self, call: &str) -> Option<Value> {
        let text = std::fs::read_to_string(self.folder.join(FATES)).ok()?;
        let fates: Map<String, Value> = serde_json::from_str(&text).ok()?;
        fates.get(call).cloned()
    }
}

fn post(address: &str, path: &str, body: &str) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    let length = body.len();
    write!(stream, "POST /{path} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {length}\r\n\r\n{body}")?;
    stream.read_to_string(&mut String::new()).map(drop)
}

fn agent(folder: &Path, address: &str) -> Result<Agent, Fault> {
    let base_url = Some(format!("http://{address}/v1"));
    let model = ModelConfig { base_url, ..ModelConfig::new(ProviderKind::OpenAi, "storm") };
    let model = model.connect(Arc::new(SystemClock)).map_err(|error| error.to_string())?;
    let profile: AgentProfile = serde_json::from_value(json!({"id": "payer",
        "approval": {"default": "auto", "tools": {"mail": "ask"}}, "budgets": {"turns": 64, "tool_calls": 200}}))
    .map_err(|error| error.to_string())?;
    let tool = |id: &str| {
        let has_effect = id != "look";
        let schema = json!({"type": "object", "additionalProperties": false,
            "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let id = id.parse().map_err(|error: agent_types::InvalidToolId| error.to_string())?;
        let handler = Remote { address: address.to_owned(), folder: folder.to_owned(), has_effect };
        let tool = Tool::new(ToolDefinition::new(id, "does it", schema), ToolKind::NATIVE, handler);
        let annotations =
            Annotations { effect: has_effect, read_only: !has_effect, ..Annotations::default() };
        Ok::<_, Fault>(tool.with_annotations(annotations))
    };
    let tools = Snapshot::new([tool("pay")?, tool("mail")?, tool("look")?]);
    Ok(Agent::from_profile(profile, Arc::new(model), tools.map_err(|error| error.to_string())?))
}

/// Begins or resumes the run, prints each event as it is kept, and last the outcome.
pub(crate) fn drive(folder: &Path, address: &str) -> Result<(), Fault> {
    let store = open(folder)?;
    let clock = || Arc::new(SystemClock);
    let (run, log): (_, Option<ResumeLog>) = match store.resume(&RunId::new(RUN), clock()) {
        Ok((run, log)) => (run, Some(log)),
        Err(StoreError::UnknownRun { .. }) => {
            let begun = store.begin(NewRun::new(RunId::new(RUN)), clock());
            (begun.map_err(|error| error.to_string())?, None)
        }
        // Its last events were safe before the process was killed.
        Err(StoreError::RunEnded { .. }) => return say(&json!({"outcome": "ended"}).to_string()),
        Err(error) => return Err(error.to_string()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(async {
        let mut watcher = run.subscribe(usize::MAX);
        let sink = Arc::clone(&run) as Arc<dyn EventSink>;
        let started = agent(folder, address)?.start_in(AgentState::default(), "Go.", sink, log);
        let started = started.map_err(|error| error.to_string())?;
        let printing = async {
            while let Some(watched) = watcher.next().await {
                let Delivery::Events(batch) = watched else { continue };
                batch.iter().try_for_each(|event| say(&json!({"event": event.body.name()}).to_string()))?;
            }
            Ok::<(), Fault>(())
        };
        let running = async {
            let outcome = started.outcome().await.0;
            run.close().await.map(|()| outcome).map_err(|error| error.to_string())
        };
        let (printed, outcome) = futures::join!(printing, running);
        printed?;
        let outcome = outcome?;
        let last = json!({"outcome": exit_status(outcome.exit), "text": outcome.text, "history": outcome.history,
            "error": outcome.error});
        say(&last.to_string())
    })
}
