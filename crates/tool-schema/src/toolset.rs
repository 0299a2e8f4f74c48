//! The tools of one turn, as the reader and the model see them.

use std::collections::{BTreeMap, HashMap};

use agent_types::{ToolDefinition, ToolId, ToolWords, fold};
use protocol_action::encode::is_tag;
use protocol_action::{Shape, ShapeId, Vocabulary};
use serde_json::{Map, Value};

use crate::compiled::{CompiledSchema, SchemaError};
use crate::node::{Node, NodeId, Nodes, Types};
use crate::wire::{is_wire_name, wire_name};

/// Reason for which tools cannot be offered together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolSetError {
    /// Two tools of one name.
    #[error("two tools are called `{name}`")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// A tool whose schema cannot be used.
    #[error("tool `{name}`: {source}")]
    Schema {
        /// The tool.
        name: String,
        /// Underlying schema error.
        #[source]
        source: SchemaError,
    },
}

impl ToolSetError {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Duplicate { .. } => "duplicate_tool",
            Self::Schema { .. } => "bad_schema",
        }
    }
}

/// One tool of a set.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OfferedTool {
    /// Canonical name, as calls and observations say it.
    pub name: String,
    /// Name on the wire.
    pub wire: String,
    /// Display name, where the tool has one.
    pub title: Option<String>,
    /// Description for the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
    /// The same, compiled.
    pub schema: CompiledSchema,
    /// Values of absent parameters.
    pub defaults: Map<String, Value>,
    /// Descriptions in other languages, by their code.
    pub translations: BTreeMap<String, ToolWords>,
}

impl OfferedTool {
    /// A tool under any name, as foreign lists have them.
    ///
    /// # Errors
    /// A schema that cannot be used.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: Value,
    ) -> Result<Self, ToolSetError> {
        let name = name.into();
        let schema = CompiledSchema::new(&parameters)
            .map_err(|source| ToolSetError::Schema { name: name.clone(), source })?;
        Ok(Self {
            wire: wire_name(&name),
            name,
            title: None,
            description: description.into(),
            parameters,
            schema,
            defaults: Map::new(),
            translations: BTreeMap::new(),
        })
    }

    /// The tool of a definition.
    ///
    /// # Errors
    /// A schema that cannot be used.
    pub fn from_definition(definition: ToolDefinition) -> Result<Self, ToolSetError> {
        let mut tool = Self::new(definition.id.as_str(), definition.description, definition.parameters)?;
        tool.title = definition.title;
        tool.defaults = definition.defaults;
        tool.translations = definition.translations;
        Ok(tool)
    }

    /// Tag of its calls in text: its name where that is a tag, else its name on the wire.
    #[must_use]
    pub fn tag(&self) -> &str {
        if is_tag(&self.name) { &self.name } else { &self.wire }
    }

    /// The canonical name as an id, where it is one.
    #[must_use]
    pub fn id(&self) -> Option<ToolId> {
        self.name.parse().ok()
    }
}

/// Tag of the calls of a tool of this name.
#[must_use]
pub fn tool_tag(name: &str) -> String {
    if is_tag(name) { name.to_owned() } else { wire_name(name) }
}

/// Set of tools offered together: finds them by any accepted name and declares their parameters to the reader.
#[derive(Debug, Clone, Default)]
pub struct ToolSet {
    tools: Vec<OfferedTool>,
    /// Exact names, canonical and wire.
    by_name: HashMap<String, usize>,
    /// Folded names; `None` where several tools share one.
    by_fold: HashMap<String, Option<usize>>,
    /// First shape of each tool; its nodes follow in order.
    first_shape: Vec<u32>,
    /// Parameters under their wire names, by shape of the object.
    wire_fields: HashMap<(u32, String), NodeId>,
}

/// Match of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Exact(usize),
    Folded(usize),
}

impl ToolSet {
    /// Offers these tools together, in this order.
    ///
    /// # Errors
    /// Two tools of one name, or a schema that cannot be used.
    pub fn new(definitions: impl IntoIterator<Item = ToolDefinition>) -> Result<Self, ToolSetError> {
        let tools =
            definitions.into_iter().map(OfferedTool::from_definition).collect::<Result<Vec<_>, _>>()?;
        Self::of_tools(tools)
    }

    /// Offers tools that were compiled before.
    ///
    /// # Errors
    /// Two tools of one name.
    pub fn of_tools(tools: impl IntoIterator<Item = OfferedTool>) -> Result<Self, ToolSetError> {
        let mut set = Self::default();
        for tool in tools {
            set.add(tool)?;
        }
        Ok(set)
    }

    fn add(&mut self, tool: OfferedTool) -> Result<(), ToolSetError> {
        let index = self.tools.len();
        for name in [&tool.name, &tool.wire] {
            if self.by_name.insert(name.clone(), index).is_some_and(|other| other != index) {
                return Err(ToolSetError::Duplicate { name: name.clone() });
            }
            self.by_fold
                .entry(fold(name))
                .and_modify(|known| *known = known.filter(|&other| other == index))
                .or_insert(Some(index));
        }
        let first = match (self.first_shape.last(), self.tools.last()) {
            (Some(first), Some(last)) => first + last.schema.nodes().len(),
            _ => 0,
        };
        self.first_shape.push(first);
        self.add_wire_fields(first, tool.schema.nodes());
        self.tools.push(tool);
        Ok(())
    }

    fn add_wire_fields(&mut self, first: u32, nodes: &Nodes) {
        for id in 0..nodes.len() {
            for (name, &field) in nodes.get(id).fields.iter().filter(|(name, _)| !is_wire_name(name)) {
                self.wire_fields.insert((first + id, wire_name(name)), field);
            }
        }
    }

    /// The tools in their order.
    #[must_use]
    pub fn tools(&self) -> &[OfferedTool] {
        &self.tools
    }

    /// The tool of a canonical or wire name, or of a unique folded one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&OfferedTool> {
        self.find(name).map(|found| match found {
            Found::Exact(index) | Found::Folded(index) => &self.tools[index],
        })
    }

    pub(crate) fn find(&self, name: &str) -> Option<Found> {
        if let Some(&index) = self.by_name.get(name) {
            return Some(Found::Exact(index));
        }
        self.by_fold.get(&fold(name)).copied().flatten().map(Found::Folded)
    }

    fn node(&self, shape: ShapeId) -> (usize, u32, &Nodes, &Node) {
        let tool = self.first_shape.partition_point(|&first| first <= shape.0).saturating_sub(1);
        let first = self.first_shape[tool];
        let nodes = self.tools[tool].schema.nodes();
        (tool, first, nodes, nodes.get(shape.0 - first))
    }
}

impl Vocabulary for ToolSet {
    fn tool(&self, tag: &str) -> Option<ShapeId> {
        let (Found::Exact(index) | Found::Folded(index)) = self.find(tag)?;
        Some(ShapeId(self.first_shape[index]))
    }

    fn shape(&self, id: ShapeId) -> Shape {
        let (_, first, nodes, node) = self.node(id);
        // The arguments of a tool are an object whatever its schema forgot to say.
        if id.0 == first {
            return Shape::Object;
        }
        match shape_of(nodes, node, 0) {
            Shape::List { item } => Shape::List { item: ShapeId(item.0 + first) },
            shape @ (Shape::Text | Shape::Scalar | Shape::Any | Shape::Object) => shape,
        }
    }

    fn field(&self, object: ShapeId, name: &str) -> Option<ShapeId> {
        let (_, first, nodes, node) = self.node(object);
        let own = node.fields.get(name).or_else(|| self.wire_fields.get(&(object.0, name.to_owned())));
        let field = own.copied().or_else(|| {
            node.branches.iter().find_map(|&branch| nodes.get(branch).fields.get(name).copied())
        })?;
        Some(ShapeId(first + field))
    }

    fn only_text(&self, tool: ShapeId) -> Option<&str> {
        let (_, _, nodes, root) = self.node(tool);
        let [name] = root.required.as_slice() else { return None };
        let field = nodes.get(*root.fields.get(name)?);
        (shape_of(nodes, field, 0) == Shape::Text).then_some(name.as_str())
    }
}

/// Deepest nesting of alternatives that is looked through.
const MAX_BRANCH_DEPTH: usize = 8;

fn shape_of(nodes: &Nodes, node: &Node, depth: usize) -> Shape {
    if !node.branches.is_empty() && depth < MAX_BRANCH_DEPTH {
        return shape_of_branches(nodes, node, depth);
    }
    if let Some(members) = &node.members {
        let all = |test: fn(&Value) -> bool| members.iter().all(test);
        return if all(|m| m.is_object() || m.is_array()) && !members.is_empty() {
            Shape::Any
        } else if members.iter().any(Value::is_string) {
            Shape::Text
        } else {
            Shape::Scalar
        };
    }
    let structured = node.types.has(Types::ARRAY.with(Types::OBJECT));
    if node.types.is_empty() || (node.types.has(Types::STRING) && structured) {
        Shape::Any
    } else if node.types.has(Types::STRING) {
        Shape::Text
    } else if node.types.has(Types::ARRAY) && node.types.has(Types::OBJECT) {
        Shape::Any
    } else if node.types.has(Types::OBJECT) {
        Shape::Object
    } else if node.types.has(Types::ARRAY) {
        node.item.map_or(Shape::Any, |item| Shape::List { item: ShapeId(item) })
    } else {
        Shape::Scalar
    }
}

/// Shape common to all alternatives, as far as the reader needs it.
fn shape_of_branches(nodes: &Nodes, node: &Node, depth: usize) -> Shape {
    let is_null = |id: &&NodeId| nodes.get(**id).types != Types::NULL;
    let mut shapes =
        node.branches.iter().filter(is_null).map(|&id| shape_of(nodes, nodes.get(id), depth + 1));
    let Some(first) = shapes.next() else { return Shape::Scalar };
    shapes.fold(first, |common, shape| match (common, shape) {
        (Shape::Text | Shape::Scalar, Shape::Text) | (Shape::Text, Shape::Scalar) => Shape::Text,
        (Shape::Scalar, Shape::Scalar) => Shape::Scalar,
        (Shape::Object, Shape::Object) => Shape::Object,
        (left @ Shape::List { .. }, right) if left == right => left,
        _ => Shape::Any,
    })
}
