//! Models in the process, where the program was built with them.

use std::path::Path;
use std::sync::Arc;

use agent_types::Clock;
use llm_provider::{GuardedModel, ModelConfig, ModelError};

/// Begins to load the model of an entry; paths count from `root`.
#[cfg(feature = "local-llm")]
pub(crate) fn start(
    config: &ModelConfig,
    root: &Path,
    clock: Arc<dyn Clock>,
) -> Result<GuardedModel, ModelError> {
    use llm_local::{LocalError, LocalModel, LocalOptions, weights};

    let fault = |error: LocalError| ModelError::Local {
        model: config.model.clone(),
        message: error.to_string(),
        help: error.help(),
    };
    let weights = weights(&config.model, root).map_err(fault)?;
    let usual = LocalOptions::default();
    let whole = |number: u64| usize::try_from(number).ok();
    let options = LocalOptions {
        parameters: config.parameters(),
        threads: config.threads.and_then(|threads| whole(threads.get().into())).unwrap_or(usual.threads),
        context_window: config.context_window.and_then(whole).unwrap_or(usual.context_window),
        constrain: config.constrain.unwrap_or(usual.constrain),
        clock: Arc::clone(&clock),
    };
    let model = LocalModel::start(weights, options).map_err(fault)?;
    // It answers one request after the other, and waiting for one's turn is no silence of the model.
    let policy = llm_provider::CallPolicy { max_parallel: Some(1), ..config.policy() };
    Ok(GuardedModel::new(Arc::new(model), policy, clock))
}

/// The program was built without them.
#[cfg(not(feature = "local-llm"))]
pub(crate) fn start(config: &ModelConfig, _: &Path, _: Arc<dyn Clock>) -> Result<GuardedModel, ModelError> {
    Err(ModelError::NoLocal { model: config.model.clone() })
}
