//! The store of a project's runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use agent_types::{Redactor, RunId};
use llm_provider::ModelConfig;
use run_store::{Sqlite, Store, StoreError, StoreOptions};

use crate::error::ProjectError;
use crate::project::Project;
use crate::settings::SyncSetting;

impl Project {
    /// Opens the store of the project's runs.
    pub(crate) fn open_store(&self) -> Result<Store, StoreError> {
        let settings = &self.settings().store;
        let path = self.root().join(&settings.path);
        let sync = match settings.sync {
            SyncSetting::Full => run_store::Sync::Full,
            SyncSetting::Normal => run_store::Sync::Normal,
        };
        let options = StoreOptions {
            secrets: self.secrets(),
            log_bytes: settings.log_mib << 20,
            locks: Some(path.with_extension("locks")),
        };
        Store::new(Arc::new(Sqlite::open(&path, sync)?), options)
    }

    /// Masks of all secrets that the project knows.
    #[must_use]
    pub fn redactor(&self) -> Redactor {
        Redactor::new(self.secrets())
    }

    /// Keys of models, values of the environment that are such keys, and what tools and servers are given.
    fn secrets(&self) -> Vec<String> {
        let usual = ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"];
        let usual = usual.iter().filter_map(|name| std::env::var(name).ok());
        let named = self.settings().models.values().filter_map(ModelConfig::secret);
        usual.chain(named).chain(self.named_secrets()).collect::<BTreeSet<String>>().into_iter().collect()
    }

    /// The store, which a command about runs cannot do without.
    ///
    /// # Errors
    /// The project keeps no runs, or the store cannot be used.
    pub fn required_store(&self, run: &RunId) -> Result<&Store, ProjectError> {
        let none = || StoreError::UnknownRun { run: run.to_string() };
        Ok(self.store()?.ok_or_else(none)?)
    }
}
