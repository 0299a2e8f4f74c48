//! The models of a project, and the project for one of many runs.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use agent_types::Clock;
use http_caller::HttpCaller;
use llm_provider::{ModelSource, ScriptedModel};
use run_store::Store;
use workflow_engine::Services;

use super::Project;
use crate::error::ProjectError;
use crate::files::read_file;
use crate::models::ProjectModels;
use crate::options::ProjectOptions;
use crate::settings::Settings;

impl Project {
    /// The project for one run of a process that has many: a script is played to each from its beginning.
    ///
    /// # Errors
    /// A script cannot be read.
    pub fn for_one_run(self: &Arc<Self>) -> Result<Arc<Self>, ProjectError> {
        if !self.is_scripted() {
            return Ok(Arc::clone(self));
        }
        let models = models_of(&self.root, &self.settings, &self.options)?;
        let source: Arc<dyn ModelSource> = Arc::clone(&models) as Arc<dyn ModelSource>;
        let services = self.services.clone().with::<dyn ModelSource>(source);
        Ok(Arc::new(Self { models, services, ..Self::clone(self) }))
    }

    /// The project for the replay of a recorded run: without a model, and with a store that is gone with the process.
    ///
    /// # Errors
    /// The store could not be started.
    pub fn for_replay(&self, clock: Arc<dyn Clock>) -> Result<Self, ProjectError> {
        let (root, silent) = (self.root.clone(), Some(Arc::new(ScriptedModel::new(Vec::new()))));
        let entries = self.settings.models.clone();
        let models = ProjectModels::new(entries, None, None, silent, Arc::clone(&clock), root);
        let models = Arc::new(models);
        let source: Arc<dyn ModelSource> = Arc::clone(&models) as Arc<dyn ModelSource>;
        let services = self.services.clone().with::<dyn ModelSource>(source);
        let store = Arc::new(OnceLock::from(Store::memory()?));
        Ok(Self { models, services, clock, store, keeps_runs: true, ..self.clone() })
    }

    /// Returns `true` if replies are played from a script.
    #[must_use]
    pub fn is_scripted(&self) -> bool {
        self.models.is_scripted()
    }
}

/// The models that settings, the environment and scripts name.
pub(super) fn models_of(
    root: &Path,
    settings: &Settings,
    options: &ProjectOptions,
) -> Result<Arc<ProjectModels>, ProjectError> {
    let scripted = |path: &Path| -> Result<Arc<ScriptedModel>, ProjectError> {
        let model = ScriptedModel::from_jsonl(&read_file(path)?)
            .map_err(|source| ProjectError::Script { path: path.to_owned(), source })?;
        Ok(Arc::new(model.with_clock(Arc::clone(&options.clock))))
    };
    Ok(Arc::new(ProjectModels::new(
        settings.models.clone(),
        options.environment.clone(),
        settings.script.as_ref().map(|script| scripted(&root.join(script))).transpose()?,
        options.script.as_deref().map(scripted).transpose()?,
        Arc::clone(&options.clock),
        root.to_owned(),
    )))
}

/// Services of nodes.
pub(super) fn services_of(models: &Arc<ProjectModels>, caller: &HttpCaller) -> Services {
    let source: Arc<dyn ModelSource> = Arc::clone(models) as Arc<dyn ModelSource>;
    Services::new().with::<dyn ModelSource>(source).with(Arc::new(caller.clone()))
}
