//! `weft agent chat` and `weft chat`: a conversation, line by line.

use std::io::{BufRead, IsTerminal};

use agent_runtime::{ApprovalMode, PendingCall, exit_status};
use agent_types::{AskKind, RunId, RunStatus};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use weft_project::Project;
use weft_runs::{
    AgentPlan, AgentRequest, Answer, AnswerRequest, LocalRuns, RunEnv, RunHandle, RunOutcome, RunService,
    SeatAction, SessionParty, SessionRequest, Then, ThreadAction, ThreadName, Version, WhenBusy,
};

use super::agent::{mode_of, watched};
use super::session::line_of_message;
use super::{Context, block_on};
use crate::arguments::{AgentChatArguments, ChatArguments, Output};
use crate::failure::{Exit, Failure};
use crate::{follow, inputs, interrupt, outcome};

const HELP: &str = "\
/tools            the tools of the agent
/history          everything that was said
/approve          let the call run that waits
/deny REASON      do not let it run
/answer VALUE     answer the question that waits";

const HELP_OF_THREADS: &str = "\
/undo             forget the last exchange
/compact          replace the older part by a summary
/thread           the name of the conversation
/quit             end; so does the end of the input";

const HELP_OF_SESSIONS: &str = "\
/state            who answers, and the profile of the user
/give-back        give the session back to the agent, after a person took it over
/reopen           open a session that was closed
/session          the name of the session
/quit             end; so does the end of the input";

/// Kind of the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// An agent alone.
    Thread,
    /// An agent with flows, system actions and timers around it.
    Session,
}

/// A conversation under way.
struct Chat {
    form: Output,
    project: Project,
    runs: LocalRuns,
    kind: Kind,
    name: ThreadName,
    values: Map<String, Value>,
    approval: ApprovalMode,
    /// A run that waits for a person.
    waiting: Option<(RunId, Vec<PendingCall>)>,
    /// Set for a single message without a prompt.
    one_message: bool,
    /// Id of the single message.
    message_id: Option<String>,
    last: Exit,
}

/// `weft agent chat`.
pub(super) fn run(context: &Context, arguments: &AgentChatArguments) -> Result<Exit, Failure> {
    let project = context.project(arguments.script.clone())?;
    project.agent(&arguments.id)?;
    let thread = arguments.thread.clone().unwrap_or_else(|| RunId::generate().to_string());
    note!("thread {thread}; /help shows what can be written");
    let mut chat = Chat {
        form: context.output,
        runs: watched(project.clone()),
        project,
        kind: Kind::Thread,
        name: ThreadName::new(&arguments.id, thread),
        values: inputs::context(&arguments.values)?,
        approval: mode_of(arguments.approve),
        waiting: None,
        one_message: false,
        message_id: None,
        last: Exit::Ok,
    };
    block_on(chat.talk())??;
    Ok(chat.last)
}

/// `weft chat`.
pub(super) fn run_session(context: &Context, arguments: &ChatArguments) -> Result<Exit, Failure> {
    let project = context.project(arguments.script.clone())?;
    let agent = project.flows_agent()?.to_owned();
    project.agent(&agent)?;
    let session = arguments.session.clone().unwrap_or_else(|| RunId::generate().to_string());
    if arguments.message.is_none() || arguments.session.is_none() {
        note!("session {session}; /help shows what can be written");
    }
    let mut chat = Chat {
        form: context.output,
        runs: watched(project.clone()),
        project,
        kind: Kind::Session,
        name: ThreadName::new(agent, session),
        values: inputs::context(&arguments.values)?,
        approval: mode_of(arguments.approve),
        waiting: None,
        one_message: arguments.message.is_some(),
        message_id: arguments.message_id.clone(),
        last: Exit::Ok,
    };
    block_on(chat.play_session(arguments))??;
    Ok(chat.last)
}

impl Chat {
    async fn play_session(&mut self, arguments: &ChatArguments) -> Result<(), Failure> {
        if arguments.give_back {
            self.give_back().await?;
        }
        if arguments.reopen {
            self.reopen().await?;
        }
        match arguments.message.as_deref() {
            Some("-") => self.say(&inputs::stdin()?).await,
            Some(message) => self.say(message).await,
            None => self.talk().await,
        }
    }

    /// A run that waits is resumed; then lines of stdin, and timers meanwhile.
    async fn talk(&mut self) -> Result<(), Failure> {
        if let Some(run) = self.runs.thread(&self.name, ThreadAction::Read).await?.waiting {
            let run = self.runs.resume(&run, Version::Current).await?;
            self.follow(run).await?;
        }
        let mut lines = lines_of_stdin();
        let at_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        loop {
            if at_terminal {
                crate::output::piece("> ");
            }
            let result = tokio::select! {
                biased;
                line = lines.recv() => {
                    let Some(line) = line else { return Ok(()) };
                    let line = line.map_err(|error| Failure::new(Exit::Usage, "stdin", error.to_string()))?;
                    match line.trim() {
                        "" => Ok(()),
                        "/quit" | "/exit" => return Ok(()),
                        line if line.starts_with('/') => self.command(line).await,
                        line => self.say(line).await,
                    }
                }
                timer = next_timer(&self.runs, self.kind, &self.name) => match timer {
                    Ok(Some(run)) => self.follow(run).await,
                    Ok(None) => Ok(()),
                    Err(failure) => return Err(failure),
                },
                () = interrupt::interrupted() => {
                    self.last = Exit::Interrupted;
                    return Ok(());
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
        match (command, self.kind, rest.trim()) {
            ("/help", Kind::Thread, _) => note!("{HELP}\n{HELP_OF_THREADS}"),
            ("/help", Kind::Session, _) => note!("{HELP}\n{HELP_OF_SESSIONS}"),
            ("/tools", ..) => self.tools()?,
            ("/thread", Kind::Thread, _) | ("/session", Kind::Session, _) => note!("{}", self.name.thread),
            ("/undo", Kind::Thread, _) => self.undo().await?,
            ("/compact", Kind::Thread, _) => self.compact().await?,
            ("/history", ..) => self.history().await?,
            ("/state", Kind::Session, _) => self.state().await?,
            ("/give-back", Kind::Session, _) => self.give_back().await?,
            ("/reopen", Kind::Session, _) => self.reopen().await?,
            ("/approve", ..) => self.answer(Answer::Approve { arguments: None }).await?,
            ("/deny", _, reason) => self.answer(Answer::deny(reason)).await?,
            ("/answer", _, value) => self.answer(Answer::written(value)).await?,
            (other, ..) => {
                return Err(Failure::usage(format!("unknown command `{other}`"))
                    .with_help("/help lists the commands"));
            }
        }
        Ok(())
    }

    fn tools(&self) -> Result<(), Failure> {
        for tool in self.project.agent(&self.name.agent)?.offered().tools() {
            let about = tool.definition().description.lines().next().unwrap_or_default();
            note!("  {}\t{about}", tool.id());
        }
        Ok(())
    }

    async fn say(&mut self, text: &str) -> Result<(), Failure> {
        if self.waiting.is_some() {
            return Err(Failure::usage("a call waits for you")
                .with_help("write /approve, /deny REASON or /answer VALUE first"));
        }
        let (values, message_id) = (self.values.clone(), self.message_id.clone());
        let plan = AgentPlan { values, message_id, ..AgentPlan::new(&self.name.agent, text) };
        let surroundings = match self.kind {
            Kind::Thread => RunEnv::AgentOnly,
            Kind::Session => RunEnv::Session,
        };
        let (thread, approval) = (Some(self.name.thread.clone()), self.approval);
        let run = self
            .runs
            .begin(AgentRequest { plan, thread, approval, surroundings, busy: WhenBusy::Reject }.into())
            .await?;
        self.follow(run).await
    }

    /// Follows a run to where it ends or waits for a person.
    async fn follow(&mut self, run: RunHandle) -> Result<(), Failure> {
        let outcome = follow::to_the_end(self.form, &self.runs, run).await?;
        if let RunOutcome::Session(handled) = &outcome
            && let Some(timer) = &handled.timer
        {
            note!("the timer {timer} went off");
        }
        outcome::print_text(self.form, &outcome)?;
        let Some(reason) = outcome.exit() else { return Ok(()) };
        if exit_status(reason) != RunStatus::Waiting || self.one_message {
            self.last = outcome::print_failure(self.form, &outcome, reason);
            return Ok(());
        }
        self.last = outcome::exit_of_reason(reason);
        outcome.pending().iter().for_each(note_pending);
        self.waiting = Some((outcome.run().clone(), outcome.pending().to_vec()));
        Ok(())
    }

    /// Answers the first call or question that waits. What is refused leaves it waiting.
    async fn answer(&mut self, answer: Answer) -> Result<(), Failure> {
        let Some((run, pending)) = &self.waiting else { return Err(Failure::usage("nothing waits for you")) };
        let ask = pending.first().map(|pending| pending.ask.clone());
        let (version, then) = (Version::Current, Then::Resume);
        let request = AnswerRequest { run: run.clone(), ask, answer, version, then };
        let resumed = self.runs.answer(request).await.map_err(|error| {
            let failure = Failure::from(error);
            if failure.code == "no_approval" { failure.with_help("/answer VALUE") } else { failure }
        })?;
        self.waiting = None;
        match resumed {
            Some(run) => self.follow(run).await,
            None => Ok(()),
        }
    }

    async fn undo(&mut self) -> Result<(), Failure> {
        let waited = self.waiting.is_some();
        if !self.runs.thread(&self.name, ThreadAction::Undo).await?.changed {
            return Err(Failure::usage("there is nothing to undo"));
        }
        self.waiting = None;
        note!("the {} is forgotten", if waited { "exchange that waited" } else { "last exchange" });
        Ok(())
    }

    async fn compact(&self) -> Result<(), Failure> {
        if self.runs.thread(&self.name, ThreadAction::Compact).await?.changed {
            note!("the older part is replaced by a summary");
        } else {
            note!("there is nothing to replace by a summary");
        }
        Ok(())
    }

    async fn state(&self) -> Result<(), Failure> {
        let session = self.runs.session(&self.name.thread).await?;
        let since = session.since.unwrap_or_default();
        let action = session.action.unwrap_or_default();
        match session.with {
            SessionParty::Person => note!("a person has it, since {since} ({action})"),
            SessionParty::Closed => note!("closed since {since} ({action})"),
            SessionParty::Agent => note!("the agent answers"),
        }
        if !session.profile.is_empty() {
            note!("known of the user: {}", Value::Object(session.profile));
        }
        Ok(())
    }

    /// Prints everything that was said, by all authors.
    async fn history(&self) -> Result<(), Failure> {
        let messages = self.runs.thread(&self.name, ThreadAction::Read).await?.messages();
        for message in &messages {
            note!("{}", line_of_message(message));
        }
        Ok(())
    }

    async fn act(&self, action: SeatAction, done: &str) -> Result<(), Failure> {
        let (session, person) = (self.name.thread.clone(), "person".to_owned());
        self.runs.act(SessionRequest { session, person, action }).await?;
        note!("{done}");
        Ok(())
    }

    async fn give_back(&self) -> Result<(), Failure> {
        self.act(SeatAction::GiveBack, "the agent has the session back").await
    }

    async fn reopen(&self) -> Result<(), Failure> {
        self.act(SeatAction::Reopen, "the session is open again").await
    }
}

/// The run of the next timer of a session.
async fn next_timer(runs: &LocalRuns, kind: Kind, name: &ThreadName) -> Result<Option<RunHandle>, Failure> {
    match kind {
        Kind::Session => Ok(runs.timer(Some(&name.thread)).await?),
        Kind::Thread => std::future::pending().await,
    }
}

fn note_pending(pending: &PendingCall) {
    match (pending.kind, &pending.prompt) {
        (AskKind::Approval, _) | (_, None) => {
            note!("waits for you: {} {}", pending.tool, Value::Object((*pending.arguments).clone()));
        }
        (_, Some(prompt)) => note!("waits for you: {}: {prompt} (/answer)", pending.tool),
    }
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
