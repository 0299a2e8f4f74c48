//! Sizes and compile times of grammars.

use std::time::{Duration, Instant};

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::ApproximateTokEnv;
use llguidance::{Matcher, ParserFactory};
use tool_schema::{GrammarFormat, GrammarOptions, GrammarScope, OfferedTool, ToolSet, grammar_with};

use crate::cases::Tool;

/// The middle one of five.
fn middle<T>(mut work: impl FnMut() -> T) -> (T, Duration) {
    let mut times = Vec::new();
    let mut last = None;
    for _ in 0..5 {
        let began = Instant::now();
        last = Some(work());
        times.push(began.elapsed());
    }
    times.sort_unstable();
    (last.unwrap(), times[2])
}

fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

pub(crate) fn print(all: &[Tool]) {
    let environment = ApproximateTokEnv::single_byte_env();
    let mut factory = ParserFactory::new_simple(&environment).unwrap();
    factory.quiet();
    println!(
        "| tools | bounds | Lark | written in | compiled by llguidance in | first mask | GBNF | structural tag |"
    );
    println!("| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for count in [12, 100, 1_000] {
        let offered = all
            .iter()
            .take(count)
            .map(|tool| OfferedTool::new(tool.name.as_str(), "", tool.parameters.clone()).unwrap());
        let set = ToolSet::of_tools(offered).unwrap();
        for (bounds, scope) in [("wide", GrammarScope::Wide), ("narrow", GrammarScope::Narrow)] {
            let options = GrammarOptions { scope, ..GrammarOptions::default() };
            let (lark, writing) = middle(|| grammar_with(&set, GrammarFormat::Lark, options));
            let compile =
                || Matcher::new(factory.create_parser(TopLevelGrammar::from_lark(lark.text.clone())));
            let (matcher, compiling) = middle(compile);
            assert!(!matcher.is_error(), "{:?}", matcher.get_error());
            let (_, masking) = middle(|| compile().compute_mask().unwrap());
            let size =
                |format| format!("{:.1} kB", grammar_with(&set, format, options).text.len() as f64 / 1000.0);
            println!(
                "| {count} | {bounds} | {} | {} | {} | {} | {} | {} |",
                size(GrammarFormat::Lark),
                ms(writing),
                ms(compiling),
                ms(masking.saturating_sub(compiling)),
                size(GrammarFormat::Gbnf),
                size(GrammarFormat::StructuralTag),
            );
        }
    }
}
