//! Values of a step's parameters: from the message, from groups of its pattern, from the context, or written out.

use std::collections::BTreeSet;

use agent_types::nearest;
use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::config::Problems;

/// Beginnings of a value that is taken from somewhere.
const GROUP: &str = "$group.";
const CONTEXT: &str = "$ctx.";
const MESSAGE: &str = "$message";

/// Source of a parameter's value.
#[derive(Debug, Clone, PartialEq)]
enum Given {
    Message,
    Group(String),
    Context(Vec<String>),
    Fixed(Value),
}

/// The parameters of a step.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Mapping(Vec<(String, Given)>);

/// Values that parameters are taken from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sources<'m> {
    /// Message of the user.
    pub(crate) message: &'m str,
    /// Groups of the matched pattern.
    pub(crate) groups: &'m Map<String, Value>,
    /// Context values.
    pub(crate) context: &'m Map<String, Value>,
    /// Parameters that a caller gives by name.
    pub(crate) given: &'m Map<String, Value>,
}

impl Mapping {
    /// Reads a mapping. `groups` are the names that patterns of the step have.
    pub(crate) fn parse(
        config: &IndexMap<String, Value>,
        groups: &BTreeSet<String>,
        place: &str,
        problems: &mut Problems,
    ) -> Self {
        let mut mapping = Vec::with_capacity(config.len());
        for (name, value) in config {
            let path = format!("{place}/{}", crate::config::escaped(name));
            if let Some(given) = given(value, groups, &path, problems) {
                mapping.push((name.clone(), given));
            }
        }
        Self(mapping)
    }

    /// Returns `true` where nothing is mapped.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names of the parameters.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// The values; a parameter whose value is nowhere is left out.
    pub(crate) fn fill(&self, sources: Sources<'_>) -> Map<String, Value> {
        let filled = self.0.iter().filter_map(|(name, given)| {
            let value = match given {
                Given::Message => sources.message.into(),
                Given::Group(group) => sources.groups.get(group)?.clone(),
                Given::Context(path) => inside(sources.context, path)?.clone(),
                Given::Fixed(value) => value.clone(),
            };
            Some((name.clone(), value))
        });
        let mut filled: Map<String, Value> = filled.collect();
        let is_own = |name: &str| self.names().any(|own| own == name);
        let given = sources.given.iter().filter(|(name, _)| is_own(name));
        filled.extend(given.map(|(name, value)| (name.clone(), value.clone())));
        filled
    }

    /// Names that a caller may give: those of the parameters, and the groups that they are taken from.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &str> {
        let groups = self.0.iter().filter_map(|(_, given)| match given {
            Given::Group(group) => Some(group.as_str()),
            Given::Message | Given::Context(_) | Given::Fixed(_) => None,
        });
        self.names().chain(groups)
    }
}

fn given(value: &Value, groups: &BTreeSet<String>, path: &str, problems: &mut Problems) -> Option<Given> {
    let Some(text) = value.as_str().filter(|text| text.starts_with('$')) else {
        return Some(Given::Fixed(value.clone()));
    };
    if let Some(rest) = text.strip_prefix("$$") {
        return Some(Given::Fixed(format!("${rest}").into()));
    }
    if text == MESSAGE {
        return Some(Given::Message);
    }
    if let Some(name) = text.strip_prefix(CONTEXT).filter(|name| !name.is_empty()) {
        return Some(Given::Context(name.split('.').map(str::to_owned).collect()));
    }
    if let Some(name) = text.strip_prefix(GROUP) {
        if groups.contains(name) {
            return Some(Given::Group(name.to_owned()));
        }
        let near = nearest(name, groups.iter().map(String::as_str)).map(str::to_owned);
        problems.near(path, "unknown_group", format!("no pattern here has a group `{name}`"), near);
        return None;
    }
    let message =
        format!("`{text}` is not a value; write $message, $group.<name>, $ctx.<name>, or $$ for a dollar");
    problems.near(path, "bad_mapping", message, nearest(text, [MESSAGE]).map(str::to_owned));
    None
}

fn inside<'v>(values: &'v Map<String, Value>, path: &[String]) -> Option<&'v Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(values.get(first)?, |value, step| value.get(step))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_come_from_where_the_file_says() {
        let config = json!({"text": "$message", "id": "$group.id", "tenant": "$ctx.profile.tenant", "n": 3, "price": "$$5", "none": "$ctx.none"});
        let config: IndexMap<String, Value> = serde_json::from_value(config).unwrap();
        let mut problems = Problems::default();
        let mapping = Mapping::parse(&config, &BTreeSet::from(["id".into()]), "/p", &mut problems);
        assert_eq!(problems.into_result(), Ok(Vec::new()));
        let groups = json!({"id": "A7"});
        let context = json!({"profile": {"tenant": "t1"}});
        let sources = Sources {
            message: "hi",
            groups: groups.as_object().unwrap(),
            context: context.as_object().unwrap(),
            given: &Map::new(),
        };
        assert_eq!(
            Value::Object(mapping.fill(sources)),
            json!({"text": "hi", "id": "A7", "tenant": "t1", "n": 3, "price": "$5"})
        );
    }

    #[test]
    fn unknown_names_are_reported() {
        let config = json!({"a": "$group.idd", "b": "$mesage", "c": "$ctx."});
        let config: IndexMap<String, Value> = serde_json::from_value(config).unwrap();
        let mut problems = Problems::default();
        let _ = Mapping::parse(&config, &BTreeSet::from(["id".into()]), "/p", &mut problems);
        let message = problems.into_result().unwrap_err().to_string();
        assert_eq!(
            message,
            "/p/a: no pattern here has a group `idd`; did you mean `id`?\n\
             /p/b: `$mesage` is not a value; write $message, $group.<name>, $ctx.<name>, or $$ for a dollar; did you mean `$message`?\n\
             /p/c: `$ctx.` is not a value; write $message, $group.<name>, $ctx.<name>, or $$ for a dollar"
        );
    }
}
