//! The model as all models are.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use agent_types::{Clock, SystemClock};
use async_trait::async_trait;
use futures::{StreamExt, stream};
use llm_provider::{GrammarForm, LlmError, LlmProvider, LlmRequest, LlmStream, ModelInfo, ModelParameters};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::LocalError;
use crate::known::Weights;
use crate::worker::{Job, work};
use crate::write::Figures;

/// Capacity of the channel to the reader; the model waits when it is full.
const WAITING: usize = 64;

/// Most tokens of an answer where nothing is set: a small model that is left free may never stop.
const MOST_TOKENS: u32 = 512;

/// Default maximum of tokens in a prompt and its answer together.
const CONTEXT: usize = 8_192;

/// Settings of a model in the process.
#[derive(Debug, Clone)]
pub struct LocalOptions {
    /// Settings of every request. Without a temperature the likeliest token is taken each time.
    pub parameters: ModelParameters,
    /// Threads that it reckons with, at least one.
    pub threads: usize,
    /// Maximum of tokens in a prompt and its answer together; limited by the model's own context.
    pub context_window: usize,
    /// Enables grammars that constrain the answers.
    pub constrain: bool,
    /// Stands still, where it is virtual, while the model works.
    pub clock: Arc<dyn Clock>,
}

impl Default for LocalOptions {
    fn default() -> Self {
        Self {
            parameters: ModelParameters::default(),
            threads: 1,
            context_window: CONTEXT,
            constrain: true,
            clock: Arc::new(SystemClock),
        }
    }
}

/// Model in the process. It answers requests one after the other on a separate thread, which ends with it.
pub struct LocalModel {
    info: ModelInfo,
    parameters: ModelParameters,
    clock: Arc<dyn Clock>,
    jobs: Sender<Job>,
    figures: Arc<Mutex<Option<Figures>>>,
}

impl fmt::Debug for LocalModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalModel").field("info", &self.info).finish_non_exhaustive()
    }
}

impl LocalModel {
    /// Starts to load a model. A fault of the file is returned to each request.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub fn start(weights: Weights, options: LocalOptions) -> Result<Self, LocalError> {
        let LocalOptions { parameters, threads, context_window, constrain, clock } = options;
        let mut info = ModelInfo::default();
        info.name.clone_from(&weights.name);
        info.context_window = u64::try_from(context_window).ok();
        info.grammar = constrain.then_some(GrammarForm::Lark);
        info.small = true;
        let path = weights.path.clone();
        let fault = |message: String| LocalError::File { path: path.clone(), message };
        // All arithmetic happens in this pool, so that no more threads than these are busy.
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads.max(1))
            .thread_name(|index| format!("llm-local {index}"))
            .build()
            .map_err(|error| fault(error.to_string()))?;
        let (jobs, waiting) = channel();
        let figures: Arc<Mutex<Option<Figures>>> = Arc::default();
        let taken = Arc::clone(&figures);
        thread::Builder::new()
            .name("llm-local".into())
            .spawn(move || pool.install(move || work(&weights, context_window, waiting, &taken)))
            .map_err(|error| fault(error.to_string()))?;
        let parameters =
            ModelParameters { max_tokens: parameters.max_tokens.or(Some(MOST_TOKENS)), ..parameters };
        Ok(Self { info, parameters, clock, jobs, figures })
    }

    /// Figures of the last complete answer.
    #[must_use]
    pub fn figures(&self) -> Option<Figures> {
        *self.figures.lock()
    }
}

#[async_trait]
impl LlmProvider for LocalModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn stream(&self, request: LlmRequest) -> Result<LlmStream, LlmError> {
        let grammar = match request.constraint {
            None => None,
            Some(constraint) if constraint.form == GrammarForm::Lark => Some(constraint.text),
            Some(constraint) => {
                let message = format!("a model in the process takes Lark, not {:?}", constraint.form);
                return Err(LlmError::Request { message });
            }
        };
        let (answer, events) = mpsc::channel(WAITING);
        let parameters = self.parameters.clone().overridden_by(&request.parameters);
        let job = Job { messages: request.messages, grammar, parameters, answer };
        let gone = |_| LlmError::Disconnected { message: "the model's thread has ended".into() };
        self.jobs.send(job).map_err(gone)?;
        let busy = self.clock.busy();
        Ok(stream::unfold((events, busy), |(mut events, busy)| async move {
            let event = events.recv().await?;
            Some((event, (events, busy)))
        })
        .boxed())
    }
}
