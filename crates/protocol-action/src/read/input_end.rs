//! Checks that need the end of the input.

use crate::{Code, Diagnostic, NativeCall, Options, Parsed, SegmentKind, Span, Vocabulary};

use super::between_calls::LastCall;
use super::dialects::is_bare_call;
use super::lenient_tags::{Lex, Scanned, TagScan, lex};
use super::openers::LONGEST_OPENER;
use super::output::{MOST_NOTES, Output};
use super::source::{Source, is_blank};
use super::{Machine, State};

impl Machine {
    /// Adds what depends on the whole text. Every byte was read before.
    pub(crate) fn finish(&mut self, src: Source<'_>, vocabulary: &dyn Vocabulary, native: &[NativeCall]) {
        self.check_reasoning(src, vocabulary, native);
        self.check_section(src);
        self.check_closers(src);
        self.note_openers(src);
        self.merge_native(src, native);
    }

    /// A full call only inside reasoning that never closed is reported, never run.
    fn check_reasoning(&mut self, src: Source<'_>, vocabulary: &dyn Vocabulary, native: &[NativeCall]) {
        let Some(inner) = self.prose.unclosed_think else { return };
        if self.blocks > 0 || !native.is_empty() {
            return;
        }
        let reasoning = Source { text: &src.text[inner..], end: src.end };
        let mut machine = Self::new(self.limits);
        machine.ignore_reasoning = true;
        machine.run(reasoning, vocabulary);
        let Some(call) = machine.out.calls.first().filter(|_| !machine.out.has_errors()) else { return };
        let message = "the call stands inside `<think>`, which was never closed";
        let diagnostic = Diagnostic::new(Code::ActionInReasoning, message)
            .with_hint("Close the reasoning with `</think>`, then send the block.")
            .with_tool(call.tool.clone());
        self.out.diagnose(src.text, diagnostic, Span::new(inner + call.span.start, inner + call.span.end));
    }

    /// A section without an end closed with its value; that holds only if nothing follows the block.
    fn check_section(&mut self, src: Source<'_>) {
        if self.blocks == 0 {
            return;
        }
        let Some((start, tool, parameter)) = self.closed.section_unclosed.take() else { return };
        if src.bytes()[self.block_end..].iter().all(|&byte| is_blank(byte)) {
            return;
        }
        let message = format!("the CDATA section in `{tool}`, parameter `{parameter}`, has no end");
        let diagnostic = Diagnostic::new(Code::Truncated, message)
            .with_hint("Close the section with `]]>`.")
            .with_tool(tool)
            .with_parameter(parameter);
        self.out.diagnose(src.text, diagnostic, Span::new(start, start));
    }

    /// Reports a cut value: the close tags of the last parameter, its tool and the block stand once more after
    /// the block, because the value held all three.
    fn check_closers(&mut self, src: Source<'_>) {
        if self.blocks == 0 || self.out.has_errors() {
            return;
        }
        let Some(LastCall { tool, tag, parameter: Some(parameter), .. }) = self.closed.last.take() else {
            return;
        };
        let mut wanted: Vec<&str> = parameter.tags.iter().map(String::as_str).collect();
        wanted.push(&tag);
        if !self.closed.bare {
            wanted.push("action");
        }
        let Some(at) = repeated_closers(src, self.block_end, &wanted, self.closed.bare) else { return };
        let parameter = parameter.name;
        let message =
            format!("the value of `{parameter}` in `{tool}` holds the close tags of the block and was cut");
        let diagnostic = Diagnostic::new(Code::MalformedXml, message)
            .with_hint("Put the value into `<![CDATA[` and `]]>`.")
            .with_tool(tool)
            .with_parameter(parameter);
        self.out.diagnose(src.text, diagnostic, Span::new(at, at));
    }

    /// Openers that were read as text although a tag follows them.
    fn note_openers(&mut self, src: Source<'_>) {
        let texts: Vec<Span> = self
            .out
            .segments
            .iter()
            .filter(|one| one.kind == SegmentKind::Text)
            .map(|one| one.span)
            .collect();
        let mut notes = 0;
        for span in texts {
            let mut at = span.start;
            while let Some(found) = memchr::memchr(b'<', &src.bytes()[at..span.end]) {
                at += found;
                if let Some(after) = opener(src, at)
                    && self.leads_to_call(src, after) == Some(true)
                {
                    let note = Diagnostic::new(Code::OpenerIgnored, "an opener of a block was read as text");
                    self.out.diagnose(src.text, note, Span::new(at, after));
                    notes += 1;
                    if notes == MOST_NOTES {
                        return;
                    }
                }
                at += 1;
            }
        }
    }

    /// Returns the result and consumes the machine.
    pub(crate) fn into_parsed(self, text: &str) -> Parsed {
        let Output { calls, mut diagnostics, segments, reasoning, .. } = self.out;
        diagnostics.sort_by_key(|one| if one.line == 0 { usize::MAX } else { one.span.start });
        let block = segments.iter().find(|one| one.kind == SegmentKind::Block).map(|one| one.span);
        let mut text_before = String::new();
        let mut text_after = String::new();
        for segment in segments.iter().filter(|one| one.kind == SegmentKind::Text) {
            let after = block.is_some_and(|block| segment.span.start >= block.end);
            let side = if after { &mut text_after } else { &mut text_before };
            side.push_str(segment.span.slice(text));
        }
        let thoughts: Vec<&str> = reasoning.iter().map(|span| span.slice(text)).collect();
        Parsed {
            text: format!("{text_before}{text_after}"),
            text_before,
            text_after,
            reasoning: (!thoughts.is_empty()).then(|| thoughts.join("\n")),
            calls,
            diagnostics,
            segments,
        }
    }
}

/// Finds the end of the opener at `at`, if there is one.
fn opener(src: Source<'_>, at: usize) -> Option<usize> {
    let Lex::Open { name, after } = lex(src, at) else { return None };
    if !name.eq_ignore_ascii_case("action") && !is_bare_call(name) {
        return None;
    }
    match TagScan::new(at, after).scan(src.clipped(at + LONGEST_OPENER), name.len()) {
        Scanned::Tag(tag) if !tag.self_closed => Some(tag.after),
        Scanned::Tag(_) | Scanned::More | Scanned::Cut | Scanned::Broken(_) => None,
    }
}

/// Finds these close tags in a row, with only blanks between them, before another opener.
fn repeated_closers(src: Source<'_>, from: usize, wanted: &[&str], bare: bool) -> Option<usize> {
    let mut at = from;
    let mut met = 0;
    let mut start = from;
    while let Some(found) = memchr::memchr(b'<', &src.bytes()[at..]) {
        if !src.bytes()[at..at + found].iter().all(|&byte| is_blank(byte)) {
            met = 0;
        }
        at += found;
        match lex(src, at) {
            Lex::Close { name, after } => {
                let fits = |met: usize| {
                    let block = !bare && met + 1 == wanted.len();
                    wanted[met] == name || (block && wanted[met].eq_ignore_ascii_case(name))
                };
                met = if fits(met) { met + 1 } else { usize::from(fits(0)) };
                if met == 1 {
                    start = at;
                }
                if met == wanted.len() {
                    return Some(start);
                }
                at = after;
            }
            Lex::Open { .. } if opener(src, at).is_some() => return None,
            Lex::Open { .. }
            | Lex::More
            | Lex::Data
            | Lex::CutClose { .. }
            | Lex::Comment
            | Lex::Section
            | Lex::Instruction
            | Lex::Declaration => {
                met = 0;
                at += 1;
            }
        }
    }
    None
}

/// Reads a whole text with no events.
pub(crate) fn read_whole(text: &str, vocabulary: &dyn Vocabulary, options: &Options) -> Parsed {
    let src = Source { text, end: Some(options.finish) };
    let mut machine = Machine::new(options.limits);
    machine.run(src, vocabulary);
    debug_assert!(matches!(machine.state, State::Prose), "the end of input ends the block");
    machine.finish(src, vocabulary, &options.native);
    machine.into_parsed(text)
}
