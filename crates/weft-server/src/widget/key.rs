//! The key of a user, which names the conversation.

use sha2::{Digest, Sha256};

/// Hexadecimal digits of a key: 32 random bytes.
const DIGITS: usize = 64;

/// A user of a widget.
#[derive(Debug, Clone)]
pub(super) struct UserKey {
    thread: String,
}

impl UserKey {
    /// The user of a key; `None` where the text is not one.
    pub(super) fn new(widget: &str, key: &str) -> Option<Self> {
        let is_key = key.len() == DIGITS && key.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_key {
            return None;
        }
        let digest = Sha256::new()
            .chain_update("weft widget\0")
            .chain_update(widget)
            .chain_update("\0")
            .chain_update(key.to_ascii_lowercase())
            .finalize();
        Some(Self { thread: format!("w-{digest:.32x}") })
    }

    /// The conversation of the user.
    pub(super) fn thread(&self) -> &str {
        &self.thread
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_one_conversation_of_one_widget() {
        let key = "0123456789abcdef".repeat(4);
        let thread = |widget: &str, key: &str| UserKey::new(widget, key).map(|user| user.thread().to_owned());
        let one = thread("shop", &key).unwrap();
        assert_eq!(one.len(), 34, "{one}");
        assert_eq!(thread("shop", &key.to_uppercase()), Some(one.clone()));
        assert_ne!(thread("desk", &key), Some(one.clone()));
        assert_ne!(thread("shop", &key.replace('0', "1")), Some(one));
        for bad in ["", "short", &key[1..], &key.replace('0', "g"), &format!("{key}0")] {
            assert_eq!(thread("shop", bad), None, "{bad}");
        }
    }
}
