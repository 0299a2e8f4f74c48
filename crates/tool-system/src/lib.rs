//! Built-in tools.
//!
//! Time, state, events, blobs and tasks under `system:`. What they work on are services of their calls,
//! found by type: an agent that lists a tool without its services is refused before it runs.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod blobs;
mod chinese;
mod events;
mod provider;
mod state;
mod tasks;
mod time;

pub use blobs::{BlobPart, BlobSource, MemoryBlobs};
pub use events::EventPublisher;
pub use provider::SystemTools;
pub use state::{MemoryState, PrivateState, StateSource, World, merged_state};

use tool_registry::{RegistryError, Tool};

/// The built-in tools. Each says what it needs, and an agent that lists one without it is refused before it runs.
///
/// # Errors
/// None in practice: the ids and schemas are fixed.
pub fn system_tools() -> Result<Vec<Tool>, RegistryError> {
    let states = state::private_tools().into_iter().chain(state::world_tools());
    let groups = time::tools().into_iter().chain(states).chain(events::tools());
    groups.chain(blobs::tools()).chain(tasks::tools()).map(|tool| tool.map(chinese::translated)).collect()
}

/// The main types are shared between threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<MemoryBlobs>();
    is_shared::<MemoryState>();
    is_shared::<SystemTools>();
};
