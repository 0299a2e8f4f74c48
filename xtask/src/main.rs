//! The maintainers' tasks. `cargo xtask` lists them.
//!
//! xtask only starts programs: it links none of the workspace's crates, so that it is built in seconds and cannot hide a broken one.

#![expect(clippy::print_stdout, reason = "a program tells what it does")]

mod check;
mod clients;
mod codegen;
mod conformance;
mod features;
mod layers;
mod outside;
mod packages;
mod sets;
mod shape;
mod snapshots;
mod tidy;
mod web;
mod words;
mod workspace;

use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
cargo xtask TASK

  check [STEP …]            everything the build server runs after the tests, in order; or these steps alone
  layers                    crates use lower layers only; heavy libraries have owners; files import in no large circle
  tidy [--accept]           every crate has its README, docs and lints; no retired words are added; `--accept` writes
                            how many of them are left
  codegen [--check]         write generated files, or say which are stale
  snapshots [--review]      run the snapshot tests through cargo insta; `--review` shows each difference and asks
  web [--check | --test | --screenshots]
                            build the page, compare it with what is committed, test it in a browser, take its pictures
  conformance [--data DIR] [--list] | --engine FILE
                            run the outside cases against the program; N passed, M failed
  clients [NAME]            run programs of others against ours: OpenAI clients, the MCP inspector and conformance suite,
                            reference MCP servers; needs npm and python3, installs into target/clients
  bench [NAME]              measure against named peers: parse, stream, hostile, coerce, engine, store, registry, flows, server, all
  bench local DATA [N]      how well a local model calls tools, free and held to the grammar, and what grammars cost
  soak [HOW] [SECONDS]      kill a process behind each of its events, cut its file at every byte; minutes (kill,
                            kill-agent, cut); a storm of kills over an agent whose model and tools are servers (paid
                            [ROUNDS]); fifty agents on one server, whose memory must not grow (server);
                            twenty mixed clients for minutes (load); sessions on two servers, one of which is killed
                            (sessions [--sessions N] [--messages M] [--kills K] [--seed S])
  fuzz [TARGET] [RUNS]      decoder, round_trip, coercion, provider, mcp_message, workflow_file, flows_file (all, a
                            million inputs each); needs a C++ compiler
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    let (task, options) = match arguments.split_first() {
        Some((task, options)) => (task.as_str(), options),
        None => ("help", &[][..]),
    };
    match (task, options) {
        ("help" | "--help" | "-h", _) => {
            print!("{HELP}");
            Ok(())
        }
        ("check", steps) => check::run(steps),
        ("layers", []) => layers::run(),
        ("tidy", []) => tidy::run(),
        ("tidy", [option]) if option == "--accept" => tidy::accept(),
        ("codegen", []) => codegen::run(codegen::Mode::Write),
        ("codegen", [option]) if option == "--check" => codegen::run(codegen::Mode::Check),
        ("snapshots", options) => snapshots::run(options),
        ("web", options) => web::run(options),
        ("conformance", options) => conformance::run(options),
        ("clients", []) => clients::run(None),
        ("clients", [name]) => clients::run(Some(name)),
        ("bench", options) => outside::bench(options),
        ("soak", options) => outside::soak(options),
        ("fuzz", options) => outside::fuzz(options),
        _ => bail!("`{}` is no task; `cargo xtask` lists them", arguments.join(" ")),
    }
}
