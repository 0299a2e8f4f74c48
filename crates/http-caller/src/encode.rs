//! Percent-encoding: everything but unreserved characters.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Letters, digits, `-`, `.`, `_` and `~` stay.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A text as one part of a path or query.
pub(crate) fn component(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}
