//! Constraints of a schema on values besides their types: bounds, lengths, counts.

use serde_json::{Map, Number, Value};

/// The end of a range of numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bound {
    pub(crate) value: Number,
    /// Flag that excludes the value itself.
    pub(crate) exclusive: bool,
}

/// Constraints of a schema on values besides their types and parts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Limits {
    pub(crate) lower: Option<Bound>,
    pub(crate) upper: Option<Bound>,
    pub(crate) min_length: Option<u64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) min_items: Option<u64>,
    pub(crate) max_items: Option<u64>,
    /// Keywords that say more than the fields above.
    pub(crate) others: Vec<&'static str>,
}

/// Keywords that are left to the validator.
const OTHERS: [&str; 18] = [
    "pattern",
    "multipleOf",
    "uniqueItems",
    "contains",
    "minContains",
    "maxContains",
    "minProperties",
    "maxProperties",
    "patternProperties",
    "propertyNames",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "unevaluatedItems",
    "not",
    "if",
    "contentEncoding",
    "contentMediaType",
];

impl Limits {
    pub(super) fn read(&mut self, object: &Map<String, Value>) {
        let whole = |keyword: &str| object.get(keyword).and_then(Value::as_u64);
        let own = Self {
            lower: bound(object, "minimum", "exclusiveMinimum", Pick::Larger),
            upper: bound(object, "maximum", "exclusiveMaximum", Pick::Smaller),
            min_length: whole("minLength"),
            max_length: whole("maxLength"),
            min_items: whole("minItems"),
            max_items: whole("maxItems"),
            others: OTHERS
                .into_iter()
                .filter(|keyword| object.get(*keyword).is_some_and(|value| *value != Value::Bool(false)))
                .collect(),
        };
        self.merge(own);
    }

    /// Combines two sets of constraints; both apply.
    pub(super) fn merge(&mut self, other: Self) {
        self.lower = tighter(self.lower.take(), other.lower, Pick::Larger);
        self.upper = tighter(self.upper.take(), other.upper, Pick::Smaller);
        self.min_length = self.min_length.max(other.min_length);
        self.min_items = self.min_items.max(other.min_items);
        let smaller = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
        self.max_length = smaller(self.max_length, other.max_length);
        self.max_items = smaller(self.max_items, other.max_items);
        for keyword in other.others {
            if !self.others.contains(&keyword) {
                self.others.push(keyword);
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pick {
    Larger,
    Smaller,
}

/// The bound of a keyword, of its exclusive form, or of the boolean that older drafts put beside it.
fn bound(object: &Map<String, Value>, keyword: &str, exclusive: &str, pick: Pick) -> Option<Bound> {
    let number = |keyword: &str| match object.get(keyword) {
        Some(Value::Number(number)) => Some(number.clone()),
        Some(_) | None => None,
    };
    let outside = object.get(exclusive) == Some(&Value::Bool(true));
    let inclusive = number(keyword).map(|value| Bound { value, exclusive: outside });
    let exclusive = number(exclusive).map(|value| Bound { value, exclusive: true });
    tighter(inclusive, exclusive, pick)
}

fn tighter(one: Option<Bound>, other: Option<Bound>, pick: Pick) -> Option<Bound> {
    let (Some(a), Some(b)) = (&one, &other) else { return one.or(other) };
    let (left, right) = (a.value.as_f64().unwrap_or(0.0), b.value.as_f64().unwrap_or(0.0));
    let first = match pick {
        Pick::Larger => left > right,
        Pick::Smaller => left < right,
    };
    // Of two equal ones, the one that leaves its value out.
    let equal = left.total_cmp(&right).is_eq();
    if first || (equal && a.exclusive) { one } else { other }
}
