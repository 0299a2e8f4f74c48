//! JSONPath (RFC 9535) within a budget.

use serde_json::Value;
use serde_json_path::JsonPath;

/// Steps that a path may take over any value.
const MAX_STEPS: u64 = 2_000_000;

/// Steps for each part of a value that a path may take however large the value is: the value has a limit of its own.
const STEPS_A_PART: u64 = 4;

/// Levels that a part is moved up at the cost of a step.
const LEVELS_A_STEP: u64 = 16;

/// Longest path, in bytes, and most brackets in each other: the parser tries each bracket in several ways.
const MAX_LENGTH: usize = 2000;
const MAX_NESTING: usize = 12;

/// A path over more than its budget allows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` takes too many steps over this value; use fewer `..`, and fewer filters with `$`")]
pub struct QueryTooLarge {
    /// The path.
    pub path: String,
}

/// A parsed JSONPath. The steps that it may take over a value are estimated before it is applied.
///
/// ```
/// use http_caller::JsonQuery;
/// use serde_json::json;
///
/// let query = JsonQuery::parse("$.items[?@.price < 10].name")?;
/// let shop = json!({"items": [{"name": "pen", "price": 2}, {"name": "lamp", "price": 40}]});
/// assert_eq!(query.all(&shop)?, [json!("pen")]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct JsonQuery {
    text: String,
    path: JsonPath,
    cost: Cost,
}

impl JsonQuery {
    /// Parses a path.
    ///
    /// # Errors
    /// The path is invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let cost = Cost::read(text);
        if text.len() > MAX_LENGTH || cost.nesting > MAX_NESTING {
            return Err(format!("at most {MAX_LENGTH} bytes, and {MAX_NESTING} brackets in each other"));
        }
        let path = JsonPath::parse(text).map_err(|error| error.to_string())?;
        Ok(Self { path, text: text.to_owned(), cost })
    }

    /// The text it was made of.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns `true` for a path to a single value of any kind: names and indexes only.
    #[must_use]
    pub const fn is_single(&self) -> bool {
        self.cost.is_single
    }

    /// All matches in a value.
    ///
    /// # Errors
    /// The path would take more steps than its budget allows.
    pub fn all(&self, value: &Value) -> Result<Vec<Value>, QueryTooLarge> {
        if self.cost.is_single {
            return Ok(self.path.query(value).all().into_iter().cloned().collect());
        }
        let too_large = || QueryTooLarge { path: self.text.clone() };
        let size = Size::measure(value);
        let budget = MAX_STEPS.max(size.parts.saturating_mul(STEPS_A_PART));
        if self.cost.over(&size) > budget {
            return Err(too_large());
        }
        let found = self.path.query(value).all();
        // A part that stands in another one that was found is copied again.
        let mut left = budget;
        for part in &found {
            left = left.checked_sub(Size::measure(part).parts).ok_or_else(too_large)?;
        }
        Ok(found.into_iter().cloned().collect())
    }
}

/// Parts of a path that multiply its work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Cost {
    is_single: bool,
    /// Brackets in each other.
    nesting: usize,
    /// `..`: a part is found once for each part above it.
    descents: u32,
    /// Queries that begin at the root again, for each part that a filter looks at.
    roots: u32,
    /// Product of the numbers of selectors in brackets: the same part may be found by each.
    selectors: u64,
}

impl Cost {
    fn read(text: &str) -> Self {
        let mut cost = Self { is_single: true, selectors: 1, ..Self::default() };
        let signs = Signs { rest: text.chars(), quote: None };
        let (mut commas, mut last) = (vec![0_u64], ' ');
        // Depth of a query of a filter that begins at the root, until it ends or turns out to have many results.
        let mut root = None;
        for sign in signs {
            match sign {
                '.' if last == '.' => cost.descents += 1,
                '$' if commas.len() > 1 => root = Some(commas.len()),
                '[' | '(' => {
                    commas.push(0);
                    cost.nesting = cost.nesting.max(commas.len() - 1);
                }
                ']' | ')' => {
                    let selectors = commas.pop().unwrap_or_default() + 1;
                    if sign == ']' {
                        cost.selectors = cost.selectors.saturating_mul(selectors);
                    }
                }
                ',' => commas.last_mut().into_iter().for_each(|count| *count += 1),
                _ => {}
            }
            let is_many = matches!(sign, '*' | '?' | ':' | ',') || (sign == '.' && last == '.');
            if is_many && root.take().is_some() {
                cost.roots += 1;
            }
            root = root.filter(|depth| *depth <= commas.len() && !"=<>!&|".contains(sign));
            cost.is_single &= !is_many;
            last = sign;
        }
        cost
    }

    /// An upper bound of the steps over a value.
    fn over(&self, size: &Size) -> u64 {
        // The first descent meets each part once, and what it has found is moved up level by level, which costs little; the
        // next ones meet each part once for each part above it.
        let moves = if self.descents > 0 { 1 + size.depth / LEVELS_A_STEP } else { 1 };
        let above = size.depth.saturating_pow(self.descents.saturating_sub(1));
        let parts = size.parts.saturating_mul(above).saturating_mul(moves);
        let again = size.parts.saturating_pow(self.roots);
        parts.saturating_mul(again).saturating_mul(self.selectors)
    }
}

/// The signs of a path outside of its strings; a string is one quotation mark.
struct Signs<'t> {
    rest: std::str::Chars<'t>,
    quote: Option<char>,
}

impl Iterator for Signs<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        loop {
            let sign = self.rest.next()?;
            match self.quote {
                None => {
                    self.quote = Some(sign).filter(|sign| matches!(sign, '\'' | '"'));
                    return Some(sign);
                }
                Some(_) if sign == '\\' => {
                    self.rest.next();
                }
                Some(open) if open == sign => self.quote = None,
                Some(_) => {}
            }
        }
    }
}

/// Number of parts of a value, and its depth.
struct Size {
    parts: u64,
    depth: u64,
}

impl Size {
    fn measure(value: &Value) -> Self {
        let mut size = Self { parts: 0, depth: 0 };
        let mut open = vec![(value, 1)];
        while let Some((value, depth)) = open.pop() {
            size.parts += 1;
            size.depth = size.depth.max(depth);
            match value {
                Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
                Value::Object(members) => open.extend(members.values().map(|member| (member, depth + 1))),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        size
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_of_names_and_places_is_single() {
        for path in ["$", "$.a.b", "$['a*b'][0]", "$[\"x,y\"]", "$[-1]", r"$['a\'..*']"] {
            assert!(Cost::read(path).is_single, "{path}");
        }
        for path in ["$.*", "$..a", "$[0:2]", "$[0,1]", "$[?@.a]"] {
            assert!(!Cost::read(path).is_single, "{path}");
        }
    }

    #[test]
    fn n06_a_path_that_explodes_is_refused_before_it_is_applied() {
        let deep = (0..100).fold(json!(1), |inner, _| json!({"a": inner, "b": [1, 2, 3]}));
        let wide: Value = (0..5000).map(|at| json!({"n": at})).collect();
        assert!(JsonQuery::parse(&format!("$[?{}@.a{}]", "(".repeat(200), ")".repeat(200))).is_err());
        assert!(JsonQuery::parse(&format!("$[?{}@.a == 1{}]", "(".repeat(11), ")".repeat(11))).is_ok());
        for (path, value) in [
            ("$..*..*..*..*..*", &deep),
            ("$..[?@..[?@..[?@..x]]]", &deep),
            ("$[?count($[?count($..*) > 0]) > 0]", &wide),
            ("$[?count($..*) > 1]", &wide),
            (&format!("$..{}", "[0,0]".repeat(40)), &deep),
        ] {
            let start = std::time::Instant::now();
            assert!(JsonQuery::parse(path).unwrap().all(value).is_err(), "{path}");
            assert!(start.elapsed() < std::time::Duration::from_secs(2), "{path}");
        }
    }

    #[test]
    fn n06_a_linear_path_is_applied_to_a_value_of_any_size() {
        let large: Value = (0..130_000).map(|at| json!({"n": at, "t": [at]})).collect();
        for (path, found) in
            [("$..n", 130_000), ("$..t[0]", 130_000), ("$[*].n", 130_000), ("$..['n','x']", 130_000)]
        {
            assert_eq!(
                JsonQuery::parse(path).unwrap().all(&large).unwrap_or_default().len(),
                found,
                "{path}"
            );
        }
        let nested =
            (0..100).fold(large, |inner, _| Value::Object([("a".to_owned(), inner)].into_iter().collect()));
        for path in ["$..*", "$..a", "$..*..n"] {
            assert!(JsonQuery::parse(path).unwrap().all(&nested).is_err(), "{path}");
        }
    }

    #[test]
    fn n06_usual_paths_are_within_the_budget() {
        let wide: Value =
            (0..5000).map(|at| json!({"n": at, "t": format!("t{at}"), "tags": ["a", "b"]})).collect();
        for (path, found) in [
            ("$..n", 5000),
            ("$[?@.n < 10].t", 10),
            ("$[?@.tags[?@ == 'a']].n", 5000),
            ("$[0:4]['n','t']", 8),
            ("$..[?@.n == $[3].n]", 1),
        ] {
            assert_eq!(JsonQuery::parse(path).unwrap().all(&wide).unwrap_or_default().len(), found, "{path}");
        }
    }
}
