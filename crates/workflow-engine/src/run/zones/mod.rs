//! Zones and groups that run as one node: passes, limits of time, further attempts.
//!
//! The end of a container goes up as a [`ContainerEnd`]: its node ends like any other.

mod condition;
pub(super) mod containers;
pub(super) mod passes;
pub(super) mod state;
mod values;
pub(super) mod zone_run;

use super::graph_state::frame::Key;
use super::workers::failure::Failure;
use crate::error::RunError;
use crate::outputs::Outputs;

/// End of a container, for the node that it is.
pub(super) enum ContainerEnd {
    Finished {
        key: Key,
        span: u64,
        outputs: Outputs,
        attempt: Option<u32>,
    },
    /// No attempt is left; the error is that of the run if nothing handles it.
    Failed {
        key: Key,
        span: u64,
        failure: Box<Failure>,
        error: Box<RunError>,
    },
}
