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

/// The first of a group of lines, up to and including the first event that `is_last` accepts, with its number.
///
/// # Errors
/// A line is no event.
pub fn cut_lines(
    lines: &[u8],
    mut is_last: impl FnMut(&TraceEvent) -> bool,
) -> Result<Option<(Vec<u8>, u64)>, StoreError> {
    let kept = read_lines(lines)?;
    let Some(at) = kept.iter().position(|kept| is_last(&kept.event)) else { return Ok(None) };
    let mut events = 0;
    let is_within = |line: &&[u8]| {
        events += usize::from(!line.is_empty() && line.first() != Some(&RECORD_MARK));
        events <= at + 1
    };
    let first: Vec<&[u8]> = lines.split_inclusive(|byte| *byte == b'\n').take_while(is_within).collect();
    Ok(Some((first.concat(), kept[at].event.seq)))
}
