//! The inventories of an agent: what each entry offers.

use agent_runtime::InventoryEntry;
use agent_types::{InvalidToolId, ToolId};
use tool_registry::{BrokenTool, Snapshot, Tool};
use tool_workflow::{NodeToolSettings, WorkflowRuntime, WorkflowToolError, node_tool_with};

use crate::agents::{AgentFile, NODE};
use crate::error::ProjectError;
use crate::project::Project;

impl Project {
    /// The tools of an agent's inventories, and what `flows.json` adds to them. An entry that cannot be used costs that
    /// entry: it is among the snapshot's warnings.
    ///
    /// # Errors
    /// A `flows.json` that cannot be used; or the first fault, where no entry can be used.
    pub fn tools_of(&self, file: &AgentFile) -> Result<Snapshot, ProjectError> {
        let (tools, faults) = inventory(self, file)?;
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
        inventory(self, file).map(|(_, faults)| faults)
    }
}

/// The tools of an agent with the faults of the entries that cannot be used.
fn inventory(project: &Project, file: &AgentFile) -> Result<(Snapshot, Vec<ProjectError>), ProjectError> {
    let added = project.offered_by_flows(&file.profile)?;
    let mut tools: Vec<Tool> = Vec::new();
    let mut faults = Vec::new();
    for entry in file.profile.tool_ids() {
        for expanded in project.providers().expand(&entry) {
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
            match tool_of_agent(project, &id, file) {
                Ok(tool) => tools.push(tool),
                Err(fault) => faults.push(fault),
            }
        }
    }
    let chosen = file.profile.selection().from(&Snapshot::new(tools)?).tools;
    let all = if added.is_empty() { chosen } else { Snapshot::new(chosen.tools().cloned().chain(added))? };
    let alike = project.lookalikes_of(&all);
    let warnings = faults.iter().map(ToString::to_string).chain(file.ignored_names()).chain(alike).collect();
    Ok((all.with_warnings(warnings), faults))
}

/// The tool of an id for an agent, whose inventory may give it settings.
pub(crate) fn tool_of_agent(project: &Project, id: &str, file: &AgentFile) -> Result<Tool, ProjectError> {
    let tool = match file.profile.configured(id) {
        Some((entry, stands_for)) => configured(project, entry, &stands_for),
        None => project.tool(id),
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
fn configured(project: &Project, entry: &InventoryEntry, id: &str) -> Result<Tool, ProjectError> {
    let InventoryEntry::Detailed { name, config, parameters, .. } = entry else { return project.tool(id) };
    let own = name.as_deref().unwrap_or(id);
    let broken = |message: String| {
        let broken = BrokenTool::new("bad_inventory_entry", format!("`{own}`: {message}"));
        ProjectError::from(broken.with_id(own))
    };
    if let Some(name) = name.as_deref().filter(|name| name.contains(':')) {
        return Err(broken(format!("the name `{name}` holds `:`, which parts ids from their kind")));
    }
    // An id that does not exist is reported with the one that was probably meant.
    let plain = project.tool(id);
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
    let runtime = WorkflowRuntime { catalog: project.catalog().clone(), services: project.services() };
    node_tool_with(node_type, settings, &runtime)
        .map_err(|error: WorkflowToolError| broken(error.to_string()))
}
