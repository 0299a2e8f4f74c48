//! Sizes of values: of one, and of all large ones that a run holds at once.

use std::sync::{Arc, Weak};

use serde_json::Value;

use crate::cache::size;
use crate::outputs::{MAX_DEPTH, Outputs};

/// Bytes that one value may hold.
const MAX_VALUE: usize = 64 << 20;

/// Bytes that the large values of a run may hold at once.
const MAX_LIVE: usize = 512 << 20;

/// Bytes from which on a value is large. Smaller ones are bounded by the number of nodes that start.
const LARGE: usize = 64 << 10;

/// The large values that a run has made.
#[derive(Debug, Default)]
pub(super) struct LargeValues {
    made: Vec<(Weak<Value>, usize)>,
    bytes: usize,
}

impl LargeValues {
    /// Takes what a node gave.
    ///
    /// # Errors
    /// It is nested too deeply or too large, or the run would hold too much.
    pub(super) fn take(&mut self, outputs: &Outputs) -> Result<(), String> {
        if outputs.is_too_deep() {
            return Err(format!("what it gave is nested deeper than {MAX_DEPTH} levels"));
        }
        for (_, value) in outputs.all("") {
            self.take_value(value, MAX_VALUE, MAX_LIVE)?;
        }
        Ok(())
    }

    fn take_value(&mut self, value: &Arc<Value>, most: usize, live: usize) -> Result<(), String> {
        let bytes = size(value);
        if bytes > most {
            return Err(format!("what it gave is larger than {} MiB; give parts of it", most >> 20));
        }
        if bytes < LARGE {
            return Ok(());
        }
        self.made.push((Arc::downgrade(value), bytes));
        self.bytes += bytes;
        if self.bytes > live {
            self.forget_dropped();
        }
        if self.bytes > live {
            return Err(format!("the values of the run are larger than {} MiB together", live >> 20));
        }
        Ok(())
    }

    /// Leaves the values that are still held, each once.
    fn forget_dropped(&mut self) {
        self.made.retain(|(value, _)| value.strong_count() > 0);
        self.made.sort_by_key(|(value, _)| value.as_ptr().addr());
        self.made.dedup_by_key(|(value, _)| value.as_ptr().addr());
        self.bytes = self.made.iter().map(|(_, bytes)| bytes).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: usize) -> Arc<Value> {
        Arc::new("x".repeat(bytes).into())
    }

    #[test]
    fn n10_one_value_and_those_that_live_have_caps() {
        let mut values = LargeValues::default();
        assert!(
            values.take_value(&text(3 << 20), 2 << 20, 8 << 20).unwrap_err().contains("larger than 2 MiB")
        );
        // What is dropped, and what is given again, does not count.
        let kept = text(1 << 20);
        for _ in 0..100 {
            values.take_value(&text(1 << 20), 2 << 20, 4 << 20).unwrap();
            values.take_value(&kept, 2 << 20, 4 << 20).unwrap();
        }
        let held: Vec<_> = (0..8).map(|_| text(1 << 20)).collect();
        let taken = held.iter().filter_map(|value| values.take_value(value, 2 << 20, 4 << 20).ok());
        assert_eq!(taken.count(), 2);
    }

    #[test]
    fn n10_small_values_are_not_counted() {
        let mut values = LargeValues::default();
        let held: Vec<_> = (0..100).map(|_| text(LARGE / 2)).collect();
        assert!(held.iter().all(|value| values.take_value(value, MAX_VALUE, LARGE).is_ok()));
        assert!(values.made.is_empty());
    }
}
