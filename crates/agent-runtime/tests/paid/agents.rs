//! Agents that pay, look, mail and let another one pay, and the people who answer them.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use agent_runtime::{Agent, AgentProfile, AgentState, RunOutcome, SubAgent, exit_status};
use agent_types::{Annotations, AskKind, EventSink, RunStatus, ToolDefinition};
use async_trait::async_trait;
use futures::{StreamExt, stream};
use llm_provider::{LlmError, LlmProvider, LlmRequest, LlmStream, Message, ModelInfo, StandardResponse};
use serde_json::{Map, Value, json};
use tool_registry::{
    Snapshot, Tool, ToolContext, ToolError, ToolErrorKind, ToolHandler, ToolKind, ToolOutput,
};

use crate::fixtures::{Cut, Fate, World};

/// One call of a turn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Step {
    /// Has an effect.
    Pay,
    /// Has an effect and needs approval.
    Mail,
    /// Only reads.
    Look,
    /// An agent inside, which pays in its first turn and mails in its second.
    Let,
    /// A tool that does not exist.
    Wrong,
}

/// Answer of a person to a question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Pick {
    Skip,
    Done,
    Retry,
}

/// A run: the turns of its agent, the points at which its processes are killed, and the answers.
#[derive(Debug, Clone)]
pub(crate) struct Story {
    pub(crate) steps: Vec<Vec<Step>>,
    pub(crate) cuts: Vec<Cut>,
    /// Answers, taken by the names of the questions.
    pub(crate) picks: Vec<Pick>,
}

/// Writes the turn that a request is for: its reply hangs on the request alone.
struct Scripted {
    turns: Vec<String>,
    name: &'static str,
    world: Arc<World>,
    info: ModelInfo,
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scripted").finish_non_exhaustive()
    }
}

#[async_trait]
impl LlmProvider for Scripted {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn stream(&self, request: LlmRequest) -> Result<LlmStream, LlmError> {
        let is_reply = |message: &&Message| matches!(message, Message::Assistant { .. });
        let turn = request.messages.iter().filter(is_reply).count();
        let whole = format!("{:?}", request.messages);
        let mut digest = DefaultHasher::new();
        whole.hash(&mut digest);
        let end = whole.floor_char_boundary(whole.len().saturating_sub(300));
        let (count, digest) = (request.messages.len(), digest.finish());
        self.world.ask(format!("{} {count} {digest:x} {}", self.name, &whole[end..])).await;
        let text = self.turns.get(turn).cloned().unwrap_or_else(|| "All is done.".to_owned());
        let reply = json!({"text": text, "usage": {"input": 10, "output": 5, "total": 15}, "finish": "stop"});
        let reply: StandardResponse = serde_json::from_value(reply).unwrap();
        Ok(stream::iter(reply.into_events()).map(Ok).boxed())
    }
}

struct Acts {
    world: Arc<World>,
    has_effect: bool,
}

#[async_trait]
impl ToolHandler for Acts {
    async fn call(&self, arguments: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let what = Value::from(arguments);
        match self.world.fate(cx.call.as_str()).filter(|_| self.has_effect) {
            Some(Fate::Skipped) => {
                let error = ToolError::new(ToolErrorKind::Refused, "skipped after an interruption");
                Err(error.with_code("limit_reached"))
            }
            Some(Fate::Done(value)) => Ok(ToolOutput::Json(value)),
            None => {
                self.world.act(cx.call.as_str(), what.clone(), self.has_effect).await;
                Ok(ToolOutput::Json(json!({ "did": what })))
            }
        }
    }
}

fn tool(world: &Arc<World>, id: &str) -> Tool {
    let schema = json!({"type": "object", "additionalProperties": false,
        "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let has_effect = id != "look";
    let annotations = Annotations { read_only: !has_effect, effect: has_effect, ..Annotations::default() };
    let definition = ToolDefinition::new(id.parse().unwrap(), "does it", schema);
    let handler = Acts { world: Arc::clone(world), has_effect };
    Tool::new(definition, ToolKind::NATIVE, handler).with_annotations(annotations)
}

fn profile(id: &str, tools: &[&str]) -> AgentProfile {
    let approval = json!({"default": "auto", "tools": {"mail": "ask"}});
    serde_json::from_value(json!({"id": id, "name": id, "version": "1", "schema_version": "1",
        "tool_ids_inventory": tools, "approval": approval, "budgets": {"turns": 30, "tool_calls": 200}}))
    .unwrap()
}

fn block(calls: impl Iterator<Item = String>) -> String {
    format!("I act. <ACTION>{}</ACTION>", calls.collect::<String>())
}

fn call(tool: &str, n: usize) -> String {
    format!("<{tool}><n>{n}</n></{tool}>")
}

impl Story {
    fn agent(&self, world: &Arc<World>) -> Agent {
        let model = |name: &'static str, turns: Vec<String>| {
            let mut info = ModelInfo::default();
            name.clone_into(&mut info.name);
            Arc::new(Scripted { turns, name, world: Arc::clone(world), info })
        };
        let tools = ["pay", "mail", "look"].map(|id| tool(world, id));
        let inner =
            model("inner", vec![block([call("pay", 1)].into_iter()), block([call("mail", 2)].into_iter())]);
        let snapshot = Snapshot::new(tools.clone()).unwrap();
        let inner = Agent::from_profile(profile("inner", &["pay", "mail", "look"]), inner, snapshot);
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let lets = ToolDefinition::new("let".parse().unwrap(), "lets another one act", schema);
        let lets = SubAgent::new(inner).into_tool(lets).unwrap();
        let lets = lets.with_annotations(Annotations { effect: true, ..Annotations::default() });
        let snapshot = Snapshot::new(tools.into_iter().chain([lets])).unwrap();
        let profile = profile("outer", &["pay", "mail", "look", "let"]);
        Agent::from_profile(profile, model("outer", self.turns()), snapshot)
    }

    /// Replies of the model. Each call asks for something else.
    fn turns(&self) -> Vec<String> {
        let mut n = 10;
        let mut written = |step: &Step| {
            n += 1;
            match step {
                Step::Pay => call("pay", n),
                Step::Mail => call("mail", n),
                Step::Look => call("look", n),
                Step::Let => call("let", n),
                Step::Wrong => call("wrong", n),
            }
        };
        self.steps.iter().map(|steps| block(steps.iter().map(&mut written))).collect()
    }

    fn pick(&self, ask: &str) -> (Pick, usize) {
        let sum = ask.bytes().fold(7_usize, |sum, byte| (sum * 31 + usize::from(byte)) % 10_007);
        (self.picks[sum % self.picks.len()], sum)
    }

    /// Runs until the end, killed at the cuts; returns the outcome, and the number of processes.
    fn run(&self, world: &Arc<World>, cuts: &[Cut]) -> (RunOutcome, usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut cuts = cuts.iter().copied();
        let mut cut = cuts.next();
        for process in 1..60 {
            let log = world.start(cut);
            let sink = Arc::clone(world) as Arc<dyn EventSink>;
            let run = self.agent(world).start_in(AgentState::default(), "Go.", sink, log).unwrap();
            let outcome = runtime.block_on(async {
                tokio::select! {
                    biased;
                    () = world.died() => None,
                    outcome = run.outcome() => Some(outcome.0),
                }
            });
            // Whatever was emitted behind the last event is gone: a process that died so is not known to have ended.
            let Some(outcome) = outcome.filter(|_| !world.is_dead()) else {
                cut = cuts.next();
                continue;
            };
            if exit_status(outcome.exit) != RunStatus::Waiting {
                return (outcome, process);
            }
            assert!(!outcome.pending.is_empty(), "{outcome:#?}");
            for pending in &outcome.pending {
                self.answer(world, &pending.ask, pending.kind);
            }
        }
        panic!("it asks for ever");
    }

    fn answer(&self, world: &World, ask: &str, kind: AskKind) {
        let (pick, sum) = self.pick(ask);
        if kind == AskKind::Approval {
            let value = match sum % 3 {
                0 => json!({"deny": "not wanted"}),
                1 => json!({"approve": true, "arguments": {"n": sum}}),
                _ => json!({"approve": true}),
            };
            return world.answer(ask, value);
        }
        let call = ask.rsplit('/').next().unwrap().split('~').next().unwrap();
        let (value, fate) = match pick {
            Pick::Skip => (json!("skip"), Some(Fate::Skipped)),
            Pick::Done => (json!({"outcome": "done", "value": [sum]}), Some(Fate::Done(json!([sum])))),
            Pick::Retry => (json!("retry"), None),
        };
        world.decide(call, fate);
        world.answer(ask, value);
    }

    /// Checks the law; returns the worlds of the run that is cut, and of the uncut one with the same answers.
    pub(crate) fn check(&self) -> (Arc<World>, Arc<World>) {
        let cut = World::new();
        let (outcome, processes) = self.run(&cut, &self.cuts);
        let whole = World::with_fates(cut.fates());
        let (wanted, _) = self.run(&whole, &[]);
        assert_eq!((outcome.exit, &outcome.text), (wanted.exit, &wanted.text), "{self:?}");
        let history = |outcome: &RunOutcome| serde_json::to_value(&outcome.history).unwrap();
        assert_eq!(history(&outcome), history(&wanted), "{self:?}");
        assert_eq!(outcome.usage, wanted.usage, "{self:?}");
        assert_eq!(cut.turns_asked(), whole.turns_asked(), "{self:?}");
        assert!(cut.requests() <= whole.requests() + processes, "{self:?}");
        self.check_effects(&cut, &whole);
        (cut, whole)
    }

    fn check_effects(&self, cut: &World, whole: &World) {
        let mut counts: HashMap<(String, String), usize> = HashMap::new();
        for (call, what) in cut.paid() {
            *counts.entry((call, what.to_string())).or_default() += 1;
        }
        for ((call, what), count) in &counts {
            assert!(*count <= 1 + cut.retries(call), "{call} paid {what} {count} times: {self:?}");
        }
        // What was not settled by an answer happened as in the uncut run, in its order.
        let mut first: Vec<_> = Vec::new();
        for (call, what) in cut.paid() {
            if cut.fate(&call).is_none() && !first.contains(&(call.clone(), what.clone())) {
                first.push((call, what));
            }
        }
        assert_eq!(first, whole.paid(), "{self:?}");
        let mut looked = [cut.looked(), whole.looked()];
        for looked in &mut looked {
            looked.sort_by_key(|(call, _)| call.clone());
            looked.dedup();
        }
        assert_eq!(looked[0], looked[1], "{self:?}");
    }
}
