//! The command line.

mod agent;
mod model;
mod request;
mod server;
mod session;
mod trigger;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use agent::{
    AgentChatArguments, AgentCommand, AgentRunArguments, AgentToolArguments, TestArguments,
};
#[cfg(feature = "local-llm")]
pub(crate) use model::ModelCommand;
pub(crate) use model::{GrammarArguments, GrammarFormatArgument};
pub(crate) use request::RequestArguments;
pub(crate) use server::{McpArguments, ServeArguments};
pub(crate) use session::{ChatArguments, FlowCommand, SeatArguments, SessionCommand};
pub(crate) use trigger::{TriggerCommand, TriggerFireArguments};

/// Workflows as tools for language models, and the agents that call them.
#[derive(Debug, Parser)]
#[command(name = "weft", version, arg_required_else_help = true)]
pub(crate) struct Arguments {
    /// Folder of the project. Default: the working folder or the closest one above it that has a weft.toml.
    // An id of its own: `init` has a positional of that name, and a global option fills what has its id.
    #[arg(id = "project-directory", short = 'C', value_name = "DIR", global = true)]
    pub(crate) directory: Option<PathBuf>,

    /// Form of what is printed on stdout.
    #[arg(long, value_enum, default_value_t, global = true)]
    pub(crate) output: Output,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Form of what is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    #[default]
    Text,
    /// One JSON value.
    Json,
    /// One JSON value a line; of a run, its events.
    Jsonl,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a project to start from.
    Init {
        /// Folder to write it to.
        #[arg(default_value = ".")]
        directory: PathBuf,
    },
    /// Run the example project: an agent asks the clock, calls a workflow, answers.
    Demo(DemoArguments),
    /// Agents of the project.
    #[command(subcommand)]
    Agent(AgentCommand),
    /// Talk in a session: flows, system actions and timers of flows.json, and the agent that they stand around.
    Chat(ChatArguments),
    /// Flows of flows.json.
    #[command(subcommand)]
    Flow(FlowCommand),
    /// Sessions, for the people who answer in place of the agent.
    #[command(subcommand)]
    Session(SessionCommand),
    /// Triggers of agents: times, files, webhooks, events.
    #[command(subcommand)]
    Trigger(TriggerCommand),
    /// Run scenarios: what an agent must do, as JSON lines.
    Test(TestArguments),
    /// Workflows of the project, or of a file.
    #[command(subcommand)]
    Workflow(WorkflowCommand),
    /// Runs that the project keeps.
    #[command(subcommand)]
    Runs(RunsCommand),
    /// Types of nodes.
    #[command(subcommand)]
    Node(NodeCommand),
    /// Tools: built-in ones, those of `tools/*.tool.json`, workflows.
    #[command(subcommand)]
    Tool(ToolCommand),
    /// Read a model's reply from stdin into calls.
    Parse(ParseArguments),
    /// Write calls from stdin as a model would.
    Encode {
        /// File with the tools: a list of {name, parameters, description}.
        #[arg(long, value_name = "FILE")]
        tools: PathBuf,
    },
    /// Print the tool prompt that a model receives.
    Prompt(PromptArguments),
    /// Print the grammar of free text or valid calls of these tools, for constrained decoding.
    Grammar(GrammarArguments),
    /// Weights of models that run in the process.
    #[cfg(feature = "local-llm")]
    #[command(subcommand)]
    Model(ModelCommand),
    /// Serve the project's tools to a client of the Model Context Protocol, over stdin and stdout.
    Mcp(McpArguments),
    /// Serve the project over HTTP: the page, REST, live events, agents as models, tools by MCP.
    Serve(ServeArguments),
    /// Turn graphs and descriptions of other systems into workflow and tool files.
    Import(ImportArguments),
    /// Trust a project that another user owns, so that commands in folders below it may use it.
    Trust {
        /// Folder of the project, or one below it. Default: the working folder.
        directory: Option<PathBuf>,
    },
    /// Check everything that the project needs: files, models, tool servers, the store, the port.
    Doctor,
    /// Print what a shell needs to complete commands.
    Completions {
        /// The shell; absent, that of the environment.
        #[arg(value_enum)]
        shell: Option<clap_complete::Shell>,
    },
    /// Say what a code means: of an error, an exit, an event. Without one, list all.
    Explain {
        /// The code.
        code: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    /// System that the file comes from.
    #[arg(value_enum)]
    pub(crate) kind: ImportKind,
    /// The file; its name without ending becomes the id.
    pub(crate) file: PathBuf,
    /// Folder to write to; absent, that of the project's workflows or tools.
    #[arg(long, value_name = "DIR")]
    pub(crate) to: Option<PathBuf>,
    /// Address that stands in place of the servers of an OpenAPI description.
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// Write over files that are there.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportKind {
    /// A `ComfyTavern` workflow or execution payload.
    Comfytavern,
    /// A graph of `ComfyUI`: as its editor saves it, or in the form of its API.
    Comfyui,
    /// A modular-agent workflow, in JSON or TOML.
    Modular,
    /// An OpenAPI 3 description in JSON or YAML: its operations become tools.
    Openapi,
    /// HTTP tool configurations `{name, description, parameters, endpoint}`, or a whole configuration with flows and an agent.
    Bu,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// Model to talk to instead of the script: a name that the server of OPENAI_BASE_URL knows, or `local`.
    #[arg(long, value_name = "ID")]
    pub(crate) model: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ContextArguments {
    /// A context value for HTTP requests, which the model can neither see nor set: `k=text`, `k:=json`. May be repeated.
    #[arg(long = "ctx", value_name = "VALUE")]
    pub(crate) ctx: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ToolCommand {
    /// List the tools.
    List(ToolScope),
    /// Show one tool: what it does and takes.
    Show {
        /// Id of the tool.
        id: String,
        #[command(flatten)]
        scope: ToolScope,
    },
    /// Check arguments against a tool's schema; without a tool, check the tool files.
    Check {
        /// Id of the tool.
        id: Option<String>,
        #[command(flatten)]
        scope: ToolScope,
        #[command(flatten)]
        inputs: InputArguments,
    },
    /// Call a tool.
    Call {
        /// Id of the tool.
        id: String,
        #[command(flatten)]
        scope: ToolScope,
        #[command(flatten)]
        inputs: InputArguments,
        #[command(flatten)]
        values: ContextArguments,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ToolScope {
    /// Only the tools of this agent.
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Approve {
    /// The run ends and says what waits.
    #[default]
    Ask,
    /// Everything that may be approved runs.
    All,
    /// Everything that needs approval is denied.
    None,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowCommand {
    /// List the workflows.
    List,
    /// Show one workflow: what it is for, takes and gives.
    Show {
        /// Id, or a path ending in .json.
        workflow: String,
    },
    /// Check a workflow.
    Check {
        /// Id, or a path ending in .json.
        workflow: String,
        /// Also check what a model needs to use it as a tool.
        #[arg(long)]
        as_tool: bool,
    },
    /// Run a workflow.
    Run(WorkflowRunArguments),
    /// Print a workflow in another form.
    Export {
        /// Id, or a path ending in .json.
        workflow: String,
        /// The form.
        #[arg(long, value_enum, default_value_t)]
        format: ExportFormat,
    },
    /// Print the nodes of the expanded workflow in the order in which they could run.
    Graph {
        /// Id, or a path ending in .json.
        workflow: String,
    },
    /// Print the schema of the workflow as a tool.
    Schema {
        /// Id, or a path ending in .json.
        workflow: String,
    },
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// A Mermaid flowchart.
    #[default]
    Mermaid,
    /// The workflow file.
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct WorkflowRunArguments {
    /// Id, or a path ending in .json.
    pub(crate) workflow: String,
    #[command(flatten)]
    pub(crate) inputs: InputArguments,
    /// Play replies from a file, one a line, in place of the models.
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
    /// Decision on calls that need an approval.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) approve: Approve,
    #[command(flatten)]
    pub(crate) values: ContextArguments,
}

#[derive(Debug, Args)]
pub(crate) struct InputArguments {
    /// An input: `k=text` (read as its slot says), `k:=json`, `k=@file`. May be repeated.
    #[arg(short = 'i', value_name = "INPUT")]
    pub(crate) inputs: Vec<String>,
    /// A file with an object of inputs; `-` reads stdin.
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// List the types.
    List {
        /// Language of the descriptions.
        #[arg(long)]
        lang: Option<LangArgument>,
    },
    /// Show one type: its slots and settings.
    Show {
        /// Full type, such as core:TextTemplate.
        node_type: String,
        /// Language of the type's description.
        #[arg(long)]
        lang: Option<LangArgument>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ParseArguments {
    /// File with the tools: a list of {name, parameters, description}.
    #[arg(long, value_name = "FILE")]
    pub(crate) tools: Option<PathBuf>,
    /// Read one request a line and print one result a line.
    #[arg(long)]
    pub(crate) jsonl: bool,
    /// Feed so many bytes at a time; the result is the same.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) stream: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct PromptArguments {
    /// File with the tools: a list of {name, parameters, description}.
    #[arg(long, value_name = "FILE", conflicts_with = "agent", required_unless_present = "agent")]
    pub(crate) tools: Option<PathBuf>,
    /// Id of an agent of the project.
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// Language of the rules and headings; absent, the agent's, else English.
    #[arg(long, value_enum)]
    pub(crate) lang: Option<LangArgument>,
    /// Print the request that this message would begin a run of the agent with, as JSON.
    #[arg(long, value_name = "MESSAGE", requires = "agent", conflicts_with_all = ["count", "dialect", "lang"],
        num_args = 0..=1, default_missing_value = "")]
    pub(crate) turn: Option<String>,
    /// Print the size of the catalogue instead of the text.
    #[arg(long, conflicts_with = "dialect")]
    pub(crate) count: bool,
    /// Print the tools in a provider's own form instead of the text.
    #[arg(long, value_enum)]
    pub(crate) dialect: Option<DialectArgument>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DialectArgument {
    /// Functions of chat completions.
    Openai,
    /// Tools of Anthropic's messages.
    Anthropic,
    /// Function declarations of Gemini.
    Gemini,
    /// Tools of the Model Context Protocol.
    Mcp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LangArgument {
    /// English.
    En,
    /// Chinese.
    Zh,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List the runs, newest first.
    List(RunsListArguments),
    /// Show one run: how it stands, its open questions, its events.
    Show {
        /// Id of the run; `last` is the newest one.
        run: String,
        /// Only the developer log: the passes of loops, with what each did and decided, and lines of `core:Log`.
        #[arg(long)]
        log: bool,
        /// Only the request that this turn sent to the model.
        #[arg(long, value_name = "TURN", conflicts_with = "log", value_parser = clap::value_parser!(u32).range(1..))]
        request: Option<u32>,
        #[command(flatten)]
        place: RequestArguments,
    },
    /// Follow a run of another process until it ends.
    Watch {
        /// Id of the run; `last` is the newest one.
        run: String,
        /// Begin behind this event.
        #[arg(long, value_name = "SEQ", default_value_t = 0)]
        after: u64,
    },
    /// Print the recorded events of a run; nothing is executed.
    Replay {
        /// Id of the run; `last` is the newest one.
        run: String,
    },
    /// Resume a run that was interrupted or is suspended.
    Resume(RunsResumeArguments),
    /// Continue a run that failed or was cancelled from its failure, with the files as they are now.
    Retry(RunsRetryArguments),
    /// Begin a run with what another one did up to an event.
    Fork(RunsForkArguments),
    /// Answer an open question, and resume the run.
    Answer(RunsAnswerArguments),
    /// Approve a call, with changed arguments where wanted, or deny it, and resume the run.
    Approve(RunsApproveArguments),
    /// End a run.
    Cancel {
        /// Id of the run; `last` is the newest one.
        run: String,
    },
    /// Print a whole run as one JSON value.
    Export {
        /// Id of the run; `last` is the newest one.
        run: String,
    },
    /// Remove runs that have ended.
    Rm(RunsRmArguments),
}

#[derive(Debug, Args)]
pub(crate) struct RunsListArguments {
    /// Only runs in this state: running, waiting, interrupted, ok, error, cancelled.
    #[arg(long)]
    pub(crate) status: Option<String>,
    /// Only runs of this agent.
    #[arg(long)]
    pub(crate) agent: Option<String>,
    /// Only runs of this workflow.
    #[arg(long)]
    pub(crate) workflow: Option<String>,
    /// So many at most.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) limit: usize,
}

#[derive(Debug, Args)]
pub(crate) struct RunsResumeArguments {
    /// Id of the run; `last` is the newest one.
    pub(crate) run: String,
    /// Resume with the workflow as it was when the run began.
    #[arg(long)]
    pub(crate) as_it_was: bool,
    /// Play replies from a file, one a line, in place of the models.
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RunsRetryArguments {
    /// Id of the run; `last` is the newest one.
    pub(crate) run: String,
    /// Play replies from a file instead of asking a model.
    #[arg(long)]
    pub(crate) script: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RunsForkArguments {
    /// Id of the run; `last` is the newest one.
    pub(crate) run: String,
    /// The last event to take over; absent, the end of the last node that `--set` names, or the last one before its end.
    #[arg(long, value_name = "SEQ")]
    pub(crate) at: Option<u64>,
    /// Replaces an output of a node: `PATH=TEXT` or `PATH:=JSON`. May be repeated.
    #[arg(long, value_name = "CHANGE")]
    pub(crate) set: Vec<String>,
    /// Resume with the workflow as it was when the run began.
    #[arg(long)]
    pub(crate) as_it_was: bool,
    /// Play replies from a file, one a line, in place of the models.
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RunsAnswerArguments {
    /// Id of the run; `last` is the newest one.
    pub(crate) run: String,
    /// The answer; what reads as JSON is JSON, anything else is a text.
    pub(crate) value: String,
    /// The question, where several are open.
    #[arg(long)]
    pub(crate) ask: Option<String>,
    /// Only record the answer.
    #[arg(long)]
    pub(crate) no_resume: bool,
    /// Resume with the workflow as it was when the run began.
    #[arg(long)]
    pub(crate) as_it_was: bool,
    /// Play replies from a file, one a line, in place of the models.
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RunsApproveArguments {
    /// Id of the run; `last` is the newest one.
    pub(crate) run: String,
    /// The call, where several wait.
    #[arg(long)]
    pub(crate) ask: Option<String>,
    /// Deny the call for this reason, which the model receives.
    #[arg(long, value_name = "REASON", conflicts_with = "arguments")]
    pub(crate) deny: Option<String>,
    /// Let it run with these arguments, a JSON object.
    #[arg(long, value_name = "JSON")]
    pub(crate) arguments: Option<String>,
    /// Only record the word.
    #[arg(long)]
    pub(crate) no_resume: bool,
    /// Play replies from a file, one a line, in place of the models.
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RunsRmArguments {
    /// Ids of runs.
    pub(crate) runs: Vec<String>,
    /// Those that have ended and began so many days ago.
    #[arg(long, value_name = "DAYS")]
    pub(crate) older_than: Option<u32>,
    /// Those that have ended, but for the newest so many.
    #[arg(long, value_name = "N")]
    pub(crate) keep: Option<usize>,
}
