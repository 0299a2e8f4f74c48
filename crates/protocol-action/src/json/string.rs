//! Strings and their escapes.

use super::{JsonFault, Reader};

/// Reads a string whose opening quote is next. In single quotes it ends at one that a comma, a colon,
/// a closing bracket or the end follows: any other is an apostrophe.
pub(super) fn read(reader: &mut Reader<'_>) -> Result<String, JsonFault> {
    let text = reader.text;
    let quote = text.as_bytes()[reader.at];
    reader.repaired |= quote == b'\'';
    reader.at += 1;
    let mut out = String::new();
    loop {
        let run = plain_run(&text.as_bytes()[reader.at..], quote);
        out.push_str(&text[reader.at..reader.at + run]);
        reader.at += run;
        match reader.peek() {
            None => return Err(reader.truncated()),
            Some(byte) if byte == quote && (quote == b'"' || ends_single(reader)) => {
                reader.at += 1;
                return Ok(out);
            }
            Some(b'\\') => out.push(escape(reader)?),
            Some(other) => {
                out.push(char::from(other));
                reader.at += 1;
                reader.repaired = true;
            }
        }
    }
}

/// Bytes that stand for themselves; never ends inside a character.
fn plain_run(bytes: &[u8], quote: u8) -> usize {
    bytes.iter().position(|&byte| byte < 0x20 || byte == quote || byte == b'\\').unwrap_or(bytes.len())
}

fn ends_single(reader: &Reader<'_>) -> bool {
    let after = &reader.text.as_bytes()[reader.at + 1..];
    after.iter().find(|byte| !byte.is_ascii_whitespace()).is_none_or(|next| b",:]}".contains(next))
}

fn escape(reader: &mut Reader<'_>) -> Result<char, JsonFault> {
    reader.at += 1;
    let Some(byte) = reader.peek() else { return Err(reader.truncated()) };
    let plain = match byte {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'\'' => {
            reader.repaired = true;
            '\''
        }
        b'u' => {
            reader.at += 1;
            return unicode(reader);
        }
        _other => return Err(reader.broken("unknown escape in a string")),
    };
    reader.at += 1;
    Ok(plain)
}

fn unicode(reader: &mut Reader<'_>) -> Result<char, JsonFault> {
    let first = hex(reader)?;
    if !(0xD800..0xE000).contains(&first) {
        return char::from_u32(first).ok_or_else(|| reader.broken("an escape names no character"));
    }
    let rest = &reader.text[reader.at..];
    if !rest.starts_with("\\u") {
        let cut = "\\u".starts_with(rest);
        return Err(if cut { reader.truncated() } else { reader.broken("half a surrogate pair") });
    }
    reader.at += 2;
    let second = hex(reader)?;
    let pair = char::decode_utf16([first, second].map(|unit| u16::try_from(unit).unwrap_or(0))).next();
    match pair {
        Some(Ok(character)) => Ok(character),
        Some(Err(_)) | None => Err(reader.broken("half a surrogate pair")),
    }
}

fn hex(reader: &mut Reader<'_>) -> Result<u32, JsonFault> {
    let mut value = 0;
    for _ in 0..4 {
        let Some(byte) = reader.peek() else { return Err(reader.truncated()) };
        let Some(digit) = char::from(byte).to_digit(16) else {
            return Err(reader.broken("an escape lacks a hexadecimal digit"));
        };
        value = value * 16 + digit;
        reader.at += 1;
    }
    Ok(value)
}
