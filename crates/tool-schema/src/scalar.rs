//! Exact readings of texts as numbers, booleans and null.

use serde_json::{Number, Value};

/// Reading of a scalar: exactly as JSON writes it, or by a rule that folds variants in spelling.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Read {
    /// The text is the JSON text of the value.
    Exact(Value),
    /// The value is certain, the spelling is not JSON's.
    Folded(Value),
}

impl Read {
    pub(crate) fn value(self) -> Value {
        match self {
            Self::Exact(value) | Self::Folded(value) => value,
        }
    }
}

/// `true` and `false` in any case.
pub(crate) fn boolean(text: &str) -> Option<Read> {
    let value = if text.eq_ignore_ascii_case("true") {
        true
    } else if text.eq_ignore_ascii_case("false") {
        false
    } else {
        return None;
    };
    let exact = matches!(text, "true" | "false");
    Some(if exact { Read::Exact(value.into()) } else { Read::Folded(value.into()) })
}

/// `null` and `none` in any case.
pub(crate) fn null(text: &str) -> Option<Read> {
    if text == "null" {
        return Some(Read::Exact(Value::Null));
    }
    let folded = text.eq_ignore_ascii_case("null") || text.eq_ignore_ascii_case("none");
    folded.then_some(Read::Folded(Value::Null))
}

/// A whole number, exact within `i64` and `u64`: digits, or a decimal that is whole (`42.0`, `1e3`).
pub(crate) fn integer(text: &str) -> Option<Read> {
    let value = plain_integer(text).or_else(|| whole_decimal(text))?;
    Some(exactly(text, value))
}

/// A number: one in digits is whole, and refused where 64 bits do not hold it, since a double would lose digits.
/// The others are doubles; infinite ones are refused.
pub(crate) fn number(text: &str) -> Option<Read> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return plain_integer(text).map(|value| exactly(text, value));
    }
    let (mantissa, exponent) = decimal_parts(text)?;
    let mut digits = mantissa.replace('_', "");
    if let Some(exponent) = exponent {
        digits.push('e');
        digits.push_str(exponent);
    }
    let value = digits.parse::<f64>().ok().filter(|value| value.is_finite())?;
    Number::from_f64(value).map(|value| exactly(text, value))
}

fn exactly(text: &str, value: Number) -> Read {
    let is_json = serde_json::from_str::<Number>(text).is_ok_and(|read| read == value);
    if is_json { Read::Exact(value.into()) } else { Read::Folded(value.into()) }
}

fn plain_integer(text: &str) -> Option<Number> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    if text == "-0" {
        return Some(0.into());
    }
    text.parse::<i64>().map(Number::from).or_else(|_| text.parse::<u64>().map(Number::from)).ok()
}

/// Sign, digits, one point at most, an exponent perhaps; at least one digit.
fn decimal_parts(text: &str) -> Option<(&str, Option<&str>)> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let unsigned = mantissa.strip_prefix(['-', '+']).unwrap_or(mantissa);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let has_digit = !whole.is_empty() || !fraction.is_empty();
    let exponent_fits = exponent.is_none_or(|e| {
        let e = e.strip_prefix(['-', '+']).unwrap_or(e);
        !e.is_empty() && e.len() <= 5 && digits(e)
    });
    (has_digit && digits(whole) && digits(fraction) && exponent_fits).then_some((mantissa, exponent))
}

/// The integer that a decimal stands for, digit by digit, so that nothing is rounded.
fn whole_decimal(text: &str) -> Option<Number> {
    let (mantissa, exponent) = decimal_parts(text)?;
    let exponent: i32 = exponent.map_or(Some(0), |e| e.parse().ok())?;
    let (sign, unsigned) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = format!("{whole}{fraction}");
    let point = i32::try_from(whole.len()).ok()?.checked_add(exponent)?;
    let point = usize::try_from(point).unwrap_or(0);
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() {
        return Some(0.into());
    }
    if point > digits.len() + 20 {
        return None;
    }
    let (kept, dropped) = digits.split_at(point.min(digits.len()));
    if dropped.bytes().any(|b| b != b'0') {
        return None;
    }
    let zeros = "0".repeat(point.saturating_sub(digits.len()));
    let kept = format!("{kept}{zeros}");
    let kept = kept.trim_start_matches('0');
    plain_integer(&format!("{sign}{}", if kept.is_empty() { "0" } else { kept }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check_integer(text: &str, expected: impl Into<Option<Value>>) {
        assert_eq!(integer(text).map(Read::value), expected.into(), "{text}");
    }

    #[test]
    fn integers_are_exact() {
        check_integer("42", Some(json!(42)));
        check_integer("007", Some(json!(7)));
        check_integer("+5", Some(json!(5)));
        check_integer("42.0", Some(json!(42)));
        check_integer("1e3", Some(json!(1000)));
        check_integer("1.5e1", Some(json!(15)));
        check_integer("1500e-2", Some(json!(15)));
        check_integer("0e99999", Some(json!(0)));
        check_integer("9007199254740993", Some(json!(9_007_199_254_740_993_u64)));
        check_integer("9007199254740993.0", Some(json!(9_007_199_254_740_993_u64)));
        check_integer("18446744073709551615", Some(json!(u64::MAX)));
        check_integer("-9223372036854775808", Some(json!(i64::MIN)));
        for text in
            ["18446744073709551616", "1.5", "1e-1", "", "-", "1,000", "0x10", "1e99999", "five", "1 2"]
        {
            check_integer(text, None);
        }
    }

    #[test]
    fn numbers_are_decimals() {
        for (text, expected) in [
            ("2.5", json!(2.5)),
            ("3", json!(3)),
            ("1e-3", json!(0.001)),
            (".5", json!(0.5)),
            ("-3", json!(-3)),
        ] {
            assert_eq!(number(text).map(Read::value), Some(expected), "{text}");
        }
        for text in ["inf", "NaN", "1e999", "", ".", "1.2.3", "1e"] {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn spellings_are_distinguished() {
        assert_eq!(boolean("true"), Some(Read::Exact(true.into())));
        assert_eq!(boolean("True"), Some(Read::Folded(true.into())));
        assert_eq!(boolean("yes"), None);
        assert_eq!(null("None"), Some(Read::Folded(Value::Null)));
        assert_eq!(integer("42.0"), Some(Read::Folded(42.into())));
        assert_eq!(integer("-7"), Some(Read::Exact((-7).into())));
    }
}
