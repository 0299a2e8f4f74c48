//! Two servers on one project, and requests to whichever of them lives.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::Fault;

const TOKEN: &str = "soak-soak-soak-soak";

/// Attempts to reach a server, and the pause between two.
const ATTEMPTS: (u32, Duration) = (600, Duration::from_millis(50));

/// Two processes of the program.
pub(super) struct Servers {
    program: PathBuf,
    folder: PathBuf,
    addresses: [SocketAddr; 2],
    children: [Mutex<Child>; 2],
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in &self.children {
            let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Servers {
    pub(super) fn start(program: &Path, folder: &Path) -> Result<Self, Fault> {
        let start = |at: usize| serve(program, folder, at, 0);
        let [(one, first), (other, second)] = [start(0)?, start(1)?];
        Ok(Self {
            program: program.to_owned(),
            folder: folder.to_owned(),
            addresses: [first, second],
            children: [Mutex::new(one), Mutex::new(other)],
        })
    }

    /// Kills a server with SIGKILL.
    pub(super) fn kill(&self, at: usize) -> Result<(), Fault> {
        let mut child = self.children[at].lock().unwrap_or_else(PoisonError::into_inner);
        child.kill().and_then(|()| child.wait()).map(drop).map_err(|error| error.to_string())
    }

    /// Starts a server that was killed, at its address.
    pub(super) fn restart(&self, at: usize) -> Result<(), Fault> {
        let mut child = self.children[at].lock().unwrap_or_else(PoisonError::into_inner);
        (*child, _) = serve(&self.program, &self.folder, at, self.addresses[at].port())?;
        Ok(())
    }

    /// Status and body of the answer of one of the servers, the preferred one first; it is left at the one that answered.
    pub(super) fn ask(
        &self,
        preferred: &mut usize,
        (method, path): (&str, &str),
        body: Option<&Value>,
    ) -> Result<(u16, String), Fault> {
        let mut last = String::new();
        for _ in 0..ATTEMPTS.0 {
            match self.ask_once(*preferred, (method, path), body) {
                Ok(answer) => return Ok(answer),
                Err(fault) => last = fault,
            }
            // It was killed before it has answered, or has not started yet.
            *preferred = 1 - *preferred;
            std::thread::sleep(ATTEMPTS.1);
        }
        Err(format!("{method} {path}: neither server answers: {last}"))
    }

    /// Status and body of the answer of one server.
    pub(super) fn ask_once(
        &self,
        server: usize,
        (method, path): (&str, &str),
        body: Option<&Value>,
    ) -> Result<(u16, String), Fault> {
        ask(self.addresses[server], method, path, body).map_err(|error| error.to_string())
    }

    /// The JSON of an answer that must be a success.
    pub(super) fn read(&self, path: &str) -> Result<Value, Fault> {
        let (status, body) = self.ask(&mut 0, ("GET", path), None)?;
        if status != 200 {
            return Err(format!("GET {path}: {status} {body}"));
        }
        serde_json::from_str(&body).map_err(|error| format!("GET {path}: {error}"))
    }

    /// Panics in the logs of the servers.
    pub(super) fn complaints(&self) -> Vec<Fault> {
        let logs = (0..2).filter_map(|at| std::fs::read_to_string(log_of(&self.folder, at)).ok());
        let lines = logs.flat_map(|log| log.lines().map(str::to_owned).collect::<Vec<_>>());
        lines.filter(|line| line.contains("panicked")).collect()
    }
}

/// Leaves the folder with the logs and the store where it is.
pub(super) fn keep_logs(folder: TempDir) {
    eprintln!("the project is in {}", folder.keep().display());
}

fn log_of(folder: &Path, at: usize) -> PathBuf {
    folder.join(format!("server{at}.log"))
}

fn serve(program: &Path, folder: &Path, at: usize, port: u16) -> Result<(Child, SocketAddr), Fault> {
    let failed = |error: std::io::Error| error.to_string();
    let log = File::options().create(true).append(true).open(log_of(folder, at)).map_err(failed)?;
    let mut command = Command::new(program);
    command.arg("-C").arg(folder).args(["--output", "json", "serve", "--port", &port.to_string()]);
    command.env("WEFT_TOKEN", TOKEN).stdout(Stdio::piped()).stderr(log);
    let mut child = command.spawn().map_err(failed)?;
    let mut line = String::new();
    let stdout = child.stdout.take().ok_or("no stdout")?;
    BufReader::new(stdout).read_line(&mut line).map_err(failed)?;
    let printed: Value = serde_json::from_str(&line).map_err(|error| format!("{line}: {error}"))?;
    let url = printed["url"].as_str().and_then(|url| url.strip_prefix("http://")).ok_or("no address")?;
    Ok((child, url.parse().map_err(|error| format!("{url}: {error}"))?))
}

fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    let body = body.map(ToString::to_string).unwrap_or_default();
    let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {TOKEN}\r\nconnection: close\r\n\
         {kind}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let cut = || std::io::Error::other("the answer is cut");
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(cut)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(cut)?;
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    if length.is_some_and(|length: usize| body.len() < length) {
        return Err(cut());
    }
    // Streams come in chunks, of which the last is empty.
    if length.is_none() && !body.ends_with("0\r\n\r\n") {
        return Err(cut());
    }
    Ok((status, body.to_owned()))
}
