//! Reading and writing of single values of a file.

use serde_json::{Number, Value};

use super::report::Report;

/// A value that a key of an object holds. Null reads as the default, which is not written.
pub(crate) trait Field: Sized + PartialEq + Default {
    fn read(value: &Value, report: &mut Report) -> Self;
    fn write(&self) -> Option<Value>;
}

/// A value that is there or not.
pub(crate) trait Scalar: Sized + PartialEq {
    /// Name of the expected type in messages, with its article.
    const EXPECTED: &'static str;
    fn from_json(value: &Value) -> Option<Self>;
    fn to_json(&self) -> Value;

    /// Reads with a fault at the place that is wrong, which may be deeper than the value itself.
    fn read_at(value: &Value, report: &mut Report) -> Option<Self> {
        let read = Self::from_json(value);
        if read.is_none() {
            report.expected(Self::EXPECTED, value);
        }
        read
    }
}

impl<T: Scalar> Field for Option<T> {
    fn read(value: &Value, report: &mut Report) -> Self {
        if value.is_null() { None } else { T::read_at(value, report) }
    }

    fn write(&self) -> Option<Value> {
        self.as_ref().map(T::to_json)
    }
}

impl Field for String {
    fn read(value: &Value, report: &mut Report) -> Self {
        Option::<Self>::read(value, report).unwrap_or_default()
    }

    fn write(&self) -> Option<Value> {
        Some(Value::from(self.as_str()))
    }
}

impl Field for bool {
    fn read(value: &Value, report: &mut Report) -> Self {
        Option::<Self>::read(value, report).unwrap_or_default()
    }

    fn write(&self) -> Option<Value> {
        self.then_some(Value::Bool(true))
    }
}

impl<T: Scalar> Field for Vec<T> {
    fn read(value: &Value, report: &mut Report) -> Self {
        match value {
            Value::Null => Self::new(),
            Value::Array(items) => read_items(items, report),
            other => {
                report.expected("a list", other);
                Self::new()
            }
        }
    }

    fn write(&self) -> Option<Value> {
        (!self.is_empty()).then(|| self.iter().map(T::to_json).collect())
    }
}

/// Every item of a list, each with its own fault.
fn read_items<T: Scalar>(items: &[Value], report: &mut Report) -> Vec<T> {
    let mut read = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        read.extend(report.at_index(index, |report| T::read_at(item, report)));
    }
    read
}

impl Scalar for String {
    const EXPECTED: &'static str = "a text";

    fn from_json(value: &Value) -> Option<Self> {
        value.as_str().map(str::to_owned)
    }

    fn to_json(&self) -> Value {
        Value::from(self.as_str())
    }
}

impl Scalar for bool {
    const EXPECTED: &'static str = "`true` or `false`";

    fn from_json(value: &Value) -> Option<Self> {
        value.as_bool()
    }

    fn to_json(&self) -> Value {
        Value::Bool(*self)
    }
}

impl Scalar for Number {
    const EXPECTED: &'static str = "a number";

    fn from_json(value: &Value) -> Option<Self> {
        value.as_number().cloned()
    }

    fn to_json(&self) -> Value {
        Value::Number(self.clone())
    }
}

impl Scalar for u64 {
    const EXPECTED: &'static str = "a whole number from 0";

    fn from_json(value: &Value) -> Option<Self> {
        value.as_u64()
    }

    fn to_json(&self) -> Value {
        Value::from(*self)
    }
}

impl Scalar for u32 {
    const EXPECTED: &'static str = "a whole number from 0 to 4294967295";

    fn from_json(value: &Value) -> Option<Self> {
        value.as_u64()?.try_into().ok()
    }

    fn to_json(&self) -> Value {
        Value::from(*self)
    }
}

/// Any value, kept as it is.
impl Scalar for Value {
    const EXPECTED: &'static str = "a value";

    fn from_json(value: &Value) -> Option<Self> {
        Some(value.clone())
    }

    fn to_json(&self) -> Value {
        self.clone()
    }
}
