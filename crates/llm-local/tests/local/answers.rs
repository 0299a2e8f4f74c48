//! Loading, streaming, stopping, counting, giving up.

use std::path::PathBuf;

use futures::StreamExt;
use llm_local::{LocalModel, LocalOptions, Weights, weights};
use llm_provider::{
    Constraint, Finish, GrammarForm, LlmError, LlmEvent, LlmProvider, ModelParameters, complete,
};

use super::tiny::{Defects, write_model};
use super::{parameters, question, tiny_model};

#[tokio::test]
async fn an_answer_comes_in_pieces_and_is_counted() {
    let (model, _folder) = tiny_model(1, LocalOptions::default());
    let mut stream = model.stream(question("Hi", parameters(20))).await.unwrap();
    let (mut text, mut last) = (String::new(), None);
    while let Some(event) = stream.next().await {
        match event.unwrap() {
            LlmEvent::Text(piece) => text.push_str(&piece),
            LlmEvent::Finished(answer) => last = Some(answer),
            other => panic!("{other:?}"),
        }
    }
    let answer = last.unwrap();
    assert_eq!(answer.text, text);
    assert!(answer.usage.output <= 20 && answer.usage.input > 10, "{:?}", answer.usage);
    assert_eq!(answer.finish, if answer.usage.output == 20 { Finish::Length } else { Finish::Stop });
}

#[tokio::test]
async fn the_same_question_has_the_same_answer_whatever_was_asked_before() {
    let (model, _folder) = tiny_model(2, LocalOptions::default());
    let first = complete(&model, question("One", parameters(30))).await.unwrap();
    complete(&model, question("Something else that is longer", parameters(30))).await.unwrap();
    // More than the cache has places at first, so that it grows.
    complete(&model, question(&"long ".repeat(300), parameters(30))).await.unwrap();
    let again = complete(&model, question("One", parameters(30))).await.unwrap();
    assert_eq!(first, again);
    let figures = model.figures().unwrap();
    assert!(figures.known > 5 && figures.known < figures.prompt, "{figures:?}");
}

#[tokio::test]
async fn threads_change_nothing() {
    let (one, _folder) = tiny_model(3, LocalOptions::default());
    let (two, _other) = tiny_model(3, LocalOptions { threads: 2, ..LocalOptions::default() });
    let (one, two) = futures::join!(
        complete(&one, question("Hi", parameters(30))),
        complete(&two, question("Hi", parameters(30)))
    );
    assert_eq!(one.unwrap(), two.unwrap());
}

#[tokio::test]
async fn it_stops_at_a_stop_text() {
    let (model, _folder) = tiny_model(4, LocalOptions::default());
    let whole = complete(&model, question("Hi", parameters(60))).await.unwrap().text;
    let letters: Vec<char> = whole.chars().collect();
    let stop: String = letters[letters.len() / 2..].iter().take(2).collect();
    let stopped = ModelParameters { stop: vec![stop.clone()], ..parameters(60) };
    let answer = complete(&model, question("Hi", stopped)).await.unwrap();
    assert_eq!(Some(answer.text.as_str()), whole.split(&stop).next());
    assert_eq!(answer.finish, Finish::Stop);
}

#[tokio::test]
async fn a_dropped_answer_makes_room_for_the_next() {
    let (model, _folder) = tiny_model(5, LocalOptions::default());
    let endless = ModelParameters { temperature: Some(1.0), ..parameters(4_000) };
    let mut stream = model.stream(question("Hi", endless)).await.unwrap();
    stream.next().await.unwrap().unwrap();
    drop(stream);
    let answer = complete(&model, question("Hi", parameters(3))).await.unwrap();
    assert!(answer.usage.output <= 3);
}

#[tokio::test]
async fn chance_hangs_on_the_seed() {
    let (model, _folder) = tiny_model(6, LocalOptions::default());
    let seeded = |seed| ModelParameters { temperature: Some(1.5), seed: Some(seed), ..parameters(30) };
    let mut texts = Vec::new();
    for seed in [1, 2, 1] {
        texts.push(complete(&model, question("Hi", seeded(seed))).await.unwrap().text);
    }
    assert_eq!(texts[0], texts[2]);
    assert_ne!(texts[0], texts[1]);
}

#[tokio::test]
async fn a_prompt_that_is_too_long_is_refused() {
    let (model, _folder) = tiny_model(7, LocalOptions { context_window: 64, ..LocalOptions::default() });
    let error = complete(&model, question(&"word ".repeat(40), parameters(9))).await.unwrap_err();
    assert_eq!(error.code(), "bad_request");
    assert!(error.to_string().contains("the model holds 64"), "{error}");
    let answer = complete(&model, question("Hi", parameters(200))).await.unwrap();
    assert_eq!(answer.usage.input + answer.usage.output, 64, "{answer:?}");
    assert_eq!(answer.finish, Finish::Length);
}

#[tokio::test]
async fn another_form_of_grammar_is_refused() {
    let (model, _folder) = tiny_model(8, LocalOptions::default());
    let gbnf = Constraint { form: GrammarForm::Gbnf, text: "root ::= \"a\"".into() };
    let request = question("Hi", parameters(9)).with_constraint(Some(gbnf));
    assert_eq!(complete(&model, request).await.unwrap_err().code(), "bad_request");
    let broken = Constraint { form: GrammarForm::Lark, text: "start: nothing".into() };
    let request = question("Hi", parameters(9)).with_constraint(Some(broken));
    assert!(complete(&model, request).await.unwrap_err().to_string().contains("grammar"));
}

/// Error message for a changed file.
async fn fault(change: impl FnOnce(&std::path::Path)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("odd.gguf");
    change(&path);
    let model = LocalModel::start(Weights { name: "odd".into(), path }, LocalOptions::default()).unwrap();
    match complete(&model, question("Hi", parameters(3))).await {
        Err(LlmError::Request { message }) => message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn files_that_cannot_be_used_say_why() {
    let odd = |defects: Defects| move |path: &std::path::Path| write_model(path, 1, defects);
    let usual = Defects::default();
    for (message, expected) in [
        (fault(odd(Defects { architecture: Some("qwen2"), ..usual })).await, "`qwen2`"),
        (fault(odd(Defects { cut: Some("unheard-of"), ..usual })).await, "`unheard-of`"),
        (fault(odd(Defects { without_marks: true, ..usual })).await, "<|im_start|>"),
        (fault(|path| std::fs::write(path, "no model").unwrap()).await, "odd.gguf"),
        (fault(|path| std::fs::write(path, "").unwrap()).await, "odd.gguf"),
    ] {
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn weights_are_named_or_a_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine.gguf"), "x").unwrap();
    let found = weights("mine.gguf", folder.path()).unwrap();
    assert_eq!((found.name.as_str(), found.path), ("mine", folder.path().join("mine.gguf")));
    let missing = weights("smolm2", &PathBuf::from("/nowhere")).unwrap_err();
    assert_eq!(missing.code(), "unknown_weights");
}
