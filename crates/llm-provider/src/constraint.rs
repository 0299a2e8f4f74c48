//! Constraints on an answer while it is generated.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The form in which a model's server takes a grammar.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GrammarForm {
    /// GBNF under `grammar`: llama.cpp.
    #[default]
    Gbnf,
    /// A structural tag under `response_format`: vLLM, SGLang.
    StructuralTag,
    /// Lark for llguidance, under `grammar`: llama.cpp that was built with it, and models in the process.
    Lark,
}

/// A grammar that the whole answer must fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Constraint {
    /// The form of the text.
    pub form: GrammarForm,
    /// The grammar; a structural tag is JSON. Shared, because every request of a conversation carries it.
    pub text: Arc<str>,
}

/// First line that marks Lark for llama.cpp, in contrast to its native form.
const LARK_MARK: &str = "%llguidance {}\n";

impl Constraint {
    /// The fields that a request's body has for it.
    pub(crate) fn body(&self) -> Map<String, Value> {
        let (field, value) = match self.form {
            GrammarForm::Gbnf => ("grammar", Value::from(&*self.text)),
            GrammarForm::Lark => ("grammar", Value::from(format!("{LARK_MARK}{}", self.text))),
            GrammarForm::StructuralTag => {
                let tag = serde_json::from_str(&self.text).unwrap_or_else(|_| Value::from(&*self.text));
                ("response_format", tag)
            }
        };
        Map::from_iter([(field.to_owned(), value)])
    }
}
