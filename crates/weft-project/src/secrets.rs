//! Secrets that the files of a project name.

use std::path::{Path, PathBuf};

use http_caller::RefusedSecret;
use serde_json::Value;

use crate::files::read_file;
use crate::project::Project;

/// A secret in a file that may not go where the file sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SecretFault {
    /// The file.
    pub path: PathBuf,
    /// Line of the first placeholder, from 1.
    pub line: Option<usize>,
    /// Secret and host.
    pub secret: RefusedSecret,
}

impl SecretFault {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "secret_not_allowed"
    }

    /// The fault, in one line.
    #[must_use]
    pub fn message(&self) -> String {
        format!("the secret `{}` may not be sent to {}", self.secret.name, self.secret.host)
    }

    /// Suggested fix: the lines to add.
    #[must_use]
    pub fn help(&self) -> String {
        format!("if you trust the file with it, {}", self.secret.lines)
    }
}

impl Project {
    /// Secrets in the files of tools, workflows and flows that the settings do not allow where the files send them.
    #[must_use]
    pub fn refused_secrets(&self) -> Vec<SecretFault> {
        let mut files = self.providers().files();
        files.extend(self.workflows().files().map(|file| file.path.clone()));
        files.insert(self.root().join("flows.json"));
        files.iter().flat_map(|path| refused_in(self, path)).collect()
    }
}

/// Secrets in a file that are not allowed where it sends them.
fn refused_in(project: &Project, path: &Path) -> Vec<SecretFault> {
    // Files that cannot be read are reported by their kinds.
    let Ok(text) = read_file(path) else { return Vec::new() };
    let Ok(file) = serde_json::from_str::<Value>(&text) else { return Vec::new() };
    let fault = |secret: RefusedSecret| {
        let placeholder = format!("{{$secret.{}}}", secret.name);
        let line = text.lines().position(|line| line.contains(&placeholder)).map(|at| at + 1);
        SecretFault { path: path.to_owned(), line, secret }
    };
    project.caller().refused_secrets(&file).into_iter().map(fault).collect()
}
