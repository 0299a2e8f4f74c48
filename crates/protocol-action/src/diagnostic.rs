//! Findings of the reader about a reply, besides its calls.

use serde::Serialize;

use crate::Span;

/// Severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing; the calls stand.
    Note,
    /// The text was repaired without guessing; the calls stand.
    Repair,
    /// The block is refused as a whole.
    Error,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident => ($text:literal, $severity:ident),)*) => {
        /// The stable name of a finding; never reworded. Codes marked *schema* are found by
        /// `tool-schema`, and stand here so that there is one list.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            /// Every code there is.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The name on the wire, in logs and in tests.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Returns the severity of a code; a code has exactly one.
            pub const fn severity(self) -> Severity {
                match self { $(Self::$name => Severity::$severity,)* }
            }
        }
    };
}

codes! {
    /// The input ended inside a call, or in a block before its first one, or the model stopped for length.
    Truncated => ("truncated", Error),
    /// The structure cannot be recovered without guessing.
    MalformedXml => ("malformed_xml", Error),
    /// A block without a call.
    EmptyAction => ("empty_action", Error),
    /// Not offered. *schema*
    UnknownTool => ("unknown_tool", Error),
    /// Not declared. *schema*
    UnknownParameter => ("unknown_parameter", Error),
    /// Required and absent. *schema*
    MissingParameter => ("missing_parameter", Error),
    /// Two different values for one parameter. *schema*
    DuplicateParameter => ("duplicate_parameter", Error),
    /// Type, enum or JSON text does not fit. *schema*, and here for the arguments of a native call.
    InvalidArgument => ("invalid_argument", Error),
    /// Depth, count or size over a stated limit.
    LimitExceeded => ("limit_exceeded", Error),
    /// DOCTYPE or entity declarations.
    ForbiddenMarkup => ("forbidden_markup", Error),
    /// A full call only inside reasoning that never closed.
    ActionInReasoning => ("action_in_reasoning", Error),
    /// The tool's tag was another spelling of its name. *schema*
    ToolName => ("tool_name", Repair),
    /// A close tag was missing and its position is certain.
    MissingClose => ("missing_close", Repair),
    /// A close tag was damaged, doubled or closed nothing.
    MangledClose => ("mangled_close", Repair),
    /// A CDATA section had no end and closed with its value.
    UnclosedCdata => ("unclosed_cdata", Repair),
    /// A string holds markup that was not escaped.
    RawMarkup => ("raw_markup", Repair),
    /// A code fence inside the block was dropped.
    FencedBlock => ("fenced_block", Repair),
    /// JSON text with a safe repair.
    JsonRepaired => ("json_repaired", Repair),
    /// Blanks around a string of one line that stands on lines of its own.
    ValueLayout => ("value_layout", Repair),
    /// Text alone in a call was the value of its tool's one required string.
    BareText => ("bare_text", Repair),
    /// Parameters for a tool that has none were left out. *schema*
    ExtraParameter => ("extra_parameter", Repair),
    /// A value changed its type. *schema*
    Coerced => ("coerced", Repair),
    /// A block after the first; it is not run.
    SecondBlock => ("second_block", Note),
    /// A native call that is not run, because the text holds calls.
    NativeIgnored => ("native_ignored", Note),
    /// An opener read as text although a tag follows it.
    OpenerIgnored => ("opener_ignored", Note),
    /// Bytes that are not UTF-8 became U+FFFD.
    BadUtf8 => ("bad_utf8", Note),
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Finding with its position in the reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Diagnostic {
    /// Code of the finding.
    pub code: Code,
    /// Severity of the code, as in [`Code::severity`].
    pub severity: Severity,
    /// Byte range in the reply after invalid UTF-8 was replaced. Empty at 0 for native calls.
    pub span: Span,
    /// Line of the start, from 1; 0 for a finding without a position in the text (native calls).
    pub line: usize,
    /// Column of the start in characters, from 1; 0 for a finding without a position.
    pub column: usize,
    /// A lower-case fragment without a full stop.
    pub message: String,
    /// Suggested fix, one sentence; empty when there is none.
    pub hint: String,
    /// The tool whose call it concerns, as written.
    pub tool: Option<String>,
    /// The parameter it concerns, as written.
    pub parameter: Option<String>,
}

impl Diagnostic {
    /// Creates a finding without a position; `with_*` methods add to it.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: code.severity(),
            span: Span::default(),
            line: 0,
            column: 0,
            message: message.into(),
            hint: String::new(),
            tool: None,
            parameter: None,
        }
    }

    /// Puts it at `span`, whose line and column follow from `text`.
    #[must_use]
    pub fn at(mut self, text: &str, span: Span) -> Self {
        self.span = span;
        let before = text.get(..span.start).unwrap_or(text);
        self.line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
        self.column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        self
    }

    /// Adds advice.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Names the tool.
    #[must_use]
    pub fn with_tool(mut self, tool: impl Into<String>) -> Self {
        self.tool = Some(tool.into());
        self
    }

    /// Names the parameter.
    #[must_use]
    pub fn with_parameter(mut self, parameter: impl Into<String>) -> Self {
        self.parameter = Some(parameter.into());
        self
    }
}
