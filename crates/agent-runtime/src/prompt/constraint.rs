//! Grammar that constrains a reply, for models that ask for one.

use std::sync::Arc;

use llm_provider::{Constraint, GrammarForm, ModelInfo};
use serde_json::Value;
use tool_registry::{Snapshot, Visibility};
use tool_schema::{
    GrammarFormat, GrammarOptions, GrammarScope, OfferedTool, RefusedTool, ToolSet, grammar_with,
};

/// Grammar of one offer, and the tools that it does not support.
#[derive(Debug, Clone, Default)]
pub struct GrammarConstraint {
    /// Constraint on the reply.
    pub constraint: Option<Constraint>,
    /// Tools that the grammar does not support.
    pub refused: Vec<RefusedTool>,
}

impl GrammarConstraint {
    /// Text or calls of these tools, in the form that the model asks for; nothing where it asks for none.
    pub fn new(model: &ModelInfo, tools: &Snapshot) -> Self {
        let Some(form) = model.grammar.filter(|_| !tools.is_empty()) else { return Self::default() };
        let Ok(set) = ToolSet::of_tools(tools.tools().filter_map(offered)) else { return Self::default() };
        let format = match form {
            GrammarForm::Gbnf => GrammarFormat::Gbnf,
            GrammarForm::StructuralTag => GrammarFormat::StructuralTag,
            GrammarForm::Lark => GrammarFormat::Lark,
        };
        let scope = if model.small { GrammarScope::Narrow } else { GrammarScope::Wide };
        let grammar = grammar_with(&set, format, GrammarOptions { scope, ..GrammarOptions::default() });
        let text = Arc::from(grammar.text);
        Self { constraint: Some(Constraint { form, text }), refused: grammar.refused }
    }
}

/// Converts a tool; one whose schema is not shown may be called without its required parameters, and the error then
/// explains them.
fn offered(tool: &tool_registry::Tool) -> Option<OfferedTool> {
    let offered = tool.offered().ok()?;
    match tool.settings().visibility {
        Visibility::Direct => return Some(offered.clone()),
        Visibility::Hidden => return None,
        Visibility::Discoverable => {}
    }
    let mut parameters = offered.parameters.clone();
    if let Value::Object(schema) = &mut parameters {
        schema.shift_remove("required");
    }
    OfferedTool::new(offered.name.as_str(), offered.description.as_str(), parameters).ok()
}
