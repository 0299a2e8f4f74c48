//! Environment of a program: what its file lists, and nothing more.

use std::ffi::OsString;

use agent_types::{Problem, Redactor, nearest};
use tool_registry::{ToolError, ToolErrorKind};

use crate::error::CommandToolError;
use crate::file::CommandToolFile;
use crate::policy::CommandPolicy;

/// Variables that hold no secrets and may be handed on.
const COMMON: [&str; 10] =
    ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT"];

/// Beginning of a secret in a value.
const SECRET: &str = "{$secret.";

/// A part of a variable's value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Secret(String),
}

/// Variables of a program.
#[derive(Debug, Clone)]
pub(crate) struct Environment {
    variables: Vec<(String, Vec<Piece>)>,
    handed_on: Vec<String>,
}

/// Variables of one call, and what takes their secrets out of texts.
pub(crate) struct Filled {
    pub(crate) variables: Vec<(String, OsString)>,
    pub(crate) masks: Redactor,
    /// Bytes of the longest secret.
    pub(crate) longest: usize,
}

impl Environment {
    /// The variables of a file.
    ///
    /// # Errors
    /// A secret that the program may not have.
    pub(crate) fn new(
        file: &CommandToolFile,
        program: &str,
        policy: &CommandPolicy,
        problems: &mut Vec<Problem>,
    ) -> Result<Self, CommandToolError> {
        problems.extend(file.env_from.iter().filter_map(|name| unknown(name)));
        let mut variables = Vec::new();
        for (name, value) in &file.env {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                let message = format!("`{name}` can be no variable of an environment");
                problems.push(Problem::error("command_environment", message).path("env"));
            }
            let pieces = pieces(value);
            for piece in &pieces {
                if let Piece::Secret(secret) = piece
                    && !policy.gives(secret, program)
                {
                    return Err(CommandToolError::SecretNotAllowed {
                        name: secret.clone(),
                        program: program.to_owned(),
                    });
                }
            }
            variables.push((name.clone(), pieces));
        }
        Ok(Self { variables, handed_on: file.env_from.clone() })
    }

    /// The variables with their secrets.
    ///
    /// # Errors
    /// A secret that is not set.
    pub(crate) fn filled(&self) -> Result<Filled, ToolError> {
        let (mut secrets, mut variables) = (Vec::new(), Vec::new());
        let own = self.handed_on.iter().filter_map(|name| Some((name.clone(), std::env::var_os(name)?)));
        variables.extend(own);
        for (name, pieces) in &self.variables {
            let mut value = String::new();
            for piece in pieces {
                match piece {
                    Piece::Text(text) => value.push_str(text),
                    Piece::Secret(name) => {
                        let secret = std::env::var(name).ok().filter(|secret| !secret.is_empty());
                        let secret = secret.ok_or_else(|| missing(name))?;
                        value.push_str(&secret);
                        secrets.push(secret);
                    }
                }
            }
            variables.push((name.clone(), value.into()));
        }
        let longest = secrets.iter().map(String::len).max().unwrap_or(0);
        Ok(Filled { variables, masks: Redactor::of_any_length(secrets), longest })
    }
}

fn unknown(name: &str) -> Option<Problem> {
    let message =
        format!("`{name}` is not handed on; give it in `env`, as `{{$secret.{name}}}` if it is secret");
    (!COMMON.contains(&name)).then(|| {
        Problem::error("command_environment", message).path("env_from").suggest(nearest(name, COMMON))
    })
}

fn missing(name: &str) -> ToolError {
    ToolError::new(ToolErrorKind::Refused, format!("the secret `{name}` is not set"))
        .with_code("missing_secret")
        .with_detail(format!("set {name} in the environment"))
}

fn pieces(value: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = value;
    while let Some((before, behind)) = rest.split_once(SECRET) {
        let Some((name, after)) = behind.split_once('}') else { break };
        if !before.is_empty() {
            pieces.push(Piece::Text(before.to_owned()));
        }
        pieces.push(Piece::Secret(name.to_owned()));
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    pieces
}
