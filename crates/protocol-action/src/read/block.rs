//! A block: its calls, what may stand between them, and its end (reading rules 7 to 9).

use std::collections::HashMap;
use std::ops::Range;

use crate::{Code, Diagnostic, Dialect, RawArgument, RawCall, SegmentKind, ShapeId, Span, Vocabulary};

use super::element::{Frame, FrameKind, Role};
use super::lex::{Damaged, Lex, OpenTag, Scanned, TagScan, attributes, damaged_close, is_cut, lex};
use super::output::Item;
use super::prose::{ends_line, fence_marker, is_think};
use super::source::{Found, Source};
use super::{Flow, Machine, State, TagOf, text};

/// More letters of a declaration are not shown.
const LONGEST_DECLARATION: usize = 20;
const JSON_OPEN: &str = "<<<TOOL_CALL>>>";
const JSON_CLOSE: &str = "<<<END_TOOL_CALL>>>";

/// What is known of the block that is being read.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) start: usize,
    /// Calls of another dialect without an `<ACTION>` around them.
    pub(super) bare: bool,
    /// Its opener was written more than once.
    doubled: bool,
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
    /// Values that were found to have no fitting close tag: for each place, from where to where.
    pub(super) no_fit: HashMap<String, (usize, usize)>,
    /// The close tags of the last call and its last parameter.
    pub(super) last: Option<(String, Option<String>)>,
    /// A call was not plain enough for the short way: the rest of the block is read the long way.
    long_way: bool,
    /// A close tag of the block that was seen ahead.
    pub(super) close_at: Option<usize>,
    /// The parameter whose value lacked its close tag last, for messages.
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
    /// Whether children `<param name="…">` are parameters of that name.
    pub(super) arguments: Vec<RawArgument>,
    pub(super) repairs: Vec<Code>,
    pub(super) last_parameter: Option<String>,
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

    fn repair(&mut self, code: Code) {
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
            State::Tag { scan, name_len, of } => {
                let scanned = scan.scan(src, *name_len);
                let (start, of) = (scan.start, *of);
                self.tag(src, vocabulary, scanned, start, of)
            }
            State::Unnamed { name, start } => {
                let (name, start) = (name.clone(), *start);
                self.unnamed(src, name, start)
            }
            State::Children => self.children(src),
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
            Some(b'{' | b'[') => self.begin_json(super::json_call::Purpose::Calls),
            Some(b',') if self.block.calls > 0 => self.go(at + 1),
            Some(b'`' | b'~') => match fence_marker(src, at) {
                None => Flow::Wait,
                Some(None) => self.to_stray(),
                Some(Some(after)) => {
                    self.block.repair(Code::FencedBlock);
                    self.go(after)
                }
            },
            Some(b'<') => self.between_tag(src, vocabulary),
            Some(_) => self.to_stray(),
        }
    }

    pub(super) fn go(&mut self, at: usize) -> Flow {
        self.at = at;
        Flow::Go
    }

    fn to_stray(&mut self) -> Flow {
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
            Lex::Comment => {
                let found = self.comments.next(src, at + 4);
                self.skip(src, found, 3)
            }
            Lex::Instruction => {
                let found = self.instructions.next(src, at + 2);
                self.skip(src, found, 2)
            }
            Lex::Declaration => self.forbidden(src),
            Lex::Data if is_cut(src, at) => self.input_ends_in_tag(src),
            Lex::Data if !self.block.bare => match damaged_close(src, at, "action") {
                Damaged::More => Flow::Wait,
                Damaged::No => self.to_stray(),
                Damaged::Until(after) => {
                    self.block.repair(Code::MangledClose);
                    self.between_close(src, "ACTION", after)
                }
            },
            Lex::Data | Lex::Section => self.to_stray(),
            Lex::CutClose { name } => self.cut_close(src, name),
            Lex::Close { name, after } => self.between_close(src, name, after),
            Lex::Open { name, after } => {
                let of = if name.eq_ignore_ascii_case("action") && vocabulary.tool(name).is_none() {
                    if self.block.calls > 0 {
                        return self.to_stray();
                    }
                    TagOf::Opener
                } else if self.take_well_formed(src, vocabulary) {
                    return Flow::Go;
                } else {
                    TagOf::Call
                };
                self.state = State::Tag { scan: TagScan::new(at, after), name_len: name.len(), of };
                Flow::Go
            }
        }
    }

    /// Goes on after what was found; without an end it reaches to the end of the input.
    pub(super) fn skip(&mut self, src: Source<'_>, found: Found, len: usize) -> Flow {
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
        if self.block.wrappers.last().is_some_and(|open| open == name) {
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
        if self.block.last.as_ref().is_some_and(|(tool, _)| tool == name) {
            self.block.repair(Code::MangledClose);
            return self.go(after);
        }
        self.to_stray()
    }

    /// After the close tag of a block that was opened twice: another one belongs to it.
    fn doubled_close(&mut self, src: Source<'_>, end: usize) -> Flow {
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

    fn close_wrapper(&mut self, name: &str, after: usize) -> Flow {
        if self.block.wrappers.last().is_none_or(|open| open != name) {
            return self.to_stray();
        }
        self.block.wrappers.pop();
        self.at = after;
        self.after_call();
        Flow::Go
    }

    /// After a call or wrapper: a bare one may be the last.
    fn after_call(&mut self) {
        let over = self.block.bare && self.block.wrappers.is_empty();
        self.state = if over { State::BareNext { end: self.at } } else { State::Between };
    }

    /// The close tag that the end of input cuts, if it may be the block's.
    fn cut_close(&mut self, src: Source<'_>, name: &str) -> Flow {
        let action = !self.block.bare && begins_ignoring_case("action", name);
        let wrapper = self.block.wrappers.last().is_some_and(|open| begins_ignoring_case(open, name));
        if !action && !wrapper {
            return self.to_stray();
        }
        self.block.repair(Code::MangledClose);
        self.input_ends(src)
    }

    fn input_ends_in_tag(&mut self, src: Source<'_>) -> Flow {
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
    fn input_ends(&mut self, src: Source<'_>) -> Flow {
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
        if let Some((tool, _)) = &self.block.last {
            diagnostic = diagnostic.with_tool(tool.clone());
        }
        self.out.diagnose(src.text, diagnostic, Span::new(src.len(), src.len()));
        self.end_block(src, src.len())
    }

    /// Reports a repair from the cursor up to `end`.
    pub(super) fn repair_at(&mut self, src: Source<'_>, code: Code, end: usize, message: String) {
        self.out.diagnose(src.text, Diagnostic::new(code, message), Span::new(self.at, end));
    }

    fn end_block(&mut self, src: Source<'_>, end: usize) -> Flow {
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

    fn tag(
        &mut self,
        src: Source<'_>,
        vocabulary: &dyn Vocabulary,
        scanned: Scanned,
        start: usize,
        of: TagOf,
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
        match of {
            TagOf::Opener => {
                self.block.doubled = true;
                self.at = tag.after;
                self.state = State::Between;
            }
            TagOf::Call => self.begin_call(src, vocabulary, &tag, start),
            TagOf::Parameter => self.begin_parameter(src, vocabulary, &tag, start),
        }
        Flow::Go
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

    /// Takes the call at the cursor the short way: in a whole text, when it is well-formed and plain.
    fn take_well_formed(&mut self, src: Source<'_>, vocabulary: &dyn Vocabulary) -> bool {
        if !src.ended() || self.out.live || self.block.long_way || self.block.calls >= self.limits.calls {
            return false;
        }
        let Some(read) = self.well_formed(src, vocabulary) else {
            self.block.long_way = true;
            return false;
        };
        let mut call = read.call;
        call.repairs = std::mem::take(&mut self.block.repairs);
        self.at = call.span.end;
        self.block.elements += read.elements;
        self.block.unclosed_name = None;
        self.block.last = Some((call.tool.clone(), read.last_parameter));
        self.push_call(call);
        self.after_call();
        true
    }

    fn begin_call(&mut self, src: Source<'_>, vocabulary: &dyn Vocabulary, tag: &OpenTag, start: usize) {
        self.at = tag.after;
        let name = &src.text[tag.name.clone()];
        let known = vocabulary.tool(name);
        let generic = known.is_none().then(|| generic(name)).flatten();
        let named = generic.and_then(|_| attribute(src, tag, &["name", "tool", "tool_name"]));
        if let (Some(dialect), Some(tool)) = (generic, named) {
            let parameters = vocabulary.tool(&tool);
            self.open_call(src, tool, dialect, tag.name.clone(), start, parameters);
        } else if generic.is_some() && name != "tool" && name != "invoke" && !tag.self_closed {
            self.state = State::Unnamed { name: tag.name.clone(), start };
            return;
        } else {
            self.open_call(src, name.to_owned(), Dialect::Action, tag.name.clone(), start, known);
            self.attribute_parameters(src, vocabulary, tag, known);
        }
        if tag.self_closed && matches!(self.state, State::Children) {
            self.close_call(src, tag.after);
        }
    }

    /// Declared parameters may be attributes of the tool's own tag; of an unknown tool all of them.
    fn attribute_parameters(
        &mut self,
        src: Source<'_>,
        vocabulary: &dyn Vocabulary,
        tag: &OpenTag,
        known: Option<ShapeId>,
    ) {
        let Some(call) = &mut self.block.call else { return };
        for found in attributes(src, tag) {
            let name = &src.text[found.name.clone()];
            if known.is_some_and(|tool| vocabulary.field(tool, name).is_none()) {
                continue;
            }
            let value = crate::RawValue::Text(text::decoded(&src.text[found.value.clone()]));
            call.arguments.push(RawArgument::new(name, Span::new(found.name.start, found.value.end), value));
        }
    }

    fn open_call(
        &mut self,
        src: Source<'_>,
        tool: String,
        dialect: Dialect,
        close: Range<usize>,
        start: usize,
        parameters: Option<ShapeId>,
    ) {
        if self.block.calls >= self.limits.calls {
            self.at = start;
            self.over_limit(src, "calls", self.limits.calls);
            return;
        }
        let number = self.block.calls;
        if !tool.is_empty() {
            self.call_starts(number, &tool);
        }
        self.block.path.clear();
        self.block.unclosed_name = None;
        let kind = parameters.map_or(FrameKind::Open, FrameKind::Object);
        self.block.frames.push(Frame::new(close.clone(), close, start, self.at, kind, Role::Call));
        self.block.call = Some(CallBuild {
            unnamed: tool.is_empty(),
            tool,
            dialect,
            start,
            number,
            arguments: Vec::new(),
            repairs: std::mem::take(&mut self.block.repairs),
            last_parameter: None,
        });
        self.state = State::Children;
    }

    pub(super) fn call_starts(&mut self, call: usize, tool: &str) {
        let name = self.out.note(tool);
        self.out.push(Item::CallStart { call, name });
    }

    /// After `<tool_call>` without a name: JSON, a name in a child, or whole calls.
    fn unnamed(&mut self, src: Source<'_>, name: Range<usize>, start: usize) -> Flow {
        self.at = src.skip_blanks(self.at);
        let tag = &src.text[name.clone()];
        let child = match src.byte(self.at) {
            None => return self.truncated(src),
            Some(b'<') => match lex(src, self.at) {
                Lex::More => return Flow::Wait,
                Lex::Comment => {
                    let found = self.comments.next(src, self.at + 4);
                    return self.skip(src, found, 3);
                }
                Lex::Open { name, .. } => Some(name),
                Lex::Close { .. }
                | Lex::CutClose { .. }
                | Lex::Data
                | Lex::Section
                | Lex::Instruction
                | Lex::Declaration => None,
            },
            Some(_) => None,
        };
        if child.is_some_and(|child| is_name_child(child) || is_arguments_child(child)) {
            let dialect = if tag == "tool_use" { Dialect::ToolUse } else { Dialect::ToolCall };
            self.open_call(src, String::new(), dialect, name, start, None);
        } else {
            self.block.wrappers.push(tag.to_owned());
            self.state = State::Between;
        }
        Flow::Go
    }

    /// The call whose frame is open ends before `after`.
    pub(super) fn close_call(&mut self, src: Source<'_>, after: usize) {
        let Some(frame) = self.block.frames.pop() else { return };
        let Some(build) = self.block.call.take() else { return };
        let inner = src.text.get(frame.inner..self.at).filter(|_| frame.mixed && build.arguments.is_empty());
        self.at = after;
        if build.tool.is_empty() {
            self.at = frame.start;
            let hint = "Put the tool's name into the tag or into a `<tool_name>`.";
            self.fail(src, Code::MalformedXml, "a call without the name of a tool", hint);
            return;
        }
        let mut call = RawCall::new(build.tool, build.dialect, Span::new(build.start, after));
        call.arguments = build.arguments;
        call.repairs = build.repairs;
        call.text = inner.unwrap_or_default().trim().to_owned();
        let tag = src.text[frame.close].to_owned();
        self.block.last = Some((tag, build.last_parameter));
        self.push_call(call);
        self.after_call();
    }

    pub(super) fn push_call(&mut self, call: RawCall) {
        self.block.calls += 1;
        if self.out.mute {
            return;
        }
        self.out.calls.push(call);
        self.out.push(Item::CallEnd(self.out.calls.len() - 1));
    }

    /// Something stands between calls that belongs to none. If the block is not closed later, its close
    /// tag is missing and this is text after the block. If it is, plain words are left out, and
    /// anything that could be a damaged call is an error.
    fn stray(&mut self, src: Source<'_>, probe: usize) -> Flow {
        match self.find_block_close(src, probe) {
            Closer::Comes => self.leave_out_words(src),
            // What cut the reply came after this block.
            Closer::Opener => self.ends_before_stray(src, Cut::Later),
            Closer::NotBefore(_) if self.block.calls == 0 => self.stray_is_wrong(src),
            Closer::NotBefore(probe) if !src.ended() => {
                self.state = State::Stray { probe };
                Flow::Wait
            }
            Closer::NotBefore(_) if src.end.is_some_and(crate::FinishReason::is_cut) => {
                self.ends_before_stray(src, Cut::Here)
            }
            Closer::NotBefore(_) => self.ends_before_stray(src, Cut::Later),
        }
    }

    /// Whether the block's close tag comes before another opener.
    fn find_block_close(&mut self, src: Source<'_>, mut probe: usize) -> Closer {
        if self.block.close_at.is_some_and(|at| at >= self.at) {
            return Closer::Comes;
        }
        loop {
            let rest = src.bytes().get(probe..).unwrap_or_default();
            let Some(found) = memchr::memchr(b'<', rest) else { return Closer::NotBefore(src.len()) };
            probe += found;
            match lex(src, probe) {
                Lex::More => return Closer::NotBefore(probe),
                Lex::Close { name, .. } if self.ends_block(name) => {
                    self.block.close_at = Some(probe);
                    return Closer::Comes;
                }
                Lex::Open { name, .. } if name.eq_ignore_ascii_case("action") && self.block.calls > 0 => {
                    return Closer::Opener;
                }
                Lex::Open { .. }
                | Lex::Close { .. }
                | Lex::CutClose { .. }
                | Lex::Data
                | Lex::Comment
                | Lex::Section
                | Lex::Instruction
                | Lex::Declaration => probe += 1,
            }
        }
    }

    fn leave_out_words(&mut self, src: Source<'_>) -> Flow {
        let rest = &src.bytes()[self.at..];
        let len = rest.iter().position(|byte| b"<>{}[]`~".contains(byte)).unwrap_or(rest.len());
        if self.block.calls == 0 || len == 0 || rest.get(len) != Some(&b'<') {
            return self.stray_is_wrong(src);
        }
        let end = self.at + len;
        self.repair_at(src, Code::RawMarkup, end, "text between the calls was left out".to_owned());
        self.state = State::Between;
        self.go(end)
    }

    fn stray_is_wrong(&mut self, src: Source<'_>) -> Flow {
        let hint = "Put nothing but calls into the block.";
        self.fail(src, Code::MalformedXml, "text between the calls of the block", hint);
        Flow::Go
    }

    fn ends_block(&self, name: &str) -> bool {
        match self.block.wrappers.first() {
            Some(wrapper) if self.block.bare => wrapper == name,
            Some(_) | None => name.eq_ignore_ascii_case("action"),
        }
    }

    fn ends_before_stray(&mut self, src: Source<'_>, cut: Cut) -> Flow {
        if cut == Cut::Here || self.block.value_unclosed || self.block.section_unclosed.is_some() {
            self.fail(src, Code::Truncated, "the block was not closed", "Send the whole block again.");
            return Flow::Go;
        }
        self.repair_at(src, Code::MissingClose, self.at, "the block's close tag is missing".to_owned());
        let end = self.at;
        self.end_block(src, end)
    }

    /// After an error: looks for the end of the block.
    fn recover(&mut self, src: Source<'_>) -> Flow {
        loop {
            let rest = src.bytes().get(self.at..).unwrap_or_default();
            let Some(found) = memchr::memchr(b'<', rest) else {
                self.at = src.len();
                return if src.ended() { self.end_block(src, src.len()) } else { Flow::Wait };
            };
            self.at += found;
            match lex(src, self.at) {
                Lex::More => return Flow::Wait,
                Lex::Close { name, after } if self.ends_block(name) => return self.end_block(src, after),
                Lex::Close { name, after }
                    if is_think(name) && !self.ignore_reasoning && self.blocks == 0 =>
                {
                    match ends_line(src, after) {
                        None => return Flow::Wait,
                        Some(true) => return self.all_was_reasoning(after),
                        Some(false) => self.at = after,
                    }
                }
                Lex::Open { .. }
                | Lex::Close { .. }
                | Lex::CutClose { .. }
                | Lex::Data
                | Lex::Comment
                | Lex::Section
                | Lex::Instruction
                | Lex::Declaration => self.at += 1,
            }
        }
    }

    /// After a bare call: consecutive ones are one block.
    fn bare_next(&mut self, src: Source<'_>, end: usize) -> Flow {
        loop {
            self.at = src.skip_blanks(self.at);
            let after = match src.byte(self.at) {
                None if src.ended() => return self.end_block(src, end),
                None => return Flow::Wait,
                Some(b'`' | b'~') => match fence_marker(src, self.at) {
                    None => return Flow::Wait,
                    Some(None) => return self.end_block(src, end),
                    Some(Some(after)) => after,
                },
                Some(b'<') => match self.bare_opener(src) {
                    None => return Flow::Wait,
                    Some(Next::Call) => {
                        self.state = State::Between;
                        return Flow::Go;
                    }
                    Some(Next::Skip(after)) => after,
                    Some(Next::Other) => return self.end_block(src, end),
                },
                Some(_) => return self.end_block(src, end),
            };
            self.at = after;
        }
    }

    fn bare_opener(&mut self, src: Source<'_>) -> Option<Next> {
        let at = self.at;
        if src.begins(at, JSON_OPEN.as_bytes())? {
            let leads = self.leads_to_call(src, at + JSON_OPEN.len())?;
            return Some(if leads { Next::Call } else { Next::Other });
        }
        match lex(src, at) {
            Lex::More => None,
            Lex::Comment => match self.comments.next(src, at + 4) {
                Found::At(end) => Some(Next::Skip(end + 3)),
                Found::NotBefore(_) => None,
                Found::Never => Some(Next::Other),
            },
            Lex::Open { name, after } if name == "tool_call" || name == "tool_use" => {
                match TagScan::new(at, after).scan(src, name.len()) {
                    Scanned::More => None,
                    Scanned::Tag(tag) if tag.self_closed => Some(Next::Call),
                    Scanned::Tag(tag) => {
                        let leads = self.leads_to_call(src, tag.after)?;
                        Some(if leads { Next::Call } else { Next::Other })
                    }
                    Scanned::Cut | Scanned::Broken(_) => Some(Next::Other),
                }
            }
            Lex::Open { .. }
            | Lex::Close { .. }
            | Lex::CutClose { .. }
            | Lex::Data
            | Lex::Section
            | Lex::Instruction
            | Lex::Declaration => Some(Next::Other),
        }
    }
}

/// Where a reply was cut, if it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Here,
    Later,
}

enum Closer {
    Comes,
    /// Another block begins first.
    Opener,
    /// Not before this place.
    NotBefore(usize),
}

enum Next {
    Call,
    Skip(usize),
    Other,
}

/// The dialect of an element that stands for a call and not for a tool of that name.
fn generic(name: &str) -> Option<Dialect> {
    match name {
        "tool_call" => Some(Dialect::ToolCall),
        "tool_use" => Some(Dialect::ToolUse),
        "tool" | "invoke" => Some(Dialect::Action),
        _tool => None,
    }
}

pub(super) fn is_name_child(name: &str) -> bool {
    matches!(name, "tool_name" | "name")
}

pub(super) fn is_arguments_child(name: &str) -> bool {
    matches!(name, "parameters" | "arguments" | "params" | "args" | "input")
}

/// The decoded value of the first attribute that has one of these names.
pub(super) fn attribute(src: Source<'_>, tag: &OpenTag, names: &[&str]) -> Option<String> {
    let found = attributes(src, tag);
    let value =
        names.iter().find_map(|name| found.iter().find(|one| &src.text[one.name.clone()] == *name))?;
    Some(text::decoded(&src.text[value.value.clone()])).filter(|value| !value.is_empty())
}

fn begins_ignoring_case(whole: &str, start: &str) -> bool {
    whole.len() >= start.len() && whole.as_bytes()[..start.len()].eq_ignore_ascii_case(start.as_bytes())
}

fn repair_text(code: Code) -> &'static str {
    match code {
        Code::MangledClose => "a close tag was damaged",
        Code::FencedBlock => "a code fence inside the block was dropped",
        _other => "mended",
    }
}
