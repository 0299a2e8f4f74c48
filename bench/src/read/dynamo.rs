//! The peer `dynamo-parsers-v2`, in the forms nearest to ours.

use anyhow::{Context, Result};
use dynamo_parsers_v2::{Tool, create_tool_parser_for_family};

use super::{Form, Read, Reader, cut};
use crate::texts;

struct Peer {
    name: &'static str,
    family: &'static str,
    form: Form,
    tools: Vec<Tool>,
}

pub(super) fn readers() -> Vec<Box<dyn Reader>> {
    let forms: [(_, _, Form); 3] = [
        ("dynamo-parsers-v2, qwen3_coder", "qwen3_coder", texts::qwen_xml),
        ("dynamo-parsers-v2, minimax_m2", "minimax_m2", texts::minimax),
        ("dynamo-parsers-v2, glm47", "glm47", texts::glm),
    ];
    let peers = forms.map(|(name, family, form)| -> Box<dyn Reader> {
        Box::new(Peer { name, family, form, tools: vec![tool()] })
    });
    peers.into()
}

fn tool() -> Tool {
    Tool { name: "write_file".to_owned(), description: None, parameters: texts::parameters(), strict: None }
}

impl Reader for Peer {
    fn name(&self) -> &'static str {
        self.name
    }

    fn text(&self, value: &str) -> String {
        (self.form)(value)
    }

    fn whole(&self, text: &str) -> Result<Read> {
        let mut parser = create_tool_parser_for_family(self.family, &self.tools)?;
        let read = parser.parse_complete(text)?;
        Ok(Read::Json(read.calls.into_iter().next().context("no call")?.arguments))
    }

    fn pieces(&self, text: &str, size: usize) -> Result<Read> {
        let mut parser = create_tool_parser_for_family(self.family, &self.tools)?;
        let mut arguments = String::new();
        for piece in cut(text, size) {
            arguments.extend(parser.push(piece)?.calls.into_iter().map(|call| call.arguments));
        }
        arguments.extend(parser.finish()?.calls.into_iter().map(|call| call.arguments));
        Ok(Read::Json(arguments))
    }
}
