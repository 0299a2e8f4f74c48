//! `weft-soak`: runs that are killed and cut anywhere, and must come to the same end.
//!
//! `weft-soak kill [--every N]` kills a real process with SIGKILL when it has told its first, second, … event;
//! `weft-soak cut [--every N]` cuts the store's file at every byte of its last pages.

mod child;
mod cut;
mod flow;
mod kill;

use std::path::Path;
use std::process::ExitCode;

/// What went wrong, for the one who reads the terminal.
type Fault = String;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let every = |text: &str| text.parse::<usize>().ok().filter(|every| *every > 0);
    let result = match words.as_slice() {
        ["kill"] => kill::run(1),
        ["kill", "--every", every_text] => every(every_text).map_or_else(usage, kill::run),
        ["cut"] => cut::run(1),
        ["cut", "--every", every_text] => every(every_text).map_or_else(usage, cut::run),
        ["child", folder, "start"] => child::start(Path::new(folder)),
        ["child", folder, "resume"] => child::resume(Path::new(folder)),
        _ => usage(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("error[soak]: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> Result<(), Fault> {
    Err("usage: weft-soak kill|cut [--every N]".to_owned())
}
