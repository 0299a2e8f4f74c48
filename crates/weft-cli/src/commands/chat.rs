//! `weft agent chat`: a conversation, line by line.

use std::io::{BufRead, IsTerminal, Write};

use agent_runtime::{Agent, AgentState, PendingCall, RunOutcome, approval_digest};
use agent_types::{AskKind, ExitReason, RunId, RunStatus};
use serde_json::{Value, json};
use weft_project::{AgentPlan, AgentStart, Project, Version};

use super::agent::{drive, failure_of, mode_of, note_script, with_live_tools, work_ends};
use super::{Context, block_on};
use crate::arguments::{AgentChatArguments, Output};
use crate::failure::{Exit, Failure};
use crate::{inputs, output};

const HELP: &str = "\
/tools            what the agent may use
/undo             forget the last exchange
/compact          put the older part into a short form
/approve          let the call run that waits
/deny REASON      do not let it run
/answer VALUE     answer the question that waits
/thread           the name of the conversation
/quit             end; so does the end of the input";

/// A conversation under way.
struct Chat<'c> {
    context: &'c Context,
    project: Project,
    agent: Agent,
    id: String,
    thread: String,
    values: serde_json::Map<String, Value>,
    state: AgentState,
    waiting: Option<Waiting>,
    last: Exit,
}

/// A run that waits for a person.
struct Waiting {
    run: RunId,
    base: AgentState,
    pending: Vec<PendingCall>,
}

pub(super) fn run(context: &Context, arguments: &AgentChatArguments) -> Result<Exit, Failure> {
    let project = context.project(arguments.script.clone())?;
    let values = inputs::context(&arguments.values)?;
    let agent =
        project.agent(&arguments.id)?.with_approval(mode_of(arguments.approve)).with_values(values.clone());
    if arguments.script.is_none() {
        note_script(&project, &agent);
    }
    let (agent, _watch) = with_live_tools(agent, &project)?;
    let thread = arguments.thread.clone().unwrap_or_else(|| RunId::generate().to_string());
    note!("thread {thread}; /help shows what can be written");
    let state = project.thread_state(&arguments.id, &thread)?;
    let id = arguments.id.clone();
    let mut chat = Chat { context, project, agent, id, thread, values, state, waiting: None, last: Exit::Ok };
    chat.pick_up()?;
    chat.talk()?;
    Ok(chat.last)
}

impl Chat<'_> {
    /// A run of the thread that waits is taken up where it stopped.
    fn pick_up(&mut self) -> Result<(), Failure> {
        if let Some(run) = self.project.waiting_run(&self.id, &self.thread)? {
            self.go_on(&run)?;
        }
        Ok(())
    }

    fn talk(&mut self) -> Result<(), Failure> {
        let stdin = std::io::stdin();
        let at_terminal = stdin.is_terminal() && std::io::stderr().is_terminal();
        loop {
            if at_terminal {
                let mut stderr = std::io::stderr().lock();
                let _ = write!(stderr, "> ").and_then(|()| stderr.flush());
            }
            let mut line = String::new();
            let read = stdin.lock().read_line(&mut line);
            let read = read.map_err(|error| Failure::new(Exit::Usage, "stdin", error.to_string()))?;
            let line = line.trim();
            if read == 0 || line == "/quit" || line == "/exit" {
                return Ok(());
            }
            let result = match line.split_once(char::is_whitespace).unwrap_or((line, "")) {
                ("", _) => Ok(()),
                (command, rest) if command.starts_with('/') => self.command(command, rest.trim()),
                _ => self.say(line),
            };
            if let Err(failure) = result {
                failure.print(self.context.output);
                self.last = failure.exit;
            }
        }
    }

    fn command(&mut self, command: &str, rest: &str) -> Result<(), Failure> {
        match command {
            "/help" => {
                note!("{HELP}");
                Ok(())
            }
            "/tools" => {
                for tool in self.agent.offered().tools() {
                    let about = tool.definition().description.lines().next().unwrap_or_default();
                    note!("  {}\t{about}", tool.id());
                }
                Ok(())
            }
            "/thread" => {
                note!("{}", self.thread);
                Ok(())
            }
            "/undo" => self.undo(),
            "/compact" => self.compact(),
            "/approve" => self.decide(|pending| {
                let digest = approval_digest(pending.tool.as_str(), &pending.arguments);
                approval(pending, json!({"approve": true, "digest": digest}))
            }),
            "/deny" => {
                let reason = if rest.is_empty() { "not wanted" } else { rest };
                self.decide(|pending| approval(pending, json!({"deny": reason})))
            }
            "/answer" => {
                let value = serde_json::from_str(rest).unwrap_or_else(|_| Value::from(rest));
                self.decide(|_| Ok(value.clone()))
            }
            other => {
                Err(Failure::usage(format!("there is no `{other}`")).with_help("/help shows what there is"))
            }
        }
    }

    fn say(&mut self, text: &str) -> Result<(), Failure> {
        if self.waiting.is_some() {
            return Err(Failure::usage("a call waits for you")
                .with_help("write /approve, /deny REASON or /answer VALUE first"));
        }
        let plan = AgentPlan {
            agent: self.id.clone(),
            message: text.to_owned(),
            values: self.values.clone(),
            ..AgentPlan::default()
        };
        let mut start = self.project.begin_agent(plan, Some(&self.thread))?;
        // What the model has been shown of the tools stays as it was.
        start.state = self.state.clone();
        self.play(start)
    }

    fn go_on(&mut self, run: &RunId) -> Result<(), Failure> {
        let start = self.project.resume_agent(run)?;
        self.project.skip_replies(&start);
        self.play(start)
    }

    fn play(&mut self, start: AgentStart) -> Result<(), Failure> {
        let base = start.state.clone();
        let (outcome, state) = block_on(self.to_the_end(start))??;
        self.tell(&outcome)?;
        if agent_runtime::exit_status(outcome.exit) == RunStatus::Waiting {
            for pending in &outcome.pending {
                match (pending.kind, &pending.prompt) {
                    (AskKind::Approval, _) | (_, None) => {
                        note!(
                            "waits for you: {} {}",
                            pending.tool,
                            Value::Object((*pending.arguments).clone())
                        );
                    }
                    (_, Some(prompt)) => note!("waits for you: {}: {prompt} (/answer)", pending.tool),
                }
            }
            self.waiting = Some(Waiting { run: outcome.run, base, pending: outcome.pending });
        } else {
            self.state = state;
        }
        Ok(())
    }

    /// Drives a run, and takes it up again when work ends that it waits for.
    async fn to_the_end(&self, mut start: AgentStart) -> Result<(RunOutcome, AgentState), Failure> {
        let base = start.state.clone();
        loop {
            let (outcome, state) = drive(self.context.output, &self.project, &self.agent, start).await?;
            let waits = outcome.exit == ExitReason::AwaitingResult;
            if !waits || !work_ends(&self.project, self.agent.tasks().as_deref(), &outcome.pending).await {
                return Ok((outcome, state));
            }
            start = self.project.resume_agent(&outcome.run)?;
            start.state = base.clone();
        }
    }

    fn tell(&mut self, outcome: &RunOutcome) -> Result<(), Failure> {
        match self.context.output {
            Output::Text if outcome.text.is_empty() => {}
            Output::Text => output::line(&outcome.text)?,
            Output::Json => output::json(outcome)?,
            Output::Jsonl => {}
        }
        self.last = super::agent::exit_of(outcome);
        if self.last != Exit::Ok && self.last != Exit::NeedsPerson {
            failure_of(outcome, self.last).print(self.context.output);
        }
        Ok(())
    }

    /// Says what becomes of the first call that waits, and goes on.
    fn decide(&mut self, word: impl Fn(&PendingCall) -> Result<Value, Failure>) -> Result<(), Failure> {
        let waiting = self.waiting.as_ref().ok_or_else(|| Failure::usage("nothing waits for you"))?;
        let Some(pending) = waiting.pending.first() else { return Ok(()) };
        let word = word(pending)?;
        let store = self.project.required_store(&waiting.run)?;
        self.project.check_going_on(&waiting.run, Version::Current)?;
        let answered = store.answer(&waiting.run, &pending.ask, &word);
        answered.map_err(|error| Failure::of_store(&error))?;
        let Some(waiting) = self.waiting.take() else { return Ok(()) };
        let mut start = self.project.resume_agent(&waiting.run)?;
        start.state = waiting.base;
        self.play(start)
    }

    fn undo(&mut self) -> Result<(), Failure> {
        if let Some(waiting) = self.waiting.take() {
            self.project.end_cancelled(&waiting.run)?;
            self.state = waiting.base;
            note!("the exchange that waited is forgotten");
            return Ok(());
        }
        if !self.project.undo_exchange(&self.id, &self.thread)? {
            return Err(Failure::usage("there is nothing to undo"));
        }
        self.state = self.project.thread_state(&self.id, &self.thread)?;
        note!("the last exchange is forgotten");
        Ok(())
    }

    fn compact(&mut self) -> Result<(), Failure> {
        let before = self.state.history().len();
        let recorder =
            agent_types::Recorder::new(RunId::generate(), std::sync::Arc::clone(self.project.clock()));
        let compacting = self.agent.compact(&mut self.state, recorder);
        let done = block_on(compacting)?
            .map_err(|error| Failure::new(Exit::Invalid, error.code(), error.to_string()))?;
        if done {
            let added = self.state.history().get(before..).unwrap_or_default();
            self.project.extend_thread(&self.id, &self.thread, added)?;
            note!("the older part is in a short form now");
        } else {
            note!("there is nothing to put into a short form");
        }
        Ok(())
    }
}

/// A word about a call that must be approved; anything else that waits takes none.
fn approval(pending: &PendingCall, word: Value) -> Result<Value, Failure> {
    if pending.kind == AskKind::Approval {
        return Ok(word);
    }
    let message = format!("`{}` is a question, not a call", pending.ask);
    Err(Failure::new(Exit::Usage, "no_approval", message).with_help("/answer VALUE"))
}
