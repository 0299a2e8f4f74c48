//! Commands about sessions and `flows.json`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Approve, ContextArguments, InputArguments};

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
    /// Id of the message: one that comes again has the run and the answer of the first.
    #[arg(long, value_name = "ID", requires = "message")]
    pub(crate) message_id: Option<String>,
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
    /// Run a flow or a system action by its id.
    Run {
        /// Its id.
        id: String,
        #[command(flatten)]
        inputs: InputArguments,
        /// Session that it acts in. Default: one that is gone with the run.
        #[arg(long, value_name = "ID")]
        session: Option<String>,
        #[command(flatten)]
        values: ContextArguments,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List the sessions: those that wait for a person first, the longest before the others.
    List {
        /// Only those that wait for a person.
        #[arg(long)]
        waiting: bool,
    },
    /// Show a session: who answers, what is known of the user, and everything that was said.
    Show {
        /// Its id.
        session: String,
    },
    /// Answer in place of the agent from now on.
    Take {
        #[command(flatten)]
        seat: SeatArguments,
        /// Reason.
        #[arg(long)]
        reason: Option<String>,
    },
    /// Answer as a person.
    Say {
        #[command(flatten)]
        seat: SeatArguments,
        /// The text; `-` reads stdin.
        text: String,
    },
    /// Let the agent answer again; it has read what was said.
    GiveBack {
        #[command(flatten)]
        seat: SeatArguments,
    },
    /// Close a session: it sends no replies any more.
    Close {
        #[command(flatten)]
        seat: SeatArguments,
    },
    /// Open a session that was closed.
    Reopen {
        #[command(flatten)]
        seat: SeatArguments,
    },
    /// Note something that the user does not see.
    Note {
        #[command(flatten)]
        seat: SeatArguments,
        /// The text; `-` reads stdin.
        text: String,
    },
    /// Delete what is known of the user.
    ForgetProfile {
        #[command(flatten)]
        seat: SeatArguments,
    },
}

#[derive(Debug, Args)]
pub(crate) struct SeatArguments {
    /// Id of the session.
    pub(crate) session: String,
    /// Name of the person who acts.
    #[arg(long = "as", value_name = "NAME", default_value = "person")]
    pub(crate) person: String,
}
