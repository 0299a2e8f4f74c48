//! Any bytes in any pieces: no panic, the result of the whole, events that add up to it.
//!
//! The first byte chooses limits and how the model stopped, the second the sizes of the pieces; the rest is the reply.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use protocol_action::{Decoder, Event, FinishReason, Limits, Options, Parsed, parse_with};
use weft_fuzz::tools;

fuzz_target!(|input: &[u8]| {
    let [choice, sizes, reply @ ..] = input else { return };
    let finish = if choice & 1 == 0 { FinishReason::Stop } else { FinishReason::Length };
    let options = options(*choice).with_finish(finish);
    let whole = decode(reply, &options, |_| usize::MAX);
    let pieces = decode(reply, &options, piece_sizes(*sizes));
    assert_eq!(pieces, whole, "pieces give something else than the whole");
    let bytes = decode(reply, &options, |_| 1);
    assert_eq!(bytes, whole, "single bytes give something else than the whole");
    if let Ok(text) = std::str::from_utf8(reply) {
        assert_eq!(parse_with(text, tools().as_ref(), &options), whole.parsed, "`parse_with` differs");
    }
});

fn options(choice: u8) -> Options {
    let limits = match choice >> 1 & 3 {
        0 => Limits::default().with_depth(3),
        1 => Limits::default().with_calls(2).with_elements(5),
        2 => Limits::default().with_block_bytes(60),
        _ => Limits::default(),
    };
    Options::default().with_limits(limits)
}

fn piece_sizes(seed: u8) -> impl FnMut(usize) -> usize {
    let mut state = u32::from(seed) + 1;
    move |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        usize::from(state.to_be_bytes()[0] % 9) + 1
    }
}

/// What a decoder says on its way and at its end.
#[derive(Debug, PartialEq)]
struct Decoded {
    parsed: Parsed,
    text: String,
    reasoning: String,
    calls: usize,
}

impl Decoded {
    fn see(&mut self, event: Event<'_>) {
        match event {
            Event::Text { text } => self.text.push_str(text),
            Event::Reasoning { text } => self.reasoning.push_str(text),
            Event::Retracted => {
                self.text.clear();
                self.reasoning.clear();
                self.calls = 0;
            }
            Event::CallEnd { .. } => self.calls += 1,
            _ => {}
        }
    }
}

fn decode(mut reply: &[u8], options: &Options, mut size: impl FnMut(usize) -> usize) -> Decoded {
    let mut decoder = Decoder::new(Arc::clone(tools()) as _, options.clone());
    let parsed = parse_with("", tools().as_ref(), options);
    let mut seen = Decoded { parsed, text: String::new(), reasoning: String::new(), calls: 0 };
    while !reply.is_empty() {
        let (piece, rest) = reply.split_at(size(reply.len()).clamp(1, reply.len()));
        decoder.push(piece).for_each(|event| seen.see(event));
        reply = rest;
    }
    decoder.close(options.finish).for_each(|event| seen.see(event));
    seen.parsed = decoder.finish(options.finish);
    assert_eq!(seen.calls, seen.parsed.calls.len(), "calls are told once");
    assert_eq!(seen.text, seen.parsed.text, "the text is told as it is");
    every_byte_has_a_place(&seen.parsed);
    seen
}

fn every_byte_has_a_place(parsed: &Parsed) {
    let mut end = 0;
    for segment in &parsed.segments {
        assert_eq!(segment.span.start, end, "a gap before {segment:?}");
        assert!(segment.span.end > end, "{segment:?} is empty");
        end = segment.span.end;
    }
}
