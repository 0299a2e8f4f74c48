//! Starting the program and looking at what it did.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// What a command printed and how it ended.
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

/// Writes a file into a folder and gives its path.
pub(crate) fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}

/// A request as a server of a test saw it.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) body: String,
}

/// A server of its own that answers with a status and JSON; null is an empty body.
pub(crate) fn serve(answer: impl Fn(&Request) -> (u16, Value) + Send + 'static) -> std::net::SocketAddr {
    use std::io::Read;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut read = Vec::new();
            let request = loop {
                let mut bytes = [0; 4096];
                let count = stream.read(&mut bytes).unwrap();
                read.extend_from_slice(&bytes[..count]);
                let text = String::from_utf8_lossy(&read).into_owned();
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                if count == 0 || body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                    let path = head.split(' ').nth(1).unwrap().to_owned();
                    break Request { path, body: body.to_owned() };
                }
            };
            let (status, value) = answer(&request);
            let body = if value.is_null() { String::new() } else { value.to_string() };
            let length = body.len();
            let head =
                format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}");
            write!(stream, "{head}\r\nconnection: close\r\n\r\n{body}").unwrap();
        }
    });
    address
}
