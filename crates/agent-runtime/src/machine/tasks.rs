//! Background tasks that calls start and the run waits for.

use agent_types::{Observation, ToolId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Running task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenTask {
    /// Its id.
    pub task: String,
    /// The tool whose call started it.
    pub tool: ToolId,
    /// Arguments of that call.
    pub arguments: Map<String, Value>,
}

/// End of a task as shown to the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskEnd {
    /// The task.
    pub task: String,
    /// Its result for the model.
    pub observation: Observation,
}

/// Change that a call makes to the tasks that the run waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskChange {
    /// It began this one.
    Began(String),
    /// It read the result of this one, so that the run no longer waits for it.
    Read(String),
}
