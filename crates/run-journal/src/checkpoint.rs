//! Frame of a checkpoint: the format of the state and the layout of the plan that it belongs to.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Serialize};

const CHANGED: &str = "the workflow or the format of checkpoints has changed since the checkpoint";

/// Format of the state inside a checkpoint, and the layout of its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointFrame {
    /// Version of the state's format.
    pub version: u32,
    /// Number that plans with the same parts in the same order share.
    pub layout: u64,
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
    pub fn write(self, state: &impl Serialize) -> serde_json::Result<String> {
        serde_json::to_string(&Framed { frame: self, state })
    }

    /// Reads the state of a checkpoint with this frame.
    ///
    /// # Errors
    /// The checkpoint has another frame or cannot be read.
    pub fn read<S: DeserializeOwned>(self, text: &str) -> serde_json::Result<S> {
        if self.fits(text) { read(text) } else { Err(serde_json::Error::custom(CHANGED)) }
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
