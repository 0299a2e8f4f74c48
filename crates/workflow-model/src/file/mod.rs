//! The reader and writer behind the types of this crate: every fault of a file at once, nothing lost.

pub(crate) mod field;
pub(crate) mod object;
pub(crate) mod report;
