//! `weft-soak`: runs that are killed and cut anywhere, and must come to the same end.
//!
//! `weft-soak kill [--every N]` kills a real process with SIGKILL when it has printed its first, second, … event of a
//! workflow's run; `weft-soak kill-agent [--every N]` the same of an agent's run;
//! `weft-soak paid [ROUNDS]` kills an agent's run whose model and tools are servers, up to five times at any points, and
//! compares its requests with those of a run that is not killed;
//! `weft-soak cut [--every N]` cuts the store's file at every byte of its last pages;
//! `weft-soak sessions PROGRAM [--sessions N] [--messages M] [--kills K] [--seed S]` keeps sessions on two servers, one of which
//! is killed at random, and reads and judges each conversation at the end;
//! `weft-soak load PROGRAM MINUTES` keeps a server of the program busy and prints the memory that it holds.

mod agent;
mod child;
mod cut;
mod flow;
mod kill;
mod load;
mod paid;
mod payer;

use std::path::Path;
use std::process::ExitCode;

use weft_harness::SessionsSoak;

/// Rounds of the storm unless the command says otherwise.
const ROUNDS: u64 = 200;

/// Description of a fault, for the terminal.
type Fault = String;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let every = |text: &str| text.parse::<usize>().ok().filter(|every| *every > 0);
    let result = match words.as_slice() {
        ["kill"] => kill::run(&kill::WORKFLOW, 1),
        ["kill", "--every", text] => {
            every(text).map_or_else(usage, |every| kill::run(&kill::WORKFLOW, every))
        }
        ["kill-agent"] => kill::run(&kill::AGENT, 1),
        ["kill-agent", "--every", text] => {
            every(text).map_or_else(usage, |every| kill::run(&kill::AGENT, every))
        }
        ["paid"] => paid::run(ROUNDS),
        ["paid", rounds] => rounds.parse().map_or_else(|_| usage(), paid::run),
        ["payer", folder, address] => payer::drive(Path::new(folder), address),
        ["cut"] => cut::run(1),
        ["cut", "--every", every_text] => every(every_text).map_or_else(usage, cut::run),
        ["load", program, minutes] => {
            minutes.parse().map_or_else(|_| usage(), |minutes| load::run(Path::new(program), minutes))
        }
        ["sessions", program, options @ ..] => sessions(Path::new(program), options),
        ["child", folder, "start"] => child::start(Path::new(folder)),
        ["child", folder, "resume"] => child::resume(Path::new(folder)),
        ["agent", folder, "start"] => agent::start(Path::new(folder)),
        ["agent", folder, "resume"] => agent::resume(Path::new(folder)),
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
    Err("usage: weft-soak kill|kill-agent|cut [--every N] | paid [ROUNDS] | load PROGRAM MINUTES | \
         sessions PROGRAM [--sessions N] [--messages M] [--kills K] [--seed S]"
        .to_owned())
}

fn sessions(program: &Path, options: &[&str]) -> Result<(), Fault> {
    let mut soak = SessionsSoak { sessions: 1000, messages: 10, kills: 10, seed: 1 };
    for option in options.chunks(2) {
        let [name, text] = option else { return usage() };
        let Ok(number) = text.parse::<u64>() else { return usage() };
        match *name {
            "--sessions" => soak.sessions = number,
            "--messages" => soak.messages = number,
            "--kills" => soak.kills = number,
            "--seed" => soak.seed = number,
            _ => return usage(),
        }
    }
    child::say(&soak.run(program)?)
}
