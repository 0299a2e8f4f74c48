//! Running nodes: attempts, permits, and what they say to the run.

pub(super) mod attempt;
pub(super) mod mailbox;
pub(super) mod message;
pub(super) mod permits;
pub(super) mod start;
