//! Measures weft's crates against named peers in one run: CPU time, medians, ratios.
//!
//! ```text
//! cargo run --release --manifest-path bench/Cargo.toml -- [parse|stream|hostile|coerce|engine|store|agent|registry [FILE]|flows|server|all]
//! ```

mod agent;
mod coerce;
mod engine;
mod flows;
mod hostile;
mod measure;
mod parse;
mod read;
mod registry;
mod server;
mod store;
mod stream;
mod table;
mod texts;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "all".to_owned());
    let tables: &[fn() -> Result<()>] = match name.as_str() {
        "all" => &[
            parse::run,
            stream::run,
            hostile::run,
            coerce::run,
            engine::run,
            store::run,
            agent::run,
            || registry::run(None),
            flows::run,
            server::run,
        ],
        "parse" => &[parse::run],
        "stream" => &[stream::run],
        "hostile" => &[hostile::run],
        "coerce" => &[coerce::run],
        "engine" => &[engine::run],
        "store" => &[store::run],
        "agent" => &[agent::run],
        "flows" => &[flows::run],
        "server" => &[server::run],
        // A file of tools, one a line, in place of made ones.
        "registry" => return registry::run(arguments.next().as_deref()),
        // For the program itself: one figure of memory in a process of its own.
        "memory" => return engine::measure_memory(&arguments.next().unwrap_or_default()),
        _ => bail!(
            "`{name}` is none of parse, stream, hostile, coerce, engine, store, agent, registry, flows, server, all"
        ),
    };
    tables.iter().try_for_each(|table| table())
}
