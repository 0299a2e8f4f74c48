//! Commands about agents.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Approve, ContextArguments};

#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// List the agents.
    List,
    /// Show one agent: its profile and its tools.
    Show {
        /// Id of the agent.
        id: String,
    },
    /// Check that agents can run: their tools exist, their workflows have no problems.
    Check {
        /// Id of the agent; absent, all of them.
        id: Option<String>,
    },
    /// Answer a message, or an event that the agent listens to.
    Run(AgentRunArguments),
    /// Talk with an agent, line by line; `/help` shows what else can be written.
    Chat(AgentChatArguments),
    /// Offer a tool to an agent: writes its profile.
    AddTool(AgentToolArguments),
    /// Take a tool from an agent: writes its profile.
    RemoveTool(AgentToolArguments),
}

#[derive(Debug, Args)]
pub(crate) struct AgentRunArguments {
    /// Id of the agent.
    pub(crate) id: String,
    /// Message to the agent; `-` reads stdin.
    #[arg(required_unless_present = "event", conflicts_with = "event")]
    pub(crate) message: Option<String>,
    /// An image or a file that goes with the message. May be repeated.
    #[arg(long, value_name = "FILE", conflicts_with = "event")]
    pub(crate) attach: Vec<PathBuf>,
    /// An event in place of a message; the agent must listen to it (`subscribed_event_types`).
    #[arg(long, value_name = "NAME")]
    pub(crate) event: Option<String>,
    /// File with what the event says, as JSON; `-` reads stdin.
    #[arg(long, value_name = "FILE", requires = "event")]
    pub(crate) payload: Option<PathBuf>,
    /// File with a JSON Schema that the answer must fit.
    #[arg(long, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,
    /// Continue the conversation of that name, or begin it.
    #[arg(long, value_name = "ID")]
    pub(crate) thread: Option<String>,
    /// Play replies from a file, one a line, in place of the model.
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
    /// Decision on calls that need an approval.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) approve: Approve,
    #[command(flatten)]
    pub(crate) values: ContextArguments,
}

#[derive(Debug, Args)]
pub(crate) struct AgentChatArguments {
    /// Id of the agent.
    pub(crate) id: String,
    /// Continue the conversation of that name, or begin it. Default: a new one, whose name is printed.
    #[arg(long, value_name = "ID")]
    pub(crate) thread: Option<String>,
    /// Play replies from a file, one a line, in place of the model.
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
    /// Decision on calls that need an approval.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) approve: Approve,
    #[command(flatten)]
    pub(crate) values: ContextArguments,
}

#[derive(Debug, Args)]
pub(crate) struct AgentToolArguments {
    /// Id of the agent.
    pub(crate) agent: String,
    /// Id of the tool, such as `workflow:summarize_text`.
    pub(crate) tool: String,
    /// Offer a workflow under the heading Skills.
    #[arg(long)]
    pub(crate) skill: bool,
    /// Print the profile as it would be, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TestArguments {
    /// Files with one scenario a line; absent, `tests/*.jsonl` of the project.
    pub(crate) files: Vec<PathBuf>,
    /// Only scenarios whose id holds this.
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
    /// Write a scenario from this run of an agent behind those of the file (absent, `tests/recorded.jsonl`); `last` is
    /// the newest run.
    #[arg(long, value_name = "RUN")]
    pub(crate) record: Option<String>,
}
