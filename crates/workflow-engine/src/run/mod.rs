//! Running a plan.

mod finalize;
mod graph_state;
mod handle;
mod lifecycle;
mod options;
mod outcome;
mod resume;
mod scheduler;
mod shared;
mod workers;
mod zones;

pub(crate) use graph_state::frame::Key;
pub use handle::{RunHandle, RunRemote, run};
pub use options::{Before, BeforeHook, OnFail, OnWaiting, RunOptions};
pub use outcome::RunOutcome;
pub(crate) use resume::checkpoint::frame_of;
pub use resume::standing::standing;
pub(crate) use shared::RunShared;
pub use workers::message::Question;
pub(crate) use workers::message::{Message, OpenStream};
