//! Types of nodes and where they are registered.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use agent_types::Problem;
use async_trait::async_trait;
use foldhash::fast::RandomState;
use indexmap::IndexMap;
use serde_json::{Map, Value};
use workflow_model::{Definitions, NodeDefinition};

use crate::context::NodeContext;
use crate::error::NodeError;
use crate::inputs::Inputs;
use crate::outputs::Outputs;
use crate::plan::prepared::Prepared;
use crate::words::{NodeWords, WordIndex};

/// A type of node: what it takes and gives, and what it does.
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a node",
    note = "implement `workflow_engine::Node` for it"
)]
pub trait Node: Send + Sync {
    /// Type, slots, settings and promises.
    fn definition(&self) -> &NodeDefinition;

    /// Looks at the settings of one node when a plan is made.
    ///
    /// # Errors
    /// Settings that the node cannot work with; they become problems of the plan.
    fn prepare(&self, config: &Map<String, Value>) -> Result<Prepared, Vec<Problem>> {
        let _ = config;
        Ok(Prepared::none())
    }

    /// Returns `true` if a node with these settings has an effect outside of the run. The file may override
    /// it. The default is that of the type.
    fn has_effect(&self, config: &Map<String, Value>) -> bool {
        let _ = config;
        self.definition().effect
    }

    /// Runs the tests that the settings of one node hold; only a check of the workflow does.
    fn self_test(&self, config: &Map<String, Value>) -> Vec<Problem> {
        let _ = config;
        Vec::new()
    }

    /// One attempt of a node that never waits, for which no future and no task is made; `None` of a node that may wait.
    /// Where it gives a result, [`run`](Self::run) gives the same: nodes with time limits, retries or effects are run by
    /// that. A node that gives `None` has emitted and counted nothing before, since `run` follows.
    fn compute(&self, ctx: &NodeContext, inputs: &Inputs) -> Option<Result<Outputs, NodeError>> {
        let _ = (ctx, inputs);
        None
    }

    /// One attempt. Dropping the future cancels it.
    ///
    /// # Errors
    /// Anything that keeps the node from giving its outputs.
    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError>;
}

/// Types of nodes by full name.
#[derive(Default, Clone)]
pub struct NodeCatalog {
    nodes: IndexMap<String, Arc<dyn Node>, RandomState>,
    /// Words in other languages, by the code of the language.
    words: HashMap<&'static str, WordIndex>,
}

impl fmt::Debug for NodeCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.nodes.keys()).finish()
    }
}

impl NodeCatalog {
    /// No types.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a type; one of the same name is replaced.
    pub fn register(&mut self, node: impl Node + 'static) -> &mut Self {
        self.register_shared(Arc::new(node))
    }

    /// Adds a shared type; one of the same name is replaced.
    pub fn register_shared(&mut self, node: Arc<dyn Node>) -> &mut Self {
        self.nodes.insert(node.definition().node_type.clone(), node);
        self
    }

    /// The same catalogue with one more type.
    #[must_use]
    pub fn with(mut self, node: impl Node + 'static) -> Self {
        self.register(node);
        self
    }

    /// Adds words in the language of a code.
    pub fn describe(&mut self, code: &'static str, words: &NodeWords) {
        self.words.entry(code).or_default().add(words);
    }

    /// Description of a type in the language of a code, where it has one.
    #[must_use]
    pub fn description(&self, node_type: &str, code: &str) -> Option<&str> {
        self.words.get(code)?.description(node_type)
    }

    /// A definition in the language of a code; what has no words there stays as it is.
    #[must_use]
    pub fn in_language(&self, mut node: NodeDefinition, code: &str) -> NodeDefinition {
        if let Some(words) = self.words.get(code) {
            words.apply(&mut node);
        }
        node
    }

    /// The type of that full name.
    #[must_use]
    pub fn get(&self, node_type: &str) -> Option<&Arc<dyn Node>> {
        self.nodes.get(node_type)
    }

    /// All definitions in the order of registration.
    pub fn definitions(&self) -> impl Iterator<Item = &NodeDefinition> {
        self.nodes.values().map(|node| node.definition())
    }
}

impl Definitions for NodeCatalog {
    fn definition(&self, node_type: &str) -> Option<&NodeDefinition> {
        self.nodes.get(node_type).map(|node| node.definition())
    }

    fn type_names(&self) -> Vec<&str> {
        self.nodes.keys().map(String::as_str).chain(workflow_model::structural::ALL).collect()
    }
}
