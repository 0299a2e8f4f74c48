//! The thread that owns a model: it answers one request after the other.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use llm_provider::{LlmError, LlmEvent, Message, ModelParameters, StandardResponse};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::LocalError;
use crate::forward::Transformer;
use crate::gguf::Gguf;
use crate::grammar_guard::Grammars;
use crate::known::Weights;
use crate::prompt;
use crate::vocabulary::Vocabulary;
use crate::write::{Figures, Stopped, TokenSink, Writing};

/// One request.
pub(crate) struct Job {
    pub(crate) messages: Arc<Vec<Message>>,
    pub(crate) grammar: Option<Arc<str>>,
    pub(crate) parameters: ModelParameters,
    pub(crate) answer: mpsc::Sender<Result<LlmEvent, LlmError>>,
}

impl TokenSink for mpsc::Sender<Result<LlmEvent, LlmError>> {
    fn emit(&mut self, event: LlmEvent) -> bool {
        self.blocking_send(Ok(event)).is_ok()
    }

    fn is_there(&self) -> bool {
        !self.is_closed()
    }
}

/// A loaded model.
pub(crate) struct Loaded {
    model: Transformer,
    vocabulary: Vocabulary,
    grammars: Grammars,
}

impl Loaded {
    pub(crate) fn load(weights: &Weights, context: usize) -> Result<Self, LocalError> {
        let fault = |message: String| LocalError::File { path: weights.path.clone(), message };
        let file_error = |error: candle_core::Error| fault(error.to_string());
        let mut file = Gguf::open(&weights.path).map_err(file_error)?;
        let vocabulary = Vocabulary::read(&file).map_err(file_error)?;
        let model = Transformer::load(&mut file, context).map_err(file_error)?;
        let rows = model.vocabulary().map_err(file_error)?;
        if rows < vocabulary.len() {
            return Err(fault(format!("its vocabulary has {} tokens, its table {rows}", vocabulary.len())));
        }
        let grammars = Grammars::new(&vocabulary.environment()).map_err(fault)?;
        Ok(Self { model, vocabulary, grammars })
    }

    fn answer(&mut self, job: &mut Job) -> Result<(StandardResponse, Figures), Stopped> {
        let prompt = prompt::tokens(&job.messages, &self.vocabulary);
        let mut figures = Figures::default();
        let guard = match &job.grammar {
            None => None,
            Some(lark) => {
                let refused = |message: String| {
                    Stopped::Failed(LlmError::Request { message: format!("its grammar: {message}") })
                };
                let (guard, compiling) = self.grammars.begin(lark).map_err(refused)?;
                figures.compiling = compiling;
                Some(guard)
            }
        };
        let writing = Writing {
            model: &mut self.model,
            vocabulary: &self.vocabulary,
            guard,
            parameters: &job.parameters,
            sink: &mut job.answer,
            figures,
        };
        writing.run(&prompt)
    }
}

/// Answers requests until the channel closes. A model that cannot be loaded returns its error to each request.
pub(crate) fn work(weights: &Weights, context: usize, jobs: Receiver<Job>, figures: &Mutex<Option<Figures>>) {
    let mut loaded = Loaded::load(weights, context);
    for mut job in jobs {
        let model = match &mut loaded {
            Ok(model) => model,
            Err(error) => {
                let error = LlmError::Request { message: error.to_string() };
                // The client may have left.
                let _ = job.answer.blocking_send(Err(error));
                continue;
            }
        };
        match model.answer(&mut job) {
            Ok((answer, taken)) => {
                *figures.lock() = Some(taken);
                // The client may have left before the end.
                job.answer.emit(LlmEvent::Finished(answer));
            }
            Err(Stopped::ReceiverGone) => {}
            Err(Stopped::Failed(error)) => {
                let _ = job.answer.blocking_send(Err(error));
            }
        }
    }
}
