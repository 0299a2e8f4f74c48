//! `weft-scenarios --engine FILE [ID…]`: runs cases of the engine.

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
    let report =
        weft_scenarios::run_engine_cases(&text, |id| ids.is_empty() || ids.iter().any(|own| own == id));
    let mut out = String::new();
    for failure in &report.failures {
        for fault in &failure.faults {
            out.push_str(&format!("{}: {fault}\n", failure.id));
        }
    }
    if !report.skipped.is_empty() {
        out.push_str(&format!("not run, they need a store: {}\n", report.skipped.join(" ")));
    }
    out.push_str(&format!("{} passed, {} failed\n", report.passed, report.failures.len()));
    // A closed pipe is no reason to complain.
    let _ = std::io::Write::write_all(&mut std::io::stdout(), out.as_bytes());
    if report.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn usage() -> ExitCode {
    eprintln!("usage: weft-scenarios --engine FILE [ID...]");
    ExitCode::from(2)
}
