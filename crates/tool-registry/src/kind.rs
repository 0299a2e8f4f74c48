//! Kinds of tools, open to new ones.

use std::fmt;

use agent_types::{Annotations, ApprovalDefault};
use serde::{Serialize, Serializer};

/// Kind of a tool: its name on the wire, on the command line and on the page, and its default approval.
///
/// A crate that adds tools of its own declares its kind as a constant.
///
/// ```
/// use tool_registry::ToolKind;
///
/// const SHELL: ToolKind = ToolKind::foreign("shell");
/// assert_eq!(SHELL.as_str(), "shell");
/// assert_ne!(SHELL, ToolKind::NATIVE);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ToolKind {
    name: &'static str,
    /// `true` if a call needs approval unless the tool is read-only.
    is_foreign: bool,
}

impl ToolKind {
    /// Kind of Rust functions of this process.
    pub const NATIVE: Self = Self::own("native");

    /// A kind whose tools state their effects truthfully: a call needs approval only where the tool has an effect.
    #[must_use]
    pub const fn own(name: &'static str) -> Self {
        Self { name, is_foreign: false }
    }

    /// A kind whose tools act outside of this process: a call needs approval unless the tool is read-only.
    #[must_use]
    pub const fn foreign(name: &'static str) -> Self {
        Self { name, is_foreign: true }
    }

    /// The name, such as `native`; never reworded.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.name
    }

    /// Approval that a call needs where the tool's definition leaves it open.
    #[must_use]
    pub const fn approval(self, annotations: &Annotations) -> ApprovalDefault {
        let asks = if self.is_foreign { !annotations.read_only } else { annotations.effect };
        if asks { ApprovalDefault::Ask } else { ApprovalDefault::Auto }
    }
}

impl fmt::Display for ToolKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Serialize for ToolKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}
