//! Commands about sessions and `flows.json`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Approve, ContextArguments};

#[derive(Debug, Args)]
pub(crate) struct ChatArguments {
    /// The message. Default: each line of stdin. `/help` lists the commands of the prompt.
    pub(crate) message: Option<String>,
    /// Continue the session of that name, or begin it. Default: a new one, whose name is printed.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Give the session back to the agent first, if a person took it over.
    #[arg(long)]
    pub(crate) give_back: bool,
    /// Open the session first, if it was closed.
    #[arg(long)]
    pub(crate) reopen: bool,
    /// Play replies from a file, one a line, in place of the model.
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
    /// Decision on calls that need an approval.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) approve: Approve,
    #[command(flatten)]
    pub(crate) values: ContextArguments,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FlowCommand {
    /// List flows, system actions and timers.
    List,
    /// Check flows.json: everything that is wrong with it, at once.
    Check,
    /// Show what a message would set off, and why. Nothing is run.
    Match {
        /// The message; `-` reads stdin.
        text: String,
    },
}
