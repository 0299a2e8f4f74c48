//! Parts that drive a run.

use std::sync::Arc;

use llm_provider::{LlmProvider, ModelParameters};
use tool_registry::ToolSource;

use super::answer_schema::AnswerSchema;
use super::context::RunContext;
use super::deliberate::Deliberator;
use super::offer::ToolOffer;
use super::stop::is_metered;
use crate::guardrail::Guardrail;
use crate::machine::Rules;
use crate::prompt::text::Protocol;

/// Everything that a run needs and does not change.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) context: RunContext,
    pub(crate) model: Arc<dyn LlmProvider>,
    /// Author of the replies: the model, or its replacement.
    pub(crate) deliberator: Arc<dyn Deliberator>,
    /// The author of the replies is not the model.
    pub(crate) is_replaced: bool,
    pub(crate) source: Arc<dyn ToolSource>,
    /// The tools of the beginning.
    pub(crate) offer: ToolOffer,
    pub(crate) protocol: Protocol,
    pub(crate) parameters: ModelParameters,
    pub(crate) answers: Option<AnswerSchema>,
    pub(crate) guardrails: Vec<Arc<dyn Guardrail>>,
}

impl Driver {
    /// Rules of the run for its machine.
    pub(super) fn rules(&self) -> Rules {
        let RunContext { profile, approval, budget, inside, .. } = &self.context;
        let is_guarded = !self.guardrails.is_empty();
        Rules {
            profile: Arc::clone(profile),
            approval: *approval,
            frame: self.context.frame(),
            inside: inside.clone(),
            asks_as: self.deliberator.asks_as(),
            is_guarded,
            judges_text: is_guarded || self.answers.is_some(),
            judges_values: self.answers.is_some(),
            corrections: budget.limits().corrections,
            is_replaced: self.is_replaced,
            is_metered: is_metered(budget),
        }
    }
}
