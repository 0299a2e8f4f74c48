//! A workflow as one value.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde_json::{Map, Number, Value};

use crate::edge::Edge;
use crate::file::field::{Field, Scalar};
use crate::file::object::{KeyOrder, ObjectReader, ObjectWriter};
use crate::file::report::{Report, ShapeFault};
use crate::node::Node;
use crate::slot::{DataFlowType, Slot};

/// Setting of nodes that ask a model, and its counterpart of nodes that are one tool.
pub(crate) const TOOL: &str = "tool";
pub(crate) const TOOL_NODE: &str = "core:Tool";

/// Reason why a file is not a valid workflow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The text is not valid JSON.
    #[error("line {line}, column {column}: {message}")]
    Syntax {
        /// From 1.
        line: usize,
        /// From 1, in bytes.
        column: usize,
        /// Message of the JSON parser.
        message: String,
    },
    /// It is JSON, but values have the wrong shape; all of them, in file order.
    #[error("{}", list(.0))]
    Shape(Vec<ShapeFault>),
}

impl LoadError {
    /// For logs, tests and the wire; never reworded.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Syntax { .. } => "bad_json",
            Self::Shape(_) => "bad_value",
        }
    }
}

fn list(faults: &[ShapeFault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// A value that expressions and templates read as `vars.name`.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Variable {
    /// The name behind `vars.`.
    pub name: String,
    /// Its type; absent means any.
    pub data_flow_type: Option<DataFlowType>,
    /// The value, the same in the whole run.
    pub value: Value,
    /// Keys that weft does not know, kept on saving.
    #[schemars(skip)]
    pub extra: Map<String, Value>,
    #[schemars(skip)]
    order: KeyOrder,
}

impl Variable {
    /// A variable of any type.
    #[must_use]
    pub fn new(name: impl Into<String>, value: impl Into<Value>) -> Self {
        Self {
            name: name.into(),
            data_flow_type: None,
            value: value.into(),
            extra: Map::new(),
            order: KeyOrder::default(),
        }
    }

    fn read(value: Value, report: &mut Report) -> Option<Self> {
        let mut from = ObjectReader::new(value, report)?;
        let name: String = from.required("name", "a text");
        let mut variable = Self::new(name, Value::Null);
        variable.data_flow_type = from.optional("dataFlowType");
        variable.value = from.optional::<Option<Value>>("value").unwrap_or_default();
        (variable.extra, variable.order) = from.finish();
        Some(variable)
    }

    fn write(&self) -> Value {
        let mut to = ObjectWriter::new(&self.order);
        to.put("name", &self.name);
        to.put("dataFlowType", &self.data_flow_type);
        to.put("value", &Some(self.value.clone()).filter(|value| !value.is_null()));
        to.finish(&self.extra)
    }
}

/// Tools that the workflow's LLM nodes may use.
#[derive(Debug, Clone, PartialEq, Default, JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AvailableTools {
    /// Shown from the start.
    pub initial: Vec<String>,
    /// All that may be called; absent means what `initial` names.
    pub available: Option<Vec<String>>,
    /// Named with their purpose only, until asked for.
    pub discoverable: Vec<String>,
    /// Never shown and never run.
    pub hidden: Vec<String>,
    /// Run only after approval.
    pub require_approval: Vec<String>,
    /// Tools that settings of nodes name: where `available` is absent, these nodes may use them too. Not part of the
    /// file.
    #[schemars(skip)]
    pub named_by_nodes: Vec<String>,
    /// Keys that weft does not know, kept on saving.
    #[schemars(skip)]
    pub extra: Map<String, Value>,
    #[schemars(skip)]
    order: KeyOrder,
}

impl AvailableTools {
    /// The same with the tools that nodes name for themselves.
    #[must_use]
    pub fn with_named_by_nodes(mut self, named: impl IntoIterator<Item = String>) -> Self {
        self.named_by_nodes.extend(named);
        self
    }

    /// The same with other ids, such as the canonical ones.
    #[must_use]
    pub fn map_ids(mut self, map: impl Fn(&str) -> String) -> Self {
        let lists = [&mut self.initial, &mut self.discoverable, &mut self.hidden];
        let lists = lists.into_iter().chain([&mut self.require_approval, &mut self.named_by_nodes]);
        for id in lists.chain(&mut self.available).flatten() {
            *id = map(id);
        }
        self
    }

    /// The lists with their names in a file, for checks that go over all of them.
    #[must_use]
    pub fn lists(&self) -> [(&'static str, &[String]); 5] {
        [
            ("initial", &self.initial),
            ("available", self.available.as_deref().unwrap_or_default()),
            ("discoverable", &self.discoverable),
            ("hidden", &self.hidden),
            ("requireApproval", &self.require_approval),
        ]
    }

    fn read(value: Value, report: &mut Report) -> Option<Self> {
        let mut from = ObjectReader::new(value, report)?;
        let mut tools = Self {
            initial: from.optional("initial"),
            available: from.optional::<Option<Texts>>("available").map(|texts| texts.0),
            discoverable: from.optional("discoverable"),
            hidden: from.optional("hidden"),
            require_approval: from.optional("requireApproval"),
            ..Self::default()
        };
        (tools.extra, tools.order) = from.finish();
        Some(tools)
    }

    fn write(&self) -> Value {
        let mut to = ObjectWriter::new(&self.order);
        to.put("initial", &self.initial);
        to.put("available", &self.available.clone().map(Texts));
        to.put("discoverable", &self.discoverable);
        to.put("hidden", &self.hidden);
        to.put("requireApproval", &self.require_approval);
        to.finish(&self.extra)
    }
}

/// A list of texts that may be absent, which is not the same as empty.
#[derive(PartialEq)]
struct Texts(Vec<String>);

impl Scalar for Texts {
    const EXPECTED: &'static str = "a list of texts";

    fn from_json(value: &Value) -> Option<Self> {
        value.as_array()?.iter().map(String::from_json).collect::<Option<_>>().map(Self)
    }

    fn to_json(&self) -> Value {
        Value::from(self.0.clone())
    }

    fn read_at(value: &Value, report: &mut Report) -> Option<Self> {
        Some(Self(Vec::read(value, report)))
    }
}

/// Setting of a node that offers tools in its request alone.
const DYNAMIC_TOOLS: &str = "dynamicTools";

/// Tool that a setting of a node names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamedTool<'w> {
    /// The node.
    pub node: &'w str,
    /// Its setting.
    pub setting: &'static str,
    /// The id or name, as the file has it.
    pub id: &'w str,
}

impl NamedTool<'_> {
    /// Returns `true` if the node may use the tool because it names it.
    #[must_use]
    pub fn is_dynamic(&self) -> bool {
        matches!(self.setting, DYNAMIC_TOOLS | TOOL)
    }
}

/// A graph of nodes with typed inputs and outputs, as its file says it.
///
/// ```
/// use workflow_model::Workflow;
/// let text = r#"{"name": "empty", "nodes": [], "edges": [], "later": 1}"#;
/// let workflow = Workflow::from_json(text)?;
/// assert_eq!(workflow.name.as_deref(), Some("empty"));
/// assert_eq!(workflow.to_value()["later"], 1);
/// # Ok::<(), workflow_model::LoadError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default, JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Workflow {
    /// Its id, where the file has one; a project goes by the path.
    pub id: Option<String>,
    /// Display name.
    pub name: Option<String>,
    /// Description of the workflow and of the tool that it becomes.
    pub description: Option<String>,
    /// The steps, in file order.
    pub nodes: Vec<Node>,
    /// The connections, in file order.
    pub edges: Vec<Edge>,
    /// Inputs by name.
    pub interface_inputs: IndexMap<String, Slot>,
    /// Outputs by name.
    pub interface_outputs: IndexMap<String, Slot>,
    /// Tools that its LLM nodes may use.
    pub available_tools: Option<AvailableTools>,
    /// Read-only values for expressions and templates.
    pub variables: Vec<Variable>,
    /// Keys that weft does not know, kept on saving.
    #[schemars(skip)]
    pub extra: Map<String, Value>,
    #[schemars(skip)]
    pub(crate) order: KeyOrder,
}

impl Workflow {
    /// Tools that settings of nodes name: `dynamicTools`, `tools` of `agent:AvailableTools`, and `tool` of `core:Tool`.
    pub fn tools_of_nodes(&self) -> impl Iterator<Item = NamedTool<'_>> {
        self.nodes.iter().flat_map(|node| {
            let setting = |name: &str| node.config_values.get(name);
            let more = setting(DYNAMIC_TOOLS).and_then(|tools| tools.get("toolIds"));
            let listed = setting("tools").filter(|_| node.node_type == "agent:AvailableTools");
            let lists = [(DYNAMIC_TOOLS, more), ("tools", listed)].into_iter().flat_map(|(setting, ids)| {
                let ids = ids.and_then(Value::as_array).into_iter().flatten();
                ids.map(move |id| (setting, id))
            });
            let own = setting(TOOL).filter(|_| node.node_type == TOOL_NODE).map(|id| (TOOL, id));
            let named = lists.chain(own);
            named.filter_map(|(setting, id)| {
                Some(NamedTool { node: node.id.as_str(), setting, id: id.as_str()? })
            })
        })
    }

    /// Reads the text of a workflow file.
    ///
    /// # Errors
    /// [`LoadError::Syntax`] where it is not valid JSON, else [`LoadError::Shape`] with every fault.
    pub fn from_json(text: &str) -> Result<Self, LoadError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let value = agent_types::read_json(text.as_bytes()).map_err(|error| LoadError::Syntax {
            line: error.line(),
            column: error.column(),
            message: without_place(&error),
        })?;
        Self::from_value(value)
    }

    /// Reads a workflow from JSON.
    ///
    /// # Errors
    /// [`LoadError::Shape`] with every fault.
    pub fn from_value(value: Value) -> Result<Self, LoadError> {
        let mut report = Report::default();
        let workflow = Self::read(value, &mut report);
        let faults = report.into_faults();
        match workflow {
            Some(workflow) if faults.is_empty() => Ok(workflow),
            Some(_) | None => Err(LoadError::Shape(faults)),
        }
    }

    /// The file as JSON; for a workflow that was read and not changed, equal to what was read.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut to = ObjectWriter::new(&self.order);
        to.put("id", &self.id);
        to.put("name", &self.name);
        to.put("description", &self.description);
        to.put_part(
            "interfaceInputs",
            slots_to_value(&self.interface_inputs),
            self.interface_inputs.is_empty(),
        );
        to.put_part(
            "interfaceOutputs",
            slots_to_value(&self.interface_outputs),
            self.interface_outputs.is_empty(),
        );
        to.put_part("nodes", self.nodes.iter().map(Node::write).collect(), false);
        to.put_part("edges", self.edges.iter().map(Edge::write).collect(), false);
        let tools = self.available_tools.as_ref().map_or(Value::Null, AvailableTools::write);
        to.put_part("availableTools", tools, self.available_tools.is_none());
        let variables = self.variables.iter().map(Variable::write).collect();
        to.put_part("variables", variables, self.variables.is_empty());
        to.finish(&self.extra)
    }

    /// The file as text, two blanks a level and a line feed at the end.
    #[must_use]
    pub fn to_json(&self) -> String {
        format!("{:#}\n", self.to_value())
    }

    /// The node of that id.
    #[must_use]
    pub fn node(&self, id: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    pub(crate) fn read(value: Value, report: &mut Report) -> Option<Self> {
        let mut from = ObjectReader::new(value, report)?;
        let mut workflow = Self {
            id: from.optional("id"),
            name: from.optional("name"),
            description: from.optional("description"),
            nodes: read_list(&mut from, "nodes", Presence::Required, Node::read),
            edges: read_list(&mut from, "edges", Presence::Required, Edge::read),
            interface_inputs: read_slots(&mut from, "interfaceInputs"),
            interface_outputs: read_slots(&mut from, "interfaceOutputs"),
            variables: read_list(&mut from, "variables", Presence::Optional, Variable::read),
            ..Self::default()
        };
        workflow.available_tools = from.part("availableTools").and_then(|value| {
            from.report.at_key("availableTools", |report| AvailableTools::read(value, report))
        });
        from.check_with("viewport", check_viewport);
        from.check::<Vec<String>>("referencedWorkflows");
        (workflow.extra, workflow.order) = from.finish();
        Some(workflow)
    }
}

/// The message of the JSON reader without its own ` at line 1 column 2`.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&place).unwrap_or(&text).to_owned()
}

/// Presence of a key: required or optional.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Presence {
    Required,
    Optional,
}

pub(crate) fn read_list<T>(
    from: &mut ObjectReader<'_>,
    key: &str,
    presence: Presence,
    read: fn(Value, &mut Report) -> Option<T>,
) -> Vec<T> {
    let part = from.part(key);
    from.report.at_key(key, |report| match part {
        Some(Value::Array(items)) => items
            .into_iter()
            .enumerate()
            .filter_map(|(index, item)| report.at_index(index, |report| read(item, report)))
            .collect(),
        Some(other) => {
            report.expected("a list", &other);
            Vec::new()
        }
        None => {
            if presence == Presence::Required {
                report.fault("missing, expected a list");
            }
            Vec::new()
        }
    })
}

pub(crate) fn read_slots(from: &mut ObjectReader<'_>, key: &str) -> IndexMap<String, Slot> {
    let slots = from.free_map(key);
    from.report.at_key(key, |report| {
        let mut read = |name: &str, slot| report.at_key(name, |report| Slot::read(slot, report));
        slots.into_iter().filter_map(|(name, slot)| read(&name, slot).map(|slot| (name, slot))).collect()
    })
}

fn slots_to_value(slots: &IndexMap<String, Slot>) -> Value {
    slots.iter().map(|(name, slot)| (name.clone(), slot.write())).collect::<Map<_, _>>().into()
}

fn check_viewport(value: &Value, report: &mut Report) {
    let Some(map) = value.as_object() else { return report.expected("an object", value) };
    for key in ["x", "y", "zoom"] {
        if let Some(value) = map.get(key) {
            report.at_key(key, |report| Option::<Number>::read(value, report));
        }
    }
}
