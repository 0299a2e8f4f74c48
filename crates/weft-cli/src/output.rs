//! The one writer of what people read: stdout, which the reader may close at any time, and stderr.
//!
//! Whatever is written has its secrets masked. On a terminal, and on stderr, nothing acts and nothing is hidden.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use agent_types::{Problem, Redactor, visible};
use serde::Serialize;

use crate::failure::{Exit, Failure};

/// Set once the reader has closed stdout.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Secrets of the project that the command opened.
static MASKS: OnceLock<Redactor> = OnceLock::new();

/// Masks these secrets in all that is written from now on.
pub(crate) fn mask(secrets: Redactor) {
    // A command opens one project.
    let _ = MASKS.set(secrets);
}

/// Returns `true` once stdout is closed, so that a run need not continue for it.
pub(crate) fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

/// Writes a line of data. A terminal is shown what it may show; a pipe gets the text as it is.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let text = masked(text);
    let text = if stdout.is_terminal() { visible(&text) } else { Cow::Borrowed(&*text) };
    written(writeln!(stdout, "{text}").and_then(|()| stdout.flush()))
}

/// Writes a line to stderr. A closed stderr leaves no place for a report.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", shown(text));
}

/// Writes a line to stderr in a colour of SGR.
pub(crate) fn colored_note(color: &str, text: &str) {
    let _ = writeln!(io::stderr().lock(), "\u{1b}[{color}m{}\u{1b}[0m", shown(text));
}

/// Writes a piece of a line to stderr, such as a prompt.
pub(crate) fn piece(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = write!(stderr, "{}", shown(text));
    let _ = stderr.flush();
}

/// A text as stderr is given it.
pub(crate) fn shown(text: &str) -> String {
    visible(&masked(text)).into_owned()
}

fn masked(text: &str) -> Cow<'_, str> {
    MASKS.get().map_or(Cow::Borrowed(text), |masks| masks.mask(text))
}

/// Writes a file below a folder, and the folders that it needs there.
///
/// # Errors
/// The file, or a folder between, is a link: it could lead anywhere. The file cannot be written.
pub(crate) fn write_file(folder: &Path, file: &Path, text: &str) -> io::Result<()> {
    let parent = file.parent().unwrap_or(folder);
    for part in file.ancestors().take_while(|part| *part != folder) {
        refuse_link(part)?;
    }
    std::fs::create_dir_all(parent)?;
    std::fs::write(file, text)
}

/// Refuses what is a link.
pub(crate) fn refuse_link(path: &Path) -> io::Result<()> {
    if path.is_symlink() {
        let message = format!("{} is a link, and nothing is written through links", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    Ok(())
}

/// Writes a value on one line.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    line(&text_of(value)?)
}

/// Writes a value for people who read JSON.
pub(crate) fn pretty(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| no_json(&error))?;
    line(&text)
}

/// A value as JSON on one line.
pub(crate) fn text_of(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| no_json(&error))
}

/// Prints a problem on stderr: what it is, its place in a file, and the suggestion or else the fix.
pub(crate) fn problem(file: &str, problem: &Problem, fix: Option<&str>) {
    note!("{}[{}]: {}", problem.severity.as_str(), problem.code, problem.message);
    note!("  --> {}", format!("{file}{}", problem.place).trim_end_matches([',', ' ']));
    match (&problem.suggest, fix) {
        (Some(near), _) => note!("help: did you mean `{near}`?"),
        (None, Some(fix)) => note!("help: {fix}"),
        (None, None) => {}
    }
}

fn no_json(error: &serde_json::Error) -> Failure {
    Failure::new(Exit::Failed, "no_json", error.to_string())
}

fn written(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            CLOSED.store(true, Ordering::Relaxed);
            Ok(())
        }
        Err(error) => Err(Failure::new(Exit::Failed, "output", error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn s11_n09_a_terminal_is_not_told_what_to_do() {
        for (text, expected) in [
            ("\u{1b}]0;owned\u{7}title", "\\u001b]0;owned\\u0007title"),
            ("a\u{202e}b\u{200b}\u{e0041}", "a\\u202eb\\u200b\\udb40\\udc41"),
            ("two\nlines\tand 中文", "two\nlines\tand 中文"),
            ("<img onerror=x>", "<img onerror=x>"),
        ] {
            assert_eq!(shown(text), expected);
        }
    }
}
