//! Laws that hold for any text.

use std::sync::Arc;

use crate::common::{in_pieces, push_all, tools};
use proptest::prelude::*;
use protocol_action::{
    Decoder, Event, FinishReason, NoVocabulary, Options, Parsed, RawArgument, RawValue, SegmentKind, Shape,
    ShapeId, StaticVocabulary, Vocabulary, neutralize, parse, parse_with,
};

/// Pieces of replies that mean something to the reader, so that random rows of them meet its rules.
const WORDS: [&str; 79] = [
    "<ACTION>",
    "</ACTION>",
    "\u{feff}",
    "<action>",
    "</ ACTION >",
    "</ACTIO",
    "<ping/>",
    "<ping>",
    "</ping>",
    "<write_file>",
    "</write_file>",
    "<path>",
    "</path>",
    "<content>",
    "</content>",
    "</ content >",
    "<content",
    "</content",
    "<![CDATA[",
    "]]>",
    "]]",
    "<!--",
    "-->",
    "<?x?>",
    "<!DOCTYPE a>",
    "&lt;",
    "&amp;",
    "&#10;",
    "&#x4e2d;",
    "&",
    "&l",
    "\n",
    "\r\n",
    " ",
    "  \n",
    "x",
    "word",
    "中",
    "👩‍💻",
    "é",
    "`",
    "``",
    "```",
    "```xml\n",
    "~~~",
    "> ",
    "Observation: ",
    "<think>",
    "</think>",
    "<thinking>",
    "</thinking>\n",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    ":",
    ",",
    "<div>",
    "</div>",
    "<b>",
    "</b>",
    "<",
    ">",
    "/",
    "=",
    "'",
    "<tool_call name=\"ping\">",
    "</tool_call>",
    "<tool_call>",
    "{\"name\": \"ping\", \"arguments\": {}}",
    "<<<TOOL_CALL>>>",
    "<<<END_TOOL_CALL>>>",
    "<tool_use>",
    "<tool_name>",
    "<send>",
    "<to>",
    "<item>",
];

fn reply() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        12 => prop::sample::select(&WORDS[..]).prop_map(str::to_owned),
        3 => prop::sample::select(&["<ACTION><write_file><path>a</path><content>", "</content></write_file></ACTION>",
            "<ACTION><send><to>", "</item></to>", "<ACTION><event><payload>", "</payload></event>", "<![CDATA[a]]></content>",
            "<param name=\"path\">", "</param>", "<tool_call name=\"write_file\">", "<foo>", "</foo>"][..]).prop_map(str::to_owned),
        1 => "\\PC{0,4}",
    ];
    prop::collection::vec(word, 0..24).prop_map(|words| words.concat())
}

/// Replies that begin a value, so that most of the words stand inside it.
fn value_reply() -> impl Strategy<Value = String> {
    (
        prop::sample::select(
            &["<ACTION><write_file><content>", "<ACTION><send><to><item>", "<ACTION><event><extra>"][..],
        ),
        reply(),
    )
        .prop_map(|(head, tail)| format!("{head}{tail}"))
}

fn any_reply() -> impl Strategy<Value = String> {
    prop_oneof![reply(), value_reply()]
}

fn finish() -> impl Strategy<Value = FinishReason> {
    prop::sample::select(&[FinishReason::Stop, FinishReason::Length][..])
}

/// Reply rebuilt from its events.
#[derive(Default, Debug, PartialEq)]
struct Seen {
    text: String,
    reasoning: String,
    /// Values of declared strings, joined from their pieces, by call.
    values: Vec<Vec<String>>,
    open: Vec<Option<String>>,
    calls: Vec<protocol_action::RawCall>,
    codes: Vec<&'static str>,
}

impl Seen {
    fn see(&mut self, event: Event<'_>) {
        match event {
            Event::Text { text } => self.text.push_str(text),
            Event::Reasoning { text } => self.reasoning.push_str(text),
            Event::Retracted => *self = Self::default(),
            Event::CallStart { .. } => self.values.push(Vec::new()),
            Event::ParamStart { .. } => self.open.push(Some(String::new())),
            Event::ParamDelta { text } => {
                if let Some(Some(value)) = self.open.last_mut() {
                    value.push_str(text);
                }
            }
            Event::ParamEnd => {
                let value = self.open.pop().flatten().unwrap_or_default();
                if let Some(values) = self.values.last_mut() {
                    values.push(value);
                }
            }
            Event::CallEnd { call } => self.calls.push(call.clone()),
            Event::Diagnostic { diagnostic } => self.codes.push(diagnostic.code.as_str()),
            Event::BlockStart | Event::BlockEnd => {}
            _ => unreachable!("all events are listed"),
        }
    }
}

fn watch(text: &[u8], sizes: &[usize], finish: FinishReason) -> (Seen, Parsed) {
    let mut decoder = Decoder::new(Arc::new(tools()), Options::default());
    let mut seen = Seen::default();
    push_all(&mut decoder, text, sizes, |event| seen.see(event));
    decoder.close(finish).for_each(|event| seen.see(event));
    (seen, decoder.finish(finish))
}

/// Values of declared strings in the order in which they end; other values as empty text.
fn values(
    vocabulary: &StaticVocabulary,
    arguments: &[RawArgument],
    object: Option<ShapeId>,
    out: &mut Vec<String>,
) {
    for argument in arguments.iter().filter(|one| one.span.end > 0) {
        let shape = object.and_then(|id| match vocabulary.shape(id) {
            Shape::List { item } if argument.name != "item" => {
                vocabulary.field(item, &argument.name).or(Some(item))
            }
            Shape::List { item } => Some(item),
            Shape::Object => vocabulary.field(id, &argument.name),
            Shape::Text | Shape::Scalar | Shape::Any => None,
        });
        let kind = shape.map_or(Shape::Any, |id| vocabulary.shape(id));
        if let (RawValue::Elements { children, .. }, Shape::List { .. } | Shape::Object) =
            (&argument.value, kind)
        {
            values(vocabulary, children, shape, out);
        }
        match (&argument.value, kind) {
            (RawValue::Text(text), Shape::Text) => out.push(text.clone()),
            _other => out.push(String::new()),
        }
    }
}

/// More cases than usual: they are cheap. `PROPTEST_CASES` raises the number.
fn config() -> ProptestConfig {
    ProptestConfig {
        cases: ProptestConfig::default().cases.max(1000),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_chunking_gives_the_whole(text in any_reply(), finish in finish(), sizes in prop::collection::vec(1_usize..9, 1..6)) {
        let whole = parse_with(&text, &tools(), &Options::default().with_finish(finish));
        prop_assert_eq!(&in_pieces(text.as_bytes(), &[1], finish), &whole);
        prop_assert_eq!(&in_pieces(text.as_bytes(), &[4], finish), &whole);
        prop_assert_eq!(&in_pieces(text.as_bytes(), &sizes, finish), &whole);
    }

    #[test]
    fn events_say_what_the_result_says(text in any_reply(), finish in finish(), sizes in prop::collection::vec(1_usize..9, 1..6)) {
        let (seen, parsed) = watch(text.as_bytes(), &sizes, finish);
        prop_assert_eq!(&seen.text, &parsed.text);
        prop_assert_eq!(seen.reasoning.replace('\n', ""), parsed.reasoning.clone().unwrap_or_default().replace('\n', ""));
        prop_assert_eq!(&seen.calls, &parsed.calls);
        let mut codes: Vec<_> = parsed.diagnostics.iter().map(|one| one.code.as_str()).collect();
        let mut seen_codes = seen.codes.clone();
        codes.sort_unstable();
        seen_codes.sort_unstable();
        prop_assert_eq!(seen_codes, codes);
    }

    #[test]
    fn pieces_of_strings_join_to_their_values(text in any_reply(), finish in finish(), sizes in prop::collection::vec(1_usize..9, 1..6)) {
        let (seen, parsed) = watch(text.as_bytes(), &sizes, finish);
        let vocabulary = tools();
        for (call, joined) in parsed.calls.iter().zip(&seen.values) {
            if call.arguments.iter().any(|one| matches!(one.value, RawValue::Json(_))) || !call.span.slice(&text).contains("</") {
                continue;
            }
            let attributes = call.arguments.iter().take_while(|one| !one.span.slice(&text).starts_with('<')).count();
            let mut expected = Vec::new();
            values(&vocabulary, &call.arguments[attributes..], vocabulary.tool(&call.tool), &mut expected);
            prop_assert_eq!(joined, &expected, "{:?}", call);
        }
    }

    #[test]
    fn every_byte_is_in_one_place(text in any_reply(), finish in finish()) {
        let parsed = parse_with(&text, &tools(), &Options::default().with_finish(finish));
        let mut end = 0;
        for segment in &parsed.segments {
            prop_assert_eq!(segment.span.start, end);
            prop_assert!(segment.span.end > end);
            prop_assert!(text.is_char_boundary(segment.span.end));
            end = segment.span.end;
        }
        prop_assert_eq!(end, text.len());
        let of = |kind: SegmentKind| parsed.segments.iter().filter(move |one| one.kind == kind);
        let texts: String = of(SegmentKind::Text).map(|one| one.span.slice(&text)).collect();
        prop_assert_eq!(&texts, &parsed.text);
        for call in &parsed.calls {
            prop_assert!(of(SegmentKind::Block).any(|one| one.span.start <= call.span.start && call.span.end <= one.span.end));
        }
        for later in of(SegmentKind::SecondBlock) {
            prop_assert!(parsed.diagnostics.iter().any(|one| one.span.start == later.span.start));
        }
        for diagnostic in &parsed.diagnostics {
            prop_assert!(diagnostic.span.start <= diagnostic.span.end && diagnostic.span.end <= text.len());
            prop_assert!(diagnostic.line > 0);
        }
    }

    #[test]
    fn prefixes_are_safe(text in any_reply()) {
        for end in (0..=text.len()).filter(|&end| text.is_char_boundary(end)) {
            let prefix = &text[..end];
            for call in parse(prefix, &tools()).runnable() {
                let written = call.span.slice(prefix);
                prop_assert!(written.ends_with('>') || written.ends_with('}') || written.ends_with(']') || written.contains("</"), "{written:?}");
            }
        }
    }

    /// The settled text is a prefix that grows, and ends with the block.
    #[test]
    fn what_is_settled_ends_with_the_block(text in any_reply(), finish in finish(), sizes in prop::collection::vec(1_usize..9, 1..6)) {
        let mut decoder = Decoder::new(Arc::new(tools()), Options::default());
        let (mut rest, mut sizes, mut lengths) = (text.as_bytes(), sizes.iter().cycle(), vec![0]);
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
            rest = behind;
            decoder.push(piece).for_each(drop);
            prop_assert!(text.starts_with(decoder.settled_text()));
            lengths.push(decoder.settled_text().len());
        }
        decoder.close(finish).for_each(drop);
        lengths.push(decoder.settled_text().len());
        let parsed = decoder.finish(finish);
        let block = parsed.segments.iter().find(|segment| segment.kind == SegmentKind::Block);
        prop_assert_eq!(*lengths.last().unwrap(), block.map_or(text.len(), |block| block.span.end));
        prop_assert!(lengths.is_sorted(), "{:?}", lengths);
    }

    #[test]
    fn bytes_that_are_no_text_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..60), sizes in prop::collection::vec(1_usize..5, 1..4)) {
        let mut whole = b"<ACTION><write_file><path>".to_vec();
        whole.extend(&bytes);
        whole.extend(b"</path></write_file></ACTION>");
        let lossy = String::from_utf8_lossy(&whole).into_owned();
        let pieced = in_pieces(&whole, &sizes, FinishReason::Stop);
        let parsed = parse(&lossy, &tools());
        prop_assert_eq!(&pieced.calls, &parsed.calls);
        prop_assert_eq!(pieced.has(protocol_action::Code::BadUtf8), std::str::from_utf8(&whole).is_err());
    }

    #[test]
    fn neutral_text_opens_nothing(text in any_reply(), before in any_reply()) {
        let safe = neutralize(&text);
        for reply in [safe.to_string(), format!("{safe}\n"), format!("x {safe} y")] {
            let parsed = parse(&reply, &NoVocabulary);
            prop_assert!(parsed.calls.is_empty() && parsed.reasoning.is_none() && !parsed.has_errors(), "{reply:?}");
            prop_assert_eq!(parsed.text.trim_start_matches('\u{feff}'), reply.trim_start_matches('\u{feff}'));
        }
        let _ = before;
    }

    #[test]
    fn neutral_text_decodes_to_itself(text in any_reply()) {
        let safe = neutralize(&text);
        let element = format!("<ACTION><say><t>.{}.</t></say></ACTION>", safe.replace('<', "&lt;").replace("]]>", "]]&gt;"));
        let parsed = parse(&element, &NoVocabulary);
        prop_assert_eq!(&parsed.calls[0].arguments[0].value, &RawValue::Text(format!(".{text}.")));
    }
}
