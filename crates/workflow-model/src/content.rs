//! One short text that says whether two workflows do the same.

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::workflow::Workflow;

/// Keys of a workflow and of its nodes that say how it looks, and when it was saved.
const LOOKS: [&str; 9] = [
    "position",
    "width",
    "height",
    "zIndex",
    "viewport",
    "createdAt",
    "updatedAt",
    "previewTarget",
    "creationMethod",
];

impl Workflow {
    /// SHA-256 of what the file says, as 64 letters in hexadecimal.
    ///
    /// The order of keys, the spelling of white space and how the graph is drawn make no difference; everything else
    /// does, unknown keys included. Stable over versions of weft, so that it may be stored.
    #[must_use]
    pub fn content_hash(&self) -> String {
        let mut value = self.to_value();
        let drop_looks = |object: &mut Value| {
            if let Some(object) = object.as_object_mut() {
                object.retain(|key, _| !LOOKS.contains(&key.as_str()));
            }
        };
        drop_looks(&mut value);
        value["nodes"].as_array_mut().into_iter().flatten().for_each(drop_looks);
        let mut hash = Sha256::new();
        feed(&mut hash, &value);
        format!("{:x}", hash.finalize())
    }
}

/// Writes a value with its keys in order. The depth of what was read from a file is limited.
fn feed(hash: &mut Sha256, value: &Value) {
    match value {
        Value::Object(object) => {
            let mut keys: Vec<&String> = object.keys().collect();
            keys.sort_unstable();
            hash.update(b"{");
            for key in keys {
                feed(hash, &Value::from(key.as_str()));
                hash.update(b":");
                feed(hash, &object[key]);
                hash.update(b",");
            }
            hash.update(b"}");
        }
        Value::Array(list) => {
            hash.update(b"[");
            for item in list {
                feed(hash, item);
                hash.update(b",");
            }
            hash.update(b"]");
        }
        scalar => hash.update(scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::Workflow;

    #[test]
    fn looks_and_the_order_of_keys_make_no_difference() {
        let hash = |file| Workflow::from_value(file).map(|workflow| workflow.content_hash());
        let plain = hash(
            json!({"name": "a", "nodes": [{"id": "n", "type": "x:Y", "configValues": {"a": 1, "b": [2]}}], "edges": []}),
        );
        let drawn = hash(
            json!({"edges": [], "viewport": {"x": 0, "y": 0, "zoom": 1}, "nodes": [{"type": "x:Y", "id": "n",
            "position": {"x": 5, "y": 6}, "configValues": {"b": [2], "a": 1}}], "name": "a"}),
        );
        assert_eq!(plain, drawn);
        let other = hash(
            json!({"name": "a", "nodes": [{"id": "n", "type": "x:Y", "configValues": {"a": 1, "b": [3]}}], "edges": []}),
        );
        assert_ne!(plain, other);
        assert_eq!(plain.map(|hash| hash.len()), Ok(64));
    }
}
