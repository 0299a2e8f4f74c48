//! Place of a request in a run.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct RequestArguments {
    /// The turn is one of the agent that answers this call.
    #[arg(long, value_name = "CALL", requires = "request")]
    pub(crate) call: Option<String>,
    /// The turn is one of the agent that this node runs.
    #[arg(long, value_name = "PATH", requires = "request")]
    pub(crate) path: Option<String>,
    /// The request for the summary of the older part of the conversation in that turn.
    #[arg(long, requires = "request")]
    pub(crate) summary: bool,
}
