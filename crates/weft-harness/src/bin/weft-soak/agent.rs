//! The agent's run that is killed: thirty turns, every third with an effect.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_runtime::{Agent, AgentProfile, AgentState};
use agent_types::{
    Annotations, Delivery, EventBody, EventSink, ResumeLog, RunId, SystemClock, ToolDefinition,
};
use async_trait::async_trait;
use llm_provider::ScriptedModel;
use run_store::{NewRun, StoreError, StoredRun};
use serde_json::{Map, Value, json};
use tool_registry::{Snapshot, Tool, ToolContext, ToolError, ToolHandler, ToolKind, ToolOutput};

use crate::Fault;
use crate::child::{EFFECTS, RUN, open, say};

/// Turns with calls; one more answers.
const TURNS: usize = 30;

pub(crate) fn start(folder: &Path) -> Result<(), Fault> {
    let store = open(folder)?;
    let run = store.begin(NewRun::new(RunId::new(RUN)), Arc::new(SystemClock));
    drive(folder, &run.map_err(|error| error.to_string())?, None)
}

pub(crate) fn resume(folder: &Path) -> Result<(), Fault> {
    let store = open(folder)?;
    let (run, log) = match store.resume(&RunId::new(RUN), Arc::new(SystemClock)) {
        // The last events were safe before the process was killed.
        Err(StoreError::RunEnded { .. }) => return say(&json!({"outcome": "ended"}).to_string()),
        resumed => resumed.map_err(|error| error.to_string())?,
    };
    drive(folder, &run, Some(log))
}

/// Replies of the model: two lookups side by side, an invalid call now and then, a payment in every third turn.
fn script() -> String {
    let mut lines = String::new();
    for turn in 0..TURNS {
        let block = match turn % 3 {
            0 => format!("<look><at>{turn}</at></look><look><at>{turn}b</at></look>"),
            1 => format!("<pay><to>{turn}</to></pay><look><at>{turn}</at></look>"),
            _ if turn % 2 == 0 => "<loook/>".to_owned(),
            _ => format!("<look><at>{turn}</at></look>"),
        };
        let reply = json!({"text": format!("Turn {turn}. <ACTION>{block}</ACTION>"),
            "usage": {"input": 10, "output": 5}});
        // Writing to a text cannot fail.
        let _ = writeln!(lines, "{reply}");
    }
    lines + "{\"text\": \"All is done.\"}\n"
}

/// Gives what it is asked for, and notes an effect in a file.
struct Counted {
    effects: Option<PathBuf>,
}

#[async_trait]
impl ToolHandler for Counted {
    async fn call(&self, arguments: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        if let Some(file) = &self.effects {
            let noted = OpenOptions::new().create(true).append(true).open(file);
            let noted = noted.and_then(|mut file| writeln!(file, "{RUN}/{}", cx.call));
            noted.map_err(|error| ToolError::failed(error.to_string()))?;
            // Long enough to be killed in it.
            std::thread::sleep(std::time::Duration::from_millis(1));
            return Ok(ToolOutput::Text("done".to_owned()));
        }
        Ok(ToolOutput::Json(arguments.into()))
    }
}

fn agent(folder: &Path, replies: usize) -> Result<Agent, Fault> {
    let rest: Vec<String> = script().lines().skip(replies).map(str::to_owned).collect();
    let model = ScriptedModel::from_jsonl(&rest.join("\n")).map_err(|error| error.to_string())?;
    let profile: AgentProfile = serde_json::from_value(json!({"id": "payer",
        "approval": {"default": "auto"}, "budgets": {"turns": 64, "tool_calls": 200}}))
    .map_err(|error| error.to_string())?;
    let tool = |id: &str, parameter: &str, annotations: Annotations| {
        let schema = json!({"type": "object", "additionalProperties": false,
            "properties": {parameter: {"type": "string"}}, "required": [parameter]});
        let id = id.parse().map_err(|error: agent_types::InvalidToolId| error.to_string())?;
        let effects = annotations.effect.then(|| folder.join(EFFECTS));
        let tool =
            Tool::new(ToolDefinition::new(id, "does it", schema), ToolKind::NATIVE, Counted { effects });
        Ok::<_, Fault>(tool.with_annotations(annotations))
    };
    let look = tool("look", "at", Annotations { read_only: true, ..Annotations::default() })?;
    let pay = tool("pay", "to", Annotations { effect: true, ..Annotations::default() })?;
    let tools = Snapshot::new([look, pay]).map_err(|error| error.to_string())?;
    Ok(Agent::from_profile(profile, Arc::new(model), tools))
}

/// Runs to the end, printing each event on a line as a subscriber receives it, and last the outcome.
fn drive(folder: &Path, run: &Arc<StoredRun>, log: Option<ResumeLog>) -> Result<(), Fault> {
    let is_reply = |body: &EventBody| matches!(body, EventBody::AgentLlmFinished { .. });
    let events = log.iter().flat_map(|log| &log.events);
    let agent = agent(folder, events.filter(|kept| is_reply(&kept.event.body)).count())?;
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|error| error.to_string())?;
    let mut watcher = run.subscribe(usize::MAX);
    runtime.block_on(async {
        let sink = Arc::clone(run) as Arc<dyn EventSink>;
        let started = agent.start_in(AgentState::default(), "Pay them.", sink, log);
        let started = started.map_err(|error| error.to_string())?;
        let printing = async {
            while let Some(watched) = watcher.next().await {
                let Delivery::Events(batch) = watched else { continue };
                for event in batch.iter() {
                    say(&serde_json::to_string(event).map_err(|error| error.to_string())?)?;
                }
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
        let status = agent_runtime::exit_status(outcome.exit);
        let history = serde_json::to_value(&outcome.history).map_err(|error| error.to_string())?;
        let outputs = json!({"text": outcome.text, "history": history, "usage": outcome.usage});
        say(&json!({"outcome": status, "outputs": outputs, "error": outcome.error}).to_string())
    })
}
