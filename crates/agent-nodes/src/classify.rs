//! `agent:Classify`: a model chooses one of several branches.

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use workflow_engine::{Inputs, Node, NodeContext, NodeError, Outputs, Prepared, Problem};
use workflow_model::{DataFlowType, DynamicSlots, NodeDefinition};

use crate::agent_env::AgentEnv;
use crate::define::{any, made, prepared, read, setting};
use crate::structured::{ValueRequest, with_settings};

/// The branch of values that fit no class.
const OTHER: &str = "other";

/// Sends a value to one of several outputs, as a model decides.
pub(crate) struct Classify(NodeDefinition);

/// The settings.
struct Classes {
    request: ValueRequest,
    instructions: String,
}

impl Classify {
    pub(crate) fn new() -> Self {
        let definition = NodeDefinition::new(
            "agent:Classify",
            "Has a language model choose the class of a value: each class is an output, and only the chosen one is taken.",
        )
        .input("value", any("the value; one that is not a text is shown to the model as JSON").required())
        .output(OTHER, any("the value, where no class fits; only with the setting `other`"))
        .config(
            "classes",
            setting(DataFlowType::Wildcard, "the classes: an object of name → what belongs there, or a list of names; each is an output that gives the value").required(),
        )
        .config("instruction", setting(DataFlowType::String, "how to choose"))
        .config(OTHER, setting(DataFlowType::Boolean, "the output `other` is a choice too").with_default(false))
        .dynamic_outputs(DynamicSlots::KeysOf("classes"))
        .routes();
        Self(with_settings(definition))
    }
}

#[async_trait]
impl Node for Classify {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    fn prepare(&self, config: &Map<String, Value>) -> Result<Prepared, Vec<Problem>> {
        let mut faults = Vec::new();
        let instruction: Option<String> = read(config, "instruction", &mut faults);
        let has_other = read(config, OTHER, &mut faults).unwrap_or(false);
        let mut classes = classes(config.get("classes"), &mut faults);
        if has_other && classes.iter().all(|(name, _)| name != OTHER) {
            classes.push((OTHER.to_owned(), "none of the others".to_owned()));
        }
        if classes.len() < 2 && faults.is_empty() {
            faults.push(Problem::setting("classes", "expected two classes at least, or one and `other`"));
        }
        let request = ValueRequest::read(config, ("classes", schema_of(&classes)), &mut faults);
        let instructions = instructions(&classes, instruction.as_deref());
        prepared(request.map(|request| Classes { request, instructions }), faults)
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        let Classes { request, instructions } = made(&ctx)?;
        let value = inputs.required("value")?;
        let chosen = request.ask(&ctx, &AgentEnv::new(&ctx), instructions.clone(), value).await?;
        let class = chosen.get("class").and_then(Value::as_str).unwrap_or(OTHER).to_owned();
        Ok(Outputs::none().with_shared(class, value.clone()))
    }
}

/// The classes with their descriptions, in file order.
fn classes(value: Option<&Value>, faults: &mut Vec<Problem>) -> Vec<(String, String)> {
    let mut fault = |message: String| {
        faults.push(Problem::setting("classes", message));
        Vec::new()
    };
    let named = match value {
        Some(Value::Object(members)) => members
            .iter()
            .map(|(name, about)| match about {
                Value::Null => Ok((name.clone(), String::new())),
                Value::String(about) => Ok((name.clone(), about.clone())),
                other => Err(format!("`{name}`: expected a text, found {other}")),
            })
            .collect::<Result<Vec<_>, _>>(),
        Some(Value::Array(items)) => items
            .iter()
            .map(|item| match item {
                Value::String(name) => Ok((name.clone(), String::new())),
                other => Err(format!("expected a name, found {other}")),
            })
            .collect(),
        None | Some(Value::Null) => return fault("this setting is required".to_owned()),
        Some(other) => return fault(format!("expected an object or a list, found {other}")),
    };
    let named = match named {
        Ok(named) => named,
        Err(message) => return fault(message),
    };
    let twice =
        named.iter().enumerate().find(|(at, (name, _))| named[..*at].iter().any(|(own, _)| own == name));
    match twice {
        Some((_, (name, _))) => fault(format!("`{name}` stands there twice")),
        None => named,
    }
}

fn schema_of(classes: &[(String, String)]) -> Value {
    let names: Vec<&str> = classes.iter().map(|(name, _)| name.as_str()).collect();
    json!({"type": "object", "properties": {"class": {"type": "string", "enum": names}}, "required": ["class"],
        "additionalProperties": false})
}

fn instructions(classes: &[(String, String)], instruction: Option<&str>) -> String {
    let mut text = "Choose the class to which the text between the lines belongs.".to_owned();
    if let Some(instruction) = instruction.map(str::trim).filter(|instruction| !instruction.is_empty()) {
        text.extend([" ", instruction]);
    }
    text.push_str("\nClasses:");
    for (name, about) in classes {
        text.extend(["\n- ", name]);
        if !about.is_empty() {
            text.extend([": ", about]);
        }
    }
    text
}
