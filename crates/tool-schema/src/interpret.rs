//! From a parsed reply to the calls that may run, or to everything that is wrong with them.

use std::collections::HashSet;

use agent_types::{ObservationCode, Problem, ranked};
use protocol_action::{Code, Dialect, Parsed, RawArgument, RawCall, RawValue, Span};
use serde_json::{Map, Value};

use crate::compiled::{Coercion, Typed};
use crate::problem;
use crate::toolset::{Found, OfferedTool, ToolSet};

/// A call whose arguments fit.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TypedCall {
    /// Canonical name of the tool.
    pub tool: String,
    /// The arguments, defaults included.
    pub arguments: Map<String, Value>,
    /// Dialect of the call.
    pub dialect: Dialect,
    /// Byte range of the call in the reply.
    pub span: Span,
    /// Repairs made, each code once.
    pub repairs: Vec<Code>,
    /// Values that changed their type or spelling.
    pub coercions: Vec<Coercion>,
}

/// Fault of one call.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum CallFault {
    /// No such tool is offered.
    UnknownTool {
        /// Name as the model wrote it.
        name: String,
        /// The offered name that is near.
        near: Option<String>,
        /// All offered names, nearest first.
        available: Vec<String>,
        /// Byte range of the call.
        span: Span,
    },
    /// Arguments that do not fit; all faults of the call.
    Arguments {
        /// Canonical name of the tool.
        tool: String,
        /// At least one.
        problems: Vec<Problem>,
        /// Byte range of the call.
        span: Span,
    },
}

impl CallFault {
    /// The code of the first fault.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownTool { .. } => "unknown_tool",
            Self::Arguments { problems, .. } => {
                problems.first().map_or("invalid_argument", |problem| problem.code)
            }
        }
    }
}

/// Interpretation of the calls of a reply, in order: typed calls, or their faults.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Decision {
    /// Calls of the block, in order. They may run only if all are valid and the reply had no errors.
    pub results: Vec<Result<TypedCall, CallFault>>,
}

impl Decision {
    /// The calls that fit.
    pub fn calls(&self) -> impl Iterator<Item = &TypedCall> {
        self.results.iter().filter_map(|result| result.as_ref().ok())
    }

    /// Faults in the order of the calls.
    pub fn faults(&self) -> impl Iterator<Item = &CallFault> {
        self.results.iter().filter_map(|result| result.as_ref().err())
    }
}

impl ToolSet {
    /// Types every call of a reply; a wrong one does not hide the faults of the others.
    #[must_use]
    pub fn interpret(&self, parsed: &Parsed) -> Decision {
        Decision { results: parsed.calls.iter().map(|call| self.interpret_call(call)).collect() }
    }

    fn interpret_call(&self, call: &RawCall) -> Result<TypedCall, CallFault> {
        let found = self.find(&call.tool).ok_or_else(|| self.unknown_tool(&call.tool, call.span))?;
        let (Found::Exact(index) | Found::Folded(index)) = found;
        let tool = &self.tools()[index];
        let mut typed = type_arguments(tool, &call.arguments);
        typed.problems.extend(call.conflicts.iter().map(|pointer| problem::duplicate(pointer)));
        let extra = takes_nothing(tool) && drop_unknown(&mut typed.problems);
        if !typed.problems.is_empty() {
            let problems = worded_for(call, typed.problems);
            return Err(CallFault::Arguments { tool: tool.name.clone(), problems, span: call.span });
        }
        let mut repairs = call.repairs.clone();
        let mut repair = |code: Code, happened: bool| {
            if happened && !repairs.contains(&code) {
                repairs.push(code);
            }
        };
        repair(Code::ToolName, matches!(found, Found::Folded(_)));
        repair(Code::JsonRepaired, typed.json_repaired);
        repair(Code::ExtraParameter, extra);
        repair(Code::Coerced, !typed.coercions.is_empty());
        Ok(TypedCall {
            tool: tool.name.clone(),
            arguments: with_defaults(tool, typed.arguments),
            dialect: call.dialect,
            span: call.span,
            repairs,
            coercions: typed.coercions,
        })
    }

    /// The fault of a name that no tool has.
    #[must_use]
    pub fn unknown_tool(&self, name: &str, span: Span) -> CallFault {
        let names = self.tools().iter().map(|tool| tool.name.as_str());
        CallFault::UnknownTool {
            name: name.to_owned(),
            near: agent_types::nearest(name, names.clone()).map(str::to_owned),
            available: ranked(name, names).into_iter().map(str::to_owned).collect(),
            span,
        }
    }
}

fn type_arguments(tool: &OfferedTool, arguments: &[RawArgument]) -> Typed {
    // Arguments that are one JSON object are typed as JSON, so that a value's own type counts.
    let all_json = arguments.iter().all(|argument| matches!(argument.value, RawValue::Json(_)));
    let mut names = HashSet::new();
    let distinct = arguments.iter().all(|argument| names.insert(argument.name.as_str()));
    if all_json && distinct && !arguments.is_empty() {
        let object = arguments.iter().filter_map(|argument| match &argument.value {
            RawValue::Json(value) => Some((argument.name.clone(), value.clone())),
            RawValue::Text(_) | RawValue::Elements { .. } => None,
        });
        return tool.schema.type_json(Value::Object(object.collect()));
    }
    tool.schema.type_raw(arguments)
}

/// Returns `true` for a tool that declares no parameter and takes none.
fn takes_nothing(tool: &OfferedTool) -> bool {
    let root = tool.schema.nodes().get(0);
    let has_patterns = tool.parameters.get("patternProperties").is_some();
    root.fields.is_empty() && root.closed && root.branches.is_empty() && !has_patterns
}

/// Takes out undeclared parameters. Returns `true` if there were some.
fn drop_unknown(problems: &mut Vec<Problem>) -> bool {
    let before = problems.len();
    problems.retain(|problem| !problem.is(ObservationCode::UnknownParameter.as_str()));
    problems.len() < before
}

/// Problems with the names that the model was shown, and with the place of a missing parameter that stands in
/// another one.
fn worded_for(call: &RawCall, mut problems: Vec<Problem>) -> Vec<Problem> {
    for problem in
        problems.iter_mut().filter(|problem| problem.is(ObservationCode::MissingParameter.as_str()))
    {
        let name = problem::parameter(problem.value_path());
        let mut others = call.arguments.iter();
        if let Some(other) = others.find(|other| other.name != name && holds(&other.value, &name)) {
            problem::found_inside(problem, &other.name);
        }
    }
    match call.dialect {
        Dialect::Native => problems.into_iter().map(problem::in_native_names).collect(),
        _ => problems,
    }
}

/// Returns `true` for a value in which a name stands as a tag or a key.
fn holds(value: &RawValue, name: &str) -> bool {
    match value {
        RawValue::Text(text) | RawValue::Json(Value::String(text)) => text.contains(&format!("<{name}>")),
        RawValue::Elements { children, .. } => children.iter().any(|child| child.name == name),
        RawValue::Json(value) => value.get(name).is_some(),
    }
}

fn with_defaults(tool: &OfferedTool, mut arguments: Map<String, Value>) -> Map<String, Value> {
    for (name, value) in &tool.defaults {
        if !arguments.contains_key(name) {
            arguments.insert(name.clone(), value.clone());
        }
    }
    arguments
}
