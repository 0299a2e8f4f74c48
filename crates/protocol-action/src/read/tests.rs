//! Hostile text: reading stays linear. Counted is how far the cursors go, not time.

use super::{Machine, Source};
use crate::{Code, Declared, FinishReason, Limits, StaticVocabulary, parse};

fn tools() -> StaticVocabulary {
    StaticVocabulary::builder()
        .tool("ping", |tool| tool)
        .tool("write_file", |tool| tool.text("path").text("content").list("tags", Declared::Text))
        .tool("save", |tool| tool.any("data").object("meta", |meta| meta.text("a").text("b")))
        .build()
}

/// Distance that the cursors moved for a text, in pieces of this size.
fn work(text: &str, piece: usize) -> usize {
    let tools = tools();
    let mut machine = Machine::new(Limits::default());
    machine.out.live = true;
    let mut end = piece;
    while end < text.len() {
        if text.is_char_boundary(end) {
            machine.out.clear_taken();
            machine.run(Source { text: &text[..end], end: None }, &tools);
        }
        end += piece;
    }
    let whole = Source { text, end: Some(FinishReason::Stop) };
    machine.run(whole, &tools);
    machine.finish(whole, &tools, &[]);
    machine.work
}

/// Reads a head, a unit many times and a tail, and twice as many: the work may double, no more.
#[track_caller]
fn check(head: &str, unit: &str, tail: &str) {
    let text = |bytes: usize| format!("{head}{}{tail}", unit.repeat(bytes / unit.len() + 1));
    for piece in [usize::MAX, 7] {
        let (small, large) = (text(20_000), text(40_000));
        let (once, twice) = (work(&small, piece), work(&large, piece));
        assert!(once < small.len() * 12 + 1000, "{once} for {} bytes of {unit:?} in {piece}", small.len());
        assert!(twice * 10 < once * 22 + 10_000, "{once}, then {twice} for {unit:?} in {piece}");
    }
}

const OPEN: &str = "<ACTION><write_file><content>";

#[test]
fn floods_in_prose() {
    for unit in [
        "<ACTION> ",
        "<ACTION><!-- ",
        "<",
        "```\n",
        "` `` ``` ",
        "a <think> b ",
        "<think>\n",
        "<div>\n",
        "</think> x",
        "<ACTION><ping/></ACTION> ",
        "<tool_call name=\"ping\"/>",
        "<<<TOOL_CALL>>>",
        "> <ACTION><ping/>\n",
        "[",
        "{\"a\":",
        "<ACTION>```",
        "<div>\n<ACTION><ping/></ACTION>\n</div>\n",
        "</ACTION>",
        "<tool_call ",
        "&lt;",
    ] {
        check("", unit, "");
        check("text\n", unit, "text");
        check("<div>\n", unit, "</div>");
    }
    check("", "<ACTION><!-- ", "--> text");
}

#[test]
fn long_runs() {
    let heads = [
        "",
        "x",
        "```\n",
        "</think>",
        "<think",
        "<ACTION>",
        "<ACTION>\n```",
        "<ACTION><ping/>",
        "<ACTION><write_file>",
        "<ACTION><save><data>",
        "<ACTION><write_file><content>x</content>",
        "<ACTION><foo></think>",
        "<tool_call name=\"ping\"/>",
        "</",
        "<",
        "<ACTION><ACTION><ping/></ACTION>",
        "<tool_call>",
        "<ACTION><write_file ",
        "<ACTION><write_file a=\"",
        "<div ",
        "<action ",
    ];
    for head in heads {
        for unit in ["`", "~", " ", "\n", "a", "=", "\"", ">", "é", "\r"] {
            check(head, unit, "");
            check(head, unit, "x</b>");
        }
    }
}

#[test]
fn floods_in_strings() {
    for unit in [
        "<",
        "</",
        "&",
        "&#000",
        " ",
        "\n",
        "x",
        "</content>",
        "</content> x",
        "</content><!-- ",
        "</content><!-- x -->",
        "</content><x>",
        "<content>",
        "<content>x<path>y",
        "</write_file>",
        "</x><path>",
        "</ACTION>",
        "<![CDATA[x]]> ",
        "<![CDATA[",
        "]]>",
        "</content",
        "</content> ",
        "<path>",
        "</write_file><write_file>",
        "</content></write_file></ACTION>x",
    ] {
        check(OPEN, unit, "");
        check(OPEN, unit, "</content></write_file></ACTION>");
        check(OPEN, unit, "x</content>");
    }
    check(OPEN, "</content><!-- ", "-->");
}

#[test]
fn floods_in_sections() {
    for unit in [
        "]]>",
        "]",
        "</content>",
        "</content></write_file></ACTION>",
        "<![CDATA[",
        "]]><![CDATA[",
        "]]> x",
        " ",
    ] {
        check("<ACTION><write_file><content><![CDATA[", unit, "");
        check("<ACTION><write_file><content><![CDATA[", unit, "]]></content></write_file></ACTION>");
        check("<ACTION><write_file><content><![CDATA[", unit, "</content></write_file></ACTION>");
    }
    check("<ACTION>", "<write_file><content><![CDATA[x</content></write_file>", "");
}

#[test]
fn floods_in_blocks() {
    for unit in [
        "<write_file>",
        "<write_file><content>x<path>y</write_file>",
        "<x><y>1</y></x>",
        "word <ping/>",
        "</ping>",
        "</x>",
        "<!-- -->",
        "<!--",
        "<?x?>",
        "<?",
        "```",
        "{\"name\": \"ping\"}",
        "[",
        "{\"a\":",
        "<a>",
        "<save><data>",
        "<write_file a=\"b\"",
        "<ACTION>",
        "<tool_call>",
    ] {
        check("<ACTION>", unit, "");
        check("<ACTION><ping/>", unit, "</ACTION>");
        check("<ACTION><save><data>", unit, "</data></save></ACTION>");
        check("<ACTION><unknown>", unit, "</unknown></ACTION>");
        check("<ACTION><write_file>", unit, "</write_file></ACTION>");
    }
}

#[test]
fn twenty_thousand_levels_are_a_limit() {
    let text = format!(
        "<ACTION><save><data>{}x{}</data></save></ACTION>",
        "<a>".repeat(20_000),
        "</a>".repeat(20_000)
    );
    let parsed = parse(&text, &tools());
    let error = parsed.errors().next().expect("an error");
    assert_eq!(
        (error.code, error.message.as_str()),
        (Code::LimitExceeded, "the depth limit of 64 is exceeded")
    );
    assert_eq!(parsed.text, "");
}

#[test]
fn notes_do_not_pile_up() {
    let parsed = parse(&"`<ACTION><ping/></ACTION>` <ACTION><ping/></ACTION>".repeat(3000), &tools());
    assert!(parsed.diagnostics.len() <= 64, "{}", parsed.diagnostics.len());
}

#[test]
fn entities_do_not_expand() {
    let bomb = "&lol9;".repeat(1000);
    let text = format!("<ACTION><save><data>{bomb}</data></save></ACTION>");
    let parsed = parse(&text, &tools());
    let crate::RawValue::Text(value) = &parsed.calls[0].arguments[0].value else { unreachable!("text") };
    assert_eq!(value, &bomb);
}

/// Markup that rows of random units are made of.
const WORDS: [&str; 36] = [
    "<ACTION>",
    "</ACTION>",
    "<write_file>",
    "</write_file>",
    "<content>",
    "</content>",
    "<path>",
    "</path>",
    "<ping/>",
    "<![CDATA[",
    "]]>",
    "<!--",
    "-->",
    "<x>",
    "</x>",
    " ",
    "\n",
    "x",
    "`",
    "```",
    "{",
    "\"",
    "<think>",
    "</think>",
    "&lt;",
    "<",
    "</",
    "<tags>",
    "<item>",
    "</item>",
    "<save>",
    "<data>",
    "<tool_call>",
    "</tool_call>",
    "<div>",
    "</div>\n",
];

#[test]
fn a_long_run_behind_open_inline_code_is_counted_once() {
    let text = |ticks: usize| format!("a `b {}", "`".repeat(ticks));
    let (once, thrice) = (work(&text(3000), 3), work(&text(9000), 3));
    assert!(thrice * 10 < once * 36 + 20_000, "{once}, then {thrice}");
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { failure_persistence: None, ..proptest::test_runner::Config::default() })]

    #[test]
    fn any_flood_is_linear(
        head in proptest::sample::select(&["", "\n", "a `b ", OPEN, "<ACTION><write_file>", "<ACTION><save><data>", "<ACTION><write_file><content><![CDATA["][..]),
        words in proptest::collection::vec(proptest::sample::select(&WORDS[..]), 1..7),
        piece in proptest::sample::select(&[usize::MAX, 5][..]),
        tail in proptest::sample::select(&["", "</content></write_file></ACTION>", "]]></content></write_file></ACTION>"][..]),
    ) {
        let unit = words.concat();
        let text = |bytes: usize| format!("{head}{}{tail}", unit.repeat(bytes / unit.len() + 1));
        let (small, large) = (text(3000), text(9000));
        let (once, thrice) = (work(&small, piece), work(&large, piece));
        proptest::prop_assert!(thrice * 10 < once * 36 + 20_000, "{once}, then {thrice} for {unit:?} after {head:?} before {tail:?}");
    }
}
