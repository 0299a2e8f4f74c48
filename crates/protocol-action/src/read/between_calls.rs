//! A block: its calls, what may stand between them, and its end (reading rules 7 to 9).

use crate::{Code, Dialect, RawArgument, Vocabulary};

use super::element_tree::{Frame, Role};
use super::hidden_openers::fence_marker;
use super::lenient_tags::{Damaged, Lex, Scanned, TagScan, damaged_close, is_cut, lex};
use super::source::{Found, Source};
use super::{Flow, Machine, State, TagKind};

/// More letters of a declaration are not shown.
const LONGEST_DECLARATION: usize = 20;
pub(super) const JSON_OPEN: &str = "<<<TOOL_CALL>>>";
const JSON_CLOSE: &str = "<<<END_TOOL_CALL>>>";

/// State of the block that is being read.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one fact about the block")]
pub(super) struct Block {
    pub(super) start: usize,
    /// Calls of another dialect without an `<ACTION>` around them.
    pub(super) bare: bool,
    /// Its opener was written more than once.
    pub(super) doubled: bool,
    /// Open `<tool_call>` elements and markers that hold whole calls; their names.
    pub(super) wrappers: Vec<String>,
    pub(super) call: Option<CallBuild>,
    pub(super) frames: Vec<Frame>,
    /// Names from the parameter inwards, for events.
    pub(super) path: String,
    pub(super) calls: usize,
    pub(super) elements: usize,
    /// A value in this block lacked its close tag.
    pub(super) value_unclosed: bool,
    /// A section in this block lacked its end, and where it began.
    pub(super) section_unclosed: Option<(usize, String, String)>,
    /// Repairs that belong to the next call.
    pub(super) repairs: Vec<Code>,
    /// The outermost element without a declared shape, and the elements counted before it.
    pub(super) any_root: Option<(usize, usize)>,
    /// The most recently closed call.
    pub(super) last: Option<LastCall>,
    /// A call was not plain enough for the short way: the rest of the block is read the long way.
    pub(super) long_way: bool,
    /// A close tag of the block that was seen ahead.
    pub(super) close_at: Option<usize>,
    /// The parameter whose value most recently lacked its close tag, for messages.
    pub(super) unclosed_name: Option<String>,
}

/// A call that is being read.
#[derive(Debug)]
pub(super) struct CallBuild {
    pub(super) tool: String,
    pub(super) dialect: Dialect,
    pub(super) start: usize,
    pub(super) number: usize,
    /// `<tool_use>` whose name comes in a child.
    pub(super) unnamed: bool,
    /// Flag that reads children `<param name="…">` as parameters of that name.
    pub(super) arguments: Vec<RawArgument>,
    pub(super) repairs: Vec<Code>,
    pub(super) conflicts: Vec<String>,
    pub(super) last_parameter: Option<LastParameter>,
}

/// The most recently closed call: its name, and the name in its close tag.
#[derive(Debug)]
pub(super) struct LastCall {
    pub(super) tool: String,
    pub(super) tag: String,
    pub(super) json: bool,
    pub(super) parameter: Option<LastParameter>,
}

/// The last parameter of a call: its name, and the close tags from it up to the call's.
#[derive(Debug)]
pub(super) struct LastParameter {
    pub(super) name: String,
    pub(super) tags: Vec<String>,
}

impl CallBuild {
    pub(super) fn repair(&mut self, code: Code) {
        if !self.repairs.contains(&code) {
            self.repairs.push(code);
        }
    }
}

impl Block {
    pub(super) fn new(start: usize, bare: bool) -> Self {
        Self { start, bare, ..Self::default() }
    }

    pub(super) fn repair(&mut self, code: Code) {
        if !self.repairs.contains(&code) {
            self.repairs.push(code);
        }
    }

    /// The parameter that is being read, for messages.
    pub(super) fn parameter(&self, src: Source<'_>) -> Option<String> {
        let frame = self.frames.iter().find(|frame| frame.role == Role::Value)?;
        Some(frame.name_in(src).into_owned())
    }
}

impl Machine {
    pub(super) fn block_step(&mut self, src: Source<'_>, vocabulary: &dyn Vocabulary) -> Flow {
        match &mut self.state {
            State::Prose => Flow::Go,
            State::Between => self.between(src, vocabulary),
            State::Tag { scan, name_len, kind } => {
                let scanned = scan.scan(src, *name_len);
                let (start, kind) = (scan.start, *kind);
                self.tag(src, vocabulary, scanned, start, kind)
            }
            State::Unnamed { name, start } => {
                let (name, start) = (name.clone(), *start);
                self.unnamed(src, name, start)
            }
            State::Children => self.children(src, vocabulary),
            State::Peek => self.peek(src, vocabulary),
            State::Value(_) => self.value(src, vocabulary),
            State::Json(_) => self.json_text(src, vocabulary),
            State::Stray { probe } => {
                let probe = *probe;
                self.stray(src, probe)
            }
            State::Recover => self.recover(src),
            State::BareNext { end } => {
                let end = *end;
                self.bare_next(src, end)
            }
            State::DoubledClose { end } => {
                let end = *end;
                self.doubled_close(src, end)
            }
        }
    }

    fn between(&mut self, src: Source<'_>, vocabulary: &dyn Vocabulary) -> Flow {
        self.at = src.skip_blanks(self.at);
        let at = self.at;
        match src.byte(at) {
            None => self.input_ends(src),
            Some(b'{' | b'[') => self.begin_json(super::json_calls::Purpose::Calls),
            Some(b',') if self.block.calls > 0 => self.go(at + 1),
            // A closing bracket too many after a call in JSON.
            Some(b'}' | b']') if self.last_is_json() => {
                self.block.repair(Code::JsonRepaired);
                self.go(at + 1)
            }
            Some(b'`' | b'~') => match fence_marker(src, at) {
                Found::NotBefore(_) => Flow::Wait,
                Found::Never => self.meet_stray(),
                Found::At(after) => {
                    self.block.repair(Code::FencedBlock);
                    self.go(after)
                }
            },
            Some(b'<') => self.between_tag(src, vocabulary),
            Some(_) => self.meet_stray(),
        }
    }

    fn last_is_json(&self) -> bool {
        self.block.last.as_ref().is_some_and(|last| last.json)
    }

    pub(super) fn go(&mut self, at: usize) -> Flow {
        self.at = at;
        Flow::Go
    }

    pub(super) fn meet_stray(&mut self) -> Flow {
        self.state = State::Stray { probe: self.at };
        Flow::Go
    }

    fn between_tag(&mut self, src: Source<'_>, vocabulary: &dyn Vocabulary) -> Flow {
        let at = self.at;
        for (marker, opens) in [(JSON_OPEN, true), (JSON_CLOSE, false)] {
            match src.begins(at, marker.as_bytes()) {
                None => return Flow::Wait,
                Some(false) => {}
                Some(true) if opens => {
                    self.block.wrappers.push(marker.to_owned());
                    return self.go(at + marker.len());
                }
                Some(true) => return self.close_wrapper(JSON_OPEN, at + marker.len()),
            }
        }
        match lex(src, at) {
            Lex::More => Flow::Wait,
            Lex::Comment => self.pass_comment(src, at),
            Lex::Instruction => self.pass_instruction(src, at),
            Lex::Declaration => self.forbidden(src),
            Lex::Data if is_cut(src, at) => self.input_ends_in_tag(src),
            Lex::Data if !self.block.bare => match damaged_close(src, at, "action") {
                Damaged::More => Flow::Wait,
                Damaged::No => self.meet_stray(),
                Damaged::Until(after) => {
                    self.block.repair(Code::MangledClose);
                    self.between_close(src, "ACTION", after)
                }
            },
            Lex::Data | Lex::Section => self.meet_stray(),
            Lex::CutClose { name } => self.cut_close(src, name),
            Lex::Close { name, after } => self.between_close(src, name, after),
            Lex::Open { name, after } => {
                let kind = if name.eq_ignore_ascii_case("action") && vocabulary.tool(name).is_none() {
                    if self.block.calls > 0 {
                        return self.meet_stray();
                    }
                    TagKind::Opener
                } else if self.take_well_formed(src, vocabulary) {
                    return Flow::Go;
                } else {
                    TagKind::Call
                };
                self.state = State::Tag { scan: TagScan::new(at, after), name_len: name.len(), kind };
                Flow::Go
            }
        }
    }

    /// Continues after a comment; an unterminated one reaches to the end of the input.
    pub(super) fn pass_comment(&mut self, src: Source<'_>, at: usize) -> Flow {
        let found = self.comments.next(src, at + 4);
        self.skip(src, found, 3)
    }

    /// Continues after a processing instruction; an unterminated one reaches to the end of the input.
    pub(super) fn pass_instruction(&mut self, src: Source<'_>, at: usize) -> Flow {
        let found = self.instructions.next(src, at + 2);
        self.skip(src, found, 2)
    }

    /// Continues after a match of this length.
    fn skip(&mut self, src: Source<'_>, found: Found, len: usize) -> Flow {
        match found {
            Found::At(end) => self.go(end + len),
            Found::NotBefore(_) => Flow::Wait,
            Found::Never => self.go(src.len()),
        }
    }

    pub(super) fn forbidden(&mut self, src: Source<'_>) -> Flow {
        let rest = &src.bytes()[self.at + 2..];
        let len = rest.iter().take(LONGEST_DECLARATION).take_while(|byte| byte.is_ascii_alphabetic()).count();
        if len == rest.len() && len < LONGEST_DECLARATION && !src.ended() {
            return Flow::Wait;
        }
        let word = &src.text[self.at + 2..self.at + 2 + len];
        let message = format!("`<!{word}` is forbidden: DOCTYPE and entity declarations are never read");
        self.fail(src, Code::ForbiddenMarkup, message, "Leave it out.");
        Flow::Go
    }

    fn between_close(&mut self, src: Source<'_>, name: &str, after: usize) -> Flow {
        if self.block.wrappers.last().is_some_and(|open| open.eq_ignore_ascii_case(name)) {
            let name = name.to_owned();
            return self.close_wrapper(&name, after);
        }
        if !self.block.bare && name.eq_ignore_ascii_case("action") {
            if self.block.calls == 0 {
                self.at = self.block.start;
                self.fail(
                    src,
                    Code::EmptyAction,
                    "the block holds no call",
                    "Put a tool's tag into it, or leave it out.",
                );
                return Flow::Go;
            }
            if self.block.doubled {
                self.state = State::DoubledClose { end: after };
                self.at = after;
                return Flow::Go;
            }
            return self.end_block(src, after);
        }
        if self.block.last.as_ref().is_some_and(|last| last.tag == name) {
            self.block.repair(Code::MangledClose);
            return self.go(after);
        }
        self.meet_stray()
    }

    fn close_wrapper(&mut self, name: &str, after: usize) -> Flow {
        if self.block.wrappers.last().is_none_or(|open| !open.eq_ignore_ascii_case(name)) {
            return self.meet_stray();
        }
        self.block.wrappers.pop();
        self.at = after;
        self.after_call();
        Flow::Go
    }

    /// After a call or wrapper: a bare one may be the last.
    pub(super) fn after_call(&mut self) {
        let over = self.block.bare && self.block.wrappers.is_empty();
        self.state = if over { State::BareNext { end: self.at } } else { State::Between };
    }

    fn tag(
        &mut self,
        src: Source<'_>,
        vocabulary: &dyn Vocabulary,
        scanned: Scanned,
        start: usize,
        kind: TagKind,
    ) -> Flow {
        let tag = match scanned {
            Scanned::Tag(tag) => tag,
            Scanned::More => return Flow::Wait,
            Scanned::Cut => return self.truncated(src),
            Scanned::Broken(at) => {
                self.at = at;
                self.fail(
                    src,
                    Code::MalformedXml,
                    "a tag is not closed before the next one",
                    "Close every tag with `>`.",
                );
                return Flow::Go;
            }
        };
        match kind {
            TagKind::Opener => {
                self.block.doubled = true;
                self.at = tag.after;
                self.state = State::Between;
            }
            TagKind::Call => self.begin_call(src, vocabulary, &tag, start),
            TagKind::Parameter => self.begin_parameter(src, vocabulary, &tag, start),
        }
        Flow::Go
    }
}
