//! From a text to a file: every fault of its form at once, each with its place.

use agent_types::nearest;
use indexmap::IndexMap;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use serde_path_to_error::{Path, Segment};

use super::problem::{Problems, escaped};
use super::{Approval, FlowsError, FlowsFile};

/// The lists of a file.
const LISTS: [&str; 5] = ["skills", "tools", "flows", "system_actions", "timers"];

/// The other keys of a file.
const OTHERS: [&str; 5] = ["$schema", "agent", "retrieve_knowledge", "tool_approvals", "profile_schema"];

impl FlowsFile {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// Invalid JSON, with line and column; else everything that does not fit, each with its JSON pointer, unknown keys
    /// with a suggestion.
    pub fn from_json(text: &str) -> Result<Self, FlowsError> {
        let value: Value = agent_types::read_json(text.as_bytes()).map_err(|error| {
            let message = error.to_string();
            let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(before, _)| before);
            FlowsError::Json { line: error.line(), column: error.column(), message: message.to_owned() }
        })?;
        Self::from_value(value)
    }

    /// Reads a value.
    ///
    /// # Errors
    /// All that does not fit, each with its JSON pointer.
    pub fn from_value(value: Value) -> Result<Self, FlowsError> {
        let mut problems = Problems::default();
        let Value::Object(mut members) = value else {
            problems.error("", "bad_value", "the file must hold an object");
            return problems.into_result().map(|_| Self::default());
        };
        let mut reader = Reader { problems };
        reader.refuse_unknown(&mut members);
        let mut tool_approvals: IndexMap<String, Approval> =
            reader.single(&mut members, "tool_approvals").unwrap_or_default();
        tool_approvals.extend(reader.take_approvals(&mut members));
        let file = Self {
            schema: reader.single(&mut members, "$schema"),
            agent: reader.single(&mut members, "agent"),
            skills: reader.list(&mut members, "skills"),
            tools: reader.list(&mut members, "tools"),
            tool_approvals,
            profile_schema: reader.single(&mut members, "profile_schema"),
            flows: reader.list(&mut members, "flows"),
            system_actions: reader.list(&mut members, "system_actions"),
            retrieve_knowledge: reader.single(&mut members, "retrieve_knowledge"),
            timers: reader.list(&mut members, "timers"),
        };
        reader.problems.into_result().map(|_| file)
    }

    /// The file as text.
    ///
    /// # Errors
    /// None in practice: everything in it is JSON.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

/// Reads the parts of a file one by one, so that a fault in one hides none in another.
struct Reader {
    problems: Problems,
}

impl Reader {
    fn refuse_unknown(&mut self, members: &mut Map<String, Value>) {
        let is_known = |key: &str| LISTS.contains(&key) || OTHERS.contains(&key);
        let unknown: Vec<String> = members.keys().filter(|key| !is_known(key)).cloned().collect();
        for key in unknown {
            members.shift_remove(&key);
            let near = nearest(&key, LISTS.into_iter().chain(OTHERS)).map(str::to_owned);
            self.problems.near(
                format!("/{}", escaped(&key)),
                "unknown_key",
                format!("`{key}` is not known here"),
                near,
            );
        }
    }

    /// Takes the `approval` of each tool out, which files of tools do not have.
    fn take_approvals(&mut self, members: &mut Map<String, Value>) -> IndexMap<String, Approval> {
        let mut approvals = IndexMap::new();
        let tools = members.get_mut("tools").and_then(Value::as_array_mut);
        for (index, tool) in tools.into_iter().flatten().enumerate() {
            let Some(tool) = tool.as_object_mut() else { continue };
            let Some(value) = tool.shift_remove("approval") else { continue };
            let name = tool.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            if let Some(approval) = self.part(&format!("/tools/{index}/approval"), value) {
                approvals.insert(name, approval);
            }
        }
        approvals
    }

    fn single<T: DeserializeOwned>(&mut self, members: &mut Map<String, Value>, key: &str) -> Option<T> {
        let value = members.shift_remove(key).filter(|value| !value.is_null())?;
        self.part(&format!("/{key}"), value)
    }

    fn list<T: DeserializeOwned>(&mut self, members: &mut Map<String, Value>, key: &str) -> Vec<T> {
        let items = match members.shift_remove(key) {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Array(items)) => items,
            Some(_) => {
                self.problems.error(format!("/{key}"), "bad_value", "expected a list");
                return Vec::new();
            }
        };
        let items = items.into_iter().enumerate();
        items.filter_map(|(index, item)| self.part(&format!("/{key}/{index}"), item)).collect()
    }

    /// Reads a part of the file. An unknown key is reported, and the rest is read without it.
    fn part<T: DeserializeOwned>(&mut self, place: &str, mut value: Value) -> Option<T> {
        loop {
            let error = match serde_path_to_error::deserialize(&value) {
                Ok(part) => return Some(part),
                Err(error) => error,
            };
            let message = error.inner().to_string();
            let at = pointer(error.path());
            let unknown = unknown_key(&message);
            if let Some((key, near)) = &unknown
                && remove(&mut value, &at, key)
            {
                // The path of an unknown key names the key itself.
                let parent = at.strip_suffix(&format!("/{}", escaped(key))).unwrap_or(&at);
                let path = format!("{place}{parent}/{}", escaped(key));
                self.problems.near(path, "unknown_key", format!("`{key}` is not known here"), near.clone());
                continue;
            }
            let near = unknown.and_then(|(_, near)| near);
            self.problems.near(format!("{place}{at}"), "bad_value", message, near);
            return None;
        }
    }
}

/// Takes an unknown key out; the path leads to it, or to the object that holds it.
fn remove(value: &mut Value, at: &str, key: &str) -> bool {
    let parent = at.strip_suffix(&format!("/{}", escaped(key))).unwrap_or(at);
    let object = value.pointer_mut(parent).and_then(Value::as_object_mut);
    object.is_some_and(|object| object.shift_remove(key).is_some())
}

fn pointer(path: &Path) -> String {
    let parts = path.iter().map(|segment| match segment {
        Segment::Seq { index } => format!("/{index}"),
        Segment::Map { key } => format!("/{}", escaped(key)),
        Segment::Enum { variant } => format!("/{}", escaped(variant)),
        Segment::Unknown => String::new(),
    });
    parts.collect()
}

/// The reader's message about an unknown key or word lists those that it knows.
fn unknown_key(message: &str) -> Option<(String, Option<String>)> {
    let rest =
        message.strip_prefix("unknown field `").or_else(|| message.strip_prefix("unknown variant `"))?;
    let (key, known) = rest.split_once('`')?;
    Some((key.to_owned(), nearest(key, known.split('`').skip(1).step_by(2)).map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        match FlowsFile::from_json(text) {
            Ok(_) => Vec::new(),
            Err(FlowsError::Problems { problems }) => {
                problems.iter().map(|problem| format!("{} {problem}", problem.code)).collect()
            }
            Err(error) => vec![error.to_string()],
        }
    }

    #[test]
    fn every_fault_is_told_with_its_place() {
        let text = r#"{"flow": [], "skills": [{"skill_id": "a", "execution_mode": "agnet"}, {"skil_id": "b", "execution_mode": "agent"}],
            "flows": [
                {"flow_id": "f", "tigger_patterns": [], "silnet": true, "priority": "high"},
                {"flow_id": "g", "target": {"endpoint": {"url": "https://x.test", "metod": "GET"}}},
                {"flow_id": "h", "target": {"endpont": {}}, "on_error": "reply"},
                7
            ], "timers": {}}"#;
        insta::assert_snapshot!(problems(text).join("\n"));
    }

    #[test]
    fn words_and_objects_stand_for_choices() {
        let text = r#"{"flows": [
            {"flow_id": "a", "on_error": "continue", "target": {"workflow": "w"}},
            {"flow_id": "b", "on_error": {"reply": "sorry"}, "target": {"handler": "h"}}],
            "timers": [{"timer_id": "t", "delay_ms": 5, "action": {"reply": "Hi"}}]}"#;
        let file = FlowsFile::from_json(text).unwrap();
        assert_eq!(file.flows[1].on_error, Some(super::super::OnError::Reply("sorry".into())));
        assert_eq!(file.timers[0].max_triggers, 1);
        let again = FlowsFile::from_json(&file.to_json().unwrap()).unwrap();
        assert_eq!(again, file);
        assert_eq!(problems("{\n \"flows\": [}"), ["line 2, column 12: expected value"]);
        assert_eq!(problems("[]"), ["bad_value : the file must hold an object"]);
    }
}
