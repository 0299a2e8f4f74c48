//! Tools from Rust functions: arguments of structs and enums, a dependency, errors, progress.
//!
//! Run it: `cargo run -p tool-registry --example function_tools`.

use std::sync::{Arc, Mutex};

use agent_types::{
    Budget, BudgetLimits, CallId, Delivery, EventBody, EventLocation, Recorder, RunId, SystemClock,
};
use futures::executor::block_on;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tool_registry::{Dep, Registry, Services, Tool, ToolContext, ToolError, tool, tools};

/// Urgency of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Priority {
    Low,
    High,
}

/// A task of the list.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Task {
    /// The text of the task.
    title: String,
    /// Urgency of the task.
    priority: Priority,
}

/// The list that the tools work on: the model does not see it, and a test gives another one.
#[derive(Debug, Default)]
struct TaskList(Mutex<Vec<Task>>);

impl TaskList {
    fn tasks(&self) -> Result<std::sync::MutexGuard<'_, Vec<Task>>, ToolError> {
        self.0.lock().map_err(|_| ToolError::fatal("the list is damaged"))
    }
}

/// Adds tasks to the list.
/// * `tasks` - the tasks, the most urgent one first
#[tool(name = "tasks:add")]
async fn add_tasks(tasks: Vec<Task>, list: Dep<TaskList>, cx: &ToolContext) -> Result<usize, ToolError> {
    for task in tasks {
        if task.title.trim().is_empty() {
            return Err(ToolError::failed("a task needs a title; write one"));
        }
        // Progress: the caller reads each piece while the call goes on.
        cx.chunk(format!("added {}\n", task.title));
        list.tasks()?.push(task);
    }
    Ok(list.tasks()?.len())
}

/// Lists the tasks.
/// * `priority` - only tasks of this priority; all of them when absent
#[tool(name = "tasks:list", read_only)]
async fn list_tasks(priority: Option<Priority>, list: Dep<TaskList>) -> Result<Vec<Task>, ToolError> {
    let tasks = list.tasks()?;
    Ok(tasks.iter().filter(|task| priority.is_none_or(|wanted| task.priority == wanted)).cloned().collect())
}

fn call(tool: &Tool, arguments: &Value, services: &Services) {
    let clock = Arc::new(SystemClock);
    let sink = Recorder::new(RunId::generate(), clock.clone());
    let mut events = sink.subscribe(100);
    let budget = Budget::new(BudgetLimits::default());
    let place = EventLocation::default();
    let cx = ToolContext::new(CallId::new("call-1"), tool.id().clone(), clock, budget, sink, place)
        .with_services(services.clone());
    let outcome = block_on(tool.invoke(arguments.as_object().cloned().unwrap_or_default(), cx));
    while let Some(Delivery::Events(batch)) = events.try_next() {
        for event in batch.iter() {
            if let EventBody::AgentToolChunk { text, .. } = &event.body {
                print(&format!("  progress: {}", text.trim_end()));
            }
        }
    }
    print(&format!("{} {arguments}\n  {}: {}", tool.id(), outcome.end.code(), outcome.end.message()));
}

#[expect(clippy::print_stdout, reason = "an example shows its results")]
fn print(text: &str) {
    println!("{text}");
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let registry = Registry::new();
    for tool in tools![add_tasks, list_tasks] {
        registry.register(tool)?;
    }
    let services = Services::new().with(Arc::new(TaskList::default()));
    let all = registry.snapshot();
    let (Some(add), Some(list)) = (all.get("tasks:add"), all.get("tasks:list")) else {
        return Err("the tools are registered".into());
    };
    print(&format!("{:#}", add.definition().parameters));
    let tasks =
        json!([{"title": "Write the docs", "priority": "high"}, {"title": "Rest", "priority": "low"}]);
    call(add, &json!({"tasks": tasks}), &services);
    call(list, &json!({"priority": "high"}), &services);
    // What goes wrong is an outcome with a code, and the model reads the message.
    call(add, &json!({"tasks": [{"title": " ", "priority": "low"}]}), &services);
    call(add, &json!({"tasks": [{"title": "Rest", "priority": "urgent"}]}), &services);
    // An agent refuses a tool without its dependency before the first turn.
    print(&format!("missing: {:?}", add.missing(&Services::new())));
    Ok(())
}
