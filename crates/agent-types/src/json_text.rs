//! JSON texts that come from outside.

use serde::de::{DeserializeOwned, Error};

/// Digits that any whole number of 64 bits may have.
const FITS: usize = 18;

/// Reads JSON that comes from outside. A whole number that 64 bits do not hold is an error: it would be rounded.
///
/// ```
/// use serde_json::Value;
///
/// let read = |text: &str| agent_types::read_json::<Value>(text.as_bytes());
/// assert_eq!(read("[18446744073709551615]").unwrap()[0], u64::MAX);
/// assert_eq!(
///     read("{\"n\":\n 18446744073709551616}").unwrap_err().to_string(),
///     "the whole number `18446744073709551616` does not fit 64 bits; write it as a text at line 2 column 2"
/// );
/// ```
///
/// # Errors
/// The text is not JSON of this form, or holds such a number.
pub fn read_json<T: DeserializeOwned>(text: &[u8]) -> Result<T, serde_json::Error> {
    let value = serde_json::from_slice(text)?;
    match long_number(text) {
        None => Ok(value),
        Some((at, number)) => {
            let before = &text[..at];
            let line = before.split(|byte| *byte == b'\n').count();
            let column = 1 + at - before.iter().rposition(|byte| *byte == b'\n').map_or(0, |found| found + 1);
            Err(serde_json::Error::custom(format!(
                "the whole number `{number}` does not fit 64 bits; write it as a text at line {line} column {column}"
            )))
        }
    }
}

/// The first whole number of a JSON text that 64 bits do not hold, with its place.
fn long_number(text: &[u8]) -> Option<(usize, &str)> {
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'"' => at = end_of_string(text, at),
            b'-' | b'0'..=b'9' => {
                let end = end_of_number(text, at);
                let number = &text[at..end];
                if number.len() > FITS
                    && !number.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'))
                    && let Ok(number) = std::str::from_utf8(number)
                    && number.parse::<i64>().is_err()
                    && number.parse::<u64>().is_err()
                {
                    return Some((at, number));
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    None
}

/// Place behind a string that begins at `at`.
fn end_of_string(text: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    while let Some(byte) = text.get(end) {
        match byte {
            b'"' => return end + 1,
            b'\\' => end += 2,
            _ => end += 1,
        }
    }
    text.len()
}

/// Place behind a number that begins at `at`.
fn end_of_number(text: &[u8], at: usize) -> usize {
    let is_part = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E');
    text[at..].iter().position(|byte| !is_part(byte)).map_or(text.len(), |length| at + length)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn whole_numbers_are_exact_or_refused() {
        let read =
            |text: &str| read_json::<Value>(text.as_bytes()).map_err(|error| (error.line(), error.column()));
        for (text, expected) in [
            ("-9223372036854775808", Ok(json!(i64::MIN))),
            ("18446744073709551615", Ok(json!(u64::MAX))),
            ("1.5e25", Ok(json!(1.5e25))),
            ("100000000000000000000.0", Ok(json!(1e20))),
            (r#""18446744073709551616""#, Ok(json!("18446744073709551616"))),
            (r#"["\"\\", "a\": 18446744073709551616"]"#, Ok(json!(["\"\\", "a\": 18446744073709551616"]))),
            ("18446744073709551616", Err((1, 1))),
            ("-9223372036854775809", Err((1, 1))),
            ("{\"a\": \"\\\\\",\n\"b\": [1, 99999999999999999999]}", Err((2, 10))),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        assert!(read_json::<Value>(b"{\"a\": ").unwrap_err().is_eof());
    }
}
