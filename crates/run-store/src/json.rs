//! Reading what was written here.

use serde::Deserialize;

/// Reads JSON of this store, however deep it goes: what was kept once must be read again, though the envelope around a
/// value makes it deeper than what a careful reader takes from strangers.
pub(crate) fn read<'de, T: Deserialize<'de>>(text: &'de [u8]) -> serde_json::Result<T> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    reader.disable_recursion_limit();
    let value = T::deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}
