//! Resuming a run: replay of its log, checkpoints, and the nodes that were running.

pub(in crate::run) mod checkpoint;
pub(in crate::run) mod inner;
pub(in crate::run) mod replay;
pub(in crate::run) mod replay_index;
pub(in crate::run) mod restart;
pub(crate) mod standing;
