//! Running a plan.

mod attempt;
mod container;
mod ending;
mod frame;
mod gather;
mod handle;
mod inner;
mod limits;
mod listen;
mod message;
mod options;
mod outcome;
mod owner;
mod replay;
mod restart;
mod saved;
mod settle;
mod shared;
mod start;
mod told;
mod verdict;
mod zone;

pub(crate) use frame::Key;
pub use handle::{RunHandle, RunRemote, run};
pub use message::Question;
pub(crate) use message::{Message, OpenStream};
pub use options::{Before, BeforeHook, OnFail, OnWaiting, RunOptions};
pub use outcome::RunOutcome;
pub(crate) use saved::layout_of;
pub(crate) use shared::RunShared;
