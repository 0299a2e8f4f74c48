//! Texts of numbers as patterns, in the part that regular expressions and GBNF have in common.

/// A set of texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pattern {
    /// This text.
    Text(String),
    /// One digit of a range.
    Digit(u8, u8),
    /// One after the other.
    Row(Vec<Pattern>),
    /// One of them.
    OneOf(Vec<Pattern>),
    /// So many times.
    Times(Box<Pattern>, u32, u32),
}

use Pattern::{Digit, OneOf, Row, Text, Times};

/// Most digits after the point that the bounds of a range may have.
const MAX_DECIMALS: u32 = 6;

impl Pattern {
    fn text(text: &str) -> Self {
        Text(text.to_owned())
    }

    fn optional(self) -> Self {
        Times(Box::new(self), 0, 1)
    }

    fn digits(min: u32, max: u32) -> Self {
        match (min, max) {
            (1, 1) => Digit(0, 9),
            (0, 0) => Row(Vec::new()),
            (min, max) => Times(Box::new(Digit(0, 9)), min, max),
        }
    }

    /// Whole numbers of a range; `None` if it is empty.
    pub(super) fn integers(low: i128, high: i128) -> Option<Self> {
        one_of(signed(low, high, |low, high| decimals(low, high, 0)))
    }

    /// Pattern of whole numbers that certainly fit 64 bits.
    pub(super) fn any_integer() -> Self {
        let long = Row(vec![Digit(1, 8), Self::digits(18, 18)]);
        let whole = OneOf(vec![Self::text("0"), Row(vec![Digit(1, 9), Self::digits(0, 17)]), long]);
        Row(vec![Self::text("-").optional(), whole])
    }

    /// Numbers of any size that a double holds, as JSON and as people write them.
    pub(super) fn numbers() -> Self {
        let fraction = Row(vec![Self::text("."), Self::digits(1, 20)]);
        let sign = || Self::text("-").optional();
        let mantissa = OneOf(vec![Text("0".into()), Row(vec![Digit(1, 9), Self::digits(0, 17)])]);
        let decimal = Row(vec![sign(), mantissa, fraction.clone()]);
        let letter = OneOf(vec![Self::text("e"), Self::text("E")]);
        let large = OneOf(vec![
            Self::digits(1, 2),
            Row(vec![Digit(1, 2), Self::digits(2, 2)]),
            Row(vec![Self::text("30"), Digit(0, 7)]),
        ]);
        let small = OneOf(vec![
            Self::digits(1, 2),
            Row(vec![Digit(1, 2), Self::digits(2, 2)]),
            Row(vec![Self::text("3"), Digit(0, 2), Digit(0, 9)]),
        ]);
        let exponent =
            OneOf(vec![Row(vec![Self::text("+").optional(), large]), Row(vec![Self::text("-"), small])]);
        let scientific = Row(vec![sign(), Digit(0, 9), fraction.optional(), letter, exponent]);
        OneOf(vec![Self::any_integer(), decimal, scientific])
    }

    /// Short numbers: nine digits before the point and six behind it.
    pub(super) fn short_numbers() -> Self {
        let whole = OneOf(vec![Self::text("0"), Row(vec![Digit(1, 9), Self::digits(0, 8)])]);
        let fraction = Row(vec![Self::text("."), Self::digits(1, 6)]);
        Row(vec![Self::text("-").optional(), whole, fraction.optional()])
    }

    /// The decimal numbers of a range, with up to `more` digits after the point beyond those of the bounds.
    pub(super) fn between(low: &Decimal, high: &Decimal, more: u32) -> Option<Self> {
        // One more than the bounds have, so that `1.0` is in a range that ends at 1.
        let places = low.places.max(high.places) + 1;
        let (bottom, top) = (low.scaled(places), high.scaled(places));
        let mut all = Vec::new();
        for count in 0..=places {
            let step = 10_i128.pow(places - count);
            let first = bottom.value.div_euclid(step) + i128::from(bottom.value.rem_euclid(step) != 0);
            let last = top.value.div_euclid(step);
            let first = first + i128::from(bottom.exclusive && first * step == bottom.value);
            let last = last - i128::from(top.exclusive && last * step == top.value);
            all.extend(signed(first, last, |low, high| decimals(low, high, count)));
        }
        // More digits lie between one number with `places` digits and the next.
        let longer = |low: i128, high: i128| {
            let head = one_of(decimals(low, high, places))?;
            // The number on the bound itself needs a digit that is not 0, so it is left out where the bound is.
            Some(Row(vec![head, Self::digits(1, more)]))
        };
        let (first, last) = (bottom.value + i128::from(bottom.exclusive), top.value - 1);
        if last >= first.max(0) {
            all.extend(longer(first.max(0), last));
        }
        let (first, last) = (bottom.value + 1, top.value - i128::from(top.exclusive));
        if first <= last.min(0) {
            let tail = longer(-last.min(0), -first);
            all.extend(tail.map(|tail| Row(vec![Self::text("-"), tail])));
        }
        one_of(all)
    }

    /// Renders the pattern as a regular expression.
    pub(super) fn regex(&self) -> String {
        match self {
            Text(text) => {
                text.chars().map(|c| if c == '.' || c == '+' { format!("\\{c}") } else { c.into() }).collect()
            }
            Digit(low, high) if low == high => low.to_string(),
            Digit(low, high) => format!("[{low}-{high}]"),
            Row(parts) => parts.iter().map(Self::regex).collect(),
            OneOf(parts) => format!("({})", joined(parts, "|", Self::regex)),
            Times(part, min, max) => {
                let is_one = matches!(&**part, Digit(..)) || matches!(&**part, Text(text) if text == "-");
                let part = part.regex();
                let part = if is_one { part } else { format!("({part})") };
                format!("{part}{}", times(*min, *max))
            }
        }
    }

    /// Renders the pattern as a GBNF expression.
    pub(super) fn gbnf(&self) -> String {
        match self {
            Text(text) => format!("\"{text}\""),
            Digit(low, high) if low == high => format!("\"{low}\""),
            Digit(low, high) => format!("[{low}-{high}]"),
            Row(parts) if parts.is_empty() => "\"\"".into(),
            Row(parts) => joined(parts, " ", Self::gbnf),
            OneOf(parts) => format!("({})", joined(parts, " | ", Self::gbnf)),
            Times(part, min, max) => {
                let is_one = matches!(&**part, Digit(..) | Text(_));
                let part = part.gbnf();
                let part = if is_one { part } else { format!("({part})") };
                format!("{part}{}", times(*min, *max))
            }
        }
    }
}

fn times(min: u32, max: u32) -> String {
    match (min, max) {
        (0, 1) => "?".into(),
        (min, max) if min == max => format!("{{{min}}}"),
        (min, max) => format!("{{{min},{max}}}"),
    }
}

fn joined(parts: &[Pattern], between: &str, show: fn(&Pattern) -> String) -> String {
    parts.iter().map(show).filter(|text| !text.is_empty()).collect::<Vec<_>>().join(between)
}

fn one_of(mut parts: Vec<Pattern>) -> Option<Pattern> {
    match parts.len() {
        0 => None,
        1 => parts.pop(),
        _ => Some(OneOf(parts)),
    }
}

/// A decimal number, exactly: `value` divided by ten to the power of `places`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decimal {
    value: i128,
    places: u32,
    exclusive: bool,
}

impl Decimal {
    /// A bound as it is written; `None` if it has too many digits.
    pub(super) fn parse(text: &str, exclusive: bool) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let fraction = fraction.trim_end_matches('0');
        let places = u32::try_from(fraction.len()).ok().filter(|places| *places <= MAX_DECIMALS)?;
        let value = format!("{whole}{fraction}").parse::<i128>().ok()?;
        (whole.len() <= 19).then_some(Self { value, places, exclusive })
    }

    pub(super) const fn whole(value: i128) -> Self {
        Self { value, places: 0, exclusive: false }
    }

    /// The smallest whole number that is not below.
    pub(super) fn least_integer(&self) -> i128 {
        let step = 10_i128.pow(self.places);
        let exact = self.value.rem_euclid(step) == 0;
        self.value.div_euclid(step) + i128::from(!exact || self.exclusive)
    }

    /// The largest whole number that is not above.
    pub(super) fn greatest_integer(&self) -> i128 {
        let step = 10_i128.pow(self.places);
        let exact = self.value.rem_euclid(step) == 0;
        self.value.div_euclid(step) - i128::from(exact && self.exclusive)
    }

    fn scaled(self, places: u32) -> Self {
        Self { value: self.value * 10_i128.pow(places - self.places), places, ..self }
    }
}

/// A range as one of numbers without a sign, and one behind a minus.
fn signed(low: i128, high: i128, range: impl Fn(i128, i128) -> Vec<Pattern>) -> Vec<Pattern> {
    let mut all = Vec::new();
    if low < 0 && low <= high {
        let negative = one_of(range((-high).max(1), -low));
        all.extend(negative.map(|pattern| Row(vec![Pattern::text("-"), pattern])));
    }
    if high >= low.max(0) {
        all.extend(range(low.max(0), high));
    }
    all
}

/// Numbers from `low` to `high`, neither negative, whose last `places` digits stand behind a point.
fn decimals(low: i128, high: i128, places: u32) -> Vec<Pattern> {
    let mut all = Vec::new();
    let mut open: Option<(u32, u32)> = None;
    let mut length = places + 1;
    let mut first = 0;
    while first <= high {
        let last = 10_i128.pow(length) - 1;
        let (from, to) = (low.max(first), high.min(last));
        if from <= to {
            let is_full = places == 0 && from == 10_i128.pow(length - 1) && to == last;
            match &mut open {
                Some((_, longest)) if is_full => *longest = length,
                None if is_full => open = Some((length, length)),
                Some(_) | None => {
                    all.extend(open.take().map(full));
                    all.push(of_length(&digits_of(from, length), &digits_of(to, length), places));
                }
            }
        }
        first = last + 1;
        length += 1;
    }
    all.extend(open.map(full));
    all
}

/// All numbers with so many digits, without a 0 in front.
fn full((shortest, longest): (u32, u32)) -> Pattern {
    if longest == 1 {
        Digit(1, 9)
    } else {
        Row(vec![Digit(1, 9), Pattern::digits(shortest - 1, longest - 1)])
    }
}

fn digits_of(number: i128, length: u32) -> Vec<u8> {
    let text = format!("{number:0length$}", length = length as usize);
    text.bytes().map(|digit| digit - b'0').collect()
}

/// Numbers of one length, digit by digit.
fn of_length(low: &[u8], high: &[u8], places: u32) -> Pattern {
    let left = u32::try_from(low.len()).unwrap_or(u32::MAX);
    let (Some((&first, low_rest)), Some((&last, high_rest))) = (low.split_first(), high.split_first()) else {
        return Row(Vec::new());
    };
    let point = if left == places { vec![Pattern::text(".")] } else { Vec::new() };
    let starting = |digit: Pattern, rest: Pattern| {
        let mut row = point.clone();
        row.push(digit);
        match rest {
            Row(parts) => row.extend(parts),
            rest => row.push(rest),
        }
        Row(row)
    };
    if first == last {
        return starting(Digit(first, last), of_length(low_rest, high_rest, places));
    }
    let (from_start, to_end) =
        (low_rest.iter().all(|digit| *digit == 0), high_rest.iter().all(|digit| *digit == 9));
    let (nines, zeros) = (vec![9; low_rest.len()], vec![0; high_rest.len()]);
    let mut all = Vec::new();
    if !from_start {
        all.push(starting(Digit(first, first), of_length(low_rest, &nines, places)));
    }
    let (from, to) = (first + u8::from(!from_start), last - u8::from(!to_end));
    if from <= to {
        all.push(starting(Digit(from, to), any_digits(left - 1, places)));
    }
    if !to_end {
        all.push(starting(Digit(last, last), of_length(&zeros, high_rest, places)));
    }
    if all.len() == 1 { all.remove(0) } else { OneOf(all) }
}

/// Any digits, with the point where it belongs.
fn any_digits(left: u32, places: u32) -> Pattern {
    if places == 0 || left < places {
        return Pattern::digits(left, left);
    }
    Row(vec![
        Pattern::digits(left - places, left - places),
        Pattern::text("."),
        Pattern::digits(places, places),
    ])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matcher(pattern: &Pattern) -> regex::Regex {
        regex::Regex::new(&format!("^(?:{})$", pattern.regex())).unwrap()
    }

    #[test]
    fn ranges_are_short() {
        for (low, high, expected) in [
            (0, 9, "[0-9]"),
            (1, 999_999_999, "[1-9][0-9]{0,8}"),
            (-5, 5, "(-[1-5]|[0-5])"),
            (18, 120, "((1[8-9]|[2-9][0-9])|1([0-1][0-9]|20))"),
        ] {
            assert_eq!(Pattern::integers(low, high).unwrap().regex(), expected, "{low}..{high}");
        }
        assert_eq!(Pattern::integers(3, 2), None);
    }

    #[test]
    fn numbers_are_those_that_json_writes() {
        let numbers = matcher(&Pattern::numbers());
        for number in [0.5, -1e-7, 1e300, -123_456_789.125, 5e-324, 1.5e16, f64::MAX.sqrt(), -0.0] {
            let text = serde_json::to_string(&number).unwrap();
            assert!(numbers.is_match(&text), "{text}");
        }
        for text in ["7", "8999999999999999999", "-123456789012345678", "0"] {
            assert!(numbers.is_match(text), "{text}");
        }
        for text in ["18446744073709551616", "01", "1.", ".5", "1e", "1e308", "inf", ""] {
            assert!(!numbers.is_match(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_range_of_integers_holds_just_those(low in -2000_i128..2000, size in 0_i128..3000, probe in -2500_i128..5500) {
            let range = matcher(&Pattern::integers(low, low + size).unwrap());
            prop_assert_eq!(range.is_match(&probe.to_string()), (low..=low + size).contains(&probe));
        }

        #[test]
        fn a_range_of_decimals_holds_just_those(
            low in -3000_i128..3000, size in 0_i128..4000, places in 0_u32..3, probe in -40_000_i128..80_000,
            digits in 0_u32..4, open in any::<bool>(), ended in any::<bool>(),
        ) {
            let scale = 10_i128.pow(places);
            let bound = |value: i128, exclusive| Decimal { value, places, exclusive };
            let (low, high) = (bound(low, open), bound(low + size, ended));
            let unit = 10_i128.pow(digits);
            let (whole, rest) = (probe.abs() / unit, probe.abs() % unit);
            let sign = if probe < 0 { "-" } else { "" };
            let number = match usize::try_from(digits).unwrap() {
                0 => format!("{sign}{whole}"),
                digits => format!("{sign}{whole}.{rest:0digits$}"),
            };
            let distance = |bound: &Decimal| probe * scale - bound.value * unit;
            let inside = distance(&low) >= 0 && distance(&high) <= 0;
            let on_bound = distance(&low) == 0 || distance(&high) == 0;
            let held = Pattern::between(&low, &high, 4).is_some_and(|range| matcher(&range).is_match(&number));
            let shown = Pattern::between(&low, &high, 4).map(|p| p.regex());
            let is_near = |bound: &Decimal| distance(bound).abs() < unit;
            if open && is_near(&low) || ended && is_near(&high) {
                // What is held is inside, whatever else is left out.
                prop_assert!(!held || inside, "{number} {low:?} {high:?} {shown:?}");
            } else if on_bound {
                prop_assert!(held, "{number} {low:?} {high:?} {shown:?}");
            } else {
                prop_assert_eq!(held, inside, "{} {:?} {:?} {:?}", number, low, high, shown);
            }
        }
    }
}
