//! `agent:LoadHistory` and `agent:SaveHistory`.

use serde_json::{Value, json};

use crate::common::{World, one};

fn save(world: &World, inputs: Value) -> Value {
    world.run(&one("agent:SaveHistory", &inputs, &json!({})), json!({})).ok().output("history")
}

fn load(world: &World, inputs: Value) -> Value {
    world.run(&one("agent:LoadHistory", &inputs, &json!({})), json!({})).ok().output("history")
}

#[test]
fn what_is_saved_is_loaded() {
    let world = World::new(&[]);
    let roles = |history: &Value| -> Vec<String> {
        let messages = history.as_array().unwrap().iter();
        messages
            .map(|own| format!("{}: {}", own["role"].as_str().unwrap(), own["content"].as_str().unwrap()))
            .collect()
    };
    assert_eq!(load(&world, json!({})), json!([]));
    let history = save(&world, json!({"message": "Hi.", "response": {"text": "Hello.", "finish": "stop"}}));
    assert_eq!(roles(&history), ["user: Hi.", "assistant: Hello."]);
    let history =
        save(&world, json!({"message": {"role": "user", "content": "And <ACTION>?"}, "response": "Yes."}));
    assert_eq!(roles(&history)[2..], ["user: And &lt;ACTION>?", "assistant: Yes."]);
    assert_eq!(load(&world, json!({"thread": ""})), history);
    assert_eq!(load(&world, json!({"thread": "flow"})), history, "the thread of a workflow has its id");
    assert_eq!(load(&world, json!({"thread": "other"})), json!([]));
}

#[test]
fn a_workflow_without_an_id_must_name_its_thread() {
    let mut world = World::new(&[]);
    world.id = None;
    let seen = world.run(&one("agent:LoadHistory", &json!({}), &json!({})), json!({}));
    assert_eq!(seen.outcome.error.unwrap().message, "no thread is named, and the workflow has no id");
    assert_eq!(load(&world, json!({"thread": "t"})), json!([]));
}
