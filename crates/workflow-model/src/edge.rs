//! Connections between nodes.

use schemars::JsonSchema;
use serde_json::{Map, Value};

use crate::file::object::{KeyOrder, ObjectReader, ObjectWriter};
use crate::file::report::Report;

/// A connection from an output slot of one node to an input slot of another.
///
/// Without both handles it is an order: the target waits for the source and takes no value.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Edge {
    /// A name for `inputConnectionOrders`.
    pub id: Option<String>,
    /// The node whose output is taken.
    pub source: String,
    /// The output slot.
    pub source_handle: Option<String>,
    /// The node that gets the value.
    pub target: String,
    /// The input slot; on a slot that takes several edges `key__N`.
    pub target_handle: Option<String>,
    /// Keys that weft does not know, kept on saving.
    #[schemars(skip)]
    pub extra: Map<String, Value>,
    #[schemars(skip)]
    pub(crate) order: KeyOrder,
}

impl Edge {
    /// An edge that carries a value.
    #[must_use]
    pub fn new(
        (source, source_handle): (impl Into<String>, impl Into<String>),
        (target, target_handle): (impl Into<String>, impl Into<String>),
    ) -> Self {
        Self {
            source_handle: Some(source_handle.into()),
            target_handle: Some(target_handle.into()),
            ..Self::order_only(source, target)
        }
    }

    /// An edge that only says what comes first.
    #[must_use]
    pub fn order_only(source: impl Into<String>, target: impl Into<String>) -> Self {
        Self {
            id: None,
            source: source.into(),
            source_handle: None,
            target: target.into(),
            target_handle: None,
            extra: Map::new(),
            order: KeyOrder::default(),
        }
    }

    /// The same edge with an id.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// The output slot; an empty handle counts as none.
    #[must_use]
    pub fn source_slot(&self) -> Option<&str> {
        self.source_handle.as_deref().filter(|handle| !handle.is_empty())
    }

    /// The input slot; an empty handle counts as none.
    #[must_use]
    pub fn target_slot(&self) -> Option<&str> {
        self.target_handle.as_deref().filter(|handle| !handle.is_empty())
    }

    pub(crate) fn read(value: Value, report: &mut Report) -> Option<Self> {
        let mut from = ObjectReader::new(value, report)?;
        let id = from.optional("id");
        let source: String = from.required("source", "the id of a node");
        let target: String = from.required("target", "the id of a node");
        let mut edge = Self::order_only(source, target);
        edge.id = id;
        edge.source_handle = from.optional("sourceHandle");
        edge.target_handle = from.optional("targetHandle");
        from.check::<Option<String>>("label");
        (edge.extra, edge.order) = from.finish();
        Some(edge)
    }

    pub(crate) fn write(&self) -> Value {
        let mut to = ObjectWriter::new(&self.order);
        to.put("id", &self.id);
        to.put("source", &self.source);
        to.put("target", &self.target);
        to.put("sourceHandle", &self.source_handle);
        to.put("targetHandle", &self.target_handle);
        to.finish(&self.extra)
    }
}
