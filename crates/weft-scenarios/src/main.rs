//! `weft-scenarios --engine FILE [ID…]`: runs cases of the engine.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [flag, file, ids @ ..] = arguments.as_slice() else { return usage() };
    if flag != "--engine" {
        return usage();
    }
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("error[no_file]: {file}: {error}");
            return ExitCode::from(2);
        }
    };
    // Some cases are about nodes that panic; where, is enough.
    std::panic::set_hook(Box::new(|info| eprintln!("{info}")));
    let report =
        weft_scenarios::run_engine_cases(&text, |id| ids.is_empty() || ids.iter().any(|own| own == id));
    // Writing to a text cannot fail, and a closed pipe is no reason to complain.
    let mut out = String::new();
    for failure in &report.failures {
        for fault in &failure.faults {
            let _ = writeln!(out, "{}: {fault}", failure.id);
        }
    }
    let _ = writeln!(out, "{} passed, {} failed", report.passed, report.failures.len());
    let _ = std::io::stdout().write_all(out.as_bytes());
    if report.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn usage() -> ExitCode {
    eprintln!("usage: weft-scenarios --engine FILE [ID...]");
    ExitCode::from(2)
}
