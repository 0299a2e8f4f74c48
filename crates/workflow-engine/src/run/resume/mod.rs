//! Resuming a run: replay of its log, checkpoints, and the nodes that were running.

pub(super) mod checkpoint;
pub(super) mod inner;
pub(super) mod replay;
pub(super) mod replay_index;
pub(super) mod restart;
pub(super) mod standing;
