//! `weft-harness --engine FILE [ID…]` runs cases of the engine, `--agents FILE [ID…]` those of agents; `--both-ways FILE`
//! compares the built-in loop of agents with a loop of nodes;
//! `weft-harness --payloads FILE [--finish-others]` runs payloads.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use serde_json::{Map, Value};
use weft_harness::Report;
use workflow_engine::OnFail;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [flag, file, rest @ ..] = arguments.as_slice() else { return usage() };
    let run: fn(&str, &[String]) -> (String, ExitCode) = match flag.as_str() {
        "--engine" => engine,
        "--agents" => agents,
        "--both-ways" => both_ways,
        "--payloads" => payloads,
        _ => return usage(),
    };
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("error[no_file]: {file}: {error}");
            return ExitCode::from(2);
        }
    };
    let (out, exit) = run(&text, rest);
    // A closed pipe is no reason to complain.
    let _ = std::io::stdout().write_all(out.as_bytes());
    exit
}

fn usage() -> ExitCode {
    eprintln!(
        "usage: weft-harness --engine FILE [ID...] | --agents FILE [ID...] | --both-ways FILE | --payloads FILE [--finish-others]"
    );
    ExitCode::from(2)
}

/// Each case that went another way than it should, and how many did.
fn shown(report: &Report) -> (String, ExitCode) {
    // Writing to a text cannot fail.
    let mut out = String::new();
    for failure in &report.failures {
        for fault in &failure.faults {
            let _ = writeln!(out, "{}: {fault}", failure.id);
        }
    }
    let _ = writeln!(out, "{} passed, {} failed", report.passed, report.failures.len());
    let exit = if report.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) };
    (out, exit)
}

fn engine(text: &str, ids: &[String]) -> (String, ExitCode) {
    // Some cases are about nodes that panic; where, is enough.
    std::panic::set_hook(Box::new(|info| eprintln!("{info}")));
    shown(&weft_harness::run_engine_cases(text, |id| ids.is_empty() || ids.iter().any(|own| own == id)))
}

fn both_ways(text: &str, _: &[String]) -> (String, ExitCode) {
    std::panic::set_hook(Box::new(|info| eprintln!("{info}")));
    shown(&weft_harness::run_both_ways(text))
}

/// The same for cases of agents.
fn agents(text: &str, ids: &[String]) -> (String, ExitCode) {
    std::panic::set_hook(Box::new(|info| eprintln!("{info}")));
    let report =
        weft_scenarios::AgentCases::new().run(text, |id| ids.is_empty() || ids.iter().any(|own| own == id));
    let mut out = String::new();
    for failed in &report.failed {
        for difference in &failed.differences {
            let _ = writeln!(out, "{}: {difference}", failed.id);
        }
    }
    let _ = writeln!(out, "{} passed, {} failed", report.passed, report.failed.len());
    let exit = if report.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) };
    (out, exit)
}

/// Runs the payloads of an object of payloads by name, and returns one line each.
fn payloads(text: &str, options: &[String]) -> (String, ExitCode) {
    let on_fail = match options {
        [] => OnFail::Cancel,
        [option] if option == "--finish-others" => OnFail::FinishOthers,
        _ => return (String::new(), usage()),
    };
    let cases: Map<String, Value> = match serde_json::from_str(text) {
        Ok(cases) => cases,
        Err(error) => {
            eprintln!("error[bad_json]: {error}");
            return (String::new(), ExitCode::from(7));
        }
    };
    let mut out = String::new();
    for (id, case) in cases {
        let mut result = weft_harness::run_payload(case, on_fail);
        result["id"] = id.into();
        let _ = writeln!(out, "{result}");
    }
    (out, ExitCode::SUCCESS)
}
