//! Expectations of a run, compared event by event; no event is kept.

use std::collections::HashSet;
use std::time::Duration;

use agent_types::RunStatus;
use serde_json::{Map, Value};
use workflow_engine::{PlanError, RunOutcome};

use super::fixtures::World;
use super::{known_keys, object};
use weft_scenarios::Fault;
use weft_scenarios::{Pattern, contains_all, fits};

const KEYS: [&str; 24] = [
    "status",
    "outputs",
    "stopped",
    "error",
    "problems",
    "events",
    "no_events",
    "counts",
    "before",
    "not_after",
    "times",
    "asks",
    "counter",
    "answer",
    "lagged",
    "min_ms",
    "max_ms",
    "settled",
    "stack_kib",
    "peak_mib_over",
    "store_max_mib",
    "absent",
    "counter_max",
    "note",
];

/// The first matches of two patterns.
struct Pair {
    left: Pattern,
    right: Pattern,
    first_left: Option<u64>,
    first_right: Option<u64>,
    last_left: Option<u64>,
}

/// The expectation of one run, with what was seen so far.
pub(crate) struct Expect {
    map: Map<String, Value>,
    sequence: Vec<Pattern>,
    reached: usize,
    never: Vec<(Pattern, bool)>,
    counts: Vec<(Pattern, u64, u64)>,
    before: Vec<Pair>,
    not_after: Vec<Pair>,
    times: Vec<(Pattern, u64, u64, Option<u64>)>,
    open: HashSet<(String, Option<u64>)>,
    faults: Vec<String>,
    seen: u64,
    finished: bool,
    /// Some of what ends here began before.
    pub(crate) resumes: bool,
}

fn patterns(value: Option<&Value>) -> Result<Vec<Pattern>, Fault> {
    value.and_then(Value::as_array).into_iter().flatten().map(Pattern::read).collect()
}

fn rows(value: Option<&Value>) -> impl Iterator<Item = &Vec<Value>> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_array)
}

fn pairs(value: Option<&Value>) -> Result<Vec<Pair>, Fault> {
    let pair = |row: &Vec<Value>| {
        let [left, right] = row.as_slice() else {
            return Err("expected a pair of event patterns".to_owned());
        };
        let (left, right) = (Pattern::read(left)?, Pattern::read(right)?);
        Ok(Pair { left, right, first_left: None, first_right: None, last_left: None })
    };
    rows(value).map(pair).collect()
}

impl Expect {
    pub(crate) fn read(value: &Value) -> Result<Self, Fault> {
        let map = object(value)?.clone();
        known_keys(&map, &KEYS)?;
        let number = |value: &Value| value.as_u64().unwrap_or(u64::MAX);
        let counts = rows(map.get("counts")).map(|row| Ok((Pattern::read(&row[0])?, number(&row[1]), 0)));
        let times = rows(map.get("times"))
            .map(|row| Ok((Pattern::read(&row[0])?, number(&row[1]), number(&row[2]), None)));
        Ok(Self {
            sequence: patterns(map.get("events"))?,
            reached: 0,
            never: patterns(map.get("no_events"))?.into_iter().map(|pattern| (pattern, false)).collect(),
            counts: counts.collect::<Result<_, Fault>>()?,
            before: pairs(map.get("before"))?,
            not_after: pairs(map.get("not_after"))?,
            times: times.collect::<Result<_, Fault>>()?,
            open: HashSet::new(),
            faults: Vec::new(),
            seen: 0,
            finished: false,
            resumes: false,
            map,
        })
    }

    /// Takes note of an event; `at` is the time since the start of the run.
    pub(crate) fn see(&mut self, event: &Value, at: Duration) {
        self.seen += 1;
        let (seen, at) = (self.seen, u64::try_from(at.as_millis()).unwrap_or(u64::MAX));
        if self.sequence.get(self.reached).is_some_and(|pattern| pattern.matches(event)) {
            self.reached += 1;
        }
        for (pattern, met) in &mut self.never {
            *met |= pattern.matches(event);
        }
        for (pattern, _, count) in &mut self.counts {
            *count += u64::from(pattern.matches(event));
        }
        for pair in self.before.iter_mut().chain(&mut self.not_after) {
            if pair.left.matches(event) {
                pair.first_left.get_or_insert(seen);
                pair.last_left = Some(seen);
            }
            if pair.right.matches(event) {
                pair.first_right.get_or_insert(seen);
            }
        }
        for (pattern, _, _, first) in &mut self.times {
            if first.is_none() && pattern.matches(event) {
                *first = Some(at);
            }
        }
        self.settle(event);
    }

    /// Every start has one end, and nothing follows the end of the run.
    fn settle(&mut self, event: &Value) {
        if self.finished {
            self.faults.push(format!("an event after the end of the run: {event}"));
        }
        self.finished |= event["type"] == "run.finished";
        let path = event["path"].as_str().unwrap_or_default().to_owned();
        let key = (path, event["iteration"].as_u64());
        match event["type"].as_str().unwrap_or_default() {
            "node.started" if !self.open.insert(key.clone()) => {
                self.faults.push(format!("a node starts twice: {event}"));
            }
            "node.finished" | "node.failed" if !self.open.remove(&key) && !self.resumes => {
                self.faults.push(format!("a node ends that has not started: {event}"));
            }
            "node.skipped" | "node.cancelled" | "node.cached" => {
                self.open.remove(&key);
            }
            _ => {}
        }
    }

    /// Expected events that did not come.
    pub(crate) fn verdict(mut self, result: &Finished, world: &World) -> Vec<String> {
        self.check_events();
        self.check_outcome(result);
        self.check_numbers(result, world);
        self.faults
    }

    fn check_events(&mut self) {
        let mut faults = Vec::new();
        if let Some(pattern) = self.sequence.get(self.reached) {
            faults.push(format!(
                "events: no {pattern} after {} of {} matches",
                self.reached,
                self.sequence.len()
            ));
        }
        faults.extend(
            self.never
                .iter()
                .filter(|(_, met)| *met)
                .map(|(pattern, _)| format!("no_events: {pattern} came")),
        );
        let counts = self.counts.iter().filter(|(_, wanted, got)| wanted != got);
        faults.extend(
            counts.map(|(pattern, wanted, got)| format!("counts: {pattern} came {got} times, not {wanted}")),
        );
        for pair in &self.before {
            if !matches!((pair.first_left, pair.first_right), (Some(left), Some(right)) if left < right) {
                faults.push(format!(
                    "before: {} ({:?}) is not before {} ({:?})",
                    pair.left, pair.first_left, pair.right, pair.first_right
                ));
            }
        }
        for pair in &self.not_after {
            if matches!((pair.last_left, pair.first_right), (Some(left), Some(right)) if left > right) {
                faults.push(format!("not_after: {} comes after {}", pair.left, pair.right));
            }
        }
        for (pattern, least, most, first) in &self.times {
            if !first.is_some_and(|first| (*least..=*most).contains(&first)) {
                faults.push(format!("times: {pattern} came at {first:?}, not within {least} to {most} ms"));
            }
        }
        self.faults.extend(faults);
    }

    fn check_outcome(&mut self, result: &Finished) {
        let status = result.status();
        if self.map.get("status").is_some_and(|wanted| *wanted != status) {
            self.faults.push(format!("status: {status}, not {}: {}", self.map["status"], result.detail()));
        }
        if let Some(wanted) = self.map.get("problems").and_then(Value::as_array) {
            for wanted in wanted {
                if !result.problems().iter().any(|found| problem_fits(wanted, found)) {
                    self.faults.push(format!("problems: no {wanted} among {:?}", result.problems()));
                }
            }
        }
        if let Some(outputs) = result.outputs() {
            self.check_outputs(outputs);
        }
        let Finished::Run { outcome, .. } = result else { return };
        if matches!(status, "ok" | "error" | "cancelled") && !(self.open.is_empty() && self.finished) {
            self.faults.push(format!("settled: without an end: {:?}", self.open));
        }
        if let Some(wanted) = self.map.get("stopped")
            && outcome.stopped.as_deref() != Some(wanted)
        {
            self.faults.push(format!("stopped: {:?}, not {wanted}", outcome.stopped));
        }
        if let Some(wanted) = self.map.get("error").and_then(Value::as_object) {
            self.faults.extend(error_faults(wanted, outcome));
        }
        if let Some(wanted) = self.map.get("asks").and_then(Value::as_array) {
            let mut found: Vec<&str> = outcome.asks.iter().map(|ask| &*ask.ask).collect();
            let mut wanted: Vec<&str> = wanted.iter().filter_map(Value::as_str).collect();
            found.sort_unstable();
            wanted.sort_unstable();
            if found != wanted {
                self.faults.push(format!("asks: {found:?}, not {wanted:?}"));
            }
        }
    }

    fn check_outputs(&mut self, outputs: &Map<String, Value>) {
        for (name, wanted) in self.map.get("outputs").and_then(Value::as_object).into_iter().flatten() {
            if name == "absent" && wanted.is_array() {
                let absent = wanted.as_array().into_iter().flatten().filter_map(Value::as_str);
                let present = absent
                    .filter(|name| outputs.contains_key(*name))
                    .map(|name| format!("outputs: {name} is there"));
                self.faults.extend(present);
            } else if !outputs.get(name).is_some_and(|found| fits(wanted, found)) {
                self.faults.push(format!("outputs: {name} is {:?}, not {wanted}", outputs.get(name)));
            }
        }
    }

    fn check_numbers(&mut self, result: &Finished, world: &World) {
        for (key, wanted) in self.map.get("counter").and_then(Value::as_object).into_iter().flatten() {
            if wanted.as_i64() != Some(world.counter(key)) {
                self.faults.push(format!("counter: {key} is {}, not {wanted}", world.counter(key)));
            }
        }
        let bound = |key: &str| self.map.get(key).and_then(Value::as_u64).map(u128::from);
        let elapsed = result.elapsed().as_millis();
        if bound("min_ms").is_some_and(|least| elapsed < least)
            || bound("max_ms").is_some_and(|most| elapsed > most)
        {
            self.faults.push(format!("the run took {elapsed} ms"));
        }
        if let Some(wanted) = self.map.get("answer").and_then(Value::as_str)
            && result.answer() != Some(wanted)
        {
            self.faults.push(format!("answer: {:?}, not {wanted}", result.answer()));
        }
        if self.map.get("lagged") == Some(&Value::Bool(true)) && !result.lagged() {
            self.faults.push("lagged: the slow subscriber was not notified".to_owned());
        }
    }
}

fn error_faults(wanted: &Map<String, Value>, outcome: &RunOutcome) -> Vec<String> {
    let Some(error) = &outcome.error else { return vec!["error: there is none".to_owned()] };
    let found = |key: &str| match key {
        "kind" => Some(Value::from(error.kind.as_str())),
        "path" => error.path.as_deref().map(Value::from),
        "iteration" => error.iteration.map(Value::from),
        "limit" | "limit_ms" => error.limit.map(Value::from),
        other => error.details.get(other).cloned(),
    };
    let mut faults = Vec::new();
    for (key, wanted) in wanted {
        if key == "contains" {
            if !contains_all(wanted.as_array().map_or(&[], Vec::as_slice), &error.message) {
                faults.push(format!("error: `{}` lacks some of {wanted}", error.message));
            }
        } else if !found(key).is_some_and(|found| fits(wanted, &found)) {
            faults.push(format!("error: {key} is {:?}, not {wanted}", found(key)));
        }
    }
    faults
}

/// A problem as it is printed must have each part; the nodes of a cycle may begin anywhere.
fn problem_fits(wanted: &Value, found: &Value) -> bool {
    wanted.as_object().into_iter().flatten().all(|(key, wanted)| match key.as_str() {
        "contains" => contains_all(
            wanted.as_array().map_or(&[], Vec::as_slice),
            found["message"].as_str().unwrap_or_default(),
        ),
        "nodes" => same_circle(wanted.as_array(), found["nodes"].as_array()),
        key => found.get(key) == Some(wanted),
    })
}

fn same_circle(wanted: Option<&Vec<Value>>, found: Option<&Vec<Value>>) -> bool {
    let (Some(wanted), Some(found)) = (wanted, found) else { return false };
    let turned = |by: usize| found.iter().cycle().skip(by).take(found.len());
    wanted.len() == found.len() && (0..found.len().max(1)).any(|by| turned(by).eq(wanted))
}

/// Outcome of a run.
pub(crate) enum Finished {
    Run {
        outcome: Box<RunOutcome>,
        elapsed: Duration,
        lagged: bool,
    },
    /// Contents of a log.
    Read {
        status: RunStatus,
        outputs: Map<String, Value>,
    },
    /// The process ended where the case says.
    Crashed,
    Invalid(PlanError),
    Answer(&'static str),
}

fn word(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Ok => "ok",
        RunStatus::Error => "error",
        RunStatus::Cancelled => "cancelled",
        RunStatus::Waiting => "waiting",
    }
}

impl Finished {
    pub(crate) fn status(&self) -> &'static str {
        match self {
            Self::Run { outcome, .. } => word(outcome.status),
            Self::Read { status, .. } => word(*status),
            Self::Crashed => "crashed",
            Self::Invalid(_) => "invalid",
            Self::Answer(_) => "",
        }
    }

    fn outputs(&self) -> Option<&Map<String, Value>> {
        match self {
            Self::Run { outcome, .. } => Some(&outcome.outputs),
            Self::Read { outputs, .. } => Some(outputs),
            Self::Crashed | Self::Invalid(_) | Self::Answer(_) => None,
        }
    }

    fn detail(&self) -> String {
        match self {
            Self::Run { outcome, .. } => outcome.error.as_ref().map(ToString::to_string).unwrap_or_default(),
            Self::Invalid(error) => error.to_string(),
            Self::Answer(answer) => (*answer).to_owned(),
            Self::Read { .. } | Self::Crashed => String::new(),
        }
    }

    fn problems(&self) -> Vec<Value> {
        match self {
            Self::Invalid(error) => {
                error.problems.iter().filter_map(|problem| serde_json::to_value(problem).ok()).collect()
            }
            Self::Run { .. } | Self::Answer(_) | Self::Read { .. } | Self::Crashed => Vec::new(),
        }
    }

    fn elapsed(&self) -> Duration {
        match self {
            Self::Run { elapsed, .. } => *elapsed,
            Self::Invalid(_) | Self::Answer(_) | Self::Read { .. } | Self::Crashed => Duration::ZERO,
        }
    }

    fn answer(&self) -> Option<&'static str> {
        match self {
            Self::Answer(answer) => Some(answer),
            Self::Run { .. } | Self::Invalid(_) | Self::Read { .. } | Self::Crashed => None,
        }
    }

    fn lagged(&self) -> bool {
        matches!(self, Self::Run { lagged: true, .. })
    }
}
