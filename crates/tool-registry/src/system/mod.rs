//! Tools that every agent may be given. What they work on comes from outside, by type.

mod blobs;
mod events;
mod knowledge;
mod state;
mod tasks;
mod time;

pub use blobs::{BlobPart, BlobSource, MemoryBlobs};
pub use events::{EventPublisher, MemoryEvents, Published};
pub use knowledge::{KnowledgeSource, Passage, knowledge_tool};
pub use state::{MemoryState, PrivateState, StateSource, World, merged_state};

use crate::registry::RegistryError;
use crate::tool::Tool;

/// The built-in tools. Each says what it needs, and an agent that lists one without it is refused before it runs.
///
/// # Errors
/// None in practice: the ids and schemas are fixed.
pub fn system_tools() -> Result<Vec<Tool>, RegistryError> {
    let groups = time::tools().into_iter().chain(state::tools()).chain(events::tools());
    groups.chain(blobs::tools()).chain(tasks::tools()).collect()
}
