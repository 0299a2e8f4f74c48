//! The real model, where its weights are.

use llm_local::{LocalModel, LocalOptions, Weights, known_models, weights};
use llm_provider::{LlmRequest, Message, complete};
use std::path::Path;

/// The weights; a line says so where they are not.
fn fetched() -> Option<Weights> {
    let found = weights(known_models()[0].id, Path::new("."));
    if let Err(error) = &found {
        eprintln!("SKIPPED: {error}; {}", error.help());
    }
    found.ok()
}

#[tokio::test]
async fn it_answers_a_question() {
    let Some(weights) = fetched() else { return };
    known_models()[0].check(&weights.path).unwrap();
    let model = LocalModel::start(weights, LocalOptions::default()).unwrap();
    let request = LlmRequest::new(vec![Message::user("What is the capital of France?")]);
    let answer = complete(&model, request).await.unwrap();
    assert!(answer.text.contains("Paris"), "{}", answer.text);
}
