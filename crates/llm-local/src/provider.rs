//! The model as all models are.

use std::fmt;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use agent_types::{Clock, SystemClock};
use async_trait::async_trait;
use futures::{StreamExt, stream};
use llm_provider::{GrammarForm, LlmError, LlmProvider, LlmRequest, LlmStream, ModelInfo, ModelParameters};
use tokio::sync::mpsc;

use crate::LocalError;
use crate::known::Weights;
use crate::worker::{Job, work};
use crate::write::Figures;

/// Events that wait for whoever reads them; the model waits when there are more.
const WAITING: usize = 64;

/// Most tokens of an answer where nothing is set: a small model that is left free may never stop.
const MOST_TOKENS: u32 = 512;

/// Most tokens that a prompt and its answer hold where nothing is set.
const CONTEXT: usize = 8_192;

/// How a model in the process runs.
#[derive(Debug, Clone)]
pub struct LocalOptions {
    /// Settings of every request. Without a temperature the likeliest token is taken each time.
    pub parameters: ModelParameters,
    /// Threads that it reckons with, at least one.
    pub threads: usize,
    /// Most tokens that a prompt and its answer hold together; the model's own context at most.
    pub context_window: usize,
    /// Whether it asks for a grammar of what it may answer.
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

/// A model in the process. It answers one request after the other, on a thread of its own that ends with it.
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
    /// Begins to load a model. What is wrong with the file is told to whoever asks the model.
    ///
    /// # Errors
    /// There is no thread to be had.
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

    /// What the last answer took that was written to its end.
    #[must_use]
    pub fn figures(&self) -> Option<Figures> {
        *self.figures.lock().unwrap_or_else(PoisonError::into_inner)
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
