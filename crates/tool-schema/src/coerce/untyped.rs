//! Values of which nothing is declared.

use protocol_action::json::{Reading, read_lenient};
use protocol_action::{Limits, RawArgument, RawValue};
use serde_json::Value;

use super::{Coercer, ITEM, grouped};

impl Coercer<'_> {
    /// Reads a text without a declared type: JSON text is JSON, other text is text.
    pub(super) fn untyped_text(&mut self, text: &str, path: &str) -> Value {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return text.into();
        }
        let Ok(Reading { value, repaired, conflicts, .. }) = read_lenient(trimmed, Limits::default().depth)
        else {
            return text.into();
        };
        if repaired && !(value.is_array() || value.is_object()) {
            return text.into();
        }
        self.json_repaired |= repaired;
        self.conflicts(&conflicts, path);
        value
    }

    pub(super) fn untyped(&mut self, value: &RawValue, path: &str) -> Value {
        match value {
            RawValue::Text(text) => self.untyped_text(text, path),
            RawValue::Json(value) => value.clone(),
            RawValue::Elements { children, source, mixed } => {
                self.untyped_elements(children, source, *mixed, path)
            }
        }
    }

    pub(super) fn untyped_elements(
        &mut self,
        children: &[RawArgument],
        source: &str,
        mixed: bool,
        path: &str,
    ) -> Value {
        if mixed {
            return source.into();
        }
        self.nested(
            |reader| {
                if children.iter().all(|child| child.name == ITEM) {
                    return children.iter().map(|child| reader.untyped(&child.value, path)).collect();
                }
                let fields = grouped(children)
                    .into_iter()
                    .map(|(name, group)| (name.to_owned(), reader.untyped_group(&group, path)));
                Value::Object(fields.collect())
            },
            source,
        )
    }

    pub(super) fn untyped_group(&mut self, group: &[&RawValue], path: &str) -> Value {
        match group {
            [single] => self.untyped(single, path),
            several => several.iter().map(|value| self.untyped(value, path)).collect(),
        }
    }
}
