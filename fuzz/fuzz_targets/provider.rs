//! Any bytes as the body of a model server, in each dialect: no panic, few calls, and memory that the bytes account for.
//!
//! The first byte chooses the dialect; the rest is the body.

#![no_main]

use libfuzzer_sys::fuzz_target;
use llm_provider::{ProviderKind, read_body};

const KINDS: [ProviderKind; 5] = [
    ProviderKind::OpenAi,
    ProviderKind::OpenAiResponses,
    ProviderKind::Anthropic,
    ProviderKind::Gemini,
    ProviderKind::Ollama,
];

fuzz_target!(|input: &[u8]| {
    let [choice, body @ ..] = input else { return };
    let kind = KINDS[usize::from(*choice) % KINDS.len()];
    if let Ok(answer) = futures::executor::block_on(read_body(kind, body)) {
        assert!(answer.tool_calls.len() <= 256, "calls are capped where they are collected");
        assert!(answer.text.len() <= 4 * body.len(), "text comes from the body");
    }
});
