//! Events of a decoder while text arrives.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::common::{push_all, tools};
use protocol_action::{Code, Decoder, Event, FinishReason, Limits, Options, parse_with};

fn decoder() -> Decoder {
    Decoder::new(Arc::new(tools()), Options::default())
}

/// One line an event.
fn line(out: &mut String, event: Event<'_>) {
    let _ = match event {
        Event::Text { text } => writeln!(out, "text {text:?}"),
        Event::Reasoning { text } => writeln!(out, "reasoning {text:?}"),
        Event::Retracted => writeln!(out, "retracted"),
        Event::BlockStart => writeln!(out, "block"),
        Event::CallStart { call, tool } => writeln!(out, "call {call} {tool}"),
        Event::ParamStart { call, path } => writeln!(out, "param {call} {path}"),
        Event::ParamDelta { text } => writeln!(out, "delta {text:?}"),
        Event::ParamEnd => writeln!(out, "param end"),
        Event::CallEnd { call } => writeln!(out, "call end {}", call.tool),
        Event::BlockEnd => writeln!(out, "block end"),
        Event::Diagnostic { diagnostic } => writeln!(out, "{} {}", diagnostic.code, diagnostic.message),
        _ => unreachable!("all events are listed"),
    };
}

fn events(text: &str, piece: usize) -> String {
    let mut decoder = decoder();
    let mut out = String::new();
    push_all(&mut decoder, text.as_bytes(), &[piece], |event| line(&mut out, event));
    decoder.close(FinishReason::Stop).for_each(|event| line(&mut out, event));
    out
}

#[test]
fn events_come_in_source_order() {
    let text = "I look.\n<ACTION><write_file><path>a.txt</path><content>if a &lt; b </content></write_file>\
                <send><to><item>x</item><item>y</item></to></send></ACTION> done";
    insta::assert_snapshot!(events(text, 6), @r#"
    text "I look"
    text ".\n"
    block
    call 0 write_file
    param 0 /path
    delta "a."
    delta "txt"
    param end
    param 0 /content
    delta "if a"
    delta " < b"
    delta " "
    param end
    call end write_file
    call 1 send
    param 1 /to
    param 1 /to/0
    delta "x"
    param end
    param 1 /to/1
    delta "y"
    param end
    param end
    call end send
    block end
    text " "
    text "done"
    "#);
}

#[test]
fn what_may_be_a_closer_is_held() {
    let text = "<ACTION><write_file><content>ends with </content> or\n</content>\n</write_file></ACTION>";
    insta::assert_snapshot!(events(text, 4), @r#"
    block
    call 0 write_file
    param 0 /content
    delta "end"
    delta "s wi"
    delta "th"
    delta " </content> or\n"
    param end
    call end write_file
    block end
    "#);
}

#[test]
fn reasoning_without_an_open_tag_takes_everything_back() {
    let text = "Maybe <ACTION><ping/></ACTION>?\n</think>\nYes.\n<ACTION><ping/></ACTION>";
    insta::assert_snapshot!(events(text, 8), @r#"
    text "Maybe "
    block
    call 0 ping
    call end ping
    block end
    text "?\n"
    retracted
    reasoning "Maybe <ACTION><ping/></ACTION>?\n"
    text "\nYes.\n"
    block
    call 0 ping
    call end ping
    block end
    "#);
}

#[test]
fn a_block_inside_an_open_element_waits_for_its_close_tag() {
    let hidden = "<example>\n<ACTION><ping/></ACTION>\n</example>\n";
    assert!(!events(hidden, 5).contains("call"), "{}", events(hidden, 5));
    let open = "<div>\nNow <ACTION><ping/></ACTION>\n";
    insta::assert_snapshot!(events(open, 9), @r#"
    text "<div>\nNow"
    text " "
    block
    call 0 ping
    call end ping
    block end
    text "\n"
    "#);
}

#[test]
fn strings_arrive_as_they_are_written() {
    let mut decoder = decoder();
    let head = "<ACTION><write_file><content>";
    assert_eq!(
        decoder.push(head.as_bytes()).filter(|event| matches!(event, Event::ParamDelta { .. })).count(),
        0
    );
    let mut said = 0;
    for (number, piece) in "some words, and <b>more</b> of them; ".repeat(50).as_bytes().chunks(5).enumerate()
    {
        for event in decoder.push(piece) {
            if let Event::ParamDelta { text } = event {
                said += text.len();
            }
        }
        assert!(said + 24 >= (number + 1) * 5, "{said} of {} bytes were said", (number + 1) * 5);
    }
}

#[test]
fn characters_may_be_cut() {
    let text = "<ACTION><write_file><path>é—👩‍💻</path></write_file></ACTION>";
    let mut decoder = decoder();
    push_all(&mut decoder, text.as_bytes(), &[1], |_| {});
    assert_eq!(decoder.finish(FinishReason::Stop), parse_with(text, &tools(), &Options::default()));
}

#[test]
fn bytes_that_are_no_text_are_replaced_and_noted() {
    let mut decoder = decoder();
    push_all(&mut decoder, b"a\xff\xfeb \xe4\xb8", &[1], |_| {});
    let parsed = decoder.finish(FinishReason::Stop);
    assert_eq!(parsed.text, "a\u{fffd}\u{fffd}b \u{fffd}");
    assert!(parsed.has(Code::BadUtf8));
}

#[test]
fn nothing_is_read_after_the_end() {
    let mut decoder = decoder();
    decoder.push(b"a").count();
    decoder.close(FinishReason::Stop).count();
    assert_eq!(decoder.push(b"b").count(), 0);
    assert_eq!(decoder.finish(FinishReason::Stop).text, "a");
}

#[test]
fn held_text_counts_against_the_limit() {
    let limits = Limits::default().with_block_bytes(1000);
    let mut decoder = Decoder::new(Arc::new(tools()), Options::default().with_limits(limits));
    decoder.push(b"<ACTION><write_file><path>x<content>").count();
    for _ in 0..100 {
        decoder.push(b"0123456789abcdef").count();
    }
    let parsed = decoder.finish(FinishReason::Stop);
    assert_eq!(
        parsed.errors().next().map(|one| one.message.as_str()),
        Some("the block size limit of 1000 bytes is exceeded")
    );
}
