//! Names that are valid everywhere at once: OpenAI, Anthropic, Gemini, MCP, XML tags.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// Longest wire name, in bytes.
const MAX_WIRE: usize = 64;

/// Hex digits of the hash that stands for what a wire name cannot say.
const HASH_DIGITS: usize = 6;

/// The wire name of a canonical tool id, or of a parameter.
///
/// `namespace:name` becomes `namespace__name`, every other character that a wire name may not hold becomes `_`.
/// A name whose wire form is not reversible gets `_` and the first six hex digits of the SHA-256 of the canonical name,
/// independent of the other names.
///
/// ```
/// use tool_schema::wire_name;
///
/// assert_eq!(wire_name("workflow:summarize_text"), "workflow__summarize_text");
/// assert!(wire_name("math.factorial").starts_with("math_factorial_"));
/// ```
#[must_use]
pub fn wire_name(canonical: &str) -> String {
    let plain = canonical.replacen(':', "__", 1);
    if is_reversible(canonical) && is_wire_name(&plain) { plain } else { hashed(canonical) }
}

/// Returns `true` for a text that is a valid name everywhere: `^[A-Za-z_][A-Za-z0-9_-]{0,63}$`, not beginning with
/// `xml` in any case.
#[must_use]
pub fn is_wire_name(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let holds = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    starts && holds && name.len() <= MAX_WIRE && !starts_with_xml(name)
}

fn starts_with_xml(name: &str) -> bool {
    name.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("xml"))
}

/// Returns `true` when `:` → `__` is reversible: no `__` but the one that stands for the colon, and none that touches
/// it.
fn is_reversible(canonical: &str) -> bool {
    let (namespace, name) = canonical.split_once(':').unwrap_or(("", canonical));
    let touches = canonical.contains(':')
        && (namespace.is_empty() || name.is_empty() || namespace.ends_with('_') || name.starts_with('_'));
    !touches && [namespace, name].iter().all(|part| !part.contains("__") && !part.contains(':'))
}

fn hashed(canonical: &str) -> String {
    let mut name = String::with_capacity(MAX_WIRE);
    if !canonical.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') || starts_with_xml(canonical) {
        name.push('_');
    }
    for (index, part) in canonical.splitn(2, ':').enumerate() {
        name.push_str(if index > 0 { "__" } else { "" });
        name.extend(
            part.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' }),
        );
    }
    name.truncate(MAX_WIRE - HASH_DIGITS - 1);
    name.push('_');
    for byte in Sha256::digest(canonical).iter().take(HASH_DIGITS / 2) {
        // Writing to a string cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    name
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(canonical: &str, expected: &str) {
        assert_eq!(wire_name(canonical), expected);
    }

    #[test]
    fn simple_names_stay_and_others_are_hashed() {
        check("get_weather", "get_weather");
        check("system:get_current_time", "system__get_current_time");
        check("ReadWorldStateTool", "ReadWorldStateTool");
        check("a-b", "a-b");
        check("node:core:TextMerge", "node__core_TextMerge_48876c");
        check("math.factorial", "math_factorial_2f2114");
        check("a__b", "a__b_63e5c1");
        check("a_:b", "a___b_2fda5b");
        check("3d", "_3d_da0568");
        check("XmlReader", "_XmlReader_4174f6");
        check("摘要", "____21c04b");
    }

    #[test]
    fn long_names_fit() {
        let name = wire_name(&"x".repeat(80));
        assert!(name.len() == 64 && is_wire_name(&name), "{name}");
    }

    proptest! {
        #[test]
        fn every_wire_name_is_valid(name in "\\PC{1,90}") {
            prop_assert!(is_wire_name(&wire_name(&name)), "{}", wire_name(&name));
        }

        #[test]
        fn different_ids_have_different_wire_names(
            names in proptest::collection::hash_set("[ab_:.\\-]{1,6}", 1..60)
        ) {
            let mut seen = HashMap::new();
            for name in names {
                if let Some(other) = seen.insert(wire_name(&name), name.clone()) {
                    prop_assert!(false, "{name:?} and {other:?} share {}", wire_name(&name));
                }
            }
        }
    }
}
