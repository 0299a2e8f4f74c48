//! Text alone in a call: the value of the tool's one required string.

use crate::{Code, RawArgument, RawValue, Span, Vocabulary};

use super::element_tree::FrameKind;
use super::lenient_tags::{Lex, lex};
use super::output::Item;
use super::source::Source;
use super::{Flow, Machine, value_text};

/// Position of the close tag behind text.
enum Closer {
    At(usize),
    /// Other markup comes first.
    Other,
    More,
}

impl Machine {
    /// Reads the text at the cursor as the value of the tool's one required string, if the call holds nothing else.
    pub(super) fn bare_text(&mut self, src: Source<'_>, vocabulary: &dyn Vocabulary) -> Option<Flow> {
        let [frame] = self.block.frames.as_slice() else { return None };
        let FrameKind::Object(tool) = frame.kind else { return None };
        let call = self.block.call.as_ref()?;
        let is_other_form = matches!(src.byte(self.at), Some(b'{' | b'`' | b'~'));
        if frame.mixed || call.unnamed || !call.arguments.is_empty() || is_other_form {
            return None;
        }
        let name = vocabulary.only_text(tool)?;
        let number = call.number;
        let end = match self.closer_of_text(src) {
            Closer::At(end) => end,
            Closer::Other => return None,
            Closer::More => return Some(Flow::Wait),
        };
        let text = value_text::decoded(src.text[self.at..end].trim_end());
        let path = self.out.note(&format!("/{name}"));
        self.out.push(Item::ParamStart { call: number, path });
        let delta = self.out.note(&text);
        self.out.push(Item::ParamDelta(delta));
        self.out.push(Item::ParamEnd);
        self.push_argument(RawArgument::new(name, Span::new(self.at, end), RawValue::Text(text)), Vec::new());
        if let Some(call) = &mut self.block.call {
            call.repair(Code::BareText);
        }
        Some(self.go(end))
    }

    fn closer_of_text(&mut self, src: Source<'_>) -> Closer {
        let mut at = self.probe.resume(self.at);
        let closer = loop {
            let Some(found) = memchr::memchr(b'<', &src.bytes()[at..]) else {
                at = src.len();
                break if src.ended() { Closer::Other } else { Closer::More };
            };
            at += found;
            match lex(src, at) {
                Lex::More => break Closer::More,
                Lex::Data => at += 1,
                Lex::Close { name, .. } if self.is_own(src, name) => break Closer::At(at),
                Lex::Close { .. }
                | Lex::Open { .. }
                | Lex::CutClose { .. }
                | Lex::Comment
                | Lex::Section
                | Lex::Instruction
                | Lex::Declaration => break Closer::Other,
            }
        };
        self.work += at - self.probe.resume(self.at);
        self.probe.keep(self.at, at);
        closer
    }
}
