//! Failure of a command, for a person and for a program.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use agent_types::Problem;
use executors_flow_system::OrchestratorError;
use run_store::StoreError;
use serde_json::{Map, Value, json};
use tool_registry::Fault;
use tool_registry::files::FileError;
use weft_project::{AgentFile, ProjectError, SecretFault};
use weft_runs::RunsError;

use crate::arguments::Output;

/// Exit code of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Ok = 0,
    /// The run failed.
    Failed = 1,
    /// The command was not understood, or names what is not there.
    Usage = 2,
    /// Settings, a model or a key are missing.
    Configuration = 3,
    /// A provider or server cannot be reached.
    Unreachable = 4,
    /// A tool ended the run with an error.
    Tool = 5,
    /// A limit was reached.
    Limit = 6,
    /// A file does not parse or validate.
    Invalid = 7,
    /// An approval or an answer is required and no terminal is attached.
    NeedsPerson = 8,
    /// Interrupted.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Place in a file: line and column from 1, as far as they are known.
#[derive(Debug)]
pub(crate) struct FileLocation {
    pub(crate) file: PathBuf,
    pub(crate) line: Option<usize>,
    pub(crate) column: Option<usize>,
}

impl std::fmt::Display for FileLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.file.display())?;
        [self.line, self.column].into_iter().flatten().try_for_each(|number| write!(f, ":{number}"))
    }
}

/// A command that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) place: Option<Box<FileLocation>>,
    pub(crate) help: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { exit, code: code.into(), message: message.into(), place: None, help: None }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "usage", message)
    }

    /// Problems as one failure, with the code of the first and the first suggestion.
    pub(crate) fn of_problems(problems: &[Problem]) -> Self {
        let code = problems.first().map_or("invalid_argument", |problem| problem.code);
        let near = problems.iter().find_map(|problem| problem.suggest.as_deref());
        let help = near.map(|near| format!("did you mean `{near}`?"));
        Self { help, ..Self::new(Exit::Invalid, code, Problem::messages(problems)) }
    }

    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn at(mut self, file: &Path, line: Option<usize>, column: Option<usize>) -> Self {
        self.place = Some(Box::new(FileLocation { file: shown(file), line, column }));
        self
    }

    /// A file that a command names and that cannot be read.
    pub(crate) fn of_reading(path: &Path, error: &std::io::Error) -> Self {
        let failure = match error.kind() {
            std::io::ErrorKind::NotFound => {
                Self::new(Exit::Usage, "missing_file", format!("the file {} does not exist", path.display()))
            }
            _ => Self::new(Exit::Usage, "unreadable_file", error.to_string()).at(path, None, None),
        };
        let looks_like_json = path.to_str().is_some_and(|text| text.trim_start().starts_with(['{', '[']));
        failure.with_help(if looks_like_json {
            "a file is meant here; `-` reads stdin"
        } else {
            "paths are relative to the working folder"
        })
    }

    pub(crate) fn of_project(error: &ProjectError) -> Self {
        let exit = match error {
            ProjectError::NoProject { .. }
            | ProjectError::NotTrusted { .. }
            | ProjectError::Settings(_)
            | ProjectError::Model(_)
            | ProjectError::AgentModel { .. } => Exit::Configuration,
            ProjectError::Tool(broken) => match broken.fault {
                Fault::Invalid => Exit::Invalid,
                Fault::Unknown => Exit::Usage,
                Fault::Settings => Exit::Configuration,
                Fault::Unreachable => Exit::Unreachable,
            },
            ProjectError::MissingFile { .. }
            | ProjectError::Unreadable { .. }
            | ProjectError::UnknownAgent { .. }
            | ProjectError::UnknownTrigger { .. }
            | ProjectError::UnknownToolId { .. }
            | ProjectError::NotItsTool { .. }
            | ProjectError::NoSkill { .. }
            | ProjectError::UnknownWorkflow { .. } => Exit::Usage,
            ProjectError::NotWritten { .. } | ProjectError::ChangedMeanwhile { .. } => Exit::Failed,
            ProjectError::Store(error) => return Self::of_store(error),
            _ => Exit::Invalid,
        };
        let mut failure = Self::new(exit, error.code(), error.to_string());
        failure.help = error.help();
        match error.place() {
            Some((file, line, column)) => failure.at(file, line, column),
            None => failure,
        }
    }

    pub(crate) fn of_secret(fault: &SecretFault) -> Self {
        let failure = Self::new(Exit::Configuration, fault.code(), fault.message());
        failure.at(&fault.path, fault.line, None).with_help(fault.help())
    }

    /// Name of an entry of an inventory that is ignored.
    pub(crate) fn of_ignored_name(file: &AgentFile, message: String) -> Self {
        let failure = Self::new(Exit::Invalid, "bad_inventory_entry", message);
        failure
            .at(&file.path, None, None)
            .with_help("give a name of letters, digits, `_`, `-` and `.`, or leave it out")
    }

    pub(crate) fn of_store(error: &StoreError) -> Self {
        let exit = match error {
            StoreError::UnknownRun { .. }
            | StoreError::UnknownAsk { .. }
            | StoreError::UnknownNode { .. }
            | StoreError::NotKept { .. }
            | StoreError::UnfitAnswer { .. }
            | StoreError::RunEnded { .. } => Exit::Usage,
            StoreError::RunBusy { .. } => Exit::Failed,
            _ => Exit::Configuration,
        };
        Self::new(exit, error.code(), error.to_string()).with_help(error.hint())
    }

    /// A profile that cannot be read.
    pub(crate) fn of_file(broken: &FileError) -> Self {
        Self::new(Exit::Invalid, "bad_profile", broken.message.clone()).at(
            &broken.path,
            broken.line,
            broken.column,
        )
    }

    /// Fields for a program.
    pub(crate) fn fields(&self) -> Map<String, Value> {
        let place = self.place.as_deref();
        let all = [
            ("code", json!(self.code)),
            ("message", json!(self.message)),
            ("file", json!(place.map(|at| &at.file))),
            ("line", json!(place.and_then(|at| at.line))),
            ("column", json!(place.and_then(|at| at.column))),
            ("help", json!(self.help)),
        ];
        all.into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.to_owned(), value))
            .collect()
    }

    /// Prints the failure on stderr: as text, or as one JSON object.
    pub(crate) fn print(&self, output: Output) {
        self.print_as("error", output);
    }

    /// Prints it on stderr as something that the user should know and that fails nothing.
    pub(crate) fn warn(&self, output: Output) {
        self.print_as("warning", output);
    }

    fn print_as(&self, severity: &str, output: Output) {
        if output != Output::Text {
            note!("{}", json!({ severity: self.fields() }));
            return;
        }
        note!("{severity}[{}]: {}", self.code, self.message);
        if let Some(at) = &self.place {
            note!("  --> {at}");
        }
        if let Some(help) = &self.help {
            note!("help: {help}");
        }
    }
}

/// A path as a person would write it: relative to the working folder where it lies below.
pub(crate) fn shown(path: &Path) -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(&here).unwrap_or(path).to_owned()
}

impl From<RunsError> for Failure {
    fn from(error: RunsError) -> Self {
        let exit = match &error {
            RunsError::Project(error) => return Self::of_project(error),
            RunsError::Session(OrchestratorError::Session(_)) => Exit::Configuration,
            RunsError::RunWaiting { .. } | RunsError::RunInterrupted { .. } => Exit::NeedsPerson,
            RunsError::Session(OrchestratorError::Seat(_) | OrchestratorError::ById(_))
            | RunsError::UnknownAsk { .. }
            | RunsError::UnknownRequest { .. }
            | RunsError::WhichAsk { .. }
            | RunsError::NoApproval { .. }
            | RunsError::NotSubscribed { .. }
            | RunsError::NoNodes
            | RunsError::NotSettable { .. }
            | RunsError::NotRetryable { .. } => Exit::Usage,
            RunsError::ShuttingDown
            | RunsError::QueueFull { .. }
            | RunsError::Left { .. }
            | RunsError::ThreadBusy { .. }
            | RunsError::ThreadFull { .. }
            | RunsError::Failed { .. } => Exit::Failed,
            _ => Exit::Invalid,
        };
        let failure = Self::new(exit, error.code().to_owned(), error.to_string());
        match error.help() {
            Some(help) => failure.with_help(help),
            None => failure,
        }
    }
}
