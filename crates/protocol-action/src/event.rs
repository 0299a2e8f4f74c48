//! Events that a [`crate::Decoder`] emits while the text arrives.

use crate::{Diagnostic, RawCall};

/// One step of reading, in source order. Borrowed from the decoder: no allocation for a delta.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Text for the user.
    Text {
        /// The next piece.
        text: &'a str,
    },
    /// Reasoning.
    Reasoning {
        /// The next piece.
        text: &'a str,
    },
    /// A `</think>` without an open tag came: everything before it, text and block alike, was
    /// reasoning. Forget what was shown.
    Retracted,
    /// The block begins.
    BlockStart,
    /// A tool's tag was read. Nothing may run yet.
    CallStart {
        /// Number of the call in the block, from 0.
        call: usize,
        /// The tag or name as written.
        tool: &'a str,
    },
    /// A parameter, field or item begins.
    ParamStart {
        /// Number of the call.
        call: usize,
        /// Names from the parameter inwards, each after a `/`; items of a declared list by number.
        path: &'a str,
    },
    /// The next piece of a declared string, decoded; never taken back.
    ParamDelta {
        /// The piece.
        text: &'a str,
    },
    /// The innermost parameter ends.
    ParamEnd,
    /// A call was closed. It may run once [`crate::Decoder::finish`] reports no error, not before.
    CallEnd {
        /// The call.
        call: &'a RawCall,
    },
    /// The block ends.
    BlockEnd,
    /// A finding.
    Diagnostic {
        /// The finding.
        diagnostic: &'a Diagnostic,
    },
}
