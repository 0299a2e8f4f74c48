//! Frame of a checkpoint: the format of the state and the layout of the plan that it belongs to.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Format of the state inside a checkpoint, and the layout of its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointFrame {
    /// Version of the state's format.
    pub version: u32,
    /// Number that plans with the same parts in the same order share.
    pub layout: u64,
}

/// Reason why a run cannot resume from a checkpoint. Its log still has the whole run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The state has the format of another version.
    #[error("the checkpoint has format {found}, and this version reads {wanted}")]
    OtherVersion {
        /// Format of the checkpoint.
        found: u32,
        /// Format that is read.
        wanted: u32,
    },
    /// The plan numbers its parts in another way.
    #[error("the workflow has changed since the snapshot")]
    OtherLayout,
    /// The text is not a checkpoint.
    #[error("the checkpoint cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
}

impl CheckpointError {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "bad_snapshot"
    }
}

#[derive(Serialize)]
struct Framed<'s, S> {
    #[serde(flatten)]
    frame: CheckpointFrame,
    #[serde(flatten)]
    state: &'s S,
}

impl CheckpointFrame {
    /// Writes a state, an object, into the frame.
    ///
    /// # Errors
    /// The state is not an object, or a part of it cannot be written.
    pub fn write(self, state: &impl Serialize) -> Result<String, CheckpointError> {
        Ok(serde_json::to_string(&Framed { frame: self, state })?)
    }

    /// Reads the state of a checkpoint with this frame.
    ///
    /// # Errors
    /// The checkpoint has another frame or cannot be read.
    pub fn read<S: DeserializeOwned>(self, text: &str) -> Result<S, CheckpointError> {
        let Self { version, layout } = read(text)?;
        if version != self.version {
            return Err(CheckpointError::OtherVersion { found: version, wanted: self.version });
        }
        if layout != self.layout {
            return Err(CheckpointError::OtherLayout);
        }
        Ok(read(text)?)
    }

    /// Returns `true` if a checkpoint has this frame.
    #[must_use]
    pub fn fits(self, text: &str) -> bool {
        read::<Self>(text).is_ok_and(|own| own == self)
    }
}

/// Values of a state may be as deep as values are anywhere, and lie deeper in it.
fn read<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    let mut reader = serde_json::Deserializer::from_str(text);
    reader.disable_recursion_limit();
    T::deserialize(&mut reader)
}
