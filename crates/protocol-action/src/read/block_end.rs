//! The end of a block (reading rule 7), and of the input inside one.

use crate::{Code, Diagnostic, SegmentKind, Span};

use super::lenient_tags::{Lex, lex};
use super::output::Item;
use super::source::Source;
use super::{Flow, Machine};

impl Machine {
    /// After the close tag of a block that was opened twice: another one belongs to it.
    pub(super) fn doubled_close(&mut self, src: Source<'_>, end: usize) -> Flow {
        self.at = src.skip_blanks(self.at);
        match src.byte(self.at) {
            None if !src.ended() => return Flow::Wait,
            Some(b'<') => match lex(src, self.at) {
                Lex::More => return Flow::Wait,
                Lex::Close { name, after } if name.eq_ignore_ascii_case("action") => {
                    return self.end_block(src, after);
                }
                Lex::Close { .. }
                | Lex::Open { .. }
                | Lex::Data
                | Lex::CutClose { .. }
                | Lex::Comment
                | Lex::Section
                | Lex::Instruction
                | Lex::Declaration => {}
            },
            None | Some(_) => {}
        }
        self.end_block(src, end)
    }

    /// The close tag that the end of input cuts, if it may be the block's.
    pub(super) fn cut_close(&mut self, src: Source<'_>, name: &str) -> Flow {
        let action = !self.block.bare && begins_ignoring_case("action", name);
        let wrapper = self.block.wrappers.last().is_some_and(|open| begins_ignoring_case(open, name));
        if !action && !wrapper {
            return self.meet_stray();
        }
        self.block.repair(Code::MangledClose);
        self.input_ends(src)
    }

    pub(super) fn input_ends_in_tag(&mut self, src: Source<'_>) -> Flow {
        if !src.ended() {
            return Flow::Wait;
        }
        self.fail(
            src,
            Code::Truncated,
            "the reply was cut off inside a tag of the block",
            "Send the whole block again.",
        );
        Flow::Go
    }

    /// The input ended between calls.
    pub(super) fn input_ends(&mut self, src: Source<'_>) -> Flow {
        let Some(reason) = src.end else { return Flow::Wait };
        let why = if self.block.calls == 0 {
            "the reply was cut off in the block, before its first call"
        } else if reason.is_cut() {
            "the model was cut off before the block was closed"
        } else if self.block.value_unclosed || self.block.section_unclosed.is_some() {
            "the block and a value in it lack their close tags"
        } else {
            let message = "the block's close tag is missing";
            self.repair_at(src, Code::MissingClose, self.at, message.to_owned());
            return self.end_block(src, src.len());
        };
        let mut diagnostic = Diagnostic::new(Code::Truncated, why).with_hint("Send the whole block again.");
        if let Some(last) = &self.block.last {
            diagnostic = diagnostic.with_tool(last.tool.clone());
        }
        self.out.diagnose(src.text, diagnostic, Span::new(src.len(), src.len()));
        self.end_block(src, src.len())
    }

    pub(super) fn truncated(&mut self, src: Source<'_>) -> Flow {
        if !src.ended() {
            return Flow::Wait;
        }
        let mut message = "the reply was cut off inside a call".to_owned();
        if let Some(call) = &self.block.call {
            message = format!("the reply was cut off inside `{}`", call.tool);
        }
        if let Some(parameter) = self.block.parameter(src) {
            message = format!("{message}, in parameter `{parameter}`");
        }
        let mut hint = "Send the whole block again, shorter if need be.".to_owned();
        if let Some(name) = &self.block.unclosed_name {
            hint = format!("{hint} The value of `{name}` before it was not closed either.");
        }
        self.at = src.len();
        self.fail(src, Code::Truncated, message, &hint);
        Flow::Go
    }

    /// Reports a repair from the cursor up to `end`.
    pub(super) fn repair_at(&mut self, src: Source<'_>, code: Code, end: usize, message: String) {
        self.out.diagnose(src.text, Diagnostic::new(code, message), Span::new(self.at, end));
    }

    pub(super) fn end_block(&mut self, src: Source<'_>, end: usize) -> Flow {
        let start = self.block.start;
        if self.out.mute {
            self.out.mute = false;
            self.out.segment(SegmentKind::SecondBlock, end);
            self.out.second_block(src.text, Span::new(start, end));
        } else {
            self.out.segment(SegmentKind::Block, end);
            for code in std::mem::take(&mut self.block.repairs) {
                self.out.diagnose(src.text, Diagnostic::new(code, repair_text(code)), Span::new(start, end));
            }
            self.out.push(Item::BlockEnd);
            self.blocks += 1;
            self.block_end = end;
            self.closed = std::mem::take(&mut self.block);
        }
        self.resume_prose(end);
        Flow::Go
    }
}

fn repair_text(code: Code) -> &'static str {
    if code == Code::FencedBlock {
        "a code fence inside the block was dropped"
    } else {
        "a close tag was damaged"
    }
}

fn begins_ignoring_case(whole: &str, start: &str) -> bool {
    whole.len() >= start.len() && whole.as_bytes()[..start.len()].eq_ignore_ascii_case(start.as_bytes())
}
