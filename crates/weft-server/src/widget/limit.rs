//! Messages that users may send in a minute.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

/// Window in which messages are counted.
const WINDOW: Duration = Duration::from_mins(1);

/// Users that are counted at once; beyond it new ones wait until a window ends.
const MAX_USERS: usize = 10_000;

/// Counts of the messages of all users.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    windows: Mutex<HashMap<String, Window>>,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    begun: Duration,
    messages: u32,
}

impl Limits {
    /// Counts a message of a user; `false` where there are too many.
    pub(super) fn admits(&self, user: &str, limit: u32, now: Duration) -> bool {
        let mut windows = self.windows.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let is_over = |window: &Window| now.saturating_sub(window.begun) >= WINDOW;
        if windows.len() >= MAX_USERS {
            windows.retain(|_, window| !is_over(window));
        }
        if windows.len() >= MAX_USERS && !windows.contains_key(user) {
            return false;
        }
        let window = windows.entry(user.to_owned()).or_insert(Window { begun: now, messages: 0 });
        if is_over(window) {
            *window = Window { begun: now, messages: 0 };
        }
        window.messages = window.messages.saturating_add(1);
        window.messages <= limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_number_of_messages_a_minute() {
        let limits = Limits::default();
        let at = Duration::from_secs;
        assert!(limits.admits("a", 2, at(0)));
        assert!(limits.admits("a", 2, at(1)));
        assert!(!limits.admits("a", 2, at(59)));
        assert!(limits.admits("b", 2, at(59)));
        assert!(limits.admits("a", 2, at(60)));
    }

    #[test]
    fn memory_is_bounded_whoever_asks() {
        let limits = Limits::default();
        for user in 0..MAX_USERS {
            assert!(limits.admits(&user.to_string(), 1, Duration::ZERO));
        }
        assert!(!limits.admits("one more", 1, Duration::from_secs(1)));
        assert!(limits.admits("one more", 1, WINDOW));
        assert_eq!(limits.windows.lock().unwrap().len(), 1);
    }
}
