//! Finds the trigger that a message sets off, in time linear in the message.
//!
//! All texts of all triggers are looked for in one pass; a regular expression is run only where a text is there that it needs.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind as Overlap};
use serde_json::{Map, Value};

use crate::config::{MatchKind, Problems};
use crate::pattern::{Pattern, PatternFault, check_length};
use crate::text::{Seen, fold, plain};

/// Most patterns of one trigger, those that keep it from being set off included.
const MAX_PATTERNS: usize = 256;

/// Longest message that regular expressions are tried on, in bytes of the text as they see it: their time is that of the
/// message times that of the pattern.
const MAX_SEARCHED: usize = 256 * 1024;

/// Trigger as a file states it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TriggerConfig<'f> {
    pub(crate) kind: MatchKind,
    pub(crate) patterns: &'f [String],
    pub(crate) exclude: &'f [String],
}

/// Reason for which a trigger matches, or does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    /// Syntax of the pattern.
    pub kind: MatchKind,
    /// The pattern as the file has it.
    pub pattern: Arc<str>,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            MatchKind::Contains => "contains",
            MatchKind::Exact => "exact",
            MatchKind::Regex => "regex",
        };
        write!(f, "{kind} \"{}\"", self.pattern)
    }
}

/// Triggers that a message matches.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Found {
    /// The trigger that is set off, by its number, with what its groups hold.
    pub(crate) hit: Option<Hit>,
    /// Triggers that would have been, and what kept them from it.
    pub(crate) excluded: Vec<(usize, Why)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Hit {
    pub(crate) trigger: usize,
    pub(crate) why: Why,
    /// By name, and by number from 1.
    pub(crate) groups: Map<String, Value>,
}

/// One pattern of a trigger.
#[derive(Debug, Clone)]
struct Test {
    source: Arc<str>,
    how: How,
}

#[derive(Debug, Clone)]
enum How {
    /// The text of this number is in the message.
    Holds(usize),
    /// The message is this folded text.
    Is(String),
    /// The expression fits.
    Fits(Box<Pattern>),
}

#[derive(Debug, Clone)]
struct Trigger {
    kind: MatchKind,
    tests: Vec<Test>,
    exclude: Vec<Test>,
}

/// All triggers in the order in which they are tried.
#[derive(Debug, Clone)]
pub(crate) struct Matcher {
    triggers: Vec<Trigger>,
    search: AhoCorasick,
    /// Triggers that may be set off where a text is in the message, by the text's number.
    by_text: Vec<Vec<usize>>,
    /// Triggers that may be set off where a text is the message.
    by_whole: HashMap<String, Vec<usize>>,
    /// Triggers that may be set off by any message.
    always: Vec<usize>,
}

/// Puts a matcher together.
#[derive(Debug, Default)]
pub(crate) struct MatcherBuilder {
    triggers: Vec<Trigger>,
    texts: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl MatcherBuilder {
    /// Adds a trigger and returns its number; its problems are reported below `place`, where the patterns are.
    pub(crate) fn add(&mut self, config: TriggerConfig<'_>, place: &str, problems: &mut Problems) -> usize {
        let TriggerConfig { kind, patterns, exclude } = config;
        let count = patterns.len() + exclude.len();
        if count > MAX_PATTERNS {
            let message = format!("{count} patterns; {MAX_PATTERNS} at most");
            problems.error(format!("{place}/trigger_patterns"), "too_many_patterns", message);
        }
        // Whoever writes so many gets no second fault for each of them.
        let (patterns, exclude) = if count > MAX_PATTERNS { (&[][..], &[][..]) } else { (patterns, exclude) };
        let against = if kind == MatchKind::Exact { MatchKind::Contains } else { kind };
        let mut tests = |patterns: &[String], kind, key: &str| {
            let mut tests = Vec::with_capacity(patterns.len());
            for (index, pattern) in patterns.iter().enumerate() {
                match self.test(pattern, kind) {
                    Ok(how) => {
                        if matches!(&how, How::Fits(pattern) if pattern.regex.is_match("")) {
                            let message = format!("`{pattern}` fits every message, the empty one too");
                            problems.warning(format!("{place}/{key}/{index}"), "fits_everything", message);
                        }
                        tests.push(Test { source: pattern.as_str().into(), how });
                    }
                    Err(PatternFault { code, message }) => {
                        problems.error(format!("{place}/{key}/{index}"), code, message);
                    }
                }
            }
            tests
        };
        let (tests, exclude) =
            (tests(patterns, kind, "trigger_patterns"), tests(exclude, against, "exclude"));
        self.triggers.push(Trigger { kind, tests, exclude });
        self.triggers.len() - 1
    }

    /// Names of the groups that patterns of a trigger have, those of numbers included.
    pub(crate) fn groups(&self, number: usize) -> BTreeSet<String> {
        let tests = self.triggers.get(number).into_iter().flat_map(|trigger| &trigger.tests);
        let patterns = tests.filter_map(|test| match &test.how {
            How::Fits(pattern) => Some(pattern),
            How::Holds(_) | How::Is(_) => None,
        });
        let names = patterns.flat_map(|pattern| {
            let names = pattern.regex.capture_names().enumerate();
            names.flat_map(|(index, name)| name.map(str::to_owned).into_iter().chain([index.to_string()]))
        });
        names.collect()
    }

    fn test(&mut self, pattern: &str, kind: MatchKind) -> Result<How, PatternFault> {
        if kind == MatchKind::Regex {
            return Pattern::parse(pattern).map(|pattern| How::Fits(Box::new(pattern)));
        }
        check_length(pattern)?;
        let text = fold(&plain(pattern));
        if text.is_empty() {
            return Err(PatternFault {
                code: "empty_pattern",
                message: "an empty pattern would fit everything".into(),
            });
        }
        Ok(match kind {
            MatchKind::Exact => How::Is(text),
            MatchKind::Contains | MatchKind::Regex => How::Holds(self.number(text)),
        })
    }

    fn number(&mut self, text: String) -> usize {
        let Self { texts, numbers, .. } = self;
        *numbers.entry(text).or_insert_with_key(|text| {
            texts.push(text.clone());
            texts.len() - 1
        })
    }

    /// The matcher. `order` are numbers of triggers, those first that are tried first.
    pub(crate) fn build(mut self, order: &[usize], problems: &mut Problems) -> Matcher {
        let triggers: Vec<Trigger> =
            order.iter().filter_map(|index| self.triggers.get(*index).cloned()).collect();
        let mut always = Vec::new();
        let mut by_whole: HashMap<String, Vec<usize>> = HashMap::new();
        let mut gates = Vec::new();
        for (rank, trigger) in triggers.iter().enumerate() {
            for test in &trigger.tests {
                match &test.how {
                    How::Holds(text) => gates.push((*text, rank)),
                    How::Is(text) => by_whole.entry(text.clone()).or_default().push(rank),
                    How::Fits(pattern) => match &pattern.needs {
                        None => always.push(rank),
                        Some(needs) => {
                            gates.extend(needs.iter().map(|text| (self.number(text.clone()), rank)));
                        }
                    },
                }
            }
        }
        let mut by_text = vec![Vec::new(); self.texts.len()];
        for (text, rank) in gates {
            by_text[text].push(rank);
        }
        let search = AhoCorasick::builder().match_kind(Overlap::Standard).build(&self.texts);
        let search = search.unwrap_or_else(|error| {
            problems.error("", "too_many_patterns", error.to_string());
            AhoCorasick::builder()
                .build::<_, &str>([])
                .unwrap_or_else(|_| unreachable!("nothing is looked for"))
        });
        Matcher { triggers, search, by_text, by_whole, always }
    }
}

impl Matcher {
    /// The trigger that a message sets off. Numbers are places in the order that it was built with.
    pub(crate) fn find(&self, message: &str) -> Found {
        let mut found = Found::default();
        if self.triggers.is_empty() {
            return found;
        }
        let seen = Seen::new(message);
        let mut texts = vec![false; self.by_text.len()];
        let mut candidates: BTreeSet<usize> = self.always.iter().copied().collect();
        for hit in self.search.find_overlapping_iter(&seen.folded) {
            let text = hit.pattern().as_usize();
            if !std::mem::replace(&mut texts[text], true) {
                candidates.extend(&self.by_text[text]);
            }
        }
        candidates.extend(self.by_whole.get(&seen.folded).into_iter().flatten());
        let look = Look { seen: &seen, texts: &texts };
        for rank in candidates {
            let trigger = &self.triggers[rank];
            let Some((test, groups)) = trigger.tests.iter().find_map(|test| Some((test, look.fits(test)?)))
            else {
                continue;
            };
            let why = |test: &Test| Why { kind: trigger.kind, pattern: Arc::clone(&test.source) };
            if let Some(against) = trigger.exclude.iter().find(|test| look.fits(test).is_some()) {
                found.excluded.push((rank, why(against)));
                continue;
            }
            found.hit = Some(Hit { trigger: rank, why: why(test), groups });
            break;
        }
        found
    }
}

/// A message that is looked at.
struct Look<'m> {
    seen: &'m Seen,
    /// Texts that occur in the message.
    texts: &'m [bool],
}

impl Look<'_> {
    /// The groups of a pattern that fits.
    fn fits(&self, test: &Test) -> Option<Map<String, Value>> {
        match &test.how {
            How::Holds(text) => self.texts[*text].then(Map::new),
            How::Is(text) => (self.seen.folded == *text).then(Map::new),
            How::Fits(_) if self.seen.plain.len() > MAX_SEARCHED => None,
            How::Fits(pattern) => {
                let captures = pattern.regex.captures(&self.seen.plain)?;
                let mut groups = Map::new();
                for (index, name) in pattern.regex.capture_names().enumerate() {
                    let Some(group) = captures.get(index) else { continue };
                    groups.insert(index.to_string(), group.as_str().into());
                    groups.extend(name.map(|name| (name.to_owned(), group.as_str().into())));
                }
                Some(groups)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matcher(triggers: &[(MatchKind, &[&str], &[&str])]) -> Matcher {
        let (mut builder, mut problems) = (MatcherBuilder::default(), Problems::default());
        for (kind, patterns, exclude) in triggers {
            let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
            let (patterns, exclude) = (owned(patterns), owned(exclude));
            builder.add(
                TriggerConfig { kind: *kind, patterns: &patterns, exclude: &exclude },
                "",
                &mut problems,
            );
        }
        let order: Vec<usize> = (0..triggers.len()).collect();
        let matcher = builder.build(&order, &mut problems);
        problems.into_result().unwrap();
        matcher
    }

    fn shown(matcher: &Matcher, text: &str) -> String {
        let found = matcher.find(text);
        let hit = found.hit.map_or_else(|| "none".to_owned(), |hit| format!("{} {}", hit.trigger, hit.why));
        let excluded: Vec<String> =
            found.excluded.iter().map(|(rank, why)| format!("; not {rank}: {why}")).collect();
        hit + &excluded.concat()
    }

    #[test]
    fn the_first_that_fits_is_set_off() {
        use MatchKind::{Contains, Exact, Regex};
        let matcher = matcher(&[
            (Contains, &["我要请假", "sick leave"], &["不请假"]),
            (Exact, &["Help"], &[]),
            (Regex, &["^order (?<id>[A-Z]\\d+)$", "\\d{4}"], &["never"]),
            (Contains, &["order"], &[]),
        ]);
        for (text, expected) in [
            ("你好，我 要 请　假 三天", "0 contains \"我要请假\""),
            ("I need SICK\tleave", "0 contains \"sick leave\""),
            ("我不请假，别写我要请假", "none; not 0: contains \"不请假\""),
            ("ＨＥＬＰ", "1 exact \"Help\""),
            ("help me", "none"),
            ("Order a7", "2 regex \"^order (?<id>[A-Z]\\d+)$\""),
            ("my order a7", "3 contains \"order\""),
            ("order 2026 never", "3 contains \"order\"; not 2: regex \"never\""),
            ("", "none"),
        ] {
            assert_eq!(shown(&matcher, text), expected, "{text}");
        }
        let groups = matcher.find("ORDER a7").hit.unwrap().groups;
        assert_eq!(Value::Object(groups), serde_json::json!({"0": "ORDER a7", "1": "a7", "id": "a7"}));
    }

    #[test]
    fn hostile_messages_take_linear_time() {
        let matcher = matcher(&[
            (MatchKind::Regex, &["(a+)+$", "(a|aa)+$", "(.*)*x(.*)*x$"], &[]),
            (MatchKind::Contains, &["aaaa", "aaa", "aa"], &["b"]),
        ]);
        for size in [100_000, 1_000_000] {
            let message = "a".repeat(size) + "b";
            assert_eq!(shown(&matcher, &message), "none; not 1: contains \"b\"", "{size}");
        }
        let combining = "e".to_owned() + &"\u{301}".repeat(300_000);
        assert!(matcher.find(&combining).hit.is_none());
        let expanding = "\u{FDFA}".repeat(300_000);
        assert!(matcher.find(&expanding).hit.is_none());
    }

    /// The same without an index: every pattern of every trigger in turn.
    fn in_turn(triggers: &[(MatchKind, Vec<String>, Vec<String>)], message: &str) -> Option<usize> {
        let seen = Seen::new(message);
        let fits = |kind: MatchKind, pattern: &String| match kind {
            MatchKind::Contains => seen.folded.contains(&fold(&plain(pattern))),
            MatchKind::Exact => seen.folded == fold(&plain(pattern)),
            MatchKind::Regex => Pattern::parse(pattern).unwrap().regex.is_match(&seen.plain),
        };
        triggers.iter().position(|(kind, patterns, exclude)| {
            let against = if *kind == MatchKind::Exact { MatchKind::Contains } else { *kind };
            patterns.iter().any(|pattern| fits(*kind, pattern))
                && !exclude.iter().any(|pattern| fits(against, pattern))
        })
    }

    fn trigger() -> impl Strategy<Value = (MatchKind, Vec<String>, Vec<String>)> {
        let texts = |most| prop::collection::vec("[aAbBｂ请 ]{0,2}[aAb请]", 0..most);
        let patterns = |most| {
            prop::collection::vec("(?:[abA请]{1,2}|[ab]\\*|\\(a\\|b请\\)|\\.|a\\{2\\}){1,3}[ab请]", 0..most)
        };
        let kind = prop_oneof![Just(MatchKind::Contains), Just(MatchKind::Exact)];
        prop_oneof![
            (kind, texts(4), texts(2)).prop_map(|(kind, patterns, exclude)| (kind, patterns, exclude)),
            (patterns(4), patterns(2)).prop_map(|(patterns, exclude)| (MatchKind::Regex, patterns, exclude)),
        ]
    }

    proptest! {
        // Compiling expressions takes its time.
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_index_changes_nothing(triggers in prop::collection::vec(trigger(), 0..8), message in "[aAbｂ请　 ]{0,12}") {
            let borrowed: Vec<(MatchKind, Vec<&str>, Vec<&str>)> = triggers
                .iter()
                .map(|(kind, patterns, exclude)| {
                    (*kind, patterns.iter().map(String::as_str).collect(), exclude.iter().map(String::as_str).collect())
                })
                .collect();
            let borrowed: Vec<(MatchKind, &[&str], &[&str])> =
                borrowed.iter().map(|(kind, patterns, exclude)| (*kind, &patterns[..], &exclude[..])).collect();
            let hit = matcher(&borrowed).find(&message).hit.map(|hit| hit.trigger);
            prop_assert_eq!(hit, in_turn(&triggers, &message));
        }
    }
}
