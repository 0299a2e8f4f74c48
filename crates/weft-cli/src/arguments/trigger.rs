//! Commands about triggers.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Approve;

#[derive(Debug, Subcommand)]
pub(crate) enum TriggerCommand {
    /// List the triggers: what fires them, when, and how often they fired.
    List,
    /// Fire a trigger now, and follow its run.
    Fire(TriggerFireArguments),
    /// List the events that reached no agent.
    Dead,
}

#[derive(Debug, Args)]
pub(crate) struct TriggerFireArguments {
    /// Id of the trigger.
    pub(crate) id: String,
    /// Data for the agent: `k=text`, `k:=json`, `k=@file`. May be repeated.
    #[arg(short = 'i', value_name = "INPUT")]
    pub(crate) inputs: Vec<String>,
    /// Play replies from a file, one a line, in place of the model.
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
    /// Decision on calls that need an approval.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) approve: Approve,
}
