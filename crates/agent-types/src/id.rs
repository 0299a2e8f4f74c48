//! Names of tools, runs and calls.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use unicode_normalization::{UnicodeNormalization, is_nfc};

/// Longest canonical tool id, in bytes.
const MAX_ID_BYTES: usize = 256;

/// Canonical id of a tool: `namespace:name`, or a bare name.
///
/// Segments are Unicode letters, digits, `_`, `.` and `-` in NFC; `/` parts a path and further `:` stay in the name
/// (`node:core:TextMerge`). Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct ToolId(Arc<str>);

/// Reason why a text is not a valid [`ToolId`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidToolId {
    /// The text, or a segment between `:` and `/`, is empty.
    #[error("tool id `{id}` has an empty part")]
    Empty {
        /// The refused text.
        id: String,
    },
    /// A character that no segment may hold.
    #[error("tool id `{id}` holds `{character}`, which no id may hold")]
    Character {
        /// The refused text.
        id: String,
        /// The first character that is not allowed.
        character: char,
    },
    /// More than 256 bytes.
    #[error("tool id of {bytes} bytes is longer than {MAX_ID_BYTES}")]
    TooLong {
        /// Length of the refused text.
        bytes: usize,
    },
}

impl InvalidToolId {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "invalid_tool_id"
    }
}

impl ToolId {
    /// The id as written, in NFC.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part before the first `:`; `None` for a bare id.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.0.split_once(':').map(|(namespace, _)| namespace)
    }

    /// The part after the first `:`, or the whole of a bare id.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.split_once(':').map_or(&*self.0, |(_, name)| name)
    }
}

impl FromStr for ToolId {
    type Err = InvalidToolId;

    fn from_str(text: &str) -> Result<Self, InvalidToolId> {
        if text.len() > MAX_ID_BYTES {
            return Err(InvalidToolId::TooLong { bytes: text.len() });
        }
        let text: Cow<'_, str> =
            if is_nfc(text) { Cow::Borrowed(text) } else { Cow::Owned(text.nfc().collect()) };
        for segment in text.split([':', '/']) {
            if segment.is_empty() || segment == "." || segment == ".." {
                return Err(InvalidToolId::Empty { id: text.into_owned() });
            }
            if let Some(character) =
                segment.chars().find(|&c| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '-')))
            {
                return Err(InvalidToolId::Character { id: text.into_owned(), character });
            }
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for ToolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ToolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToolId({})", self.0)
    }
}

impl AsRef<str> for ToolId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for ToolId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for ToolId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for ToolId {
    fn schema_name() -> Cow<'static, str> {
        "ToolId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "Canonical tool id: `namespace:name`, or a bare name.",
            "minLength": 1,
            "maxLength": MAX_ID_BYTES,
        })
    }
}

macro_rules! opaque_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes the id as it is.
            #[must_use]
            pub fn new(id: impl Into<Arc<str>>) -> Self {
                Self(id.into())
            }

            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

opaque_id! {
    /// Id of one execution: an agent run, or a workflow run of its own.
    RunId
}
opaque_id! {
    /// Id of one tool call within a run.
    CallId
}

impl RunId {
    /// A new id that no other process makes: the time in milliseconds and 128 random bits, sortable by time.
    #[must_use]
    pub fn generate() -> Self {
        use std::hash::{BuildHasher, Hasher};
        let now = crate::Timestamp::from_system().as_millis();
        // `RandomState` draws its keys from the operating system once and counts on from there.
        let mut random = std::collections::hash_map::RandomState::new().build_hasher();
        let first = random.finish();
        random.write_u8(1);
        Self::new(format!("r{now:011x}-{first:016x}{:016x}", random.finish()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<(Option<&str>, &str), &str>) {
        let got = text.parse::<ToolId>();
        match (&got, expected) {
            (Ok(id), Ok((namespace, name))) => {
                assert_eq!((id.namespace(), id.name()), (namespace, name));
            }
            (Err(error), Err(message)) => assert!(error.to_string().contains(message), "{error}"),
            _ => panic!("{text:?} gave {got:?}"),
        }
    }

    #[test]
    fn ids_parse_by_their_grammar() {
        check("system:get_current_time", Ok((Some("system"), "get_current_time")));
        check("ReadWorldStateTool", Ok((None, "ReadWorldStateTool")));
        check("mcp:server/tool", Ok((Some("mcp"), "server/tool")));
        check("node:core:TextMerge", Ok((Some("node"), "core:TextMerge")));
        check("workflow:摘要", Ok((Some("workflow"), "摘要")));
        check("", Err("empty part"));
        check("a:", Err("empty part"));
        check("workflow:../x", Err("empty part"));
        check("a b", Err("holds ` `"));
        check("a<b", Err("holds `<`"));
        check(&"x".repeat(257), Err("257 bytes"));
    }

    #[test]
    fn ids_are_normalised() {
        let composed: ToolId = "caf\u{e9}".parse().unwrap();
        let decomposed: ToolId = "cafe\u{301}".parse().unwrap();
        assert_eq!(composed, decomposed);
    }

    #[test]
    fn run_ids_differ() {
        assert_ne!(RunId::generate(), RunId::generate());
    }
}
