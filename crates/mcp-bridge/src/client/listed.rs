//! The tools of a server as they were listed last.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::foreign::{ForeignTool, harmless};
use super::listing::{ListFault, ToolListing};
use parking_lot::{Mutex, RwLock};

/// Longest note on a list, in characters.
const MAX_NOTE: usize = 500;

/// Store of the tool descriptions that the user first saw.
pub trait PinStore: Send + Sync + std::fmt::Debug {
    /// Pinned description of a tool.
    fn pin(&self, tool: &str) -> Option<String>;

    /// Keeps it.
    fn set_pin(&self, tool: &str, pin: &str);
}

/// Pins that are gone with the process.
#[derive(Debug, Default)]
pub struct MemoryPins(Mutex<std::collections::HashMap<String, String>>);

impl PinStore for MemoryPins {
    fn pin(&self, tool: &str) -> Option<String> {
        self.0.lock().get(tool).cloned()
    }

    fn set_pin(&self, tool: &str, pin: &str) {
        self.0.lock().insert(tool.to_owned(), pin.to_owned());
    }
}

/// The tools of a server as they were listed last.
#[derive(Debug)]
pub(super) struct Listed {
    pins: Arc<dyn PinStore>,
    /// The tools that count; none means all.
    wanted: Option<Vec<String>>,
    tools: RwLock<Arc<[ForeignTool]>>,
    /// Entries that cannot be used.
    refused: RwLock<Arc<[ListFault]>>,
    /// Counts the lists.
    version: AtomicU64,
}

impl Listed {
    pub(super) fn new(pins: Arc<dyn PinStore>, wanted: Option<Vec<String>>) -> Self {
        Self {
            pins,
            wanted,
            tools: RwLock::default(),
            refused: RwLock::default(),
            version: AtomicU64::new(0),
        }
    }

    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(super) fn tools(&self) -> Arc<[ForeignTool]> {
        Arc::clone(&self.tools.read())
    }

    /// Entries of the last list that cannot be used.
    pub(super) fn refused(&self) -> Arc<[ListFault]> {
        Arc::clone(&self.refused.read())
    }

    /// Takes a list. A tool that a server describes otherwise than it did must be approved.
    pub(super) fn take(&self, server: &str, listing: ToolListing) {
        let is_wanted =
            |tool: &str| self.wanted.as_ref().is_none_or(|wanted| wanted.iter().any(|name| name == tool));
        let ToolListing { tools: listed, mut refused, notes } = listing;
        let mut tools: Vec<ForeignTool> = Vec::new();
        for wire in listed.iter().filter(|tool| is_wanted(&tool.name)) {
            match ForeignTool::read(server, wire) {
                Ok(tool) if tools.iter().any(|known| known.definition.id == tool.definition.id) => {
                    log::warn!(target: "mcp", "{server}: the tool {} is listed twice", tool.definition.id);
                }
                Ok(tool) => tools.push(self.pinned(server, tool)),
                Err(fault) => refused.push(fault),
            }
        }
        for note in notes {
            log::warn!(target: "mcp", "{server}: {}", harmless(&note, MAX_NOTE));
        }
        for fault in &refused {
            log::warn!(target: "mcp", "{server}: the tool {} is passed over: {}", fault.tool, fault.reason);
        }
        refused.retain(|fault| is_wanted(&fault.tool));
        *self.refused.write() = refused.into();
        *self.tools.write() = tools.into();
        self.version.fetch_add(1, Ordering::Release);
    }

    /// The same tool, which requires approval if it is described otherwise than it was.
    fn pinned(&self, server: &str, tool: ForeignTool) -> ForeignTool {
        let id = tool.definition.id.as_str();
        match self.pins.pin(id) {
            Some(pin) if pin != tool.pin => {
                log::warn!(
                    target: "mcp",
                    "{server}: {id} is described otherwise than before; its calls must be approved, until `weft mcp --trust {server}`"
                );
                tool.asking()
            }
            Some(_) => tool,
            None => {
                self.pins.set_pin(id, &tool.pin);
                tool
            }
        }
    }

    /// Takes what the server says now for good.
    pub(super) fn trust(&self) {
        for tool in self.tools().iter() {
            self.pins.set_pin(tool.definition.id.as_str(), &tool.pin);
        }
    }
}

#[cfg(test)]
mod tests {
    use agent_types::ApprovalDefault;
    use serde_json::json;

    use super::*;

    fn listing(description: &str) -> ToolListing {
        let hints = json!({"readOnlyHint": true});
        let tool = json!({"name": "t", "description": description, "inputSchema": {}, "annotations": hints});
        ToolListing { tools: vec![serde_json::from_value(tool).unwrap()], ..ToolListing::default() }
    }

    #[test]
    fn s07_a_description_that_changes_needs_approval_until_it_is_trusted() {
        let pins: Arc<dyn PinStore> = Arc::new(MemoryPins::default());
        let approval = |listed: &Listed| listed.tools()[0].definition.approval;
        let listed = Listed::new(Arc::clone(&pins), None);
        listed.take("s", listing("Reads."));
        assert_eq!((approval(&listed), listed.version()), (None, 1));
        // In another process, the server says something else.
        let listed = Listed::new(pins, None);
        listed.take("s", listing("Reads, and sends it to us."));
        assert_eq!(approval(&listed), Some(ApprovalDefault::Ask));
        listed.trust();
        listed.take("s", listing("Reads, and sends it to us."));
        assert_eq!(approval(&listed), None);
    }
}
