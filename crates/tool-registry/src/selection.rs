//! Selection of the tools that an agent may use, and of the form in which each is offered.

use std::collections::HashSet;

use agent_types::{ApprovalDefault, ToolId};

use crate::registry::{Snapshot, Unresolved};
use crate::tool::{Answer, Tool, Visibility};

/// The tools that an agent or a workflow may use: those that it lists and that exist, without the hidden ones. All ids are
/// canonical ones; see [`Providers::canonical`](crate::Providers::canonical) for those that a file writes shorter.
///
/// ```
/// use tool_registry::{Selection, Snapshot, Tool};
/// # use schemars::JsonSchema;
/// # use serde::Deserialize;
/// # #[derive(Deserialize, JsonSchema)]
/// # struct None {}
/// # let tool = |id| Tool::func(id, "A tool.", |_: None, _| async { 1 });
/// let all = Snapshot::new([tool("a")?, tool("b")?, tool("core:c")?])?;
/// let chosen = Selection::new(["a", "b", "gone"]).hide(["b"]).from(&all);
/// assert_eq!(chosen.tools.tools().map(|tool| tool.id().as_str()).collect::<Vec<_>>(), ["a"]);
/// assert_eq!(chosen.unknown[0].name, "gone");
/// # Ok::<(), tool_registry::RegistryError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Ids in order; absent means all.
    listed: Option<Vec<String>>,
    discoverable: HashSet<String>,
    hidden: HashSet<String>,
    ask: HashSet<String>,
    handles: HashSet<String>,
}

/// Result of a [`Selection`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Selected {
    /// The tools, in listed order.
    pub tools: Snapshot,
    /// Listed ids that no tool has.
    pub unknown: Vec<Unresolved>,
}

fn ids<I: AsRef<str>>(ids: impl IntoIterator<Item = I>) -> impl Iterator<Item = String> {
    ids.into_iter().map(|id| id.as_ref().to_owned())
}

/// Returns `true` if an entry means a tool: it is the id, or `mcp:server/*`, `workflow:*` with the beginning of the id.
fn means(entry: &str, id: &str) -> bool {
    entry == id || beginning_of(entry).is_some_and(|beginning| id.starts_with(beginning))
}

/// Beginning of the ids that a wildcard means.
pub(crate) fn beginning_of(entry: &str) -> Option<&str> {
    entry.strip_suffix('*').filter(|beginning| beginning.ends_with(['/', ':']))
}

impl Selection {
    /// These tools, in this order.
    pub fn new<I: AsRef<str>>(listed: impl IntoIterator<Item = I>) -> Self {
        Self { listed: Some(ids(listed).collect()), ..Self::default() }
    }

    /// Every tool there is.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// The same, where these are shown only when they are looked for.
    #[must_use]
    pub fn discover<I: AsRef<str>>(mut self, discoverable: impl IntoIterator<Item = I>) -> Self {
        self.discoverable.extend(ids(discoverable));
        self
    }

    /// The same without these; a wildcard means all tools that begin so.
    #[must_use]
    pub fn hide<I: AsRef<str>>(mut self, hidden: impl IntoIterator<Item = I>) -> Self {
        self.hidden.extend(ids(hidden));
        self
    }

    /// The same, where these require approval.
    #[must_use]
    pub fn ask<I: AsRef<str>>(mut self, ask: impl IntoIterator<Item = I>) -> Self {
        self.ask.extend(ids(ask));
        self
    }

    /// The same, where a call of these answers with a task whose result is read later.
    #[must_use]
    pub fn answer_with_handle<I: AsRef<str>>(mut self, handles: impl IntoIterator<Item = I>) -> Self {
        self.handles.extend(ids(handles));
        self
    }

    /// The listed ids, in order; `None` if every tool is meant.
    #[must_use]
    pub fn listed(&self) -> Option<&[String]> {
        self.listed.as_deref()
    }

    /// Returns `true` if a tool of this canonical id is selected, if it exists.
    #[must_use]
    pub fn allows(&self, id: &str) -> bool {
        let is_listed = |listed: &Vec<String>| listed.iter().any(|entry| means(entry, id));
        !self.is_hidden(id) && self.listed.as_ref().is_none_or(is_listed)
    }

    fn is_hidden(&self, id: &str) -> bool {
        self.hidden.contains(id) || self.hidden.iter().any(|entry| means(entry, id))
    }

    /// The ids that are meant: an entry `mcp:server/*` means all tools that begin so.
    fn meant(&self, all: &Snapshot) -> Vec<String> {
        let every = |beginning: &str| {
            let ids = all.tools().map(|tool| tool.id().as_str());
            ids.filter(|id| id.starts_with(beginning)).map(str::to_owned).collect()
        };
        let Some(listed) = &self.listed else { return every("") };
        let meant = listed.iter().flat_map(|entry| match beginning_of(entry) {
            Some(beginning) => every(beginning),
            None => vec![entry.clone()],
        });
        meant.collect()
    }

    /// The tools among all that there are. A tool that says itself that it is hidden is left out too.
    #[must_use]
    pub fn from(&self, all: &Snapshot) -> Selected {
        let mut unknown = Vec::new();
        let mut seen = HashSet::new();
        let listed = self.meant(all);
        let wanted = listed.iter().filter(|id| !self.is_hidden(id) && seen.insert(id.as_str()));
        let tools: Vec<Tool> = wanted
            .filter_map(|id| {
                let tool = all.get(id).filter(|tool| tool.settings().visibility != Visibility::Hidden);
                if tool.is_none() {
                    unknown.push(all.unresolved(id));
                }
                tool.map(|tool| self.treated(tool))
            })
            .collect();
        Selected { tools: Snapshot::of_distinct(tools), unknown }
    }

    fn treated(&self, tool: &Tool) -> Tool {
        let id = tool.id().as_str();
        let mut tool = tool.clone();
        if self.ask.contains(id) && tool.approval() == ApprovalDefault::Auto {
            tool = tool.clone().with_approval(ApprovalDefault::Ask);
        }
        let discover = self.discoverable.contains(id);
        let handle = self.handles.contains(id);
        if discover || handle {
            tool = tool.treated(|settings| {
                settings.visibility = if discover { Visibility::Discoverable } else { settings.visibility };
                settings.answer = if handle { Answer::Handle } else { settings.answer };
            });
        }
        tool
    }
}

/// `dynamicTools` of a node: tools that one request offers more, described in its own words.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DynamicTools {
    /// Canonical ids, or node types.
    pub tool_ids: Vec<String>,
    /// Description of each tool; every `{toolName}` and `{toolDescription}` is replaced. Optional: without it, each
    /// tool keeps its own description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description_template: Option<String>,
}

impl DynamicTools {
    /// Names in braces of the template that are not placeholders.
    #[must_use]
    pub fn unknown_placeholders(&self) -> Vec<&str> {
        let mut unknown = Vec::new();
        let mut rest = self.description_template.as_deref().unwrap_or_default();
        while let Some((_, after)) = rest.split_once('{') {
            rest = after;
            let Some((name, _)) = after.split_once('}') else { break };
            let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
            if is_name && !matches!(name, "toolName" | "toolDescription") {
                unknown.push(name);
            }
        }
        unknown
    }

    /// The tools, as far as `allowed` allows them and they exist.
    #[must_use]
    pub fn from(&self, all: &Snapshot, allowed: &Selection) -> Selected {
        let (may, may_not): (Vec<&String>, Vec<&String>) =
            self.tool_ids.iter().partition(|id| allowed.allows(id));
        let mut selected = Selection::new(may).from(all);
        // A name that is not allowed is as good as none, and nothing is told of it.
        let refused = may_not.into_iter().map(|id| Unresolved { name: id.clone(), near: None });
        selected.unknown.extend(refused);
        if let Some(template) = &self.description_template {
            let described = selected.tools.tools().map(|tool| {
                let text = described(template, tool.id(), &tool.definition().description);
                tool.clone().with_description(text)
            });
            selected.tools = Snapshot::of_distinct(described.collect::<Vec<_>>());
        }
        selected
    }
}

/// The template with both names replaced, once: what is put in is not looked at again.
fn described(template: &str, name: &ToolId, description: &str) -> String {
    const PLACES: [&str; 2] = ["{toolName}", "{toolDescription}"];
    let mut text = String::new();
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        let (before, from) = rest.split_at(open);
        text.push_str(before);
        let place = PLACES.into_iter().find(|place| from.starts_with(place));
        let taken = place.map_or(1, str::len);
        text.push_str(match place {
            Some("{toolName}") => name.as_str(),
            Some(_) => description,
            None => "{",
        });
        rest = &from[taken..];
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_mean_all_that_begin_so_but_what_is_hidden() {
        let selection =
            Selection::new(["workflow:*", "mcp:shop/*"]).hide(["workflow:secret", "mcp:shop/admin/*"]);
        for id in ["workflow:a", "mcp:shop/find"] {
            assert!(selection.allows(id), "{id}");
        }
        for id in
            ["workflow:secret", "mcp:shop/admin/drop", "mcp:other/find", "system:done", "node:workflow:a"]
        {
            assert!(!selection.allows(id), "{id}");
        }
        assert!(!Selection::new(["work*"]).allows("workflow:a"), "a wildcard stands behind `:` or `/`");
    }

    #[test]
    fn a_template_is_checked_for_its_placeholders() {
        let template = |text: &str| DynamicTools {
            description_template: Some(text.to_owned()),
            ..DynamicTools::default()
        };
        assert_eq!(template("工具 {toolName}: {toolDescription}").unknown_placeholders(), Vec::<&str>::new());
        assert_eq!(template("{tool_name} {x y} {} {").unknown_placeholders(), ["tool_name"]);
    }

    #[test]
    fn templates_are_filled_everywhere_and_once() {
        let check = |template: &str, expected: &str| {
            let name = "a:b".parse().unwrap();
            assert_eq!(described(template, &name, "says {toolName}"), expected);
        };
        check("{toolName}: {toolDescription} ({toolName})", "a:b: says {toolName} (a:b)");
        check("{{toolName}} {x} {toolname}", "{a:b} {x} {toolname}");
        check("", "");
        check("{", "{");
    }
}
