//! The example project with the real model in the process, where its weights are.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fs;
use std::path::Path;

use agent_runtime::AgentState;
use agent_types::{Delivery, EventBody, ExitReason};
use llm_local::{known_models, weights};
use llm_provider::ModelError;
use weft_project::{Project, ProjectError, ProjectOptions};

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The example project with this entry of a model, and nothing of the environment.
fn desk(root: &Path, entry: &str) -> Project {
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/desk"), root);
    let settings = fs::read_to_string(root.join("weft.toml")).unwrap();
    fs::write(
        root.join("weft.toml"),
        format!("{settings}\n[models.default]\nprovider = \"local\"\n{entry}\n"),
    )
    .unwrap();
    let mut options = ProjectOptions::default();
    options.environment = None;
    Project::open(root, &options).unwrap()
}

#[tokio::test]
async fn the_desk_answers_with_a_model_in_the_process() {
    if let Err(error) = weights(known_models()[0].id, Path::new(".")) {
        eprintln!("SKIPPED, the desk was not asked: {error}; {}", error.help());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let project = desk(folder.path(), "model = \"smollm2\"");
    let agent = project.agent("desk").unwrap();
    let run = agent.start(AgentState::default(), "What time is it in Shanghai?").unwrap();
    let mut watcher = run.subscribe(100_000);
    let (outcome, _) = run.outcome().await;
    let mut replies = Vec::new();
    while let Some(Delivery::Events(batch)) = watcher.try_next() {
        for event in batch.iter() {
            match &event.body {
                EventBody::AgentLlmFinished { text, .. } => replies.push(text.clone()),
                // Whatever it says, it says in a form that is read.
                EventBody::AgentParseFailed { errors, .. } => panic!("{errors:?}"),
                _ => {}
            }
        }
    }
    eprintln!("{replies:#?}");
    assert_eq!(outcome.exit, ExitReason::Completed, "{outcome:?}");
    assert!(!outcome.text.is_empty() && outcome.usage.output > 0);
}

#[test]
fn an_entry_whose_file_is_not_there_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let project = desk(folder.path(), "model = \"models/none.gguf\"");
    match project.agent("desk") {
        Err(ProjectError::Model(error @ ModelError::Local { .. })) => {
            assert_eq!(error.code(), "local_model");
            assert!(error.help().contains("weft model list"), "{}", error.help());
        }
        other => panic!("{other:?}"),
    }
}
