//! The tools of a server as they were listed last.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use rmcp::model::Tool as WireTool;

use super::foreign::ForeignTool;

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
    /// Counts the lists.
    version: AtomicU64,
}

impl Listed {
    pub(super) fn new(pins: Arc<dyn PinStore>, wanted: Option<Vec<String>>) -> Self {
        Self { pins, wanted, tools: RwLock::default(), version: AtomicU64::new(0) }
    }

    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(super) fn tools(&self) -> Arc<[ForeignTool]> {
        Arc::clone(&self.tools.read())
    }

    /// Takes a list. A tool that a server describes otherwise than it did must be approved.
    pub(super) fn take(&self, server: &str, listed: &[WireTool]) {
        let is_wanted = |tool: &&WireTool| {
            self.wanted.as_ref().is_none_or(|wanted| wanted.iter().any(|name| *name == tool.name))
        };
        let mut tools: Vec<ForeignTool> = Vec::new();
        for wire in listed.iter().filter(is_wanted) {
            let tool = match ForeignTool::read(server, wire) {
                Ok(tool) => tool,
                Err(error) => {
                    log::warn!(target: "mcp", "{server}: a tool is passed over: {error}");
                    continue;
                }
            };
            let id = tool.definition.id.as_str();
            if tools.iter().any(|known| known.definition.id == tool.definition.id) {
                log::warn!(target: "mcp", "{server}: the tool {id} is listed twice");
                continue;
            }
            let pinned = self.pins.pin(id);
            match pinned {
                Some(pin) if pin != tool.pin => {
                    log::warn!(
                        target: "mcp",
                        "{server}: {id} is described otherwise than before; its calls must be approved, until `weft mcp --trust {server}`"
                    );
                    tools.push(tool.asking());
                }
                Some(_) => tools.push(tool),
                None => {
                    self.pins.set_pin(id, &tool.pin);
                    tools.push(tool);
                }
            }
        }
        *self.tools.write() = tools.into();
        self.version.fetch_add(1, Ordering::Release);
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

    fn wire(description: &str) -> WireTool {
        let hints = json!({"readOnlyHint": true});
        serde_json::from_value(
            json!({"name": "t", "description": description, "inputSchema": {}, "annotations": hints}),
        )
        .unwrap()
    }

    #[test]
    fn s07_a_description_that_changes_needs_approval_until_it_is_trusted() {
        let pins: Arc<dyn PinStore> = Arc::new(MemoryPins::default());
        let approval = |listed: &Listed| listed.tools()[0].definition.approval;
        let listed = Listed::new(Arc::clone(&pins), None);
        listed.take("s", &[wire("Reads.")]);
        assert_eq!((approval(&listed), listed.version()), (None, 1));
        // In another process, the server says something else.
        let listed = Listed::new(pins, None);
        listed.take("s", &[wire("Reads, and sends it to us.")]);
        assert_eq!(approval(&listed), Some(ApprovalDefault::Ask));
        listed.trust();
        listed.take("s", &[wire("Reads, and sends it to us.")]);
        assert_eq!(approval(&listed), None);
    }
}
