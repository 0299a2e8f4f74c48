//! Models in the process: a tiny one of chance numbers, and the real one where its weights are.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod answers;
mod held;
mod real;
mod tiny;

use llm_local::{LocalModel, LocalOptions, Weights};
use llm_provider::{LlmRequest, Message, ModelParameters};
use tempfile::TempDir;

/// The tiny model, and the folder that holds its file.
fn tiny_model(seed: u64, options: LocalOptions) -> (LocalModel, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    tiny::write_model(&path, seed, tiny::Defects::default());
    let weights = Weights { name: "tiny".into(), path };
    (LocalModel::start(weights, options).unwrap(), folder)
}

/// A question with its own settings.
fn question(text: &str, parameters: ModelParameters) -> LlmRequest {
    LlmRequest::new(vec![Message::system("Be brief."), Message::user(text)]).with_parameters(parameters)
}

fn parameters(max_tokens: u32) -> ModelParameters {
    ModelParameters { max_tokens: Some(max_tokens), ..ModelParameters::default() }
}
