//! Programs that may run, and the secrets that they may have.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Programs that tools may run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct CommandSettings {
    /// The programs, as `command` of a tool's file names them: `wc`, or `tools/report.sh` from the project's folder. What is
    /// not listed does not run.
    pub allow: Vec<String>,
}

impl CommandSettings {
    /// Returns `true` where nothing may run.
    #[must_use]
    pub const fn is_default(&self) -> bool {
        self.allow.is_empty()
    }
}

/// Folder, programs and secrets of the command tools of a project.
#[derive(Debug, Clone, Default)]
pub struct CommandPolicy {
    root: PathBuf,
    programs: Vec<String>,
    /// Programs that each secret may be given to.
    secrets: BTreeMap<String, Vec<String>>,
}

impl CommandPolicy {
    /// Nothing may run, in this folder.
    #[must_use]
    pub fn new(root: impl AsRef<Path>) -> Self {
        let root = root.as_ref();
        let root = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
        Self { root, ..Self::default() }
    }

    /// The same, where these programs may run too.
    #[must_use]
    pub fn allowing<P: Into<String>>(mut self, programs: impl IntoIterator<Item = P>) -> Self {
        self.programs.extend(programs.into_iter().map(Into::into));
        self
    }

    /// The same, where a program may have a secret.
    #[must_use]
    pub fn giving(mut self, secret: impl Into<String>, program: impl Into<String>) -> Self {
        self.secrets.entry(secret.into()).or_default().push(program.into());
        self
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn allows(&self, program: &str) -> bool {
        self.programs.iter().any(|allowed| allowed == program)
    }

    pub(crate) fn gives(&self, secret: &str, program: &str) -> bool {
        self.secrets.get(secret).is_some_and(|programs| programs.iter().any(|given| given == program))
    }
}
