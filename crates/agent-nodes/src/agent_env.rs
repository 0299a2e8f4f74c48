//! Environment of agent nodes: the tools that they may use, and the dependencies of calls.

use std::collections::HashSet;
use std::sync::Arc;

use agent_types::{Budget, BudgetLimits, CallId};
use serde_json::{Map, Value};
use tool_registry::{DynamicTools, EnclosingCall, Selection, Services, Snapshot, Tool, ToolInvoker};
use workflow_engine::{NodeContext, NodeError};
use workflow_model::AvailableTools;

use crate::define::warn;
use agent_runtime::AgentProfile;
use agent_runtime::ApprovalMode;
use agent_runtime::Deliberation;
use agent_runtime::prompt::text::frame_of;
use agent_runtime::services::in_memory;

/// Configuration of calls by nodes outside of an agent; one of the services of a workflow's run.
#[derive(Debug, Clone, Default)]
pub struct LlmNodeConfig {
    /// Dependencies of tools, by type.
    pub services: Services,
    /// Values that tools may use and no model sees or sets.
    pub values: Arc<Map<String, Value>>,
    /// Policy for calls that need human approval.
    pub approval: ApprovalMode,
}

impl LlmNodeConfig {
    /// With what the system tools work on in memory, for as long as it lives.
    #[must_use]
    pub fn in_memory() -> Self {
        // A profile without a state has none that could be wrong.
        let services = in_memory(&AgentProfile::default()).unwrap_or_default();
        Self { services, ..Self::default() }
    }
}

/// Selection that a workflow file declares: `available` (else `initial` and `discoverable`) without `hidden`.
pub(crate) fn selection_of(available: &AvailableTools) -> Selection {
    let shown = available.initial.iter().chain(&available.discoverable);
    let selection = match &available.available {
        None => Selection::new(shown),
        Some(listed) => Selection::new(listed),
    };
    selection.discover(&available.discoverable).hide(&available.hidden).ask(&available.require_approval)
}

/// Selection of what nodes may use where they name it: the declared one, and what `dynamicTools` of its nodes name unless
/// `available` says otherwise.
fn permitted_of(available: &AvailableTools) -> Selection {
    let declared = selection_of(available);
    if available.available.is_some() || available.named_by_nodes.is_empty() {
        return declared;
    }
    let listed = declared.listed().unwrap_or_default().iter().chain(&available.named_by_nodes);
    Selection::new(listed)
        .discover(&available.discoverable)
        .hide(&available.hidden)
        .ask(&available.require_approval)
}

/// Canonical form of an id; as it is where nothing in the run finds tools.
fn canonical(ctx: &NodeContext, id: &str) -> String {
    ctx.service::<dyn ToolInvoker>().map_or_else(|| id.to_owned(), |tools| tools.canonical(id))
}

/// The turn of an agent that a workflow deliberates about; among the services of that workflow's run.
#[derive(Debug, Clone)]
pub struct InTurn {
    profile: Arc<AgentProfile>,
    tools: Snapshot,
    config: LlmNodeConfig,
    prefix: String,
}

impl InTurn {
    /// Creates the data of the turn that nodes need.
    #[must_use]
    pub fn new(turn: &Deliberation<'_>) -> Self {
        Self {
            profile: Arc::clone(turn.profile()),
            tools: turn.offered().clone(),
            config: LlmNodeConfig {
                services: turn.services(),
                values: Arc::clone(turn.values()),
                approval: turn.approval(),
            },
            prefix: turn.call_prefix(),
        }
    }
}

/// Environment of a node.
pub(crate) struct AgentEnv<'c> {
    ctx: &'c NodeContext,
    pub(crate) config: LlmNodeConfig,
    /// The agent in whose run the workflow runs.
    pub(crate) agent: Option<Arc<AgentProfile>>,
    /// The workflow deliberates for it.
    pub(crate) in_turn: bool,
    /// The agent's tools, where they count.
    inventory: Option<Snapshot>,
    /// Tools that are offered by default; `None` without a declaration.
    selection: Option<Selection>,
    /// Tools that may be used where a node names them.
    permitted: Option<Selection>,
    /// Prefix of call ids.
    prefix: String,
}

impl<'c> AgentEnv<'c> {
    pub(crate) fn new(ctx: &'c NodeContext) -> Self {
        let file = ctx.available_tools().cloned();
        let file = file.map(|file| file.map_ids(|id| canonical(ctx, id)));
        let file = file.as_ref();
        let listed = |tools: &Snapshot| Selection::new(tools.tools().map(Tool::id));
        if let Some(turn) = ctx.service::<InTurn>() {
            let InTurn { profile, tools, config, prefix } = (*turn).clone();
            let selection = match file {
                Some(file) => listed(&tools).hide(&file.hidden).ask(&file.require_approval),
                None => listed(&tools),
            };
            let (agent, inventory, selection) = (Some(profile), Some(tools), Some(selection));
            let permitted = selection.clone();
            return Self { ctx, config, agent, in_turn: true, inventory, selection, permitted, prefix };
        }
        let (own, permitted) = (file.map(selection_of), file.map(permitted_of));
        let Some(call) = ctx.service::<EnclosingCall>() else {
            let config = match ctx.service::<LlmNodeConfig>() {
                Some(config) => (*config).clone(),
                None => LlmNodeConfig::in_memory(),
            };
            let prefix = String::new();
            let selection = own;
            let (agent, inventory) = (None, None);
            return Self { ctx, config, agent, in_turn: false, inventory, selection, permitted, prefix };
        };
        let EnclosingCall(cx) = &*call;
        let services = cx.services.clone();
        let offered = services.get::<Snapshot>().filter(|_| own.is_none());
        let inventory = offered.map(|offered| (*offered).clone());
        let selection = own.or_else(|| inventory.as_ref().map(listed));
        let (agent, approval) = (services.get::<AgentProfile>(), services.get::<ApprovalMode>());
        let approval = approval.map_or_else(ApprovalMode::default, |mode| *mode);
        let config = LlmNodeConfig { services, values: Arc::clone(&cx.values), approval };
        let prefix = format!("{}.", cx.call);
        let permitted = permitted.or_else(|| selection.clone());
        Self { ctx, config, agent, in_turn: false, inventory, selection, permitted, prefix }
    }

    /// Returns `true` when the allowed tools are declared, so that a node that names none may use them.
    pub(crate) fn has_tools(&self) -> bool {
        self.selection.is_some()
    }

    /// The tools of these ids that may be used, or all that may be.
    pub(crate) fn tools(&self, wanted: Option<&[String]>) -> Result<Snapshot, NodeError> {
        let all = || self.selection.as_ref().and_then(Selection::listed).unwrap_or_default();
        let mut seen = HashSet::new();
        let ids = wanted.unwrap_or_else(all).iter().map(|id| self.canonical(id));
        let ids: Vec<String> = ids.filter(|id| seen.insert(id.clone())).collect();
        let mut found = Vec::with_capacity(ids.len());
        let selection = if wanted.is_some() { &self.permitted } else { &self.selection };
        for id in &ids {
            if selection.as_ref().is_none_or(|selection| selection.allows(id)) {
                found.push(self.tool(id)?);
            } else if wanted.is_some() {
                warn(self.ctx, format!("the tool `{id}` may not be used here and is left out"));
            }
        }
        let found = Snapshot::new(found).map_err(|error| NodeError::fatal(error.to_string()))?;
        let Some(selection) = selection else { return Ok(found) };
        Ok(selection.from(&found).tools)
    }

    /// Every tool that could run here, the workflow itself aside: the default where nothing declares which are allowed.
    pub(crate) fn every_tool(&self) -> Result<Snapshot, NodeError> {
        let invoker = self.ctx.required_service::<dyn ToolInvoker>()?;
        let own = self.ctx.workflow_id().map(|id| format!("workflow:{id}"));
        let mut found = Vec::new();
        for id in invoker.ids().into_iter().filter(|id| Some(id) != own.as_ref()) {
            match invoker.tool(&id) {
                Ok(tool) if tool.missing(&self.config.services).is_empty() => found.push(tool),
                Ok(_) => {}
                Err(error) => warn(self.ctx, format!("`{id}` is left out: {error}")),
            }
        }
        let found = Snapshot::new(found).map_err(|error| NodeError::fatal(error.to_string()))?;
        Ok(Selection::all().from(&found).tools)
    }

    /// Tools that one request offers more, in its own words.
    pub(crate) fn dynamic(&self, more: &DynamicTools) -> Result<Snapshot, NodeError> {
        let found = self.tools(Some(&more.tool_ids))?;
        let allowed = Selection::new(found.tools().map(Tool::id));
        let present = DynamicTools {
            tool_ids: found.tools().map(|tool| tool.id().to_string()).collect(),
            description_template: more.description_template.clone(),
        };
        Ok(present.from(&found, &allowed).tools)
    }

    /// Canonical form of an id that a file or a model writes.
    pub(crate) fn canonical(&self, id: &str) -> String {
        canonical(self.ctx, id)
    }

    fn tool(&self, id: &str) -> Result<Tool, NodeError> {
        if let Some(tool) = self.inventory.as_ref().and_then(|inventory| inventory.get(id)) {
            return Ok(tool.clone());
        }
        let invoker = self.ctx.required_service::<dyn ToolInvoker>()?;
        invoker.tool(id).map_err(|error| NodeError::fatal(error.to_string()).with_code(error.code()))
    }

    /// Prefix of the ids of calls that this node reads.
    pub(crate) fn call_prefix(&self) -> String {
        // A point parts a call from those inside it.
        format!("{}{}:", self.prefix, self.ctx.path().replace('.', "_"))
    }

    /// Id of a call given by a caller, within the calls made here.
    pub(crate) fn own_id(&self, id: &CallId) -> CallId {
        let own = id.as_str().strip_prefix(&self.prefix).unwrap_or(id.as_str());
        CallId::new(format!("{}{}", self.prefix, own.replace('.', "_")))
    }

    /// Calls above those that are made here.
    pub(crate) fn level(&self) -> u32 {
        u32::try_from(self.prefix.matches('.').count()).unwrap_or(u32::MAX)
    }

    /// The limits that count here.
    pub(crate) fn budget(&self) -> Budget {
        self.ctx.budget().cloned().unwrap_or_else(|| Budget::new(BudgetLimits::default()))
    }

    /// Profile that replaces the agent's, if the workflow runs without an agent.
    pub(crate) fn profile(&self) -> AgentProfile {
        let id = || AgentProfile::new(self.ctx.workflow_id().unwrap_or("workflow"));
        self.agent.as_deref().cloned().unwrap_or_else(id)
    }

    /// Delimiter of results for the model: unknown to the authors of the results.
    pub(crate) fn frame(&self) -> String {
        frame_of(self.ctx.run_id())
    }
}

#[cfg(test)]
mod tests {
    use agent_types::ApprovalDefault;
    use schemars::JsonSchema;
    use serde::Deserialize;
    use serde_json::json;
    use tool_registry::Visibility;
    use workflow_model::Workflow;

    use super::*;

    #[derive(Deserialize, JsonSchema)]
    struct Nothing {}

    #[test]
    fn a_workflow_says_which_tools_it_may_use() {
        let tool = |id| Tool::func(id, "Echoes.", |_: Nothing, _| async { 1 }).unwrap();
        let all = Snapshot::new(["a", "b", "c", "d"].map(tool)).unwrap();
        let chosen = |available: Value| {
            let file = json!({"nodes": [], "edges": [], "availableTools": available});
            let available = Workflow::from_value(file).unwrap().available_tools.unwrap();
            selection_of(&available).from(&all).tools
        };
        let ids = |tools: &Snapshot| tools.tools().map(|tool| tool.id().to_string()).collect::<Vec<_>>();
        assert_eq!(ids(&chosen(json!({"initial": ["b", "a"]}))), ["b", "a"]);
        let tools =
            chosen(json!({"initial": ["a"], "available": ["a", "b", "c", "x"], "discoverable": ["b"],
            "hidden": ["c"], "requireApproval": ["a"]}));
        assert_eq!(ids(&tools), ["a", "b"]);
        assert_eq!(tools.get("b").unwrap().settings().visibility, Visibility::Discoverable);
        assert_eq!(tools.get("a").unwrap().approval(), ApprovalDefault::Ask);
    }
}
