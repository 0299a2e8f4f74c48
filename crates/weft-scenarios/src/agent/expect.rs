//! Expectations of a turn, or of all turns together.

use std::fmt;

use agent_types::ExitReason;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::case::some;
use super::observed::Seen;
use crate::pattern::{Pattern, contains_all, fits};

/// One thing that came another way than it should.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The turn and what is looked at.
    pub at: String,
    /// Expected value.
    pub wanted: String,
    /// Actual value.
    pub got: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: wanted {}, got {}", self.at, self.wanted, self.got)
    }
}

/// Expectations, by the keys of the written form.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Expect {
    exit: Option<Value>,
    #[serde(deserialize_with = "some")]
    text: Option<Value>,
    #[serde(deserialize_with = "some")]
    value: Option<Value>,
    partial: Option<Value>,
    calls: Option<Vec<Map<String, Value>>>,
    call_counts: Option<Map<String, Value>>,
    llm_calls: Option<Value>,
    observations: Option<Vec<Value>>,
    deltas: Option<Vec<Delta>>,
    events: Vec<Value>,
    no_events: Vec<Value>,
    counts: Vec<(Value, Value)>,
    before: Vec<(Value, Value)>,
    pending: Option<Value>,
    usage: Option<Map<String, Value>>,
    http: Option<Vec<Map<String, Value>>>,
    history: Option<HistoryWish>,
    outgoing_connections: Option<Value>,
    min_ms: Option<u64>,
    max_ms: Option<u64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Delta {
    text: String,
    #[serde(default)]
    calls: Vec<Map<String, Value>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct HistoryWish {
    roles: Option<Vec<String>>,
    contains: Vec<Value>,
    lacks: Vec<Value>,
    pairs: Option<bool>,
}

/// Collects what differs.
struct Check<'s> {
    at: String,
    seen: &'s Seen,
    found: Vec<Difference>,
}

impl Expect {
    /// Faults of the patterns themselves.
    pub(crate) fn check(&self) -> Result<(), String> {
        let known = |exit: &str| serde_json::from_value::<ExitReason>(exit.into()).is_ok();
        match self.exit.as_ref().map(Value::as_str) {
            Some(Some(exit)) if !known(exit) => return Err(format!("unknown exit `{exit}`")),
            Some(None) => return Err("`exit` is a text".to_owned()),
            _ => {}
        }
        let counts = self.call_counts.iter().chain(&self.usage).flat_map(Map::values);
        let counts = counts.chain(self.counts.iter().map(|(_, count)| count));
        for count in counts.chain(&self.llm_calls).chain(&self.outgoing_connections) {
            let is_range = |map: &Map<String, Value>| map.keys().all(|key| key == "min" || key == "max");
            if !(count.is_number() || count.as_object().is_some_and(is_range)) {
                return Err(format!("a number or `{{\"min\", \"max\"}}` is wanted, not {count}"));
            }
        }
        let pairs = self.before.iter().flat_map(|(left, right)| [left, right]);
        let counted = self.counts.iter().map(|(pattern, _)| pattern);
        let patterns = self.events.iter().chain(&self.no_events).chain(counted).chain(pairs);
        patterns.map(Pattern::read).try_for_each(|pattern| pattern.map(|_| ()))
    }

    /// Differences from the observed turn.
    pub(crate) fn differences(&self, at: &str, seen: &Seen) -> Vec<Difference> {
        let mut check = Check { at: at.to_owned(), seen, found: Vec::new() };
        check.answer(self);
        check.numbers(self);
        check.calls(self);
        check.texts(self);
        check.events(self);
        check.history(self);
        check.found
    }
}

impl Check<'_> {
    fn differs(&mut self, what: &str, wanted: impl fmt::Display, got: impl fmt::Display) {
        let at = format!("{}: {what}", self.at);
        self.found.push(Difference {
            at,
            wanted: shortened(&wanted.to_string()),
            got: shortened(&got.to_string()),
        });
    }

    fn answer(&mut self, expect: &Expect) {
        let seen = self.seen;
        if let Some(wanted) = &expect.exit {
            let got = seen.exit.as_deref().unwrap_or("none");
            if wanted.as_str() != Some(got) {
                let error = seen.error.as_deref().map(|error| format!(" ({error})")).unwrap_or_default();
                self.differs("exit", wanted, format!("\"{got}\"{error}"));
            }
        }
        match &expect.text {
            None => {}
            Some(Value::Null) if seen.text.is_none() => {}
            Some(wanted) => {
                let text = seen.text.as_deref();
                if !text.is_some_and(|text| text_fits(wanted, text)) {
                    self.differs("text", wanted, json!(text));
                }
            }
        }
        if let Some(wanted) = &expect.value {
            let got = seen.value.clone().unwrap_or_default();
            if !fits(wanted, &got) {
                self.differs("value", wanted, got);
            }
        }
        if let Some(wanted) = &expect.partial
            && Some(wanted) != seen.partial.map(Value::from).as_ref()
        {
            self.differs("partial", wanted, json!(seen.partial));
        }
        match &expect.pending {
            None => {}
            Some(Value::Array(wanted)) => {
                let got: Vec<Value> = seen.pending.clone();
                let same = wanted.len() == got.len()
                    && wanted.iter().zip(&got).all(|(wanted, got)| members_fit(wanted, got));
                if !same {
                    self.differs("pending", json!(wanted), json!(got));
                }
            }
            Some(count) => self.number("pending", count, seen.pending.len()),
        }
    }

    fn number(&mut self, what: &str, wanted: &Value, got: impl TryInto<u64>) {
        let got: u64 = got.try_into().unwrap_or(u64::MAX);
        if !number_fits(wanted, got) {
            self.differs(what, wanted, got);
        }
    }

    fn numbers(&mut self, expect: &Expect) {
        let seen = self.seen;
        if let Some(wanted) = &expect.llm_calls {
            self.number("llm_calls", wanted, seen.count_of("agent.llm.started"));
        }
        for (key, wanted) in expect.usage.iter().flatten() {
            let usage = seen.usage();
            let got = match key.as_str() {
                "input" => usage.input,
                "output" => usage.output,
                _ => usage.total,
            };
            self.number(&format!("usage.{key}"), wanted, got);
        }
        if let Some(wanted) = &expect.outgoing_connections {
            self.number("outgoing_connections", wanted, seen.requested.len());
        }
        let ms = u64::try_from(seen.took.as_millis()).unwrap_or(u64::MAX);
        if let Some(min) = expect.min_ms.filter(|min| ms < *min) {
            self.differs("min_ms", min, ms);
        }
        if let Some(max) = expect.max_ms.filter(|max| ms > *max) {
            self.differs("max_ms", max, ms);
        }
    }

    fn calls(&mut self, expect: &Expect) {
        let seen = self.seen;
        if let Some(wanted) = &expect.calls {
            let got: Vec<Value> = seen
                .executed
                .iter()
                .map(|call| json!({"tool": call.tool, "arguments": call.arguments}))
                .collect();
            let same = wanted.len() == got.len()
                && wanted.iter().zip(&got).all(|(wanted, got)| members_fit(&json!(wanted), got));
            if !same {
                self.differs("calls", json!(wanted), json!(got));
            }
        }
        for (tool, wanted) in expect.call_counts.iter().flatten() {
            let got = seen.executed.iter().filter(|call| call.tool == *tool).count();
            self.number(&format!("call_counts.{tool}"), wanted, got);
        }
        if let Some(wanted) = &expect.http {
            let got: Vec<Value> = seen
                .requested
                .iter()
                .map(|sent| json!({"method": sent.method, "url": sent.url, "query": sent.query, "json": sent.json}))
                .collect();
            let same = wanted.len() == got.len()
                && wanted.iter().zip(&got).all(|(wanted, got)| members_fit(&json!(wanted), got));
            if !same {
                self.differs("http", json!(wanted), json!(got));
            }
        }
    }

    fn texts(&mut self, expect: &Expect) {
        let seen = self.seen;
        if let Some(wanted) = &expect.observations {
            let got = seen.observations();
            let same = wanted.len() == got.len()
                && wanted.iter().zip(&got).all(|(wanted, got)| text_fits(wanted, got));
            if !same {
                let odd = wanted.iter().zip(&got).position(|(wanted, got)| !text_fits(wanted, got));
                match odd {
                    Some(index) => {
                        self.differs(&format!("observations[{index}]"), &wanted[index], json!(got[index]));
                    }
                    None => self.differs("observations", wanted.len(), json!(got)),
                }
            }
        }
        if let Some(wanted) = &expect.deltas {
            let got = seen.deltas();
            let same = wanted.len() == got.len()
                && wanted.iter().zip(&got).all(|(wanted, (text, calls))| {
                    wanted.text.trim() == text.trim() && wanted.calls == *calls
                });
            if !same {
                let shown: Vec<Value> =
                    wanted.iter().map(|delta| json!({"text": delta.text, "calls": delta.calls})).collect();
                let got: Vec<Value> =
                    got.iter().map(|(text, calls)| json!({"text": text, "calls": calls})).collect();
                self.differs("deltas", json!(shown), json!(got));
            }
        }
    }

    fn events(&mut self, expect: &Expect) {
        let events = &self.seen.events;
        let read = |value: &Value| Pattern::read(value).ok();
        let mut rest = events.iter();
        for wanted in &expect.events {
            let Some(pattern) = read(wanted) else { continue };
            if !rest.any(|event| pattern.matches(event)) {
                let kind = wanted.get("type").cloned().unwrap_or_default();
                let near: Vec<&Value> = events.iter().filter(|event| event["type"] == kind).collect();
                self.differs("events", wanted, json!(near));
                break;
            }
        }
        for wanted in &expect.no_events {
            let Some(pattern) = read(wanted) else { continue };
            if let Some(event) = events.iter().find(|event| pattern.matches(event)) {
                self.differs("no_events", format!("none of {wanted}"), event);
            }
        }
        for (wanted, count) in &expect.counts {
            let Some(pattern) = read(wanted) else { continue };
            let got = events.iter().filter(|event| pattern.matches(event)).count();
            self.number(&format!("counts of {wanted}"), count, got);
        }
        for (left, right) in &expect.before {
            let (Some(first), Some(second)) = (read(left), read(right)) else { continue };
            let at = |pattern: &Pattern| events.iter().position(|event| pattern.matches(event));
            match (at(&first), at(&second)) {
                (Some(left), Some(right)) if left < right => {}
                (at_left, at_right) => self.differs(
                    "before",
                    format!("{left} before {right}"),
                    format!("at {at_left:?} and {at_right:?}"),
                ),
            }
        }
    }

    fn history(&mut self, expect: &Expect) {
        let Some(wish) = &expect.history else { return };
        let seen = self.seen;
        if let Some(roles) = &wish.roles {
            let got: Vec<&str> = seen.history.iter().map(|(role, _)| *role).collect();
            if *roles != got {
                self.differs("history.roles", json!(roles), json!(got));
            }
        }
        let whole: Vec<&str> = seen.history.iter().map(|(_, text)| text.as_str()).collect();
        let whole = whole.join("\n");
        for part in &wish.contains {
            if !contains_all(std::slice::from_ref(part), &whole) {
                self.differs("history.contains", part, &whole);
            }
        }
        for part in &wish.lacks {
            if contains_all(std::slice::from_ref(part), &whole) {
                self.differs("history.lacks", part, &whole);
            }
        }
        if wish.pairs == Some(true) && !seen.pairs {
            self.differs("history.pairs", "each call with its result", "a call without one");
        }
    }
}

/// Returns `true` when an object has all expected members.
fn members_fit(wanted: &Value, got: &Value) -> bool {
    match wanted {
        Value::Object(wanted) => {
            wanted.iter().all(|(key, wanted)| got.get(key).is_some_and(|got| fits(wanted, got)))
        }
        other => fits(other, got),
    }
}

/// Compares a text with the expected one: equal but for blanks at its ends, or as `contains`, `lacks` and `max_bytes`
/// say.
fn text_fits(wanted: &Value, text: &str) -> bool {
    match wanted {
        Value::String(wanted) => wanted.trim() == text.trim(),
        Value::Object(wish) => {
            let list = |key: &str| wish.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
            let known = wish.keys().all(|key| ["contains", "lacks", "max_bytes"].contains(&key.as_str()));
            let short =
                wish.get("max_bytes").and_then(Value::as_u64).is_none_or(|most| text.len() as u64 <= most);
            known
                && short
                && contains_all(&list("contains"), text)
                && list("lacks").iter().all(|part| !contains_all(std::slice::from_ref(part), text))
        }
        _ => false,
    }
}

fn number_fits(wanted: &Value, got: u64) -> bool {
    match wanted {
        Value::Object(range) => {
            let bound = |key: &str| range.get(key).and_then(Value::as_u64);
            bound("min").is_none_or(|min| got >= min) && bound("max").is_none_or(|max| got <= max)
        }
        other => other.as_u64() == Some(got),
    }
}

/// Enough of a text to see what is wrong.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(600) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
