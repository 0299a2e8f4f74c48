//! Codes of the problems of a workflow file that has a valid shape.

agent_types::problem_codes! {
    /// Nodes that wait for each other.
    Cycle = "cycle",
    /// Two edges into a slot that takes one, of branches that may both be taken.
    DuplicateInput = "duplicate_input",
    /// A node whose slots need branches that exclude each other.
    NeverRuns = "never_runs",
    /// Two nodes of one id.
    DuplicateNode = "duplicate_node",
    /// A required input without an edge, value or default.
    MissingInput = "missing_input",
    /// A carried value without a first value.
    MissingInitial = "missing_initial",
    /// An edge, parent or mapping names a node that is not there.
    UnknownNode = "unknown_node",
    /// An edge or value names a slot that is not there.
    UnknownSlot = "unknown_slot",
    /// A node of a type that is not registered.
    UnknownType = "unknown_type",
    /// An edge joins slots whose types do not fit.
    TypeMismatch = "type_mismatch",
    /// A node runs or embeds a workflow that is not there.
    UnknownWorkflow = "unknown_workflow",
    /// A tool list names a tool that is not there.
    UnknownTool = "unknown_tool",
    /// A node names a model that has no entry.
    UnknownModel = "unknown_model",
    /// A node names an agent that is not there.
    UnknownAgent = "unknown_agent",
    /// A node names a knowledge base that is not there.
    UnknownBase = "unknown_base",
    /// A workflow embeds itself.
    SelfReference = "self_reference",
    /// An edge out of the body of a loop zone.
    EdgeLeavesZone = "edge_leaves_zone",
    /// A key with a name that the engine uses itself.
    ReservedName = "reserved_name",
    /// A setting or value that cannot be used.
    BadValue = "bad_value",
    /// Offered as a tool, something has no description.
    MissingDescription = "missing_description",
}
