//! One run of a program, with its limits.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use agent_types::{Clock, SystemClock};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tool_registry::process::ProcessGroup;

/// Time for reading on after the end of the program, where a process that it left behind holds its output open.
const LINGER: Duration = Duration::from_secs(1);

/// Bytes that are read at once.
const PIECE: usize = 8 * 1024;

/// A program with everything that it is given. No shell reads any of it, and its environment is empty but for `variables`.
#[derive(Debug, Clone, Default)]
pub struct CommandRun {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its working folder.
    pub folder: PathBuf,
    /// Its environment.
    pub variables: Vec<(String, OsString)>,
    /// Its standard input.
    pub input: Vec<u8>,
    /// Limit of its output, in bytes.
    pub max_output: usize,
    /// Bytes of its error output that are kept: the last ones.
    pub max_errors: usize,
}

/// End of a program.
#[derive(Debug, Clone)]
pub struct CommandEnd {
    /// Its status.
    pub status: ExitStatus,
    /// All of its output.
    pub output: Vec<u8>,
    /// The last of its error output.
    pub errors: Vec<u8>,
    /// Set where there was more of it.
    pub errors_cut: bool,
}

/// Failure of running a program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandFault {
    /// The program is not there.
    #[error("the program is not installed")]
    Missing,
    /// The program cannot be started, or its output cannot be read.
    #[error("the program cannot be run: {0}")]
    Io(std::io::Error),
    /// The program wrote more than it may, and was ended.
    #[error("the program wrote more than {limit} bytes and was ended")]
    TooLong {
        /// The limit.
        limit: usize,
    },
}

impl CommandFault {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Missing => "command_missing",
            Self::Io(_) => "command_failed",
            Self::TooLong { .. } => "command_output_too_long",
        }
    }
}

/// The file of a program: a path from `root`, or a name that a folder of PATH has.
#[must_use]
pub fn find_program(program: &str, root: &Path) -> Option<PathBuf> {
    if program.contains(std::path::MAIN_SEPARATOR) || program.contains('/') {
        let path = root.join(program);
        return path.is_file().then_some(path);
    }
    let folders = std::env::var_os("PATH")?;
    let endings = ["", std::env::consts::EXE_SUFFIX];
    let mut files = std::env::split_paths(&folders)
        .flat_map(|folder| endings.map(|ending| folder.join(format!("{program}{ending}"))));
    files.find(|file| is_executable(file))
}

#[cfg(unix)]
fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Other systems know by the name.
#[cfg(not(unix))]
fn is_executable(file: &Path) -> bool {
    file.is_file()
}

impl CommandRun {
    /// Runs the program to its end. With its end, and with that of this future, the processes of its group end too. What a
    /// process outside of the group writes later is not waited for.
    ///
    /// # Errors
    /// It cannot be started, or it wrote more than it may.
    ///
    /// # Cancel safety
    /// Dropping the future ends the program and its children.
    pub async fn run(self) -> Result<CommandEnd, CommandFault> {
        let mut child = self.start()?;
        let group = child.id().map(ProcessGroup::led_by);
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let written = async move {
            if let Some(mut stdin) = stdin {
                // A program may end without reading.
                let _ = stdin.write_all(&self.input).await;
            }
            Ok(())
        };
        let ended = async move {
            let status = child.wait().await.map_err(CommandFault::Io)?;
            // Its children would keep the pipes open.
            drop(group);
            Ok(status)
        };
        let (mut output, mut errors) = (Vec::new(), Last { limit: self.max_errors, ..Last::default() });
        let status = {
            let piped = async {
                tokio::try_join!(
                    whole(stdout, self.max_output, &mut output),
                    last(stderr, &mut errors),
                    written
                )
            };
            until_end(ended, piped).await?
        };
        Ok(CommandEnd { status, output, errors: errors.bytes, errors_cut: errors.is_cut })
    }

    fn start(&self) -> Result<Child, CommandFault> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).current_dir(&self.folder).env_clear();
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.kill_on_drop(true).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        #[cfg(unix)]
        command.process_group(0);
        command.spawn().map_err(|error| match error.kind() {
            ErrorKind::NotFound => CommandFault::Missing,
            _ => CommandFault::Io(error),
        })
    }
}

/// The end of a program, once its pipes are read to their ends, or as far as they are a little later.
async fn until_end<T>(
    ended: impl Future<Output = Result<ExitStatus, CommandFault>>,
    piped: impl Future<Output = Result<T, CommandFault>>,
) -> Result<ExitStatus, CommandFault> {
    let (mut ended, mut piped) = (pin!(ended), pin!(piped));
    let status = tokio::select! {
        biased;
        read = &mut piped => {
            read?;
            return ended.await;
        }
        status = &mut ended => status?,
    };
    tokio::select! {
        biased;
        read = piped => read.map(|_| status),
        () = SystemClock.sleep(LINGER) => Ok(status),
    }
}

/// All of a stream, up to a limit.
async fn whole(
    stream: Option<impl AsyncRead + Unpin>,
    limit: usize,
    bytes: &mut Vec<u8>,
) -> Result<(), CommandFault> {
    let Some(stream) = stream else { return Ok(()) };
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let mut stream = stream.take(most);
    while stream.read_buf(bytes).await.map_err(CommandFault::Io)? > 0 {}
    if bytes.len() > limit { Err(CommandFault::TooLong { limit }) } else { Ok(()) }
}

/// The last bytes of a stream.
#[derive(Debug, Default)]
struct Last {
    bytes: Vec<u8>,
    limit: usize,
    is_cut: bool,
}

async fn last(stream: Option<impl AsyncRead + Unpin>, kept: &mut Last) -> Result<(), CommandFault> {
    let Some(mut stream) = stream else { return Ok(()) };
    let mut piece = vec![0; PIECE];
    loop {
        let read = stream.read(&mut piece).await.map_err(CommandFault::Io)?;
        if read == 0 {
            return Ok(());
        }
        kept.bytes.extend_from_slice(&piece[..read]);
        let surplus = kept.bytes.len().saturating_sub(kept.limit);
        kept.is_cut |= surplus > 0;
        kept.bytes.drain(..surplus);
    }
}
