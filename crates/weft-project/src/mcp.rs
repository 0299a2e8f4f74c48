//! Servers of the Model Context Protocol that `weft.toml` names.

use std::sync::Arc;

use mcp_bridge::{McpClients, PinStore};
use run_store::Store;

use crate::error::ProjectError;
use crate::project::Project;

/// Tool descriptions of servers, kept with the project's runs.
#[derive(Debug)]
pub(crate) struct StoredPins(pub(crate) Store);

impl PinStore for StoredPins {
    fn pin(&self, tool: &str) -> Option<String> {
        self.0.value(&key(tool)).ok()?.and_then(|value| value.as_str().map(str::to_owned))
    }

    fn set_pin(&self, tool: &str, pin: &str) {
        let pin = serde_json::Value::from(pin);
        // It counts from now on, also for a process that begins right after.
        let kept = self.0.update(&key(tool), move |_| Ok::<_, std::convert::Infallible>(pin));
        if let Err(error) = kept {
            log::error!("what the server says of {tool} could not be kept: {error}");
        }
    }
}

fn key(tool: &str) -> String {
    format!("pin:{tool}")
}

impl Project {
    /// The servers that `weft.toml` names. They are reached when one of their tools is asked for, which blocks.
    ///
    /// # Errors
    /// The store, which keeps what they said, cannot be used.
    pub fn mcp(&self) -> Result<&Arc<McpClients>, ProjectError> {
        if let Some(clients) = self.mcp_slot().get() {
            return Ok(clients);
        }
        let pins: Arc<dyn PinStore> = match self.store()? {
            Some(store) => Arc::new(StoredPins(store.clone())),
            None => Arc::new(mcp_bridge::MemoryPins::default()),
        };
        let clients = McpClients::new(&self.settings().mcp, self.root(), self.clock(), &pins);
        Ok(self.mcp_slot().get_or_init(|| clients))
    }
}

#[cfg(test)]
mod tests {
    use run_store::{Backend as _, Sqlite, StoreOptions, Sync};

    use super::*;

    #[test]
    fn what_is_trusted_is_in_the_file_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weft.db");
        let backend = Arc::new(Sqlite::open(&path, Sync::Normal).unwrap());
        let pins = StoredPins(Store::new(backend, StoreOptions::default()).unwrap());
        // As another process sees it, when this one ends right after.
        let file = Sqlite::open(&path, Sync::Normal).unwrap();
        for n in 0..20 {
            let (tool, pin) = (format!("mcp:s/{n}"), format!("p{n}"));
            pins.set_pin(&tool, &pin);
            assert_eq!(file.value(&key(&tool)).unwrap(), Some(pin.into()));
        }
    }
}
