//! Shared test helpers: a vocabulary, and a one-line notation of results.

use std::fmt::Write as _;

use protocol_action::{
    Declared, Decoder, Event, Fields, FinishReason, Options, Parsed, RawArgument, RawValue, StaticVocabulary,
    parse_with,
};

/// The tools that most tests offer.
pub(crate) fn tools() -> StaticVocabulary {
    StaticVocabulary::builder()
        .tool("ping", |tool| tool)
        .tool("read_file", |tool| tool.text("path").scalar("limit"))
        .tool("write_file", |tool| tool.text("path").text("content"))
        .tool("edit_file", |tool| tool.text("path").text("old").text("new"))
        .tool("note", |tool| tool.text("note").text("path"))
        .tool("do", |tool| tool.text("action").text("target"))
        .tool("find", |tool| tool.text("query"))
        .tool("send", |tool| tool.list("to", Declared::Text).text("body"))
        .tool("event", |tool| tool.text("type").object("payload", |payload| payload).any("extra"))
        .tool("address", |tool| tool.object("home", |home| home.text("street").text("city").scalar("zip")))
        .tool("many", |tool| {
            tool.object("args", |args| {
                args.list("file", Declared::Object(Fields::default().text("path").text("why")))
            })
        })
        .build()
}

/// A reply in short: text before, calls, text after, codes; parts that are empty are left out.
pub(crate) fn short(parsed: &Parsed) -> String {
    let mut out = Vec::new();
    let mut part = |name: &str, text: &str| {
        if !text.trim().is_empty() {
            out.push(format!("{name}{:?}", text.trim()));
        }
    };
    part("", &parsed.text_before);
    part("thought ", parsed.reasoning.as_deref().unwrap_or(""));
    for call in &parsed.calls {
        let mut line = format!("{}(", call.tool);
        arguments(&mut line, &call.arguments);
        out.push(line + ")");
    }
    if !parsed.text_after.trim().is_empty() {
        out.push(format!("then {:?}", parsed.text_after.trim()));
    }
    let repairs = parsed.calls.iter().flat_map(|call| &call.repairs);
    let codes: Vec<&str> =
        repairs.chain(parsed.diagnostics.iter().map(|one| &one.code)).map(|code| code.as_str()).collect();
    if !codes.is_empty() {
        out.push(format!("! {}", codes.join(" ")));
    }
    out.join(" | ")
}

fn arguments(out: &mut String, list: &[RawArgument]) {
    for (index, argument) in list.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        let _ = write!(out, "{}=", argument.name);
        match &argument.value {
            RawValue::Text(text) => {
                let _ = write!(out, "{text:?}");
            }
            RawValue::Json(value) => {
                let _ = write!(out, "{value}");
            }
            RawValue::Elements { children, mixed, .. } => {
                out.push_str(if *mixed { "~{" } else { "{" });
                arguments(out, children);
                out.push('}');
            }
        }
    }
}

/// Reads text in pieces of these sizes, over and over.
pub(crate) fn in_pieces(text: &[u8], sizes: &[usize], finish: FinishReason) -> Parsed {
    let mut decoder = Decoder::new(std::sync::Arc::new(tools()), Options::default());
    push_all(&mut decoder, text, sizes, |_| {});
    decoder.finish(finish)
}

/// Pushes text in pieces and shows each event.
pub(crate) fn push_all(
    decoder: &mut Decoder,
    mut text: &[u8],
    sizes: &[usize],
    mut see: impl FnMut(Event<'_>),
) {
    let mut sizes = sizes.iter().cycle();
    while !text.is_empty() {
        let size = sizes.next().copied().unwrap_or(1).clamp(1, text.len());
        let (piece, rest) = text.split_at(size);
        decoder.push(piece).for_each(&mut see);
        text = rest;
    }
}

/// Reads the text whole and in pieces, and compares the notation of the result.
#[track_caller]
pub(crate) fn check(text: &str, expected: &str) {
    check_with(text, FinishReason::Stop, expected);
}

/// The same with a reason to stop.
#[track_caller]
pub(crate) fn check_with(text: &str, finish: FinishReason, expected: &str) {
    let whole = parse_with(text, &tools(), &Options::default().with_finish(finish));
    assert_eq!(short(&whole), expected, "{text}");
    for sizes in [&[1_usize][..], &[4], &[3, 7, 2]] {
        assert_eq!(in_pieces(text.as_bytes(), sizes, finish), whole, "in pieces of {sizes:?}: {text}");
    }
}

/// Compares the message of the first error, and that nothing may run, however the text is cut.
#[track_caller]
pub(crate) fn check_error(text: &str, expected: &str) {
    let whole = parse_with(text, &tools(), &Options::default());
    let messages: Vec<&str> = whole.errors().map(|error| error.message.as_str()).collect();
    assert_eq!(messages.first(), Some(&expected), "{text}: {whole:?}");
    assert!(whole.runnable().is_empty(), "{text}");
    for sizes in [&[1_usize][..], &[4], &[3, 7, 2]] {
        assert_eq!(in_pieces(text.as_bytes(), sizes, FinishReason::Stop), whole, "in {sizes:?}: {text}");
    }
}
