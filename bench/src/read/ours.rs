//! Ours: `protocol-action` reads, `tool-schema` types.

use std::sync::Arc;

use anyhow::{Context, Result};
use protocol_action::{Decoder, FinishReason, Options, Parsed};
use serde_json::Value;
use tool_schema::{OfferedTool, ToolSet};

use super::Read;
use crate::texts::parameters;

/// The tool that the texts call.
pub(crate) fn tools() -> Result<Arc<ToolSet>> {
    let tool = OfferedTool::new("write_file", "Writes a file.", parameters())?;
    Ok(Arc::new(ToolSet::of_tools([tool])?))
}

/// Types the calls of a reply; the arguments of the first.
pub(crate) fn interpret(tools: &ToolSet, parsed: &Parsed) -> Result<Read> {
    let decision = tools.interpret(parsed);
    let call = decision.results.into_iter().next().context("no call")?;
    let call = call.map_err(|fault| anyhow::anyhow!("{fault:?}"))?;
    Ok(Read::Typed(Value::Object(call.arguments)))
}

/// Reads in pieces, takes every event, and types the calls.
pub(crate) fn decode_in_pieces(tools: &Arc<ToolSet>, text: &str, size: usize) -> Result<Read> {
    let mut decoder = Decoder::new(Arc::clone(tools) as _, Options::default());
    for piece in text.as_bytes().chunks(size) {
        std::hint::black_box(decoder.push(piece).count());
    }
    interpret(tools, &decoder.finish(FinishReason::Stop))
}
