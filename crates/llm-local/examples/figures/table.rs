//! Results of the questions.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use llm_local::Figures;
use protocol_action::{Severity, parse};
use serde_json::{Value, json};
use tool_schema::ToolSet;

use crate::cases::Question;

/// Classification of a reply.
#[derive(Debug, Clone, Default)]
struct Reply {
    calls: bool,
    well_formed: bool,
    valid: bool,
    codes: Vec<String>,
}

impl Reply {
    fn new(text: &str, set: &ToolSet) -> Self {
        let parsed = parse(text, set);
        let decision = set.interpret(&parsed);
        let faults: Vec<String> = decision.faults().map(|fault| fault.code().to_owned()).collect();
        let broken = parsed.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
        let broken: Vec<String> = broken.map(|diagnostic| diagnostic.code.as_str().to_owned()).collect();
        let calls = !parsed.calls.is_empty() || !broken.is_empty() || !faults.is_empty();
        let well_formed = !parsed.calls.is_empty() && broken.is_empty();
        let valid = well_formed && faults.is_empty();
        Self { calls, well_formed, valid, codes: broken.into_iter().chain(faults).collect() }
    }
}

/// Result of one question.
#[derive(Debug, Clone)]
pub(crate) struct Judged {
    first: Reply,
    /// Set when a later reply was valid after a first invalid one.
    rescued: bool,
    right_tool: bool,
    right: bool,
    texts: Vec<String>,
    figures: Vec<Figures>,
    took: Duration,
}

impl Judged {
    pub(crate) fn new(
        replies: &[(String, Figures)],
        set: &ToolSet,
        question: &Question,
        value: Option<&Value>,
        took: Duration,
    ) -> Self {
        let judged: Vec<Reply> = replies.iter().map(|(text, _)| Reply::new(text, set)).collect();
        let first = judged.first().cloned().unwrap_or_default();
        let rescued = first.calls && !first.valid && judged.iter().skip(1).any(|reply| reply.valid);
        let tool = value.and_then(|value| value["tool"].as_str()).unwrap_or_default();
        let arguments = value.and_then(|value| value["arguments"].as_object()).cloned().unwrap_or_default();
        Self {
            first,
            rescued,
            right_tool: tool == question.tool,
            right: question.is_answered_by(tool, &arguments),
            texts: replies.iter().map(|(text, _)| text.clone()).collect(),
            figures: replies.iter().map(|(_, figures)| *figures).collect(),
            took,
        }
    }

    pub(crate) fn in_short(&self) -> String {
        let word = match (self.right, self.right_tool, self.first.valid, self.rescued, self.first.calls) {
            (true, ..) => "right",
            (_, true, ..) => "right tool",
            (_, _, true, ..) => "valid",
            (_, _, _, true, _) => "rescued",
            (_, _, _, _, true) => "refused",
            _ => "no call",
        };
        format!("{word} {:?} {:.1} s", self.first.codes, self.took.as_secs_f64())
    }
}

/// Writes the replies of a question to the log, for inspection.
pub(crate) fn write_log(path: &Path, name: &str, question: &Question, judged: &Judged) {
    let line = json!({
        "mode": name, "id": question.id, "question": question.text, "tool": question.tool, "replies": judged.texts,
        "codes": judged.first.codes, "valid": judged.first.valid, "right": judged.right,
    });
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    writeln!(file, "{line}").unwrap();
}

/// Results of all questions under one mode of decoding.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    name: String,
    all: Vec<Judged>,
}

impl Row {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), all: Vec::new() }
    }

    pub(crate) fn add(&mut self, judged: Judged) {
        self.all.push(judged);
    }

    fn count(&self, is: impl Fn(&Judged) -> bool) -> usize {
        self.all.iter().filter(|judged| is(judged)).count()
    }

    fn sum(&self, of: impl Fn(&Figures) -> f64) -> f64 {
        self.all.iter().flat_map(|judged| &judged.figures).map(of).sum()
    }
}

/// The table of all rows, and under it what was refused.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut out = String::from(
        "| decoding | questions | a call | well-formed | schema-valid | rescued by self-correction | right tool | right call | tokens a reply (forced) | tokens a second | mask and steps, a token | prompt, tokens a second | time a question |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for row in rows {
        let written = row.sum(|figures| figures.written as f64);
        let replies = row.sum(|_| 1.0);
        let forced = row.sum(|figures| figures.forced as f64);
        let masks = row.sum(|figures| f64::from(figures.masks));
        let masking = row.sum(|figures| figures.masking.as_secs_f64());
        let read = row.sum(|figures| (figures.prompt - figures.known) as f64);
        let failed = row.count(|judged| judged.first.calls && !judged.first.valid);
        let mask = if masks > 0.0 { format!("{:.0} µs", masking / masks * 1e6) } else { "none".into() };
        let took: f64 = row.all.iter().map(|judged| judged.took.as_secs_f64()).sum();
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} of {failed} | {} | {} | {:.0} ({:.0} %) | {:.0} | {mask} | {:.0} | {:.1} s |",
            row.name,
            row.all.len(),
            row.count(|judged| judged.first.calls),
            row.count(|judged| judged.first.well_formed),
            row.count(|judged| judged.first.valid),
            row.count(|judged| judged.rescued),
            row.count(|judged| judged.right_tool),
            row.count(|judged| judged.right),
            written / replies,
            forced / written * 100.0,
            written / row.sum(|figures| figures.writing.as_secs_f64()),
            read / row.sum(|figures| figures.reading.as_secs_f64()),
            took / row.all.len() as f64,
        );
    }
    for row in rows {
        let mut codes = std::collections::BTreeMap::<&str, usize>::new();
        row.all
            .iter()
            .flat_map(|judged| &judged.first.codes)
            .for_each(|code| *codes.entry(code).or_default() += 1);
        let _ = writeln!(out, "\n{}: {codes:?}", row.name);
    }
    out
}
