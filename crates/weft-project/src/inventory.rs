//! The inventories of an agent: what each entry offers.

use agent_runtime::{AgentProfile, InventoryEntry};
use agent_types::{InvalidToolId, ToolId};
use serde_json::Value;
use tool_registry::{BrokenTool, Snapshot, Tool};
use tool_workflow::{NodeToolSettings, WorkflowRuntime, WorkflowToolError, node_tool_with};

use crate::agents::AgentFile;
use crate::error::ProjectError;
use crate::project::Project;

/// Beginning of the ids of nodes.
const NODE: &str = "node:";

/// Key of the name that an entry is offered under.
const NAME: &str = "name";

/// Puts names that cannot be ids among the keys that are not known: their tools are offered under their own ids.
pub(crate) fn ignore_names(profile: &mut AgentProfile) {
    for entry in &mut profile.tool_ids_inventory {
        let InventoryEntry::Detailed { id, name, extra, .. } = entry else { continue };
        let cannot_be = |name: &mut String| !id.starts_with(NODE) && name.parse::<ToolId>().is_err();
        if let Some(name) = name.take_if(cannot_be) {
            extra.insert(NAME.to_owned(), name.into());
        }
    }
}

impl AgentFile {
    /// Names of entries that are ignored, as warnings.
    pub fn ignored_names(&self) -> impl Iterator<Item = String> {
        self.profile.tool_ids_inventory.iter().filter_map(|entry| {
            let InventoryEntry::Detailed { id, extra, .. } = entry else { return None };
            let name = extra.get(NAME).and_then(Value::as_str)?;
            Some(format!("the name `{name}` of `{id}` is ignored: it cannot be the id of a tool"))
        })
    }
}

impl Project {
    /// The tools of an agent's inventories, and what `flows.json` adds to them. An entry that cannot be used costs that
    /// entry: it is among the snapshot's warnings.
    ///
    /// # Errors
    /// A `flows.json` that cannot be used; or the first fault, where no entry can be used.
    pub fn tools_of(&self, file: &AgentFile) -> Result<Snapshot, ProjectError> {
        let (tools, faults) = self.inventory(file)?;
        match faults.into_iter().next() {
            Some(first) if tools.is_empty() => Err(first),
            Some(_) | None => Ok(tools),
        }
    }

    /// Faults of an agent's inventories, all of them.
    ///
    /// # Errors
    /// A `flows.json` that cannot be used.
    pub fn faults_of(&self, file: &AgentFile) -> Result<Vec<ProjectError>, ProjectError> {
        self.inventory(file).map(|(_, faults)| faults)
    }

    fn inventory(&self, file: &AgentFile) -> Result<(Snapshot, Vec<ProjectError>), ProjectError> {
        let added = self.offered_by_flows(&file.profile)?;
        let mut tools: Vec<Tool> = Vec::new();
        let mut faults = Vec::new();
        for entry in file.profile.tool_ids() {
            for expanded in self.providers().expand(&entry) {
                let id = match expanded {
                    Ok(id) => id,
                    Err(broken) => {
                        faults.push(broken.into());
                        continue;
                    }
                };
                if added.iter().chain(&tools).any(|tool| tool.id().as_str() == id) {
                    continue;
                }
                match self.tool_of_agent(&id, file) {
                    Ok(tool) => tools.push(tool),
                    Err(fault) => faults.push(fault),
                }
            }
        }
        let chosen = file.profile.selection().from(&Snapshot::new(tools)?).tools;
        let all =
            if added.is_empty() { chosen } else { Snapshot::new(chosen.tools().cloned().chain(added))? };
        let alike = self.lookalikes_of(&all);
        let warnings =
            faults.iter().map(ToString::to_string).chain(file.ignored_names()).chain(alike).collect();
        Ok((all.with_warnings(warnings), faults))
    }

    /// The tool of an id for an agent, whose inventory may give it settings.
    pub(crate) fn tool_of_agent(&self, id: &str, file: &AgentFile) -> Result<Tool, ProjectError> {
        let tool = match file.profile.configured(id) {
            Some((entry, stands_for)) => self.configured(entry, &stands_for),
            None => self.tool(id),
        };
        tool.map_err(|error| match error {
            ProjectError::UnknownToolId { id, near } => ProjectError::UnknownTool {
                agent: file.profile.id.clone(),
                tool: id,
                near,
                path: file.path.clone(),
            },
            other => other,
        })
    }

    /// The tool of an entry with a name or settings of its own.
    fn configured(&self, entry: &InventoryEntry, id: &str) -> Result<Tool, ProjectError> {
        let InventoryEntry::Detailed { name, config, parameters, .. } = entry else { return self.tool(id) };
        let own = name.as_deref().unwrap_or(id);
        let broken = |message: String| {
            let broken = BrokenTool::new("bad_inventory_entry", format!("`{own}`: {message}"));
            ProjectError::from(broken.with_id(own))
        };
        if let Some(name) = name.as_deref().filter(|name| name.contains(':')) {
            return Err(broken(format!("the name `{name}` holds `:`, which parts ids from their kind")));
        }
        // An id that does not exist is reported with the one that was probably meant.
        let plain = self.tool(id);
        let Some(node_type) = id.strip_prefix(NODE) else {
            if !(config.is_empty() && parameters.is_empty()) {
                return Err(broken("only a node has `config` or `parameters` in an inventory".to_owned()));
            }
            let id: ToolId = own.parse().map_err(|error: InvalidToolId| broken(error.to_string()))?;
            return Ok(plain?.with_id(id));
        };
        if let Err(error @ ProjectError::UnknownToolId { .. }) = plain {
            return Err(error);
        }
        let settings = NodeToolSettings::new(config.clone(), parameters.clone()).with_name(name.clone());
        let runtime = WorkflowRuntime { catalog: self.catalog().clone(), services: self.services() };
        node_tool_with(node_type, settings, &runtime)
            .map_err(|error: WorkflowToolError| broken(error.to_string()))
    }
}
