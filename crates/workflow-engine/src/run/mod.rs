//! Running a plan.

mod attempt;
mod checkpoint;
mod container;
mod finalize;
mod frame;
mod handle;
mod inner;
mod inputs;
mod lifecycle;
mod limits;
mod mailbox;
mod message;
mod options;
mod outcome;
mod propagate;
mod replay;
mod replay_index;
mod restart;
mod scheduler;
mod shared;
mod standing;
mod start;
mod zone;

pub(crate) use checkpoint::layout_of;
pub(crate) use frame::Key;
pub use handle::{RunHandle, RunRemote, run};
pub use message::Question;
pub(crate) use message::{Message, OpenStream};
pub use options::{Before, BeforeHook, OnFail, OnWaiting, RunOptions};
pub use outcome::RunOutcome;
pub(crate) use shared::RunShared;
pub use standing::standing;
