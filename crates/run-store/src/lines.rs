//! Reading back what was kept.

use agent_types::{Kept, TraceEvent};

use crate::StoreError;

/// Marks a line as the record of the event before it.
pub(crate) const RECORD_MARK: u8 = b'+';

/// The events in a group of lines.
///
/// # Errors
/// A line is no event: the store is damaged.
pub fn read_lines(lines: &[u8]) -> Result<Vec<Kept>, StoreError> {
    let corrupt = |error: serde_json::Error| StoreError::Corrupt { message: format!("an event: {error}") };
    let mut kept: Vec<Kept> = Vec::new();
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match (line.strip_prefix(&[RECORD_MARK]), kept.last_mut()) {
            (Some(record), Some(last)) => {
                last.record = Some(serde_json::from_slice(record).map_err(corrupt)?);
            }
            (Some(_), None) => {
                return Err(StoreError::Corrupt { message: "a record without an event".to_owned() });
            }
            (None, _) => {
                let event: TraceEvent = serde_json::from_slice(line).map_err(corrupt)?;
                kept.push(Kept { event, record: None });
            }
        }
    }
    Ok(kept)
}
