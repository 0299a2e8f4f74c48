//! The program `weft`.

use std::process::ExitCode;

fn main() -> ExitCode {
    weft_cli::Program::new().run()
}
