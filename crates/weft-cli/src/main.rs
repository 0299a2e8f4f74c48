//! The program `weft`: reads its arguments, runs one command, and ends with that command's exit code.

/// Writes a line to stderr. Nobody may be there to read it, and that is no reason to fail.
macro_rules! note {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr().lock(), $($text)*);
    }};
}

mod arguments;
mod codes;
mod commands;
mod demo_project;
mod failure;
mod follow;
mod inputs;
mod interrupt;
mod log_lines;
mod output;
mod timeline;
mod workflow_run;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Output};
use crate::failure::{Exit, Failure};

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error),
    };
    let output = arguments.output;
    // A program reads stderr as JSON.
    if output == Output::Text {
        log_lines::to_stderr();
    }
    let exit = commands::run(arguments).unwrap_or_else(|failure| {
        failure.print(output);
        failure.exit
    });
    exit.into()
}

/// What the reader of arguments has to say: help and version on stdout, faults on stderr.
fn usage(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        let text = error.render().to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        note!("error[usage]: {}", text.trim_end());
        return Exit::Usage.into();
    }
    // A closed pipe is the reader's choice.
    let _ = error.print();
    Exit::Ok.into()
}

impl From<weft_project::ProjectError> for Failure {
    fn from(error: weft_project::ProjectError) -> Self {
        Self::of_project(&error)
    }
}
