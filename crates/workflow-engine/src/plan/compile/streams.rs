//! Stream outputs.

use std::sync::Arc;

use workflow_model::graph::{Graph, NameIx, NodeKind};
use workflow_model::{Definitions, NodeDefinition};

use crate::node::NodeCatalog;

/// The outputs of a type that are written piece by piece, in any of its modes.
pub(super) fn stream_names(definition: &NodeDefinition) -> Vec<Arc<str>> {
    let modes = definition.modes.iter().flat_map(|modes| modes.modes.values()).flat_map(|mode| &mode.outputs);
    let streams = definition.outputs.iter().chain(modes).filter(|(_, slot)| slot.is_stream);
    streams.map(|(name, _)| name.as_str().into()).collect()
}

/// Returns `true` if an output is a stream.
pub(super) fn is_stream(graph: &Graph<'_>, catalog: &NodeCatalog, node: u32, name: NameIx) -> bool {
    let node = &graph.nodes[node as usize];
    match &node.kind {
        NodeKind::Plain => {
            let spec = graph.spec(node);
            let by_mode = |definition: &NodeDefinition| {
                let modes = definition.modes.as_ref()?;
                Some(
                    modes
                        .modes
                        .get(modes.chosen(&spec.config_values))?
                        .outputs
                        .get(&**graph.name(name))?
                        .is_stream,
                )
            };
            catalog.definition(&spec.node_type).is_some_and(|definition| {
                let declared = definition.outputs.get(&**graph.name(name)).map(|slot| slot.is_stream);
                declared.or_else(|| by_mode(definition)).unwrap_or(false)
            })
        }
        NodeKind::Zone { .. } => &**graph.name(name) == "stream",
        NodeKind::Muted | NodeKind::Bypass(_) | NodeKind::Call { .. } => false,
    }
}
