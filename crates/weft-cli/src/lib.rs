//! The program `weft` as a library: a program of one's own is the same with further kinds of tools.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use tool_registry::Registry;
//! use weft_cli::Program;
//!
//! fn main() -> ExitCode {
//!     // Functions that `#[tool]` stands on, or a provider of another kind.
//!     Program::new().provider(|_project| Ok(Registry::new())).run()
//! }
//! ```

/// Writes a line to stderr. A closed stderr is not an error.
macro_rules! note {
    () => { crate::output::note("") };
    ($($text:tt)*) => { crate::output::note(&format!($($text)*)) };
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
mod outcome;
mod output;
mod timeline;

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use tool_registry::{BrokenTool, ToolProvider};
use weft_project::MakeProvider;

use crate::arguments::{Arguments, Output};
use crate::failure::{Exit, Failure};

/// The program: its arguments come from the process.
#[derive(Debug, Default)]
#[must_use]
pub struct Program {
    providers: Vec<MakeProvider>,
}

impl Program {
    /// The program as it is.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with a further kind of tools, made for the folder of each project that is opened.
    pub fn provider<P: ToolProvider + 'static>(
        mut self,
        make: impl Fn(&Path) -> Result<P, BrokenTool> + Send + Sync + 'static,
    ) -> Self {
        self.providers.push(MakeProvider::new(make));
        self
    }

    /// Reads the arguments, runs one command, and gives that command's exit code.
    pub fn run(self) -> ExitCode {
        let arguments = match Arguments::try_parse() {
            Ok(arguments) => arguments,
            Err(error) => return usage(&error),
        };
        let output = arguments.output;
        // A program reads stderr as JSON.
        if output == Output::Text {
            log_lines::to_stderr();
        }
        let exit = commands::run(arguments, self.providers).unwrap_or_else(|failure| {
            failure.print(output);
            failure.exit
        });
        weft_project::kill_programs();
        exit.into()
    }
}

/// Prints the report of the argument parser: help and version on stdout, faults on stderr.
fn usage(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        let text = error.render().to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        note!("error[usage]: {}", text.trim_end());
        return Exit::Usage.into();
    }
    // A closed pipe is the reader's choice; colours of help are the parser's own.
    let _ = error.print();
    Exit::Ok.into()
}

impl From<weft_project::ProjectError> for Failure {
    fn from(error: weft_project::ProjectError) -> Self {
        Self::of_project(&error)
    }
}
