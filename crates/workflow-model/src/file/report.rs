//! Faults of a file with their paths.

use serde_json::Value;

/// One value of a file that does not have the shape it should have.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct ShapeFault {
    /// Path of the value, as in `nodes[0].position.x`; the empty path is the file itself.
    pub path: String,
    /// Expected and actual value.
    pub message: String,
}

impl std::fmt::Display for ShapeFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

/// One step from an object or list to what it holds.
enum Step {
    Key(String),
    Index(usize),
}

/// Gathers the faults of one file, so that all are reported together.
#[derive(Default)]
pub(crate) struct Report {
    path: Vec<Step>,
    faults: Vec<ShapeFault>,
}

impl Report {
    /// Runs `read` one key deeper.
    pub(crate) fn at_key<T>(&mut self, key: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(Step::Key(key.to_owned()));
        let value = read(self);
        self.path.pop();
        value
    }

    /// Runs `read` one list index deeper.
    pub(crate) fn at_index<T>(&mut self, index: usize, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(Step::Index(index));
        let value = read(self);
        self.path.pop();
        value
    }

    /// Notes a fault at the place reached.
    pub(crate) fn fault(&mut self, message: impl Into<String>) {
        let path = self.path_text();
        self.faults.push(ShapeFault { path, message: message.into() });
    }

    /// Notes that something of another kind stands here.
    pub(crate) fn expected(&mut self, wanted: &str, found: &Value) {
        self.fault(format!("expected {wanted}, found {}", describe(found)));
    }

    /// Everything noted, in file order.
    pub(crate) fn into_faults(self) -> Vec<ShapeFault> {
        self.faults
    }

    fn path_text(&self) -> String {
        let mut text = String::new();
        for step in &self.path {
            match step {
                Step::Key(key) if is_plain(key) => {
                    if !text.is_empty() {
                        text.push('.');
                    }
                    text.push_str(key);
                }
                Step::Key(key) => text.extend(["[", &Value::from(key.as_str()).to_string(), "]"]),
                Step::Index(index) => text.extend(["[", &index.to_string(), "]"]),
            }
        }
        text
    }
}

/// A key that can stand in a path without quotes.
fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
}

/// A value as a reader of the message would call it.
pub(crate) fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => format!("`{flag}`"),
        Value::Number(number) => format!("the number `{number}`"),
        Value::String(text) => format!("the text `{}`", shortened(text)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// At most forty characters, so that a message stays one line.
fn shortened(text: &str) -> String {
    const LIMIT: usize = 40;
    match text.char_indices().nth(LIMIT) {
        None => text.escape_debug().to_string(),
        Some((end, _)) => format!("{}…", text[..end].escape_debug()),
    }
}
