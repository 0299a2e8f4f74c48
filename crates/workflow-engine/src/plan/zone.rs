//! The compiled form of a loop zone.

use std::sync::Arc;

use workflow_model::ZoneSpec;

use super::data::{NONE, Origin};
use crate::expression::Expression;

/// A zone: its settings and where things stand in the frame of a pass.
pub(crate) struct ZonePlan {
    pub(crate) scope: u32,
    pub(crate) spec: ZoneSpec,
    pub(crate) keys: Vec<Arc<str>>,
    pub(crate) condition: Option<Condition>,
    /// Sources of each carried value in the next pass, of which the first taken counts; without one it stays.
    pub(crate) next: Vec<Vec<Origin>>,
    pub(crate) break_if: Vec<Origin>,
    pub(crate) continue_if: Vec<Origin>,
    pub(crate) collect: Vec<(Arc<str>, KeyRef)>,
    /// Place of each key's first value among the inputs of the container; [`NONE`] where there is none.
    pub(crate) initial_inputs: Vec<u32>,
    /// Place of `items` among the inputs of the container, or [`NONE`].
    pub(crate) items_input: u32,
}

/// A carried value or a result of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyRef {
    State(u32),
    Result(u32),
}

/// Condition tested between passes.
#[derive(Debug)]
pub(crate) enum Condition {
    /// A key that is true or false: no evaluator is needed.
    Key(KeyRef, String),
    Expression(Expression),
}

impl ZonePlan {
    pub(crate) fn has_items(&self) -> bool {
        self.items_input != NONE
    }
}
