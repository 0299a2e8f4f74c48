//! Streams: reading one to its end, writing several in order.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use serde_json::{Map, Value};
use workflow_engine::{
    Inputs, Node, NodeCatalog, NodeContext, NodeError, Outputs, Prepared, Problem, StreamItem, StreamReader,
};
use workflow_model::{DataFlowType, DynamicSlots, NodeDefinition};

use crate::define::{required_text, setting, text};

pub(crate) fn register(catalog: &mut NodeCatalog) {
    catalog.register(StreamToString::new());
    catalog.register(Reply::new());
}

/// Reads a stream to its end.
struct StreamToString(NodeDefinition);

impl StreamToString {
    fn new() -> Self {
        let definition =
            NodeDefinition::new("core:StreamToString", "Reads a stream to its end and gives it as one text.")
                .input("stream", text("the stream").stream().required())
                .output("text", text("all of it"));
        Self(definition)
    }
}

#[async_trait]
impl Node for StreamToString {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    async fn run(&self, _ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        let Some(mut stream) = inputs.stream("stream") else { return Ok(Outputs::value("")) };
        Ok(Outputs::value(stream.read_to_end().await))
    }
}

/// A part of a reply.
#[derive(Debug, Clone, PartialEq)]
enum Part {
    Text(String),
    Slot(String),
}

/// Writes texts and streams in the order of a template, each as it comes.
struct Reply(NodeDefinition);

impl Reply {
    fn new() -> Self {
        let definition = NodeDefinition::new("core:Reply", "Writes texts and streams in the order of a template. All sources run at once; each is written as soon as what stands before it is complete.")
            .output("text", text("the reply as it comes").stream())
            .config("template", setting(DataFlowType::String, "the text, with `{name}` for an input; `{{` and `}}` are braces").required())
            .dynamic_inputs(DynamicSlots::StreamsNamedIn("template"));
        Self(definition)
    }
}

#[async_trait]
impl Node for Reply {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    fn prepare(&self, config: &Map<String, Value>) -> Result<Prepared, Vec<Problem>> {
        let parts = parts_of(&required_text(config, "template")?);
        parts.map(Prepared::new).map_err(|message| vec![Problem::setting("template", message)])
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        let parts = ctx.prepared::<Vec<Part>>().cloned().unwrap_or_default();
        // All streams are open before the first is read, so that none is missed. One that is named again is not read
        // again: it would hold its writer back until its second turn.
        let mut sources: Vec<Source> = Vec::with_capacity(parts.len());
        let mut named: HashMap<String, usize> = HashMap::new();
        for part in parts {
            let source = match part {
                Part::Text(text) => Source::Text(text),
                Part::Slot(slot) => match named.entry(slot) {
                    Entry::Occupied(first) => Source::Again(*first.get()),
                    Entry::Vacant(first) => {
                        let slot = first.key().clone();
                        first.insert(sources.len());
                        inputs.stream(&slot).map_or(Source::Missing(slot), Source::Stream)
                    }
                },
            };
            sources.push(source);
        }
        let again: HashSet<usize> = sources.iter().filter_map(Source::first).collect();
        let mut written: HashMap<usize, String> = HashMap::new();
        for (at, source) in sources.into_iter().enumerate() {
            match source {
                Source::Text(text) => ctx.chunk("text", text).await?,
                Source::Stream(stream) => {
                    let mut text = again.contains(&at).then(String::new);
                    write(&ctx, stream, text.as_mut()).await?;
                    written.extend(text.map(|text| (at, text)));
                }
                Source::Again(first) => {
                    let text = written.get(&first).cloned().unwrap_or_default();
                    ctx.chunk("text", text).await?;
                }
                Source::Missing(slot) => {
                    let message = format!("nothing was given for `{slot}` of the reply");
                    ctx.emit(agent_types::EventBody::LogLine { level: "warn".to_owned(), message });
                }
            }
        }
        Ok(Outputs::none())
    }
}

enum Source {
    Text(String),
    Stream(StreamReader),
    /// The same as the source of this number.
    Again(usize),
    /// An unknown path is empty, with a warning.
    Missing(String),
}

impl Source {
    fn first(&self) -> Option<usize> {
        match self {
            Self::Again(first) => Some(*first),
            Self::Text(_) | Self::Stream(_) | Self::Missing(_) => None,
        }
    }
}

/// Writes a stream as it comes, and keeps its text where that is asked for.
async fn write(
    ctx: &NodeContext,
    mut stream: StreamReader,
    mut kept: Option<&mut String>,
) -> Result<(), NodeError> {
    while let Some(item) = stream.next().await {
        match item {
            StreamItem::Chunk(text) => {
                if let Some(kept) = &mut kept {
                    kept.push_str(&text);
                }
                ctx.chunk("text", text).await?;
            }
            StreamItem::Mark(_) => {}
            StreamItem::Retracted => {
                return Err(NodeError::new("a part that was written already has been taken back"));
            }
        }
    }
    Ok(())
}

/// `{name}` is a slot, `{{` and `}}` are braces.
fn parts_of(template: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        text.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(brace) {
            text.push_str(brace);
            rest = after;
        } else if brace == "{" {
            let (name, after) = rest.split_once('}').ok_or("a `{` has no `}`; write `{{` for a brace")?;
            if !text.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut text)));
            }
            parts.push(Part::Slot(name.trim().to_owned()));
            rest = after;
        } else {
            return Err("a `}` has no `{`; write `}}` for a brace".to_owned());
        }
    }
    text.push_str(rest);
    if !text.is_empty() {
        parts.push(Part::Text(text));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_have_slots_and_braces() {
        let text = |text: &str| Part::Text(text.to_owned());
        let slot = |name: &str| Part::Slot(name.to_owned());
        for (template, expected) in [
            ("{a} and { b }.", Ok(vec![slot("a"), text(" and "), slot("b"), text(".")])),
            ("{{a}} 名", Ok(vec![text("{a} 名")])),
            ("", Ok(vec![])),
            ("{a", Err("a `{` has no `}`; write `{{` for a brace".to_owned())),
            ("a}", Err("a `}` has no `{`; write `}}` for a brace".to_owned())),
        ] {
            assert_eq!(parts_of(template), expected, "{template}");
        }
    }
}
