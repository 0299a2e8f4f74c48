//! Questions with their right calls.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

/// Tools that are offered together.
const TOGETHER: usize = 12;

/// A tool of the collection.
#[derive(Debug, Clone)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) parameters: Value,
}

/// A question with one right call.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) id: String,
    pub(crate) text: String,
    pub(crate) tool: String,
    /// Values that may be given, for each parameter; an empty text says that it may be left out.
    pub(crate) accept: Map<String, Value>,
}

/// Tools, and the questions about them: each tool is the right one for one.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) tools: Vec<Tool>,
    pub(crate) questions: Vec<Question>,
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| {
        eprintln!("{}: {error}", path.display());
        std::process::exit(2);
    });
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

fn tools(data: &Path) -> impl Iterator<Item = (String, Tool)> {
    lines(&data.join("bfcl/tools.jsonl")).into_iter().map(|line| {
        let tool = Tool {
            name: text(&line, "name"),
            description: text(&line, "description"),
            parameters: line["parameters"].clone(),
        };
        (text(&line, "id"), tool)
    })
}

/// All tools, names once each.
pub(crate) fn all_tools(data: &Path) -> Vec<Tool> {
    let mut seen = std::collections::HashSet::new();
    tools(data).map(|(_, tool)| tool).filter(|tool| seen.insert(tool.name.clone())).collect()
}

/// `count` questions of the simple kind, in groups of as many as there are tools in each.
pub(crate) fn groups(data: &Path, count: usize) -> Vec<Group> {
    let tools: HashMap<String, Tool> = tools(data).collect();
    let mut groups: Vec<Group> = vec![];
    let mut taken = 0;
    for line in lines(&data.join("bfcl/cases.jsonl")) {
        let of_kind = line["kind"] == "simple_python" && line["valid"] == true;
        let Some(tool) = line["tools"][0].as_str().and_then(|id| tools.get(id)).filter(|_| of_kind) else {
            continue;
        };
        let has_room = groups.last().is_some_and(|group| group.tools.len() < TOGETHER);
        if !has_room && taken >= count {
            break;
        }
        if !has_room {
            groups.push(Group { tools: Vec::new(), questions: Vec::new() });
        }
        let Some(group) = groups.last_mut() else { continue };
        if group.tools.iter().any(|known| known.name == tool.name) {
            continue;
        }
        group.tools.push(tool.clone());
        // The last group has further tools and no questions about them.
        if taken < count {
            taken += 1;
            let accept = line["accept"][0][&tool.name].as_object().cloned().unwrap_or_default();
            let (id, text) = (text(&line, "id"), text(&line, "query"));
            group.questions.push(Question { id, text, tool: tool.name.clone(), accept });
        }
    }
    groups
}

impl Question {
    /// Returns `true` for a correct call: the tool, every value one of the accepted ones, none that was not requested.
    pub(crate) fn is_answered_by(&self, tool: &str, arguments: &Map<String, Value>) -> bool {
        let allowed = |name: &str| self.accept.get(name).and_then(Value::as_array);
        let given = |(name, value): (&String, &Value)| {
            allowed(name).is_some_and(|values| values.iter().any(|allowed| same(allowed, value)))
        };
        let left_out = |name: &String| {
            arguments.contains_key(name)
                || allowed(name).is_some_and(|values| values.iter().any(|allowed| allowed == ""))
        };
        tool == self.tool && arguments.iter().all(given) && self.accept.keys().all(left_out)
    }
}

/// Texts are compared without case and punctuation, numbers by their value.
fn same(allowed: &Value, given: &Value) -> bool {
    let folded = |text: &str| {
        text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect::<String>()
    };
    match (allowed, given) {
        (Value::String(left), Value::String(right)) => folded(left) == folded(right),
        (Value::Number(left), Value::Number(right)) => left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => right.iter().all(|(name, value)| {
            left.get(name).is_some_and(|allowed| match allowed {
                Value::Array(values) => values.iter().any(|allowed| same(allowed, value)),
                other => same(other, value),
            })
        }),
        (left, right) => left == right,
    }
}
