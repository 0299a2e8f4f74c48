//! Numbers, exact or refused.

use serde_json::{Number, Value};

use super::{JsonFault, Reader};

pub(super) fn read(reader: &mut Reader<'_>) -> Result<Value, JsonFault> {
    let start = reader.at;
    if reader.peek() == Some(b'-') {
        reader.at += 1;
    }
    let whole = digits(reader);
    if whole == 0 {
        return Err(cut_or_broken(reader));
    }
    let leading = reader.text.as_bytes()[reader.at - whole];
    if whole > 1 && leading == b'0' {
        return Err(reader.broken("a number begins with 0"));
    }
    let mut integer = true;
    if reader.peek() == Some(b'.') {
        integer = false;
        reader.at += 1;
        if digits(reader) == 0 {
            return Err(cut_or_broken(reader));
        }
    }
    if matches!(reader.peek(), Some(b'e' | b'E')) {
        integer = false;
        reader.at += 1;
        if matches!(reader.peek(), Some(b'+' | b'-')) {
            reader.at += 1;
        }
        if digits(reader) == 0 {
            return Err(cut_or_broken(reader));
        }
    }
    let text = &reader.text[start..reader.at];
    let number = if integer { exact(text) } else { finite(text) };
    number
        .map(Value::Number)
        .ok_or_else(|| reader.broken(format!("the number `{}` is out of range", brief(text))))
}

fn digits(reader: &mut Reader<'_>) -> usize {
    let start = reader.at;
    while matches!(reader.peek(), Some(b'0'..=b'9')) {
        reader.at += 1;
    }
    reader.at - start
}

fn cut_or_broken(reader: &Reader<'_>) -> JsonFault {
    if reader.peek().is_none() { reader.truncated() } else { reader.broken("a number lacks a digit") }
}

/// Long runs of digits stay out of messages.
fn brief(text: &str) -> &str {
    &text[..text.len().min(40)]
}

fn finite(text: &str) -> Option<Number> {
    text.parse().ok().and_then(Number::from_f64)
}

fn exact(text: &str) -> Option<Number> {
    if let Ok(small) = text.parse::<i64>() {
        // `-0` is a double in JSON: an integer has one zero.
        return if small == 0 && text.starts_with('-') { Number::from_f64(-0.0) } else { Some(small.into()) };
    }
    if let Ok(large) = text.parse::<u64>() {
        return Some(large.into());
    }
    let double: f64 = text.parse().ok()?;
    // A double has at most 309 digits before the point, and prints them all.
    if text.len() <= 310 && format!("{double:.0}") == text { Number::from_f64(double) } else { None }
}
