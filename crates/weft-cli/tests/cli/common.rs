//! Starting the program and looking at what it did.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
pub(crate) use weft_harness::write;

/// Output and exit code of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: i32,
}

impl Ran {
    /// The one JSON value on stdout.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// The JSON values on the lines of stdout.
    #[track_caller]
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{self:#?}");
        self
    }
}

/// The program with no model in its environment.
pub(crate) fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
    command.current_dir(folder).env("NO_COLOR", "1");
    for variable in
        ["OPENAI_BASE_URL", "OPENAI_MODEL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"]
    {
        command.env_remove(variable);
    }
    command
}

pub(crate) fn weft(folder: &Path, arguments: &[&str]) -> Ran {
    weft_with(folder, arguments, "", &[])
}

/// Runs the program with text on stdin and variables in its environment.
pub(crate) fn weft_with(folder: &Path, arguments: &[&str], input: &str, variables: &[(&str, &str)]) -> Ran {
    let mut command = command(folder);
    command.args(arguments).envs(variables.iter().copied());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that does not read closes the pipe.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    Ran {
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
        code: output.status.code().unwrap_or(-1),
    }
}

/// A folder of its own for one test, with the example project in it.
pub(crate) fn desk() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    weft(folder.path(), &["init"]).ok();
    folder
}
