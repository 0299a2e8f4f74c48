//! Requests as sent: the same request in the form of each provider.

use std::sync::Arc;

use agent_types::{SystemClock, ToolSpec};
use llm_provider::{
    Attachment, Constraint, GrammarForm, LlmProvider, LlmRequest, Message, ModelConfig, ModelParameters,
    NativeCall, ProviderKind,
};
use serde_json::{Value, json};

use super::entry;
use super::stub::{Answer, Stub};

/// The path and the body of a request.
pub(crate) async fn sent(
    kind: ProviderKind,
    change: impl FnOnce(&mut ModelConfig),
    request: LlmRequest,
) -> (String, Value) {
    let stub = Stub::serve([Answer::status(400, "{}")]).await;
    let mut config = entry(kind, &stub);
    change(&mut config);
    let model = config.connect(Arc::new(SystemClock)).unwrap();
    llm_provider::complete(&model, request).await.unwrap_err();
    let seen = stub.seen().remove(0);
    let path = seen.head.split(' ').nth(1).unwrap().to_owned();
    (path, seen.body)
}

fn conversation() -> LlmRequest {
    let call = NativeCall::new("c1", "add", r#"{"a": 1}"#);
    let messages = vec![
        Message::system("Be brief."),
        Message::user("Add."),
        Message::Assistant { text: "I add.".into(), calls: vec![call] },
        Message::Tool { call: "c1".into(), name: "add".into(), text: "3".into() },
    ];
    let tool = ToolSpec {
        name: "add".into(),
        description: "Adds.".into(),
        parameters: json!({"type": "object", "properties": {"a": {"type": "integer"}}}),
    };
    LlmRequest::new(messages).with_tools(vec![tool])
}

#[tokio::test]
async fn a_conversation_with_a_call_has_each_providers_form() {
    for (kind, name) in [
        (ProviderKind::OpenAi, "openai"),
        (ProviderKind::OpenAiResponses, "openai-responses"),
        (ProviderKind::Anthropic, "anthropic"),
        (ProviderKind::Gemini, "gemini"),
        (ProviderKind::Ollama, "ollama"),
    ] {
        let (path, body) = sent(kind, |_| {}, conversation()).await;
        insta::assert_json_snapshot!(name, json!({"path": path, "body": body}));
    }
}

#[tokio::test]
async fn settings_of_the_entry_and_of_the_request_are_sent() {
    let parameters = ModelParameters { temperature: Some(0.5), ..ModelParameters::default() };
    let request =
        super::request().with_parameters(parameters).with_response_schema(json!({"type": "object"}));
    let (_, body) = sent(
        ProviderKind::OpenAi,
        |config| {
            config.temperature = Some(0.0);
            config.max_tokens = Some(7);
            config.seed = Some(3);
            config.extra.insert("grammar".into(), "root ::= \"a\"".into());
        },
        request,
    )
    .await;
    assert_eq!(body["temperature"], 0.5);
    assert_eq!((&body["max_tokens"], &body["seed"]), (&json!(7), &json!(3)));
    assert_eq!(body["grammar"], "root ::= \"a\"");
    assert_eq!(body["response_format"]["type"], "json_schema", "{body}");
}

#[tokio::test]
async fn images_go_to_models_that_take_them_and_a_note_to_others() {
    let image = Attachment::from_base64("image/png", "aW1hZ2U=").with_name("cat.png");
    let request = LlmRequest::new(vec![Message::user_with("What is it?", vec![image])]);
    for (kind, pointer, expected) in [
        (ProviderKind::OpenAi, "/messages/0/content/1/image_url/url", "data:image/png;base64,aW1hZ2U="),
        (ProviderKind::OpenAiResponses, "/input/0/content/1/image_url", "data:image/png;base64,aW1hZ2U="),
        (ProviderKind::Anthropic, "/messages/0/content/1/source/data", "aW1hZ2U="),
        (ProviderKind::Gemini, "/contents/0/parts/1/inline_data/data", "aW1hZ2U="),
        (ProviderKind::Ollama, "/messages/0/images/0", "aW1hZ2U="),
    ] {
        let (_, body) = sent(kind, |config| config.images = Some(true), request.clone()).await;
        assert_eq!(body.pointer(pointer), Some(&json!(expected)), "{kind:?}: {body}");
        let (_, body) = sent(kind, |_| {}, request.clone()).await;
        let text = body.to_string();
        assert!(text.contains("cat.png, image/png: this model cannot read it"), "{kind:?}: {text}");
        assert!(!text.contains("aW1hZ2U="), "{kind:?}: {text}");
    }
}

#[tokio::test]
async fn marks_of_a_call_go_back_to_gemini() {
    let call = NativeCall { signatures: vec!["c2ln".into()], ..NativeCall::new("c1", "add", "{}") };
    let messages = vec![
        Message::user("Add."),
        Message::Assistant { text: String::new(), calls: vec![call] },
        Message::Tool { call: "c1".into(), name: "add".into(), text: "3".into() },
    ];
    let (_, body) = sent(ProviderKind::Gemini, |_| {}, LlmRequest::new(messages)).await;
    assert!(body.to_string().contains(r#""thoughtSignature":"c2ln""#), "{body}");
}

#[test]
fn what_is_known_of_a_model_stands_in_its_info() {
    let config = ModelConfig {
        base_url: Some("http://127.0.0.1:1".into()),
        ..ModelConfig::new(ProviderKind::OpenAi, "gpt-4o")
    };
    let model = config.connect(Arc::new(SystemClock)).unwrap();
    let info = model.info();
    assert!(info.images && info.documents && !info.native_tools && !info.scripted);
}

/// The body of a request that carries a grammar in this form, byte for byte.
async fn constrained(form: GrammarForm, text: &str) -> String {
    let stub = Stub::serve([Answer::status(400, "{}")]).await;
    let config =
        ModelConfig { constrain: Some(true), grammar: Some(form), ..entry(ProviderKind::OpenAi, &stub) };
    let model = config.connect(Arc::new(SystemClock)).unwrap();
    assert_eq!(model.info().grammar, Some(form));
    let request = super::request().with_constraint(Some(Constraint { form, text: text.into() }));
    llm_provider::complete(&model, request).await.unwrap_err();
    stub.seen().remove(0).raw
}

#[tokio::test]
async fn a_grammar_is_sent_in_the_form_of_the_setting() {
    let before = r#"{"model":"stub","stream":true,"messages":[{"role":"user","content":"hi"}],"stream_options":{"include_usage":true},"#;
    for (form, text, expected) in [
        (GrammarForm::Gbnf, "root ::= \"a\"\n", r#""grammar":"root ::= \"a\"\n"}"#),
        (GrammarForm::Lark, "start: \"a\"\n", r#""grammar":"%llguidance {}\nstart: \"a\"\n"}"#),
        (
            GrammarForm::StructuralTag,
            r#"{"type":"structural_tag","format":{"type":"any_text"}}"#,
            r#""response_format":{"type":"structural_tag","format":{"type":"any_text"}}}"#,
        ),
    ] {
        assert_eq!(constrained(form, text).await, format!("{before}{expected}"));
    }
}

#[test]
fn a_grammar_that_no_server_would_take_is_an_error() {
    let config = ModelConfig {
        constrain: Some(true),
        base_url: Some("http://127.0.0.1:1".into()),
        ..ModelConfig::new(ProviderKind::Ollama, "m")
    };
    assert_eq!(config.connect(Arc::new(SystemClock)).unwrap_err().code(), "no_grammar");
    let config = ModelConfig::new(ProviderKind::Local, "smollm2");
    assert_eq!(config.connect(Arc::new(SystemClock)).unwrap_err().code(), "no_local_models");
}
