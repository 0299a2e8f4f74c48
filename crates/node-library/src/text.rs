//! Text: templates, joining, splitting, replacing.

use regex::Regex;
use serde_json::{Map, Value};
use workflow_engine::{Inputs, NodeCatalog, NodeContext, NodeError, Outputs, Prepared, Problem};
use workflow_model::{DataFlowType, DynamicSlots, NodeDefinition};

use crate::define::{Computed, any, as_text, list, made, required_text, setting, text, text_setting};
use crate::template::Template;

pub(crate) fn register(catalog: &mut NodeCatalog) {
    catalog.register(template());
    catalog.register(merge());
    catalog.register(split());
    catalog.register(replace());
    catalog.register(join());
}

fn template() -> Computed {
    let definition = NodeDefinition::new(
        "core:TextTemplate",
        "Fills a template: `{{ name }}`, loops and conditions.",
    )
    .input(
        "values",
        any("the names and values for the template; members of an object can be used by their own names"),
    )
    .output("text", text("the filled template"))
    .config(
        "template",
        setting(DataFlowType::String, "the template; every other input that it names is a slot").required(),
    )
    .dynamic_inputs(DynamicSlots::NamedIn("template"))
    .pure();
    Computed::new(definition, fill).prepared(|config| {
        let source = required_text(config, "template")?;
        let template =
            Template::new(&source).map_err(|error| vec![Problem::setting("template", error.to_string())])?;
        Ok(Prepared::new(template))
    })
}

fn fill(ctx: &NodeContext, inputs: &Inputs) -> Result<Outputs, NodeError> {
    let template: &Template = made(ctx)?;
    let mut names = Map::new();
    names.insert("vars".to_owned(), (**ctx.variables()).clone());
    if let Some(Value::Object(values)) = inputs.get("values").map(|value| &**value) {
        names.extend(values.clone());
    }
    names.extend(inputs.to_map());
    let filled = template.fill(&names);
    filled.map(Outputs::value).map_err(|error| NodeError::fatal(format!("the template: {error}")))
}

fn merge() -> Computed {
    let definition = NodeDefinition::new("core:TextMerge", "Joins texts from several edges.")
        .input("text_inputs", text("the texts, in the order of their edges").multi().required())
        .input("separator", text("what stands between them").with_default(""))
        .output("merged_text", text("the texts as one"))
        .pure();
    Computed::new(definition, |_, inputs| {
        let parts: Vec<String> = inputs.all("text_inputs").iter().map(|part| as_text(part)).collect();
        let separator = inputs.get("separator").map(|value| as_text(value)).unwrap_or_default();
        Ok(Outputs::value(parts.join(&separator)))
    })
}

fn split() -> Computed {
    let definition = NodeDefinition::new("core:TextSplit", "Cuts a text into a list.")
        .input("text", text("the text").required())
        .output("parts", list("the parts, without the separator"))
        .config(
            "separator",
            setting(DataFlowType::String, "where to cut; empty cuts between characters").with_default("\n"),
        )
        .pure();
    Computed::new(definition, |ctx, inputs| {
        let separator = ctx.config("separator").and_then(Value::as_str).unwrap_or("\n");
        let whole = inputs.text("text")?;
        let parts: Vec<String> = if separator.is_empty() {
            whole.chars().map(String::from).collect()
        } else {
            whole.split(separator).map(str::to_owned).collect()
        };
        Ok(Outputs::value(parts))
    })
    .prepared(|config| text_setting(config, "separator").map(|_| Prepared::none()))
}

fn replace() -> Computed {
    let definition = NodeDefinition::new("core:TextReplace", "Replaces every match of a pattern.")
        .input("text", text("the text").required())
        .output("text", text("the text with its replacements"))
        .config(
            "pattern",
            setting(DataFlowType::String, "a regular expression, searched in linear time").required(),
        )
        .config(
            "with",
            setting(DataFlowType::String, "what stands in its place; `$1` is the first group")
                .with_default(""),
        )
        .pure();
    Computed::new(definition, |ctx, inputs| {
        let pattern: &Regex = made(ctx)?;
        let with = ctx.config("with").and_then(Value::as_str).unwrap_or("");
        Ok(Outputs::value(pattern.replace_all(inputs.text("text")?, with).into_owned()))
    })
    .prepared(|config| {
        text_setting(config, "with")?;
        regex_setting(config, "pattern").map(Prepared::new)
    })
}

/// A regular expression among the settings.
pub(crate) fn regex_setting(config: &Map<String, Value>, key: &str) -> Result<Regex, Vec<Problem>> {
    let source = required_text(config, key)?;
    Regex::new(&source).map_err(|error| {
        let last =
            error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        vec![Problem::setting(key, format!("`{source}` is not a valid regular expression: {last}"))]
    })
}

fn join() -> Computed {
    let definition = NodeDefinition::new("core:TextJoin", "Joins the items of a list.")
        .input("parts", list("the items; values that are not texts are written as JSON").required())
        .output("text", text("the items as one text"))
        .config("separator", setting(DataFlowType::String, "what stands between them").with_default("\n"))
        .pure();
    Computed::new(definition, |ctx, inputs| {
        let separator = ctx.config("separator").and_then(Value::as_str).unwrap_or("\n");
        let parts = inputs.required("parts")?.as_array().cloned().unwrap_or_default();
        Ok(Outputs::value(parts.iter().map(as_text).collect::<Vec<_>>().join(separator)))
    })
    .prepared(|config| text_setting(config, "separator").map(|_| Prepared::none()))
}
