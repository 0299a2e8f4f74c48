//! Errors of a store.

use agent_types::AskKind;

/// Reason why a store refused or failed a request. Everything acknowledged before is safe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No run has that id.
    #[error("unknown run `{run}`")]
    UnknownRun {
        /// The id.
        run: String,
    },
    /// Another owner executes the run, in this process or another one.
    #[error("the run `{run}` is executing, in this process or another one")]
    RunBusy {
        /// The id.
        run: String,
    },
    /// The run has ended and cannot resume.
    #[error("the run `{run}` has ended: {status}")]
    RunEnded {
        /// The id.
        run: String,
        /// Status with which the run ended.
        status: String,
    },
    /// The run has no open question of that id.
    #[error("the run `{run}` has no open question `{ask}`")]
    UnknownAsk {
        /// The run.
        run: String,
        /// The question.
        ask: String,
    },
    /// An answer that does not answer the question, which stays open.
    #[error("`{ask}` takes {}", wanted(*kind))]
    UnfitAnswer {
        /// The question.
        ask: String,
        /// Subject of the question.
        kind: AskKind,
    },
    /// No node of that path has given anything, as far as it counts.
    #[error("no node `{path}` has ended in the run `{run}` up to there{}", did_you_mean(near.as_deref()))]
    UnknownNode {
        /// The run.
        run: String,
        /// The path.
        path: String,
        /// One that has.
        near: Option<String>,
    },
    /// An event that the run does not have, or what led to it is no longer kept.
    #[error("the run `{run}` keeps no event {seq} with what led to it")]
    NotKept {
        /// The run.
        run: String,
        /// The event.
        seq: u64,
    },
    /// The file was written by a newer program.
    #[error("the store has the format {found}, this program knows formats up to {known}")]
    Newer {
        /// Format of the file.
        found: i64,
        /// The newest format known here.
        known: i64,
    },
    /// The file is damaged.
    #[error("the store is damaged: {message}")]
    Corrupt {
        /// Description of the damage.
        message: String,
    },
    /// The disk is full.
    #[error("the disk is full")]
    Full,
    /// Another process holds the file, and did not give it up in time.
    #[error("the store is locked by another process")]
    Locked,
    /// The file or its folder may not be written.
    #[error("the store cannot be written: {message}")]
    ReadOnly {
        /// Message of the operating system.
        message: String,
    },
    /// Anything else that the file system or the database said.
    #[error("the store failed: {message}")]
    Io {
        /// Message of the database.
        message: String,
    },
}

impl StoreError {
    /// For logs, tests and the wire; never reworded.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::UnknownRun { .. } => "unknown_run",
            Self::RunBusy { .. } => "run_busy",
            Self::RunEnded { .. } => "run_ended",
            Self::UnknownAsk { .. } => "unknown_ask",
            Self::UnfitAnswer { .. } => "unfit_answer",
            Self::UnknownNode { .. } => "unknown_node",
            Self::NotKept { .. } => "not_kept",
            Self::Newer { .. } => "store_newer",
            Self::Corrupt { .. } => "store_corrupt",
            Self::Full => "store_full",
            Self::Locked => "store_locked",
            Self::ReadOnly { .. } => "store_read_only",
            Self::Io { .. } => "store_failed",
        }
    }

    /// Returns a suggested fix.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::UnknownRun { .. } => "`weft runs list` shows the runs",
            Self::RunBusy { .. } => "wait until it has ended, or cancel it where it runs",
            Self::RunEnded { .. } => "`weft runs fork` makes a new run from any of its events",
            Self::UnknownAsk { .. } => "`weft runs show` lists the open questions",
            Self::UnfitAnswer { kind: AskKind::Approval, .. } => {
                "`weft runs approve`, with `--deny REASON` to refuse"
            }
            Self::UnfitAnswer { .. } => "`weft runs answer RUN retry`, `skip` or `done`",
            Self::UnknownNode { .. } => "`weft runs show` prints the paths",
            Self::NotKept { .. } => "`weft runs show` prints the events that are there",
            Self::Newer { .. } => "use the newer program, or another file: `[store] path` in weft.toml",
            Self::Corrupt { .. } => {
                "keep a copy of the file, then move it away: a new one is made; `sqlite3 FILE .recover` may save old runs"
            }
            Self::Full => {
                "free some space (`weft runs rm` removes old runs), then continue with `weft runs resume`"
            }
            Self::Locked => "end the process that holds the file, then continue with `weft runs resume`",
            Self::ReadOnly { .. } => {
                "make the folder writable, or name another file: `[store] path` in weft.toml"
            }
            Self::Io { .. } => "look at the file and its folder: `[store] path` in weft.toml",
        }
    }

    pub(crate) fn io(error: impl Into<Box<dyn std::error::Error>>) -> Self {
        Self::Io { message: error.into().to_string() }
    }

    /// The error of a file operation on `path`.
    pub(crate) fn file(path: &std::path::Path, error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        let message = format!("{}: {error}", path.display());
        match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { message },
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::Full,
            _ => Self::Io { message },
        }
    }
}

/// Describes the form of an answer to such a question.
const fn wanted(kind: AskKind) -> &'static str {
    match kind {
        AskKind::Approval => "`{\"approve\": true}` or `{\"deny\": reason}`: a call waits for approval",
        AskKind::Outcome => "`retry`, `skip` or `done`: it was running when the process ended",
        _ => "another answer",
    }
}

fn did_you_mean(near: Option<&str>) -> String {
    near.map(|near| format!(", did you mean `{near}`?")).unwrap_or_default()
}
