//! Loop zones: how many passes, what is carried, what comes out.

use agent_types::Problem;
use serde_json::{Map, Value};

use crate::file::report::describe;
use crate::node::Node;
use crate::policy::RULES;
use crate::problem::ProblemCode;
use crate::slot::DataFlowType;
use crate::structural;

/// Most passes at once, whatever a file says: each has values of its own.
const MAX_PARALLEL: usize = 256;

/// Passes of a zone that ends by its condition, where the file says nothing.
pub const DEFAULT_MAX_ITERATIONS: u64 = 1_000;

/// Mode of a loop zone, which determines its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneMode {
    /// A condition that becomes true.
    Until,
    /// A condition that stops being true.
    While,
    /// A number of passes.
    Times,
    /// The end of a list.
    Each,
}

impl ZoneMode {
    /// The name in a file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Until => "until",
            Self::While => "while",
            Self::Times => "times",
            Self::Each => "each",
        }
    }
}

/// Effect of reaching the maximum number of passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnMax {
    /// The zone ends with the state it has.
    Finish,
    /// The zone fails with `max_passes`.
    Fail,
}

/// Time at which the condition is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestAt {
    /// After each pass, on the new state.
    After,
    /// Before each pass, so that there may be none.
    Before,
}

/// Effect of a failed pass over a list item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnItemError {
    /// The zone fails.
    Fail,
    /// Collected values get a null.
    Null,
    /// Collected values get nothing.
    Drop,
}

/// Effect of a failed pass in the other modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnPassError {
    /// The zone fails.
    Fail,
    /// The state stays as it was and the next pass begins.
    Continue,
}

/// A carried value.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StateKey {
    /// Its name.
    pub key: String,
    /// Its type.
    pub data_flow_type: DataFlowType,
    /// Its value in the first pass, unless an edge gives it.
    pub initial: Option<Value>,
}

/// The settings of a zone, checked.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ZoneSpec {
    /// Mode, which determines the end of the loop.
    pub mode: ZoneMode,
    /// State that is carried from pass to pass.
    pub state: Vec<StateKey>,
    /// An expression, or the name of a boolean key.
    pub condition: Option<String>,
    /// With [`ZoneMode::Times`]: how many passes.
    pub times: u64,
    /// Maximum number of passes; unlimited if absent.
    pub max_iterations: Option<u64>,
    /// Effect of reaching that limit.
    pub on_max: OnMax,
    /// Time at which the condition is evaluated.
    pub test: TestAt,
    /// With [`ZoneMode::Each`]: passes at once, at least 1.
    pub parallel: usize,
    /// With [`ZoneMode::Each`]: what a failed pass means.
    pub on_item_error: OnItemError,
    /// In the other modes: what a failed pass means.
    pub on_pass_error: OnPassError,
    /// Names whose values of all passes come out as lists.
    pub collect: Vec<String>,
    /// Read once at entry.
    pub skip_if: Option<String>,
}

/// Names that a state key may not have, because the engine's own slots have them.
const RESERVED: [&str; 8] = ["index", "item", "remaining", "break", "continue", "items", "stream", "error"];

/// Returns `true` if neither a state key nor a result of a body may have this name.
pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name) || name.starts_with("collected.")
}

impl ZoneSpec {
    /// Reads the settings; each fault becomes a problem of the node and counts as its default.
    pub(crate) fn read(node: &Node, path: &str, problems: &mut Vec<Problem>) -> Self {
        let mut from = Settings { map: &node.config_values, path, problems };
        let mode = from.choice(
            "mode",
            ZoneMode::Until,
            &[ZoneMode::Until, ZoneMode::While, ZoneMode::Times, ZoneMode::Each]
                .map(|mode| (mode.as_str(), mode)),
        );
        let test_default = if mode == ZoneMode::While { TestAt::Before } else { TestAt::After };
        let spec = Self {
            mode,
            state: from.state(),
            condition: from.text("condition"),
            times: from.whole("times").unwrap_or(0),
            max_iterations: from.whole("maxIterations").or(match mode {
                ZoneMode::Until | ZoneMode::While => Some(DEFAULT_MAX_ITERATIONS),
                ZoneMode::Times | ZoneMode::Each => None,
            }),
            on_max: from.choice("onMax", OnMax::Finish, &[("finish", OnMax::Finish), ("fail", OnMax::Fail)]),
            test: from.choice("test", test_default, &[("after", TestAt::After), ("before", TestAt::Before)]),
            parallel: from
                .whole("parallel")
                .map_or(1, |n| usize::try_from(n).unwrap_or(usize::MAX))
                .clamp(1, MAX_PARALLEL),
            on_item_error: from.choice(
                "onItemError",
                OnItemError::Fail,
                &[("fail", OnItemError::Fail), ("null", OnItemError::Null), ("drop", OnItemError::Drop)],
            ),
            on_pass_error: from.choice(
                "onPassError",
                OnPassError::Fail,
                &[("fail", OnPassError::Fail), ("continue", OnPassError::Continue)],
            ),
            collect: from.texts("collect"),
            skip_if: from.text("skipIf").or_else(|| node.skip_if.clone()),
        };
        spec.check(&mut from);
        spec
    }

    /// The state key of that name.
    #[must_use]
    pub fn state_index(&self, key: &str) -> Option<usize> {
        self.state.iter().position(|state| state.key == key)
    }

    fn check(&self, from: &mut Settings<'_>) {
        let needs_condition = matches!(self.mode, ZoneMode::Until | ZoneMode::While);
        if needs_condition && self.condition.as_deref().is_none_or(|text| text.trim().is_empty()) {
            from.fault("condition", format!("mode `{}` needs a condition", self.mode.as_str()));
        }
        if self.mode == ZoneMode::Times && !from.map.contains_key("times") {
            from.fault("times", "mode `times` needs a number of passes".to_owned());
        }
        self.check_unused(from);
        let mut seen = std::collections::HashSet::new();
        for state in &self.state {
            if is_reserved(&state.key) {
                let message = format!("`{}` is a name of the zone itself", state.key);
                from.problems
                    .push(Problem::error(ProblemCode::ReservedName, message).at(from.path).slot(&state.key));
            }
            if !seen.insert(&state.key) {
                from.fault("state", format!("the key `{}` stands there twice", state.key));
            }
        }
    }
}

impl ZoneSpec {
    /// Reports settings that count for another mode.
    fn check_unused(&self, from: &mut Settings<'_>) {
        let map = from.map;
        let (is_each, is_times) = (self.mode == ZoneMode::Each, self.mode == ZoneMode::Times);
        let unused = [
            ("times", !is_times, "with mode `times`"),
            ("parallel", !is_each, "with mode `each`"),
            ("onItemError", !is_each, "with mode `each` (the other modes use `onPassError`)"),
            ("onPassError", is_each, "with the modes beside `each`"),
            ("test", self.condition.is_none(), "with a `condition`"),
            ("onMax", self.max_iterations.is_none(), "with `maxIterations`"),
        ];
        let is_set = |key: &str| map.get(key).is_some_and(|value| !value.is_null());
        for (key, _, when) in unused.into_iter().filter(|(key, is_unused, _)| *is_unused && is_set(key)) {
            let message = format!("`{key}` counts {when}; it is not used");
            from.problems.push(Problem::warning(ProblemCode::BadValue, message).at(from.path).slot(key));
        }
        let names = structural::ZONE_SETTINGS;
        let unknown = |key: &&String| !names.contains(&key.as_str()) && !RULES.contains(&key.as_str());
        for key in map.keys().filter(unknown) {
            let near = agent_types::nearest(key, names);
            let message = format!("unknown setting `{key}`; it is not used");
            let problem = Problem::warning(ProblemCode::BadValue, message);
            from.problems.push(problem.at(from.path).slot(key).suggest(near));
        }
    }
}

/// Reads `configValues` of a zone.
struct Settings<'a> {
    map: &'a Map<String, Value>,
    path: &'a str,
    problems: &'a mut Vec<Problem>,
}

impl<'a> Settings<'a> {
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    fn fault(&mut self, key: &str, message: String) {
        self.problems.push(Problem::error(ProblemCode::BadValue, message).at(self.path).slot(key));
    }

    fn expected(&mut self, key: &str, wanted: &str, found: &Value) {
        self.fault(key, format!("expected {wanted}, found {}", describe(found)));
    }

    fn text(&mut self, key: &str) -> Option<String> {
        let value = self.get(key)?;
        if value.as_str().is_none() {
            self.expected(key, "a text", value);
        }
        value.as_str().map(str::to_owned)
    }

    fn whole(&mut self, key: &str) -> Option<u64> {
        let value = self.get(key)?;
        if value.as_u64().is_none() {
            self.expected(key, "a whole number from 0", value);
        }
        value.as_u64()
    }

    fn texts(&mut self, key: &str) -> Vec<String> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let texts: Option<Vec<String>> = value
            .as_array()
            .and_then(|items| items.iter().map(|item| item.as_str().map(str::to_owned)).collect());
        if texts.is_none() {
            self.expected(key, "a list of texts", value);
        }
        texts.unwrap_or_default()
    }

    fn choice<T: Copy>(&mut self, key: &str, default: T, choices: &[(&str, T)]) -> T {
        let Some(value) = self.get(key) else { return default };
        let found = choices.iter().find(|(name, _)| value.as_str() == Some(name));
        if found.is_none() {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            let near = value.as_str().and_then(|text| agent_types::nearest(text, names.iter().copied()));
            let message = format!("expected one of {}, found {}", names.join(", "), describe(value));
            let problem =
                Problem::error(ProblemCode::BadValue, message).at(self.path).slot(key).suggest(near);
            self.problems.push(problem);
        }
        found.map_or(default, |(_, choice)| *choice)
    }

    /// `[{key, dataFlowType?, initial?}]`.
    fn state(&mut self) -> Vec<StateKey> {
        let Some(value) = self.get("state") else { return Vec::new() };
        let Some(items) = value.as_array() else {
            self.expected("state", "a list of {key, dataFlowType, initial?}", value);
            return Vec::new();
        };
        items.iter().filter_map(|item| self.state_key(item)).collect()
    }

    fn state_key(&mut self, item: &Value) -> Option<StateKey> {
        let Some(key) = item.get("key").and_then(Value::as_str) else {
            self.expected("state", "{key, dataFlowType, initial?}", item);
            return None;
        };
        let data_flow_type = match item.get("dataFlowType") {
            None | Some(Value::Null) => DataFlowType::Wildcard,
            Some(kind) => {
                if let Some(kind) = kind.as_str().and_then(DataFlowType::from_name) {
                    kind
                } else {
                    self.fault("state", format!("`{key}` has no known type: {}", describe(kind)));
                    DataFlowType::Wildcard
                }
            }
        };
        Some(StateKey { key: key.to_owned(), data_flow_type, initial: item.get("initial").cloned() })
    }
}
