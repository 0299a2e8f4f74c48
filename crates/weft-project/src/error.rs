//! Errors of a project, with place and fix.

use std::path::{Path, PathBuf};

use agent_runtime::AgentError;
use executors_flow_system::FlowsError;
use llm_provider::{ModelError, ScriptError};
use run_store::StoreError;
use tool_registry::files::FileError;
use tool_registry::{BrokenTool, FilePlace, RegistryError, ToolLookupError};
use workflow_engine::PlanError;
use workflow_model::LoadError;

/// Rule for ids of workflows.
pub(crate) const ID_RULE: &str = "parts of letters, digits, `_`, `-` and `.`, joined by `/`";

/// Error of a project.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProjectError {
    /// No `weft.toml` here or above.
    #[error("weft.toml is missing in {} and in the folders above it", start.display())]
    NoProject {
        /// Folder where the search began.
        start: PathBuf,
    },
    /// A project above the working folder that another user owns.
    #[error("{} belongs to user {owner} and is not trusted", root.join("weft.toml").display())]
    NotTrusted {
        /// Folder of the project.
        root: PathBuf,
        /// Number of its owner.
        owner: u32,
    },
    /// A file that is not there.
    #[error("the file {} does not exist", path.display())]
    MissingFile {
        /// The file.
        path: PathBuf,
    },
    /// A file that cannot be read.
    #[error("{} cannot be read: {message}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Message of the operating system.
        message: String,
    },
    /// A file that is not text.
    #[error("{}", .0.message)]
    NotText(FileError),
    /// The system does not report changes in a folder.
    #[error("changes in {} are not seen: {message}", .path.display())]
    Unwatchable {
        /// The folder.
        path: PathBuf,
        /// Message of the operating system.
        message: String,
    },
    /// The store of runs cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A workflow that cannot run.
    #[error(transparent)]
    Invalid(#[from] PlanError),
    /// `weft.toml` does not fit.
    #[error("{}", .0.message)]
    Settings(FileError),
    /// A file that is not valid JSON.
    #[error("{}", .0.message)]
    Json(FileError),
    /// A workflow file that is none.
    #[error("{}", .0.message)]
    Workflow(FileError),
    /// A profile that is none.
    #[error("{}", .0.message)]
    Profile(FileError),
    /// A file of triggers that cannot be used.
    #[error("{}", .0.message)]
    Trigger(FileError),
    /// No trigger of that id.
    #[error("unknown trigger `{id}`")]
    UnknownTrigger {
        /// The id.
        id: String,
        /// Suggested id.
        near: Option<String>,
    },
    /// No agent of that id.
    #[error("unknown agent `{id}`")]
    UnknownAgent {
        /// The id.
        id: String,
        /// Suggested id.
        near: Option<String>,
    },
    /// No workflow of that id.
    #[error("unknown workflow `{id}`")]
    UnknownWorkflow {
        /// The id.
        id: String,
        /// Suggested id.
        near: Option<String>,
    },
    /// A text that no workflow may have as its id.
    #[error("`{id}` can be no id of a workflow")]
    BadWorkflowId {
        /// The text.
        id: String,
    },
    /// A workflow file whose name can be no id.
    #[error("{}", .0.message)]
    WorkflowName(FileError),
    /// A skill that is not a workflow.
    #[error("`{id}` is not a workflow, and only workflows are skills")]
    NoSkill {
        /// The id.
        id: String,
    },
    /// A tool that an agent has not.
    #[error("the agent `{agent}` has no tool `{id}`")]
    NotItsTool {
        /// The agent.
        agent: String,
        /// The tool.
        id: String,
        /// Suggested id among its tools.
        near: Option<String>,
    },
    /// A file that cannot be written.
    #[error("{} cannot be written: {message}", path.display())]
    NotWritten {
        /// The file.
        path: PathBuf,
        /// Message of the operating system.
        message: String,
    },
    /// A file that another program changed between reading and writing it.
    #[error("{} has changed meanwhile", path.display())]
    ChangedMeanwhile {
        /// The file.
        path: PathBuf,
    },
    /// Two agents of one id.
    #[error("two agents have the id `{id}`: {} and {}", first.display(), second.display())]
    DuplicateAgent {
        /// The id.
        id: String,
        /// One file.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// A profile names a tool that is not there.
    #[error("agent `{agent}` lists the tool `{tool}`, which does not exist")]
    UnknownTool {
        /// The agent.
        agent: String,
        /// The tool.
        tool: String,
        /// Suggested id.
        near: Option<String>,
        /// The profile.
        path: PathBuf,
    },
    /// No tool of that id.
    #[error("unknown tool `{id}`")]
    UnknownToolId {
        /// The id.
        id: String,
        /// Suggested id.
        near: Option<String>,
    },
    /// A tool that is known and cannot be used.
    #[error(transparent)]
    Tool(Box<BrokenTool>),
    /// `flows.json` cannot be used.
    #[error("{source}")]
    Flows {
        /// The file.
        path: PathBuf,
        /// Everything that is wrong with it.
        source: Box<FlowsError>,
    },
    /// A workflow that cannot deliberate for an agent.
    #[error("the workflow `{workflow}` cannot deliberate: {message}")]
    Deliberation {
        /// Its id.
        workflow: String,
        /// Reason.
        message: String,
    },
    /// No model, no key, no such entry.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// An agent names a model that cannot be used.
    #[error("agent `{agent}`: {source}")]
    AgentModel {
        /// The agent.
        agent: String,
        /// Its file.
        path: PathBuf,
        /// Reason.
        source: ModelError,
    },
    /// A script that is none.
    #[error("{}: {source}", path.display())]
    Script {
        /// The file.
        path: PathBuf,
        /// Error in the script.
        source: ScriptError,
    },
    /// Tools that cannot be registered.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// An agent that cannot run.
    #[error(transparent)]
    Agent(#[from] AgentError),
}

impl ProjectError {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoProject { .. } => "no_project",
            Self::NotTrusted { .. } => "not_trusted",
            Self::MissingFile { .. } => "missing_file",
            Self::Unreadable { .. } => "unreadable_file",
            Self::NotText(_) => "bad_text",
            Self::Unwatchable { .. } => "unwatchable_folder",
            Self::Settings(_) => "bad_settings",
            Self::Json(_) => "bad_json",
            Self::Workflow(_) => "bad_workflow",
            Self::Profile(_) => "bad_profile",
            Self::Trigger(_) => "bad_trigger_file",
            Self::UnknownTrigger { .. } => "unknown_trigger",
            Self::UnknownAgent { .. } => "unknown_agent",
            Self::UnknownWorkflow { .. } => "unknown_workflow",
            Self::BadWorkflowId { .. } | Self::WorkflowName(_) => "bad_workflow_id",
            Self::NoSkill { .. } => "no_skill",
            Self::NotWritten { .. } => "not_written",
            Self::ChangedMeanwhile { .. } => "changed_meanwhile",
            Self::DuplicateAgent { .. } => "duplicate_agent",
            Self::UnknownTool { .. } | Self::UnknownToolId { .. } | Self::NotItsTool { .. } => "unknown_tool",
            Self::Tool(broken) => broken.code,
            Self::Flows { source, .. } => source.code(),
            Self::Deliberation { .. } => "bad_deliberation",
            Self::Model(source) | Self::AgentModel { source, .. } => source.code(),
            Self::Script { source, .. } => source.code(),
            Self::Registry(error) => error.code(),
            Self::Agent(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Invalid(_) => "invalid",
        }
    }

    /// The file it is about, with line and column where there are some.
    #[must_use]
    pub fn place(&self) -> Option<(&Path, Option<usize>, Option<usize>)> {
        match self {
            Self::Settings(at)
            | Self::NotText(at)
            | Self::Json(at)
            | Self::Workflow(at)
            | Self::Profile(at)
            | Self::Trigger(at)
            | Self::WorkflowName(at) => Some((&at.path, at.line, at.column)),
            Self::Tool(broken) => broken.place.as_ref().map(|at| (at.path.as_path(), at.line, at.column)),
            Self::Flows { path, source } => match **source {
                FlowsError::Json { line, column, .. } => Some((path, Some(line), Some(column))),
                _ => Some((path, None, None)),
            },
            Self::UnknownTool { path, .. } | Self::AgentModel { path, .. } => Some((path, None, None)),
            Self::Script { path, source } => Some((path, Some(source.line), None)),
            Self::NoProject { .. }
            | Self::NotTrusted { .. }
            | Self::MissingFile { .. }
            | Self::Unreadable { .. }
            | Self::Unwatchable { .. }
            | Self::UnknownAgent { .. }
            | Self::UnknownTrigger { .. }
            | Self::UnknownWorkflow { .. }
            | Self::BadWorkflowId { .. }
            | Self::NoSkill { .. }
            | Self::NotItsTool { .. }
            | Self::NotWritten { .. }
            | Self::ChangedMeanwhile { .. }
            | Self::DuplicateAgent { .. }
            | Self::UnknownToolId { .. }
            | Self::Deliberation { .. }
            | Self::Model(_)
            | Self::Registry(_)
            | Self::Store(_)
            | Self::Invalid(_)
            | Self::Agent(_) => None,
        }
    }

    /// Suggested fix, for the user.
    #[must_use]
    pub fn help(&self) -> Option<String> {
        let did_you_mean =
            |near: &Option<String>| near.as_ref().map(|near| format!("did you mean `{near}`?"));
        match self {
            Self::NoProject { .. } => Some("make a project with `weft init`, or name one with -C DIR".into()),
            Self::NotTrusted { root, .. } => Some(format!(
                "look at its files, then `weft trust {}`; or name another one with -C DIR",
                root.display()
            )),
            Self::UnknownAgent { near, .. } => {
                did_you_mean(near).or_else(|| Some("see `weft agent list`".into()))
            }
            Self::UnknownTrigger { near, .. } => {
                did_you_mean(near).or_else(|| Some("see `weft trigger list`".into()))
            }
            Self::Trigger(_) => Some(
                "docs/guide/triggers.md shows a file, docs/schema/triggers.schema.json names every key"
                    .into(),
            ),
            Self::UnknownWorkflow { near, .. } => {
                did_you_mean(near).or_else(|| Some("see `weft workflow list`".into()))
            }
            Self::UnknownTool { near, .. } => {
                did_you_mean(near).or_else(|| Some("take it out of tool_ids_inventory".into()))
            }
            Self::BadWorkflowId { .. } | Self::WorkflowName(_) => Some(ID_RULE.into()),
            Self::NotItsTool { near, .. } => did_you_mean(near),
            Self::UnknownToolId { near, .. } => {
                did_you_mean(near).or_else(|| Some("see `weft tool list`".into()))
            }
            Self::Tool(broken) => broken.help.clone(),
            Self::Flows { .. } => {
                Some("docs/guide/flows.md shows a file, docs/schema/flows.schema.json names every key".into())
            }
            Self::DuplicateAgent { .. } => Some("give one of them another id".into()),
            Self::Model(source) | Self::AgentModel { source, .. } => Some(source.help()),
            Self::MissingFile { .. } => Some("check the path".into()),
            Self::ChangedMeanwhile { .. } => Some("nothing was written; try again".into()),
            Self::Unreadable { .. } | Self::NotWritten { .. } => Some("check the permissions".into()),
            Self::Unwatchable { .. } => Some("start again to see changes of files".into()),
            Self::NotText(_) => Some("save it as UTF-8".into()),
            Self::Json(_) => Some("fix the JSON at this place".into()),
            Self::Workflow(_) => Some(
                "docs/guide/workflows.md shows a file, docs/schema/workflow.schema.json names every key"
                    .into(),
            ),
            Self::Profile(_) => Some(
                "docs/guide/agents.md shows a profile, docs/schema/agent-profile.schema.json names every key"
                    .into(),
            ),
            Self::Store(error) => Some(error.hint().into()),
            Self::Invalid(_) => Some("`weft workflow check` shows where".into()),
            Self::Script { .. } => {
                Some("a script holds one JSON object a line, such as {\"text\": \"…\"}".into())
            }
            Self::Deliberation { workflow, .. } => Some(format!("weft workflow check {workflow}")),
            Self::Settings(_) | Self::NoSkill { .. } | Self::Registry(_) | Self::Agent(_) => None,
        }
    }

    pub(crate) fn workflow(path: &Path, error: &LoadError) -> Self {
        let (line, column) = match error {
            LoadError::Syntax { line, column, .. } => (Some(*line), Some(*column)),
            _ => (None, None),
        };
        let message = match error {
            LoadError::Syntax { message, .. } => message.clone(),
            other => other.to_string(),
        };
        Self::Workflow(FileError { path: path.to_owned(), line, column, message })
    }
}

impl From<ToolLookupError> for ProjectError {
    fn from(error: ToolLookupError) -> Self {
        match error {
            ToolLookupError::Unknown(unknown) => {
                Self::UnknownToolId { id: unknown.name, near: unknown.near.map(|near| near.to_string()) }
            }
            ToolLookupError::Broken(broken) => Self::Tool(broken),
            other => Self::Tool(Box::new(BrokenTool::new(other.code(), other.to_string()))),
        }
    }
}

impl From<BrokenTool> for ProjectError {
    fn from(broken: BrokenTool) -> Self {
        Self::Tool(Box::new(broken))
    }
}

impl From<ProjectError> for BrokenTool {
    fn from(error: ProjectError) -> Self {
        let place = error.place().map(|(path, line, column)| FilePlace::new(path).at(line, column));
        let broken = Self::new(error.code(), error.to_string()).with_place(place);
        match error.help() {
            Some(help) => broken.with_help(help),
            None => broken,
        }
    }
}
