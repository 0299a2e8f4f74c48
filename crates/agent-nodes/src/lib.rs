//! The agent on the canvas: the parts of a turn as nodes of a workflow.
//!
//! They read, run and emit as the built-in loop does, with the same code. Tools come from the run's services as
//! `dyn ToolInvoker`, models as `dyn ModelSource`, conversations as `dyn` [`Threads`], agents as `dyn` [`AgentSource`],
//! knowledge bases as `KnowledgeTools`. Which tools a node may use is
//! the agent's inventory where the workflow [deliberates](agent_runtime::Deliberator) for one, else `availableTools` of the
//! workflow; a workflow that says nothing may use what its nodes name.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod agent_env;
mod agent_node;
mod available;
mod calls;
mod chat;
mod chinese;
mod classify;
mod decision;
mod define;
mod execute;
mod format;
mod history;
mod knowledge;
mod parse;
mod request;
mod sink;
mod structured;
mod summarize;
mod tool_node;

use workflow_engine::NodeCatalog;

pub use agent_env::{InTurn, LlmNodeConfig};
pub use agent_node::{AgentLookupError, AgentSource};
pub use history::{MemoryThreads, ThreadError, Threads};
pub use tool_node::ToolEffect;

/// Adds the `agent:` nodes, `core:Tool` and `core:Knowledge` to a catalogue.
pub fn register(catalog: &mut NodeCatalog) {
    catalog
        .register(available::AvailableTools::new())
        .register(format::FormatPrompt::new())
        .register(request::LlmApiRequest::new())
        .register(parse::ParseLlmDecision::new())
        .register(execute::ExecuteTool::new())
        .register(decision::LlmDecisionWithTools::new())
        .register(history::LoadHistory::new())
        .register(history::SaveHistory::new())
        .register(summarize::Summarize::new())
        .register(structured::Extract::new())
        .register(classify::Classify::new())
        .register(agent_node::AgentNode::new())
        .register(tool_node::ToolNode::new(Box::new(|_| None)))
        .register(knowledge::Knowledge::new());
    catalog.describe("zh", &chinese::WORDS);
}

/// Replaces `core:Tool` by one that has the effect of the tool that its settings name.
pub fn register_tool_effects(catalog: &mut NodeCatalog, effect: Box<ToolEffect>) {
    catalog.register(tool_node::ToolNode::new(effect));
}
