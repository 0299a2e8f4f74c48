//! `weft chat`: a session with flows, system actions and timers around the agent.

use std::io::{BufRead, IsTerminal, Write};
use std::sync::Arc;

use agent_runtime::{PendingCall, approval_digest, exit_status};
use agent_types::{ExitReason, RunId, RunStatus};
use executors_flow_system::{Entered, Handled, Orchestrator, OrchestratorError, Phase, UserMessage};
use futures::future::{Either, select};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tool_registry::TaskBoard;
use weft_project::{AgentPlan, AgentStart, Project};

use super::agent::{exit_of_reason, failure_of, mode_of, note_script, work_ends};
use super::{Context, block_on};
use crate::arguments::{ChatArguments, Output};
use crate::failure::{Exit, Failure};
use crate::{follow, inputs, interrupt, output};

const HELP: &str = "\
/tools            what the agent may use
/state            who answers, and what is known of the user
/give-back        give the session back to the agent, after a person took it over
/reopen           open a session that was closed
/approve          let the call run that waits
/deny REASON      do not let it run
/answer VALUE     answer the question that waits
/session          the name of the session
/quit             end; so does the end of the input";

/// A session under way.
struct Chat<'c> {
    form: Output,
    project: &'c Project,
    orchestrator: Orchestrator,
    agent: String,
    session: String,
    values: Map<String, Value>,
    /// The work that the last run has begun.
    tasks: Arc<TaskBoard>,
    /// A run that waits for a person.
    waiting: Option<(RunId, Vec<PendingCall>)>,
    /// Whether nobody is there to write more.
    one_message: bool,
    last: Exit,
}

impl From<OrchestratorError> for Failure {
    fn from(error: OrchestratorError) -> Self {
        let exit = match error {
            OrchestratorError::Session(_) => Exit::Configuration,
            _ => Exit::Invalid,
        };
        Self::new(exit, error.code(), error.to_string())
    }
}

pub(super) fn run(context: &Context, arguments: &ChatArguments) -> Result<Exit, Failure> {
    let project = context.project(arguments.script.clone())?;
    let orchestrator = project.orchestrator(mode_of(arguments.approve))?;
    if arguments.script.is_none() {
        note_script(&project, orchestrator.agent());
    }
    let session = arguments.session.clone().unwrap_or_else(|| RunId::generate().to_string());
    if arguments.message.is_none() || arguments.session.is_none() {
        note!("session {session}; /help shows what can be written");
    }
    let mut chat = Chat {
        form: context.output,
        agent: orchestrator.agent().profile().id.clone(),
        project: &project,
        orchestrator,
        session,
        values: inputs::context(&arguments.values)?,
        tasks: Arc::default(),
        waiting: None,
        one_message: false,
        last: Exit::Ok,
    };
    block_on(chat.play(arguments))??;
    Ok(chat.last)
}

/// Takes a run of a session up again.
pub(super) fn go_on(
    context: &Context,
    project: &Project,
    start: AgentStart,
    cancel: CancellationToken,
) -> Result<Exit, Failure> {
    let orchestrator = project.orchestrator(agent_runtime::ApprovalMode::Ask)?;
    let handled = block_on(async {
        let session = start.thread.clone().unwrap_or_default();
        let entered = orchestrator.enter(&session).await?;
        drive(context.output, project, entered, start, Work::Message(Arc::default()), cancel).await
    })??;
    let Some(handled) = handled else { return Ok(Exit::Ok) };
    tell(context.output, &handled)?;
    let exit = exit_of_reason(handled.exit);
    if exit != Exit::Ok {
        failure(&handled, exit).print(context.output);
    }
    Ok(exit)
}

impl Chat<'_> {
    async fn play(&mut self, arguments: &ChatArguments) -> Result<(), Failure> {
        if arguments.give_back {
            self.give_back().await?;
        }
        if arguments.reopen {
            self.reopen().await?;
        }
        if let Some(message) = &arguments.message {
            let message = if message == "-" { inputs::stdin()? } else { message.clone() };
            self.one_message = true;
            return self.say(&message).await;
        }
        self.pick_up().await?;
        self.talk().await
    }

    /// A run of the session that waits is taken up where it stopped.
    async fn pick_up(&mut self) -> Result<(), Failure> {
        if let Some(run) = self.project.waiting_run(&self.agent, &self.session)? {
            let start = self.project.resume_agent(&run)?;
            self.project.skip_replies(&start);
            self.go_on(start).await?;
        }
        Ok(())
    }

    /// Lines of stdin, and timers meanwhile.
    async fn talk(&mut self) -> Result<(), Failure> {
        let mut lines = lines_of_stdin();
        let (orchestrator, session) = (self.orchestrator.clone(), self.session.clone());
        let at_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        loop {
            if at_terminal {
                let mut stderr = std::io::stderr().lock();
                let _ = write!(stderr, "> ").and_then(|()| stderr.flush());
            }
            let next = {
                let line = std::pin::pin!(lines.recv());
                let timer = std::pin::pin!(orchestrator.until_due(&session));
                let something = std::pin::pin!(select(line, timer));
                match select(something, std::pin::pin!(interrupt::interrupted())).await {
                    Either::Left((Either::Left((line, _)), _)) => Either::Left(line),
                    Either::Left((Either::Right((due, _)), _)) => Either::Right(due?),
                    Either::Right(_) => {
                        self.last = Exit::Interrupted;
                        return Ok(());
                    }
                }
            };
            let result = match next {
                Either::Right(()) => self.fire().await,
                Either::Left(None) => return Ok(()),
                Either::Left(Some(line)) => {
                    let line = line.map_err(|error| Failure::new(Exit::Usage, "stdin", error.to_string()))?;
                    match line.trim() {
                        "" => Ok(()),
                        "/quit" | "/exit" => return Ok(()),
                        line if line.starts_with('/') => self.command(line).await,
                        line => self.say(line).await,
                    }
                }
            };
            if let Err(failure) = result {
                failure.print(self.form);
                self.last = failure.exit;
            }
        }
    }

    async fn command(&mut self, line: &str) -> Result<(), Failure> {
        let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        match command {
            "/help" => note!("{HELP}"),
            "/tools" => {
                for tool in self.orchestrator.agent().offered().tools() {
                    let about = tool.definition().description.lines().next().unwrap_or_default();
                    note!("  {}\t{about}", tool.id());
                }
            }
            "/session" => note!("{}", self.session),
            "/state" => self.state().await?,
            "/give-back" => self.give_back().await?,
            "/reopen" => self.reopen().await?,
            "/approve" => {
                self.decide(|pending| {
                    let digest = approval_digest(pending.tool.as_str(), &pending.arguments);
                    json!({"approve": true, "digest": digest})
                })
                .await?;
            }
            "/deny" => {
                let reason = if rest.is_empty() { "not wanted" } else { rest };
                self.decide(|_| json!({"deny": reason})).await?;
            }
            "/answer" => {
                let value = serde_json::from_str(rest).unwrap_or_else(|_| Value::from(rest));
                self.decide(|_| value.clone()).await?;
            }
            other => {
                return Err(
                    Failure::usage(format!("there is no `{other}`")).with_help("/help shows what there is")
                );
            }
        }
        Ok(())
    }

    async fn state(&self) -> Result<(), Failure> {
        let entered = self.orchestrator.enter(&self.session).await?;
        let state = &entered.session().state;
        match state.phase() {
            Phase::HandedOver { since, action } => note!("a person has it, since {since} ({action})"),
            Phase::Closed { since, action } => note!("closed since {since} ({action})"),
            _ => note!("the agent answers"),
        }
        if !state.profile().is_empty() {
            note!("known of the user: {}", Value::Object(state.profile().clone()));
        }
        Ok(())
    }

    async fn give_back(&self) -> Result<(), Failure> {
        if self.orchestrator.give_back(&self.session).await? {
            note!("the agent has the session back");
            return Ok(());
        }
        Err(Failure::usage("nobody took the session over"))
    }

    async fn reopen(&self) -> Result<(), Failure> {
        if self.orchestrator.reopen(&self.session).await? {
            note!("the session is open again");
            return Ok(());
        }
        Err(Failure::usage("the session is not closed"))
    }

    async fn say(&mut self, text: &str) -> Result<(), Failure> {
        if self.waiting.is_some() {
            return Err(Failure::usage("a call waits for you")
                .with_help("write /approve, /deny REASON or /answer VALUE first"));
        }
        self.tasks = Arc::default();
        let start = self.begin(text)?;
        self.go_on(start).await
    }

    async fn fire(&mut self) -> Result<(), Failure> {
        let entered = self.orchestrator.enter(&self.session).await?;
        if !entered.is_due() {
            return Ok(());
        }
        let start = self.begin("")?;
        let handled =
            drive(self.form, self.project, entered, start, Work::Timer, CancellationToken::new()).await?;
        handled.map_or(Ok(()), |handled| self.take(handled))
    }

    fn begin(&self, text: &str) -> Result<AgentStart, Failure> {
        let plan = AgentPlan {
            agent: self.agent.clone(),
            message: text.to_owned(),
            values: self.values.clone(),
            in_session: true,
            ..AgentPlan::default()
        };
        Ok(self.project.begin_agent(plan, Some(&self.session))?)
    }

    async fn go_on(&mut self, mut start: AgentStart) -> Result<(), Failure> {
        loop {
            let entered = self.orchestrator.enter(&self.session).await?;
            let cancel = CancellationToken::new();
            let tasks = Arc::clone(&self.tasks);
            let handled =
                drive(self.form, self.project, entered, start, Work::Message(tasks), cancel).await?;
            let Some(handled) = handled else { return Ok(()) };
            let waits = handled.exit == ExitReason::AwaitingResult;
            if !waits || !work_ends(self.project, Some(&self.tasks), &handled.pending).await {
                return self.take(handled);
            }
            start = self.project.resume_agent(&handled.run)?;
        }
    }

    fn take(&mut self, handled: Handled) -> Result<(), Failure> {
        if let Some(timer) = &handled.timer {
            note!("the timer {timer} went off");
        }
        tell(self.form, &handled)?;
        self.last = exit_of_reason(handled.exit);
        if exit_status(handled.exit) == RunStatus::Waiting && !self.one_message {
            for pending in &handled.pending {
                note!("waits for you: {} {}", pending.tool, Value::Object((*pending.arguments).clone()));
            }
            self.waiting = Some((handled.run, handled.pending));
        } else if self.last != Exit::Ok {
            failure(&handled, self.last).print(self.form);
        }
        Ok(())
    }

    /// Says what becomes of the first call that waits, and goes on.
    async fn decide(&mut self, word: impl Fn(&PendingCall) -> Value) -> Result<(), Failure> {
        let (run, pending) = self.waiting.take().ok_or_else(|| Failure::usage("nothing waits for you"))?;
        let Some(pending) = pending.first() else { return Ok(()) };
        let answered = self.project.required_store(&run)?.answer(&run, &pending.ask, &word(pending));
        answered.map_err(|error| Failure::of_store(&error))?;
        let start = self.project.resume_agent(&run)?;
        self.go_on(start).await
    }
}

/// What is done in a session.
#[derive(Debug)]
enum Work {
    /// With the work that the run has begun.
    Message(Arc<TaskBoard>),
    Timer,
}

/// Handles a message or a timer, telling what happens as the output form wants it.
async fn drive(
    form: Output,
    project: &Project,
    entered: Entered,
    start: AgentStart,
    work: Work,
    cancel: CancellationToken,
) -> Result<Option<Handled>, Failure> {
    let desk = start.desk_of_session().with_cancel(cancel.clone());
    let AgentStart { desk: kept, plan, .. } = start;
    let run = kept.sink().run().clone();
    let telling = follow::tell(form, kept.watch(follow::BEHIND), &cancel);
    let running = async {
        let handling = async {
            match work {
                Work::Message(tasks) => {
                    let message = UserMessage::new(plan.message).with_values(plan.values);
                    Box::pin(entered.handle(message, desk.with_tasks(tasks))).await.map(Some)
                }
                Work::Timer => Box::pin(entered.fire(desk)).await,
            }
        };
        let handled = interrupt::run(handling, &cancel);
        let heeding = follow::poll_cancel_requests(project, &run, &cancel);
        let handled = match select(Box::pin(handled), Box::pin(heeding)).await {
            Either::Left((handled, _)) => handled,
            Either::Right(((), handled)) => handled.await,
        };
        (handled, kept.close().await)
    };
    let ((handled, closed), told) = futures::join!(running, telling);
    told?;
    closed?;
    Ok(handled?)
}

fn tell(form: Output, handled: &Handled) -> Result<(), Failure> {
    match (form, &handled.text) {
        (Output::Text, Some(text)) => output::line(text),
        (Output::Json, _) => output::json(handled),
        (Output::Text, None) | (Output::Jsonl, _) => Ok(()),
    }
}

fn failure(handled: &Handled, exit: Exit) -> Failure {
    if let Some(outcome) = &handled.outcome {
        return failure_of(outcome, exit);
    }
    let message = handled.error.clone().unwrap_or_else(|| format!("the run ended: {}", handled.exit));
    Failure::new(exit, handled.exit.as_str(), message)
}

/// Lines as they come; a thread reads them, and is left behind when the program ends.
fn lines_of_stdin() -> mpsc::Receiver<std::io::Result<String>> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        let stdin = std::io::stdin();
        loop {
            let mut line = String::new();
            let read = stdin.lock().read_line(&mut line);
            let line = match read {
                Ok(0) => return,
                Ok(_) => Ok(line),
                Err(error) => Err(error),
            };
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
