//! Entries that a file writes as a text or as an object.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// Reads an entry: a text becomes `text(…)`, an object of the shape `O` what `O` converts into.
pub(crate) fn text_or_object<'de, D, T, O>(
    deserializer: D,
    expected: &'static str,
    text: fn(String) -> T,
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    O: Deserialize<'de> + Into<T>,
{
    deserializer.deserialize_any(Entry { expected, text, object: PhantomData::<fn() -> O> })
}

struct Entry<T, O> {
    expected: &'static str,
    text: fn(String) -> T,
    object: PhantomData<fn() -> O>,
}

impl<'de, T, O: Deserialize<'de> + Into<T>> Visitor<'de> for Entry<T, O> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        Ok((self.text)(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        O::deserialize(MapAccessDeserializer::new(map)).map(Into::into)
    }
}
