//! `weft completions`: what a shell needs to complete commands.

use clap::CommandFactory;
use clap_complete::{Shell, generate};

use crate::arguments::Arguments;
use crate::failure::{Exit, Failure};
use crate::output;

pub(super) fn run(shell: Shell) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    generate(shell, &mut Arguments::command(), "weft", &mut script);
    output::line(String::from_utf8_lossy(&script).trim_end())?;
    Ok(Exit::Ok)
}
