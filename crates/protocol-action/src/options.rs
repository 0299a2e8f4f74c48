//! Settings of one reading.

/// Bounds of one block; each exceeded one is a `limit_exceeded` with its name and value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Nested elements, the tool counted as one. Also the nesting of JSON text.
    pub depth: usize,
    /// Calls in a block.
    pub calls: usize,
    /// Bytes of a block.
    pub block_bytes: usize,
    /// Elements in a block.
    pub elements: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { depth: 64, calls: 256, block_bytes: 4 << 20, elements: 100_000 }
    }
}

impl Limits {
    /// The same with another depth.
    #[must_use]
    pub const fn with_depth(mut self, depth: usize) -> Self {
        self.depth = depth;
        self
    }

    /// The same with another number of calls.
    #[must_use]
    pub const fn with_calls(mut self, calls: usize) -> Self {
        self.calls = calls;
        self
    }

    /// The same with another size of a block, in bytes.
    #[must_use]
    pub const fn with_block_bytes(mut self, bytes: usize) -> Self {
        self.block_bytes = bytes;
        self
    }

    /// The same with another number of elements.
    #[must_use]
    pub const fn with_elements(mut self, elements: usize) -> Self {
        self.elements = elements;
        self
    }
}

/// Reason for which the model stopped, as far as the reader needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum FinishReason {
    /// The reply is complete, or no reason was given.
    #[default]
    Stop,
    /// It ran into a length limit: what is not closed was cut.
    Length,
    /// It stopped to have tools called.
    ToolCalls,
    /// A filter stopped it; read like a cut.
    ContentFilter,
}

impl FinishReason {
    /// Returns `true` when the text was cut rather than ended.
    pub const fn is_cut(self) -> bool {
        match self {
            Self::Length | Self::ContentFilter => true,
            Self::Stop | Self::ToolCalls => false,
        }
    }
}

/// A native tool call that came with the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeCall {
    /// The tool's name as sent.
    pub name: String,
    /// The arguments as JSON text; empty means none.
    pub arguments: String,
}

/// Everything besides text and vocabulary.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// Bounds of a block.
    pub limits: Limits,
    /// Reason for which the model stopped. A [`crate::Decoder`] receives it at the end instead.
    pub finish: FinishReason,
    /// Native calls that came with the text.
    pub native: Vec<NativeCall>,
}

impl Options {
    /// The same with other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The same with a reason to stop.
    #[must_use]
    pub fn with_finish(mut self, finish: FinishReason) -> Self {
        self.finish = finish;
        self
    }

    /// The same with native calls.
    #[must_use]
    pub fn with_native(mut self, native: Vec<NativeCall>) -> Self {
        self.native = native;
        self
    }
}
