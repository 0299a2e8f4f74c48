//! Accuracy of a small model at calling tools, free and constrained by the grammar: 100 questions, 12 tools offered
//! with each.
//!
//! `cargo xtask bench local DATA [N] [LOG] [MODE]`: DATA is a folder with `bfcl/cases.jsonl` and `bfcl/tools.jsonl`
//! (see docs/benchmarks.md), N the number of questions, LOG a file for what was written, MODE one way of decoding.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a program for the maintainers, which prints a table"
)]

mod cases;
mod grammars;
mod table;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use agent_runtime::{Agent, AgentProfile, AgentState, Exchange};
use agent_types::Annotations;
use agent_types::ToolDefinition;
use async_trait::async_trait;
use futures::{StreamExt, stream};
use llm_local::{Figures, LocalModel, LocalOptions, weights};
use llm_provider::{
    Constraint, GrammarForm, LlmError, LlmEvent, LlmProvider, LlmRequest, LlmStream, ModelInfo,
    ModelParameters, ScriptedModel,
};
use serde_json::{Map, Value, json};
use tool_registry::{Snapshot, Tool, ToolContext, ToolError, ToolHandler, ToolKind, ToolOutput};
use tool_schema::{
    CallChoice, GrammarFormat, GrammarOptions, GrammarScope, OfferedTool, ToolSet, grammar_with,
};

use cases::{Group, Question};
use table::{Judged, Row};

/// Most tokens of a reply that is not in a block.
const MOST_TOKENS: u32 = 120;

/// System message of the agent.
const INSTRUCTIONS: &str = "You answer every question by calling one of your tools.";

/// Questions that were answered before: without examples so small a model answers in prose, and never calls.
const BEFORE: [(&str, &str); 2] = [
    (
        "What is the weather in Oslo?",
        "<ACTION>\n  <get_weather>\n    <city>Oslo</city>\n  </get_weather>\n</ACTION>",
    ),
    (
        "How many days lie between 3 May and 9 May 2024?",
        "<ACTION>\n  <count_days>\n    <from>2024-05-03</from>\n    <to>2024-05-09</to>\n  </count_days>\n</ACTION>",
    ),
];

/// The conversation in which they were.
async fn before() -> Vec<Exchange> {
    let text = json!({"type": "string"});
    let named = |name: &str, parameters: &[&str]| cases::Tool {
        name: name.into(),
        description: String::new(),
        parameters: json!({"type": "object", "properties": Value::Object(
            parameters.iter().map(|name| ((*name).to_owned(), text.clone())).collect()
        )}),
    };
    let tools = vec![named("get_weather", &["city"]), named("count_days", &["from", "to"])];
    let (tools, _) = tools_of(&Group { tools, questions: Vec::new() });
    let script: Vec<String> = BEFORE.iter().map(|(_, block)| json!({"text": block}).to_string()).collect();
    let model = Arc::new(ScriptedModel::from_jsonl(&script.join("\n")).unwrap());
    let agent = Agent::from_profile(AgentProfile::new("caller"), model, tools);
    let mut history = Vec::new();
    for (question, _) in BEFORE {
        let run = agent.start(AgentState::from_history(history), question).unwrap();
        history = run.outcome().await.1.history().to_vec();
    }
    history
}

/// A local model that keeps what it wrote.
#[derive(Debug)]
struct Recorded {
    model: LocalModel,
    replies: Mutex<Vec<(String, Figures)>>,
    /// Constrains to a call, in place of the agent's constraint.
    must_call: Mutex<Option<Arc<str>>>,
}

#[async_trait]
impl LlmProvider for Recorded {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    async fn stream(&self, mut request: LlmRequest) -> Result<LlmStream, LlmError> {
        if let Some(text) = self.must_call.lock().unwrap().clone() {
            request.constraint = Some(Constraint { form: GrammarForm::Lark, text });
        }
        let mut events = self.model.stream(request).await?;
        let mut all = Vec::new();
        while let Some(event) = events.next().await {
            if let Ok(LlmEvent::Finished(answer)) = &event {
                let figures = self.model.figures().unwrap_or_default();
                self.replies.lock().unwrap().push((answer.text.clone(), figures));
            }
            all.push(event);
        }
        Ok(stream::iter(all).boxed())
    }
}

/// Mode of decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Free,
    /// The grammar of agents: text or a call.
    Constrained,
    /// A call and nothing else.
    MustCall,
}

impl How {
    const ALL: [Self; 3] = [Self::MustCall, Self::Free, Self::Constrained];

    const fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Constrained => "held, text or a call",
            Self::MustCall => "held, a call",
        }
    }
}

/// A tool that ends the run with what it was given.
struct Ends(String);

#[async_trait]
impl ToolHandler for Ends {
    async fn call(&self, arguments: Map<String, Value>, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::Ended(json!({"tool": self.0, "arguments": arguments})))
    }
}

fn tools_of(group: &Group) -> (Snapshot, Arc<ToolSet>) {
    let tools = group.tools.iter().map(|tool| {
        let id = tool.name.parse().unwrap();
        let read_only = Annotations { read_only: true, ..Annotations::default() };
        let definition = ToolDefinition::new(id, tool.description.as_str(), tool.parameters.clone());
        Tool::new(definition.with_annotations(read_only), ToolKind::NATIVE, Ends(tool.name.clone()))
    });
    let offered = group.tools.iter().map(|tool| {
        OfferedTool::new(tool.name.as_str(), tool.description.as_str(), tool.parameters.clone()).unwrap()
    });
    (Snapshot::new(tools).unwrap(), Arc::new(ToolSet::of_tools(offered).unwrap()))
}

/// Asks one question as an agent does, and judges what was written.
async fn ask(
    agent: &Agent,
    before: &[Exchange],
    model: &Recorded,
    set: &ToolSet,
    question: &Question,
) -> Judged {
    model.replies.lock().unwrap().clear();
    let began = Instant::now();
    let run = agent.start(AgentState::from_history(before.to_vec()), question.text.as_str()).unwrap();
    let (outcome, _) = run.outcome().await;
    let took = began.elapsed();
    let replies = std::mem::take(&mut *model.replies.lock().unwrap());
    Judged::new(&replies, set, question, outcome.value.as_ref(), took)
}

async fn run(how: How, groups: &[Group], folder: &Path, log: Option<&PathBuf>) -> Row {
    let model = weights("smollm2", folder).unwrap_or_else(|error| {
        eprintln!("{error}; {}", error.help());
        std::process::exit(2);
    });
    let parameters = ModelParameters { max_tokens: Some(MOST_TOKENS), ..ModelParameters::default() };
    let options = LocalOptions { constrain: how != How::Free, parameters, ..LocalOptions::default() };
    let model = Arc::new(Recorded {
        model: LocalModel::start(model, options).unwrap(),
        replies: Mutex::default(),
        must_call: Mutex::default(),
    });
    let name = how.name();
    let mut row = Row::new(name);
    let before = before().await;
    for group in groups {
        let (tools, set) = tools_of(group);
        if how == How::MustCall {
            let options = GrammarOptions { scope: GrammarScope::Narrow, call: CallChoice::Required };
            let grammar = grammar_with(&set, GrammarFormat::Lark, options);
            *model.must_call.lock().unwrap() = Some(grammar.text.into());
        }
        let mut profile = AgentProfile::new("caller");
        profile.system_prompt = Some(INSTRUCTIONS.into());
        profile.budgets = Some(serde_json::from_value(json!({"turns": 2})).unwrap());
        for question in &group.questions {
            let agent = Agent::from_profile(
                profile.clone(),
                Arc::clone(&model) as Arc<dyn LlmProvider>,
                tools.clone(),
            );
            let judged = ask(&agent, &before, &model, &set, question).await;
            if let Some(log) = log {
                table::write_log(log, name, question, &judged);
            }
            eprintln!("{name} {} {}", question.id, judged.in_short());
            row.add(judged);
        }
    }
    row
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(data) = arguments.next().map(PathBuf::from) else {
        eprintln!("name the folder that holds bfcl/cases.jsonl and bfcl/tools.jsonl");
        std::process::exit(2);
    };
    let count = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(100);
    let log = arguments.next().map(PathBuf::from);
    let only = arguments.next();
    grammars::print(&cases::all_tools(&data));
    if count == 0 {
        return;
    }
    let groups = cases::groups(&data, count);
    let folder = std::env::current_dir().unwrap_or_default();
    let mut rows = Vec::new();
    for how in How::ALL.into_iter().filter(|how| only.as_deref().is_none_or(|only| how.name() == only)) {
        rows.push(run(how, &groups, &folder, log.as_ref()).await);
        println!("\n{}", table::table(&rows));
    }
}
