//! Values of which nothing is declared.

use protocol_action::json::parse_lenient;
use protocol_action::{RawArgument, RawValue};
use serde_json::Value;

use super::{Coercer, ITEM, grouped};

impl Coercer<'_> {
    /// Where nothing is declared, JSON text is JSON and other text is text.
    pub(super) fn untyped_text(&mut self, text: &str) -> Value {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return text.into();
        }
        match parse_lenient(trimmed) {
            Ok((value, false)) => value,
            Ok((value @ (Value::Array(_) | Value::Object(_)), true)) => {
                self.json_repaired = true;
                value
            }
            Ok(_) | Err(_) => text.into(),
        }
    }

    pub(super) fn untyped(&mut self, value: &RawValue, path: &str) -> Value {
        match value {
            RawValue::Text(text) => self.untyped_text(text),
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
