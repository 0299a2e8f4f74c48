//! Commands of the program.

mod agent;
mod agent_tools;
mod chat;
mod completions;
mod demo;
mod doctor;
mod encode;
mod explain;
mod flow;
mod grammar;
mod import;
mod init;
mod mcp;
#[cfg(feature = "local-llm")]
mod model;
mod node;
mod parse;
mod prompt;
mod runs;
mod scenario;
mod serve;
mod session;
mod tool;
mod tools;
mod trigger;
mod trust;
mod workflow;

use std::future::Future;
use std::path::{Path, PathBuf};

use weft_project::{MakeProvider, Project, ProjectOptions};

use crate::arguments::{Arguments, Command, Output};
use crate::failure::{Exit, Failure};
use crate::output;

/// Options and services that every command shares.
pub(crate) struct Context {
    directory: Option<PathBuf>,
    output: Output,
    providers: Vec<MakeProvider>,
}

impl Context {
    /// Options to open projects with.
    fn options(&self, script: Option<PathBuf>) -> ProjectOptions {
        let mut options = ProjectOptions::default();
        options.script = script;
        options.providers.clone_from(&self.providers);
        options
    }

    /// Folder in which the search for a project begins.
    fn directory(&self) -> &Path {
        self.directory.as_deref().unwrap_or(Path::new("."))
    }

    /// The project of `-C`, or of the working folder.
    fn project(&self, script: Option<PathBuf>) -> Result<Project, Failure> {
        let options = self.options(script);
        let start = self.directory();
        let project = match &self.directory {
            Some(directory) if directory.join("weft.toml").is_file() => Project::open(directory, &options)?,
            Some(_) | None => Project::find(start, &options)?,
        };
        output::mask(project.redactor());
        Ok(project)
    }
}

/// Runs one command to its exit code.
pub(crate) fn run(arguments: Arguments, providers: Vec<MakeProvider>) -> Result<Exit, Failure> {
    let context = Context { directory: arguments.directory, output: arguments.output, providers };
    match arguments.command {
        Command::Init { directory } => init::run(&context, &directory),
        Command::Demo(demo) => demo::run(&context, &demo),
        Command::Agent(command) => agent::run(&context, command),
        Command::Chat(chat) => chat::run_session(&context, &chat),
        Command::Flow(command) => flow::run(&context, command),
        Command::Session(command) => session::run(&context, command),
        Command::Trigger(command) => trigger::run(&context, command),
        Command::Test(test) => scenario::run(&context, &test),
        Command::Workflow(command) => workflow::run(&context, command),
        Command::Runs(command) => runs::run(&context, command),
        Command::Node(command) => node::run(&context, command),
        Command::Tool(command) => tool::run(&context, command),
        Command::Parse(parse) => parse::run(&parse),
        Command::Encode { tools } => encode::run(&tools),
        Command::Prompt(prompt) => prompt::run(&context, &prompt),
        Command::Grammar(arguments) => grammar::run(&context, &arguments),
        #[cfg(feature = "local-llm")]
        Command::Model(command) => model::run(&context, command),
        Command::Mcp(arguments) => mcp::run(&context, &arguments),
        Command::Serve(serve) => serve::run(&context, &serve),
        Command::Trust { directory } => trust::run(&context, directory.as_deref()),
        Command::Doctor => doctor::run(&context),
        Command::Completions { shell } => completions::run(shell),
        Command::Explain { code } => explain::run(&context, code.as_deref()),
        Command::Import(import) => import::run(&context, &import),
    }
}

/// Warns of secrets in some files that the settings do not allow where the files send them.
fn warn_of_secrets(context: &Context, project: &Project, is_checked: impl Fn(&Path) -> bool) {
    let faults = project.refused_secrets();
    let faults = faults.iter().filter(|fault| is_checked(&fault.path));
    faults.for_each(|fault| Failure::of_secret(fault).warn(context.output));
}

/// Runs a future on a runtime of its own.
fn block_on<F: Future>(future: F) -> Result<F::Output, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Failed, "runtime", error.to_string()))?;
    let output = runtime.block_on(future);
    // Blocking work that was given up does not hold the program.
    runtime.shutdown_background();
    Ok(output)
}
