//! JSON text as models write it: exact JSON, or JSON with safe repairs; never invented closers.
//!
//! Repairs, each of which has one reading: raw control characters inside strings, a comma before a
//! closing bracket, strings in single quotes, `\'` in a string, the words `True`, `False`, `None`, a
//! byte-order mark.
//! Everything else is a [`JsonFault`].
//!
//! ```
//! use protocol_action::json::{parse_lenient, FaultKind};
//!
//! let (value, repaired) = parse_lenient("{\"text\": \"two\nlines\",}").unwrap();
//! assert_eq!((value["text"].as_str(), repaired), (Some("two\nlines"), true));
//! assert_eq!(parse_lenient("{\"a\": [1, 2").unwrap_err().kind, FaultKind::Truncated);
//! ```

mod number;
mod string;

use serde_json::{Map, Value};

use crate::Limits;

/// Kind of a JSON syntax error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// The text ends before the value does, and is right so far.
    Truncated,
    /// Something else stands where it cannot.
    Broken,
    /// Nested deeper than the limit.
    TooDeep,
}

/// Position from which text is not valid JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JsonFault {
    /// Kind of the fault.
    pub kind: FaultKind,
    /// The byte it was found at.
    pub offset: usize,
    /// A lower-case fragment.
    pub message: String,
}

impl std::fmt::Display for JsonFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at byte {}", self.message, self.offset)
    }
}

impl std::error::Error for JsonFault {}

/// Reads one JSON value with blanks around it, and reports a needed repair. Nesting is bounded
/// by the default [`Limits::depth`].
///
/// Integers are exact within `i64` and `u64`; beyond, an integer that a double holds exactly becomes
/// that double, and any other is a fault, because rounding would change it. Numbers with a fraction
/// or exponent are doubles. The last of several equal keys counts.
///
/// # Errors
/// A [`JsonFault`] that distinguishes truncated text from invalid text.
pub fn parse_lenient(text: &str) -> Result<(Value, bool), JsonFault> {
    parse_lenient_within(text, Limits::default().depth)
}

/// The same with a depth of the caller's.
///
/// # Errors
/// As [`parse_lenient`].
pub fn parse_lenient_within(text: &str, depth: usize) -> Result<(Value, bool), JsonFault> {
    read_lenient(text, depth).map(|reading| (reading.value, reading.repaired))
}

/// A JSON value, with what was found while it was read.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Reading {
    /// The value.
    pub value: Value,
    /// Flag of a needed repair.
    pub repaired: bool,
    /// Members that were given twice with different values, as JSON pointers; the first ones of many.
    pub conflicts: Vec<String>,
}

/// Maximum number of conflicts reported for one text.
const MAX_CONFLICTS: usize = 16;

/// The same, with the keys that stand twice in one object.
///
/// # Errors
/// As [`parse_lenient`].
pub fn read_lenient(text: &str, depth: usize) -> Result<Reading, JsonFault> {
    let mut reader = Reader { text, at: 0, repaired: false, conflicts: Vec::new(), depth, open: Vec::new() };
    if text.starts_with('\u{feff}') {
        reader.at = 3;
        reader.repaired = true;
    }
    let value = reader.value()?;
    reader.blanks();
    if reader.at < text.len() {
        return Err(reader.broken("text after the JSON value"));
    }
    Ok(Reading { value, repaired: reader.repaired, conflicts: reader.conflicts })
}

pub(crate) struct Reader<'a> {
    text: &'a str,
    at: usize,
    repaired: bool,
    conflicts: Vec<String>,
    depth: usize,
    open: Vec<Open>,
}

/// A value that is being filled.
enum Open {
    Array(Vec<Value>),
    Object(Map<String, Value>, String),
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn broken(&self, message: impl Into<String>) -> JsonFault {
        self.fault(FaultKind::Broken, message)
    }

    fn fault(&self, kind: FaultKind, message: impl Into<String>) -> JsonFault {
        JsonFault { kind, offset: self.at, message: message.into() }
    }

    fn truncated(&self) -> JsonFault {
        self.fault(FaultKind::Truncated, "the JSON text ends early")
    }

    /// Reads values into the open ones until the outermost is complete.
    fn value(&mut self) -> Result<Value, JsonFault> {
        loop {
            self.blanks();
            let Some(mut done) = self.start()? else { continue };
            loop {
                let Some(open) = self.open.pop() else { return Ok(done) };
                match self.attach(open, done)? {
                    Some(complete) => done = complete,
                    None => break,
                }
            }
        }
    }

    /// Begins a value: a scalar or empty container is complete at once, another one is left open.
    fn start(&mut self) -> Result<Option<Value>, JsonFault> {
        match self.peek() {
            None => Err(self.truncated()),
            Some(b'{') => self.open_object(),
            Some(b'[') => self.open_array(),
            Some(b'"' | b'\'') => string::read(self).map(|text| Some(Value::String(text))),
            Some(b'-' | b'0'..=b'9') => number::read(self).map(Some),
            Some(_) => self.word().map(Some),
        }
    }

    fn enter(&mut self) -> Result<(), JsonFault> {
        if self.open.len() >= self.depth {
            return Err(self.fault(FaultKind::TooDeep, format!("nested deeper than {}", self.depth)));
        }
        self.at += 1;
        self.blanks();
        Ok(())
    }

    fn open_array(&mut self) -> Result<Option<Value>, JsonFault> {
        self.enter()?;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Some(Value::Array(Vec::new())));
        }
        self.open.push(Open::Array(Vec::new()));
        Ok(None)
    }

    fn open_object(&mut self) -> Result<Option<Value>, JsonFault> {
        self.enter()?;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Some(Value::Object(Map::new())));
        }
        let key = self.key()?;
        self.open.push(Open::Object(Map::new(), key));
        Ok(None)
    }

    fn key(&mut self) -> Result<String, JsonFault> {
        match self.peek() {
            None => return Err(self.truncated()),
            Some(b'"' | b'\'') => {}
            Some(_) => return Err(self.broken("expected a key in double quotes")),
        }
        let key = string::read(self)?;
        self.blanks();
        match self.peek() {
            None => Err(self.truncated()),
            Some(b':') => {
                self.at += 1;
                Ok(key)
            }
            Some(_) => Err(self.broken("expected `:` after a key")),
        }
    }

    /// Puts a complete value into its container; gives the container back when that is complete.
    fn attach(&mut self, open: Open, value: Value) -> Result<Option<Value>, JsonFault> {
        match open {
            Open::Array(mut items) => {
                items.push(value);
                if self.ends(b']')? {
                    return Ok(Some(Value::Array(items)));
                }
                self.open.push(Open::Array(items));
            }
            Open::Object(mut members, key) => {
                self.insert(&mut members, key, value);
                if self.ends(b'}')? {
                    return Ok(Some(Value::Object(members)));
                }
                let key = self.key()?;
                self.open.push(Open::Object(members, key));
            }
        }
        Ok(None)
    }

    /// Inserts a member. The last of several equal keys counts; a different earlier value is noted as a conflict.
    fn insert(&mut self, members: &mut Map<String, Value>, key: String, value: Value) {
        let is_conflict = members.get(&key).is_some_and(|before| *before != value);
        if is_conflict && self.conflicts.len() < MAX_CONFLICTS {
            let pointer = self.pointer(&key);
            if !self.conflicts.contains(&pointer) {
                self.conflicts.push(pointer);
            }
        }
        members.insert(key, value);
    }

    /// The pointer of a member of the object that is being filled.
    fn pointer(&self, key: &str) -> String {
        let mut pointer = String::new();
        for open in &self.open {
            match open {
                Open::Array(items) => pointer.extend(["/", &items.len().to_string()]),
                Open::Object(_, key) => pointer.extend(["/", &escaped(key)]),
            }
        }
        pointer.extend(["/", &escaped(key)]);
        pointer
    }

    /// After a member: `true` at the closing bracket, `false` after a comma with another one to come.
    fn ends(&mut self, closer: u8) -> Result<bool, JsonFault> {
        self.blanks();
        let comma = self.peek() == Some(b',');
        if comma {
            self.at += 1;
            self.blanks();
        }
        match self.peek() {
            None => Err(self.truncated()),
            Some(byte) if byte == closer => {
                self.at += 1;
                self.repaired |= comma;
                Ok(true)
            }
            Some(_) if comma => Ok(false),
            Some(_) => Err(self.broken(format!("expected `,` or `{}`", char::from(closer)))),
        }
    }

    fn word(&mut self) -> Result<Value, JsonFault> {
        const WORDS: [(&str, Value, bool); 6] = [
            ("true", Value::Bool(true), false),
            ("false", Value::Bool(false), false),
            ("null", Value::Null, false),
            ("True", Value::Bool(true), true),
            ("False", Value::Bool(false), true),
            ("None", Value::Null, true),
        ];
        let rest = &self.text[self.at..];
        let len = rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let word = &rest[..len];
        if let Some((text, value, repair)) = WORDS.into_iter().find(|(text, ..)| *text == word) {
            self.at += text.len();
            self.repaired |= repair;
            return Ok(value);
        }
        let cut = len == rest.len() && WORDS.iter().any(|(text, ..)| text.starts_with(word));
        Err(if cut { self.truncated() } else { self.broken("expected a JSON value") })
    }
}

/// A key as a step of a JSON pointer.
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
