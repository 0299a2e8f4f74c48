//! Records of loops: what each pass began with, did, decided and left, read from the events of a run.
//!
//! Nothing is stored for it. A [`LoopReader`] takes the events in their order, each once, and gives a record with the end
//! of each pass and of each loop; it keeps what is open and nothing else, so that runs of any length are read page by page.

mod pass;
mod reader;
mod record;
mod short;

pub use reader::{LoopPage, LoopReader};
pub use record::{LoopEntry, LoopRecord, PassCall, PassFailure, PassRecord, PassReply};
