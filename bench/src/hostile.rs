//! Text written to make a reader slow: the cost a megabyte, whole and in pieces, and twice the size beside it.

use std::sync::Arc;

use anyhow::Result;
use protocol_action::{Decoder, FinishReason, Options};
use serde_json::json;
use tool_schema::{OfferedTool, ToolSet};

use crate::measure::{Work, count, medians};
use crate::table::{Aim, Figure, against, begin, row};

/// Pieces in which the text arrives.
const PIECE: usize = 64;

type Text = (&'static str, fn(usize) -> String);

const TEXTS: [Text; 10] = [
    ("openers", |size| fill("", "<ACTION> ", "", size)),
    ("openers and comments", |size| fill("", "<ACTION><!-- ", "", size)),
    ("levels, never closed", |size| fill("<ACTION><save><data>", "<a>", "", size)),
    ("20,000 levels, closed", |_| levels(20_000)),
    ("levels of JSON", |size| fill("<ACTION><save>{\"data\":", "[", "", size)),
    ("entity bomb", |size| bomb(size)),
    ("ampersands in a value", |size| fill("<ACTION><save><text>", "&", "", size)),
    ("closers that close nothing", |size| fill("<ACTION><save><text>", "</text> x", "", size)),
    ("angle brackets", |size| fill("", "<", "", size)),
    ("bare calls", |size| fill("", "<tool_call name=\"save\"/>", "", size)),
];

/// One table.
pub(crate) fn run() -> Result<()> {
    begin("Hostile text, the cost of a megabyte");
    let tools = Arc::new(ToolSet::of_tools([OfferedTool::new("save", "Saves.", parameters())?])?);
    for (name, text) in TEXTS {
        let (half, full) = (text(1 << 19), text(1 << 20));
        let whole = |text: &str| tools.interpret(&protocol_action::parse(text, tools.as_ref())).results.len();
        let figures = medians(&mut [
            Work::repeated(|| whole(&full)),
            Work::repeated(|| whole(&half)),
            Work::repeated(|| in_pieces(&tools, &full)),
        ]);
        let megabyte = |nanos: f64, text: &str| Figure::Nanos(nanos / count(text.len()) * 1e6);
        let aim = Aim::AtMost(Figure::Nanos(50e6));
        row(&format!("{name}, whole"), megabyte(figures[0], &full), aim);
        row(&format!("{name}, in pieces of {PIECE} bytes"), megabyte(figures[2], &full), aim);
        if full.len() > half.len() {
            let half = ("half the size", megabyte(figures[1], &half));
            against(&format!("{name}, whole"), megabyte(figures[0], &full), half, Aim::CostAtMost(1.3));
        }
    }
    Ok(())
}

fn parameters() -> serde_json::Value {
    json!({"type": "object", "properties": {"text": {"type": "string"}, "data": {}}})
}

fn in_pieces(tools: &Arc<ToolSet>, text: &str) -> usize {
    let mut decoder = Decoder::new(Arc::clone(tools) as _, Options::default());
    for piece in text.as_bytes().chunks(PIECE) {
        std::hint::black_box(decoder.push(piece).count());
    }
    tools.interpret(&decoder.finish(FinishReason::Stop)).results.len()
}

fn fill(head: &str, unit: &str, tail: &str, size: usize) -> String {
    format!("{head}{}{tail}", unit.repeat(size / unit.len()))
}

fn levels(depth: usize) -> String {
    format!(
        "<ACTION><save><data>{}{}</data></save></ACTION>",
        "<level>".repeat(depth),
        "</level>".repeat(depth)
    )
}

/// Each entity is ten of the one before, and the value names the last one until the size is reached.
fn bomb(size: usize) -> String {
    let entity =
        |at: usize| format!("<!ENTITY e{at} \"{}\">", format!("&e{};", at.saturating_sub(1)).repeat(10));
    let entities: String = (1..10).map(entity).collect();
    let head = format!("<ACTION><!DOCTYPE x [<!ENTITY e0 \"ha\">{entities}]><save><text>");
    fill(&head, "&e9;", "</text></save></ACTION>", size)
}
