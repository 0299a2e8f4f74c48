//! Kinds of triggers.

use std::time::Duration;

use tool_registry::fits_pattern;

use crate::cron::CronTimes;
use crate::signature::Signature;

/// Cause by which a trigger fires.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum TriggerKind {
    /// Times of day.
    Cron(CronTimes),
    /// So often.
    Every(Duration),
    /// Changes of files that fit one of these patterns.
    Files(Vec<String>),
    /// A request of another system.
    Webhook(Webhook),
}

/// A request of another system.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Webhook {
    /// Name of the secret that the request must show.
    pub secret: Option<String>,
    /// Signature that it must carry.
    pub signature: Option<Signature>,
    /// Limit of its body, in bytes.
    pub max_body: usize,
}

impl Webhook {
    /// Names of the secrets without which it is closed.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let key = self.signature.as_ref().map(|signature| &signature.secret);
        self.secret.iter().chain(key).map(String::as_str)
    }
}

impl TriggerKind {
    /// Name of the kind.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Cron(_) => "cron",
            Self::Every(_) => "every",
            Self::Files(_) => "files",
            Self::Webhook(_) => "webhook",
        }
    }

    /// Times at which it fires, as text; empty where it has none.
    pub(crate) fn times(&self) -> String {
        match self {
            Self::Cron(times) => times.as_str().to_owned(),
            Self::Every(every) => format!("{} ms", every.as_millis()),
            Self::Files(_) | Self::Webhook(_) => String::new(),
        }
    }

    /// Returns `true` if a file, by its path from the project's folder, is meant.
    #[must_use]
    pub fn is_of_file(&self, path: &str) -> bool {
        let Self::Files(patterns) = self else { return false };
        let names: Vec<&str> = path.split('/').collect();
        patterns.iter().any(|pattern| fits_pattern(&pattern.split('/').collect::<Vec<_>>(), &names))
    }

    /// Returns `true` if files are meant in folders of any name: a pattern begins with a wildcard, as `**/*.md` does.
    #[must_use]
    pub fn is_of_any_folder(&self) -> bool {
        let Self::Files(patterns) = self else { return false };
        let is_open = |pattern: &String| match pattern.split_once('/') {
            Some((first, _)) => first.contains('*'),
            None => pattern == "**",
        };
        patterns.iter().any(is_open)
    }

    /// Folders in which files are meant, from the project's folder.
    #[must_use]
    pub fn folders(&self) -> Vec<String> {
        let Self::Files(patterns) = self else { return Vec::new() };
        let folder = |pattern: &String| {
            let plain: Vec<&str> = pattern.split('/').take_while(|part| !part.contains('*')).collect();
            let is_file = plain.len() == pattern.split('/').count();
            plain[..plain.len() - usize::from(is_file)].join("/")
        };
        patterns.iter().map(folder).collect()
    }
}
