//! Regular expressions of trigger patterns: linear, limited, and with the texts that a match cannot do without.

use regex::{Regex, RegexBuilder};
use regex_syntax::ast::Span;
use regex_syntax::hir::{Hir, HirKind};
use unicode_normalization::UnicodeNormalization;

use crate::text::fold;

/// Longest pattern, in characters.
pub(crate) const MAX_PATTERN: usize = 512;

/// Largest compiled pattern, in bytes.
const MAX_COMPILED: usize = 1 << 20;

/// Room for the states of one pattern that is being looked for, in bytes.
const MAX_STATES: usize = 1 << 18;

/// Deepest nesting of groups.
const MAX_NEST: u32 = 32;

/// Most texts of which a pattern needs one.
const MAX_NEEDED: usize = 64;

/// Characters that a regular expression gives a meaning.
const META: &str = r"\.+*?()|[]{}^$#&-~";

/// Reason for which a pattern cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PatternFault {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

/// A compiled regular expression.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    pub(crate) regex: Regex,
    /// Folded texts of which every match holds at least one; empty if none are known.
    pub(crate) needs: Option<Vec<String>>,
}

impl Pattern {
    pub(crate) fn parse(text: &str) -> Result<Self, PatternFault> {
        check_length(text)?;
        let mut parser = regex_syntax::ParserBuilder::new().nest_limit(MAX_NEST).build();
        // The text as it is written first, so that places are those of the file.
        parser.parse(text).map_err(|error| fault_of(text, &error))?;
        let composed = composed(text);
        let hir = parser.parse(&composed).map_err(|error| fault_of(&composed, &error))?;
        let regex = RegexBuilder::new(&composed)
            .case_insensitive(true)
            .nest_limit(MAX_NEST)
            .size_limit(MAX_COMPILED)
            .dfa_size_limit(MAX_STATES)
            .build()
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(limit) => PatternFault {
                    code: "pattern_too_large",
                    message: format!("it is larger than {limit} bytes when it is compiled"),
                },
                other => PatternFault { code: "bad_pattern", message: other.to_string() },
            })?;
        let needs = needed(&hir).filter(|texts| !texts.is_empty());
        Ok(Self { regex, needs })
    }
}

pub(crate) fn check_length(text: &str) -> Result<(), PatternFault> {
    let length = text.chars().count();
    if length > MAX_PATTERN {
        let message = format!("it has {length} characters; {MAX_PATTERN} at most");
        return Err(PatternFault { code: "pattern_too_long", message });
    }
    Ok(())
}

/// The pattern in the form of the texts that it is run on. What becomes a character with a meaning stands for itself.
fn composed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.nfc() {
        if c.is_ascii() {
            out.push(c);
            continue;
        }
        for c in std::iter::once(c).nfkc() {
            if META.contains(c) {
                out.push('\\');
            }
            out.push(c);
        }
    }
    out
}

fn fault_of(text: &str, error: &regex_syntax::Error) -> PatternFault {
    use regex_syntax::ast::ErrorKind;
    let (code, what, span) = match error {
        regex_syntax::Error::Parse(error) => {
            let code = match error.kind() {
                ErrorKind::NestLimitExceeded(_) => "pattern_too_deep",
                ErrorKind::UnsupportedLookAround | ErrorKind::UnsupportedBackreference => {
                    "unsupported_pattern"
                }
                _ => "bad_pattern",
            };
            (code, error.kind().to_string(), *error.span())
        }
        regex_syntax::Error::Translate(error) => ("bad_pattern", error.kind().to_string(), *error.span()),
        _ => return PatternFault { code: "bad_pattern", message: error.to_string() },
    };
    PatternFault { code, message: format!("{what}, {}", place(text, span)) }
}

/// Place in the pattern, in characters from 1.
fn place(text: &str, span: Span) -> String {
    let start = span.start.offset.min(text.len());
    let at = text[..start].chars().count() + 1;
    let rest: String = text[start..].chars().take(12).collect();
    if rest.is_empty() { "at its end".to_owned() } else { format!("at character {at}: `{rest}`") }
}

/// Texts of which every match of the expression holds at least one.
fn needed(hir: &Hir) -> Option<Vec<String>> {
    match hir.kind() {
        HirKind::Literal(literal) => Some(vec![fold(std::str::from_utf8(&literal.0).ok()?)]),
        HirKind::Capture(capture) => needed(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => needed(&repetition.sub),
        HirKind::Concat(parts) => parts.iter().filter_map(needed).max_by_key(|texts| shortest(texts)),
        HirKind::Alternation(branches) => {
            let texts: Option<Vec<Vec<String>>> = branches.iter().map(needed).collect();
            Some(texts?.concat()).filter(|texts| texts.len() <= MAX_NEEDED)
        }
        HirKind::Empty | HirKind::Class(_) | HirKind::Look(_) | HirKind::Repetition(_) => None,
    }
}

/// Rank of texts by rarity: the length of the shortest, then fewer before more.
fn shortest(texts: &[String]) -> (usize, std::cmp::Reverse<usize>) {
    (texts.iter().map(String::len).min().unwrap_or(0), std::cmp::Reverse(texts.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::Seen;

    fn code(text: &str) -> String {
        match Pattern::parse(text) {
            Ok(_) => "ok".into(),
            Err(fault) => format!("{}: {}", fault.code, fault.message),
        }
    }

    #[test]
    fn what_cannot_be_linear_or_small_is_refused_with_its_place() {
        for (text, expected) in [
            ("请.*天假", "ok"),
            ("(a+)+$", "ok"),
            (
                "我(?=要)",
                "unsupported_pattern: look-around, including look-ahead and look-behind, is not supported, at character 2: `(?=`",
            ),
            (r"(a)\1", "unsupported_pattern: backreferences are not supported, at character 4: `\\1`"),
            ("(?:a{1000}){1000}", "pattern_too_large: it is larger than 1048576 bytes when it is compiled"),
            ("a(", "bad_pattern: unclosed group, at character 2: `(`"),
            (
                "[z-a]",
                "bad_pattern: invalid character class range, the start must be <= the end, at character 2: `z-a]`",
            ),
        ] {
            let got = code(text);
            // What follows the place in the pattern depends on where the parser ends its span.
            assert!(got == expected || got.starts_with(expected.trim_end_matches('`')), "{text}: {got}");
        }
        assert!(code(&"a".repeat(513)).starts_with("pattern_too_long: it has 513 characters"));
        let deep = format!("{}a{}", "(".repeat(40), ")".repeat(40));
        assert!(code(&deep).starts_with("pattern_too_deep"), "{}", code(&deep));
    }

    #[test]
    fn patterns_fit_texts_of_any_width_and_case() {
        let fits = |pattern: &str, text: &str| {
            Pattern::parse(pattern).unwrap().regex.is_match(&Seen::new(text).plain)
        };
        assert!(fits("ｐｉｎ\\s+（\\d+）？", "PIN (１２)?"));
        assert!(fits("[（）]", "("));
        assert!(!fits("［a］", "a"), "a wide bracket stands for itself");
        assert!(fits("请.*天假", "我 请 三 天 假"));
        assert!(fits("(?<id>[A-Z]{2}\\d+)", "order ab12"));
    }

    #[test]
    fn needed_texts_are_found() {
        for (pattern, expected) in [
            ("请.*天假", Some(vec!["天假"])),
            ("order (?<id>\\d+)", Some(vec!["order "])),
            ("(?:ABC|de)+x?", Some(vec!["abc", "de"])),
            ("a*", None),
            ("\\d+", None),
            ("(foo|\\d)bar", Some(vec!["bar"])),
            ("(?i:foo)", None),
        ] {
            let needs = Pattern::parse(pattern).unwrap().needs;
            assert_eq!(
                needs,
                expected.map(|texts| texts.into_iter().map(str::to_owned).collect()),
                "{pattern}"
            );
        }
    }

    proptest! {
        /// A text without any of the needed ones never fits.
        #[test]
        fn a_match_holds_a_needed_text(
            pattern in "(?:[abßKk]{1,2}|[ab]\\*|\\([abß]\\|b[ab]\\)|\\.){1,5}",
            text in "[abßſkKSs .]{0,12}",
        ) {
            let Ok(pattern) = Pattern::parse(&pattern) else { return Ok(()) };
            let seen = Seen::new(&text);
            if let Some(needs) = &pattern.needs && pattern.regex.is_match(&seen.plain) {
                prop_assert!(needs.iter().any(|needed| seen.folded.contains(needed.as_str())));
            }
        }
    }
}
