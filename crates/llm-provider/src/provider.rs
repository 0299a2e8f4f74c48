//! The trait that models implement.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use agent_types::Usage;
use async_trait::async_trait;
use futures::{Stream, StreamExt};

use crate::{GrammarForm, LlmError, LlmEvent, LlmRequest, ModelError, StandardResponse};

/// An answer as it comes. Dropping it drops the connection.
pub type LlmStream = Pin<Box<dyn Stream<Item = Result<LlmEvent, LlmError>> + Send>>;

/// Properties of a model.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact")]
pub struct ModelInfo {
    /// Name as the provider knows it.
    pub name: String,
    /// Name of its entry in the settings, where it has one.
    pub entry: Option<String>,
    /// Address that requests go to, without what may be secret in it.
    pub address: Option<String>,
    /// Offers tools in the provider's native form: set in the model's entry.
    pub native_tools: bool,
    /// Reads images.
    pub images: bool,
    /// Reads PDF files.
    pub documents: bool,
    /// Reasons before it answers.
    pub reasoning: bool,
    /// It is known not to reason, so that nothing behind a block of calls can take the block back: a reply may be cut there.
    pub cuts_replies: bool,
    /// The end of a block of calls is sent as a text to stop at.
    pub stop_at_block: bool,
    /// Tokens that a request and its answer may hold together.
    pub context_window: Option<u64>,
    /// Most tokens that it writes in an answer, where its entry says so.
    pub max_tokens: Option<u32>,
    /// Dollars for a million tokens read.
    pub price_in: Option<f64>,
    /// Dollars for a million tokens read out of the provider's cache; those of `price_in` by default.
    pub price_cached: Option<f64>,
    /// Dollars for a million tokens written into the provider's cache; those of `price_in` by default.
    pub price_cache_write: Option<f64>,
    /// Dollars for a million tokens written.
    pub price_out: Option<f64>,
    /// Marks the prefix of requests for the provider's cache, where the wire form has marks.
    pub prompt_cache: bool,
    /// Provider and name, by which reasoning is kept apart from that of other models.
    pub source: String,
    /// The form in which it takes a grammar of what it may answer; absent, it answers freely.
    pub grammar: Option<GrammarForm>,
    /// Needs a grammar with tight bounds, because a very small model would otherwise not end its output.
    pub small: bool,
    /// Takes its answers from a script.
    pub scripted: bool,
}

impl ModelInfo {
    /// Name of the model that plays a script, in events.
    pub const SCRIPTED: &'static str = "scripted";

    /// Describes a failed request: the error, the model's entry and address, and the fix.
    #[must_use]
    pub fn describe(&self, error: &LlmError) -> String {
        let Some(address) = &self.address else { return error.to_string() };
        let entry = match &self.entry {
            Some(entry) => format!("[models.{entry}]"),
            None => "set by the environment".to_owned(),
        };
        let fix = error.fix().map(|fix| format!(": {fix}")).unwrap_or_default();
        format!("{error} (model `{}`, {entry}, at {address}{fix})", self.name)
    }

    /// Cost of tokens, in millionths of a dollar; 0 where the prices are not known.
    #[must_use]
    pub fn cost_micros(&self, usage: Usage) -> u64 {
        // A price for a million tokens is a price in millionths of a dollar for one.
        let fresh = usage.input.saturating_sub(usage.cached).saturating_sub(usage.cache_written);
        price(fresh, self.price_in)
            + price(usage.cached, self.price_cached.or(self.price_in))
            + price(usage.cache_written, self.price_cache_write.or(self.price_in))
            + price(usage.output, self.price_out)
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a price times tokens, far below what a double counts exactly"
)]
fn price(tokens: u64, millionth: Option<f64>) -> u64 {
    millionth.map_or(0, |price| (tokens as f64 * price.max(0.0)).round() as u64)
}

/// A language model.
#[async_trait]
pub trait LlmProvider: Send + Sync + fmt::Debug {
    /// Returns the properties of the model.
    fn info(&self) -> &ModelInfo;

    /// Asks the model. The stream ends with [`LlmEvent::Finished`] or an error.
    ///
    /// # Errors
    /// What goes wrong before the first token; it may come in the stream as well, as later faults do.
    ///
    /// # Cancel safety
    /// Dropping the future or the stream drops the connection, and ends every wait.
    async fn stream(&self, request: LlmRequest) -> Result<LlmStream, LlmError>;
}

/// Sends a request and waits for the whole answer.
///
/// # Errors
/// Those of [`LlmProvider::stream`], and a stream that ends without an answer.
pub async fn complete(
    provider: &(impl LlmProvider + ?Sized),
    request: LlmRequest,
) -> Result<StandardResponse, LlmError> {
    let mut stream = provider.stream(request).await?;
    while let Some(event) = stream.next().await {
        if let LlmEvent::Finished(response) = event? {
            return Ok(response);
        }
    }
    Err(LlmError::Stream { message: "it ended without an answer".into() })
}

/// Lookup of models by the name of their entry.
pub trait ModelSource: Send + Sync + fmt::Debug {
    /// The model of an entry; `None` asks for the default one.
    ///
    /// # Errors
    /// No such entry, or it lacks what the model needs.
    fn model(&self, profile: Option<&str>) -> Result<Arc<dyn LlmProvider>, ModelError>;
}

/// One model under every name.
#[derive(Debug, Clone)]
pub struct SingleModel(Arc<dyn LlmProvider>);

impl SingleModel {
    /// A source that always gives `model`.
    #[must_use]
    pub fn new(model: Arc<dyn LlmProvider>) -> Self {
        Self(model)
    }
}

impl ModelSource for SingleModel {
    fn model(&self, _: Option<&str>) -> Result<Arc<dyn LlmProvider>, ModelError> {
        Ok(Arc::clone(&self.0))
    }
}
