//! Frames, the values of their slots, and the propagation of ends.

pub(super) mod frame;
pub(super) mod inputs;
pub(super) mod propagate;
