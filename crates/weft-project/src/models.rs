//! The models of a project, made when they are first asked for.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use agent_types::{Clock, EventBody, StoredEvent, nearest};
use llm_provider::{
    CallPolicy, GuardedModel, LlmProvider, ModelConfig, ModelError, ModelSource, ProviderKind, ScriptedModel,
};
use parking_lot::Mutex;

use crate::local;

/// Name of the default entry.
const DEFAULT: &str = "default";

/// Models by name: those of `weft.toml`, then the environment's, then the script.
#[derive(Debug)]
pub struct ProjectModels {
    entries: BTreeMap<String, ModelConfig>,
    environment: Option<ModelConfig>,
    /// Played in a project without a model.
    fallback: Option<Script>,
    /// Played in place of every model.
    instead: Option<Script>,
    clock: Arc<dyn Clock>,
    /// Folder that paths of weights are relative to.
    root: PathBuf,
    made: Mutex<HashMap<String, Arc<dyn LlmProvider>>>,
}

/// A script, and the model that plays it with the waits and attempts of a real one.
#[derive(Debug)]
struct Script {
    replies: Arc<ScriptedModel>,
    model: Arc<dyn LlmProvider>,
}

impl Script {
    fn new(replies: Arc<ScriptedModel>, clock: &Arc<dyn Clock>) -> Self {
        let played: Arc<dyn LlmProvider> = Arc::clone(&replies) as Arc<dyn LlmProvider>;
        let model = Arc::new(GuardedModel::new(played, CallPolicy::default(), Arc::clone(clock)));
        Self { replies, model }
    }
}

impl ProjectModels {
    pub(crate) fn new(
        entries: BTreeMap<String, ModelConfig>,
        environment: Option<ModelConfig>,
        fallback: Option<Arc<ScriptedModel>>,
        instead: Option<Arc<ScriptedModel>>,
        clock: Arc<dyn Clock>,
        root: PathBuf,
    ) -> Self {
        let named = |(name, config): (String, ModelConfig)| {
            (name.clone(), ModelConfig { entry: Some(name), ..config })
        };
        let entries = entries.into_iter().map(named).collect();
        let script = |replies| Script::new(replies, &clock);
        let (fallback, instead) = (fallback.map(script), instead.map(script));
        Self { entries, environment, fallback, instead, clock, root, made: Mutex::default() }
    }

    /// Scripts pass over replies that a run has had already.
    pub fn skip_replies(&self, replies: usize) {
        self.fallback.iter().chain(&self.instead).for_each(|script| script.replies.skip(replies));
    }

    /// The script that plays in place of every model, or in a project without one.
    fn script(&self) -> Option<&Script> {
        let has_model = !self.entries.is_empty() || self.environment.is_some();
        self.instead.as_ref().or_else(|| self.fallback.as_ref().filter(|_| !has_model))
    }

    /// Returns `true` if replies are played from a script.
    #[must_use]
    pub fn is_scripted(&self) -> bool {
        self.script().is_some()
    }

    /// The names that agents and nodes may use; `None` where a script plays in place of every model.
    #[must_use]
    pub fn names(&self) -> Option<Vec<String>> {
        let own = || self.entries.keys().map(String::as_str).filter(|name| *name != DEFAULT);
        self.instead.is_none().then(|| own().chain([DEFAULT]).map(str::to_owned).collect())
    }

    /// Error for a name without an entry.
    fn unknown(&self, name: &str) -> ModelError {
        if name == DEFAULT && self.entries.is_empty() {
            return ModelError::NotSet;
        }
        let known: Vec<String> = self.entries.keys().cloned().collect();
        let near = nearest(name, known.iter().map(String::as_str)).map(str::to_owned);
        ModelError::Unknown { name: name.to_owned(), near, known }
    }

    fn config(&self, name: &str) -> Option<&ModelConfig> {
        self.entries.get(name).or_else(|| self.environment.as_ref().filter(|_| name == DEFAULT))
    }

    fn made(&self, name: &str, config: &ModelConfig) -> Result<Arc<dyn LlmProvider>, ModelError> {
        let mut made = self.made.lock();
        if let Some(model) = made.get(name) {
            return Ok(Arc::clone(model));
        }
        let clock = Arc::clone(&self.clock);
        let model: Arc<dyn LlmProvider> = Arc::new(match config.provider {
            ProviderKind::Local => local::start(config, &self.root, clock)?,
            _ => config.connect(clock)?,
        });
        made.insert(name.to_owned(), Arc::clone(&model));
        Ok(model)
    }
}

impl ModelSource for ProjectModels {
    fn model(&self, profile: Option<&str>) -> Result<Arc<dyn LlmProvider>, ModelError> {
        if let Some(script) = &self.instead {
            return Ok(Arc::clone(&script.model));
        }
        let name = profile.unwrap_or(DEFAULT);
        match (self.config(name), self.script()) {
            (Some(config), _) => self.made(name, config),
            (None, Some(script)) if name == DEFAULT => Ok(Arc::clone(&script.model)),
            (None, _) => Err(self.unknown(name)),
        }
    }
}

/// Counts the replies of models that a log records. Errors have no event of their own in a script: the attempts behind
/// them are consumed with the next reply. Replies of a deliberating workflow are recorded too, and are not counted.
#[must_use]
pub fn replies(events: &[StoredEvent]) -> usize {
    let mut deliberated: HashSet<u64> = HashSet::new();
    let mut count = 0;
    for StoredEvent { event, .. } in events {
        let span = event.place.span;
        match &event.body {
            EventBody::AgentLlmStarted { model, .. } if model.starts_with("workflow:") => {
                deliberated.insert(span);
            }
            EventBody::AgentLlmFinished { finish, .. } if finish != "error" => {
                count += usize::from(!deliberated.contains(&span));
            }
            _ => {}
        }
    }
    count
}
