//! `weft completions`: what a shell needs to complete commands.

use clap::{CommandFactory, ValueEnum};
use clap_complete::{Shell, generate};

use crate::arguments::Arguments;
use crate::failure::{Exit, Failure};
use crate::output;

pub(super) fn run(shell: Option<Shell>) -> Result<Exit, Failure> {
    let Some(shell) = shell.or_else(Shell::from_env) else {
        let shells = Shell::value_variants().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        return Err(Failure::usage("the environment names no shell").with_help(format!("name one: {shells}")));
    };
    let mut script = Vec::new();
    generate(shell, &mut Arguments::command(), "weft", &mut script);
    output::line(String::from_utf8_lossy(&script).trim_end())?;
    Ok(Exit::Ok)
}
