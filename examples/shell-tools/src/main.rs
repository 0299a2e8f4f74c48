//! The program `weft` with programs of an allow-list as tools.

mod shell;

use std::process::ExitCode;

use shell::ShellTools;
use weft_cli::Program;

fn main() -> ExitCode {
    Program::new().provider(ShellTools::read).run()
}
