//! The peer `tool-parser`, in the forms nearest to ours: tags around values, and JSON in tags.

use anyhow::{Context, Result};
use futures::FutureExt;
use openai_protocol::common::{Function, Tool};
use tool_parser::{Glm4MoeParser, MinimaxM2Parser, QwenParser, ToolParser};

use super::{Form, Read, Reader, cut};
use crate::texts;

type Make = fn() -> Box<dyn ToolParser>;

struct Peer {
    name: &'static str,
    form: Form,
    make: Make,
    tools: Vec<Tool>,
}

pub(super) fn readers() -> Vec<Box<dyn Reader>> {
    let forms: [(_, Form, Make); 4] = [
        ("tool-parser, qwen_xml", texts::qwen_xml, || Box::new(tool_parser::parsers::QwenXmlParser::new())),
        ("tool-parser, minimax_m2", texts::minimax, || Box::new(MinimaxM2Parser::new())),
        ("tool-parser, glm47", texts::glm, || Box::new(Glm4MoeParser::glm47())),
        ("tool-parser, qwen (JSON)", texts::hermes, || Box::new(QwenParser::new())),
    ];
    let peers = forms.map(|(name, form, make)| -> Box<dyn Reader> {
        Box::new(Peer { name, form, make, tools: vec![tool()] })
    });
    peers.into()
}

fn tool() -> Tool {
    let function = Function {
        name: "write_file".to_owned(),
        description: None,
        parameters: texts::parameters(),
        strict: None,
        extra: serde_json::Map::new(),
    };
    Tool { tool_type: "function".to_owned(), function }
}

impl Reader for Peer {
    fn name(&self) -> &'static str {
        self.name
    }

    fn text(&self, value: &str) -> String {
        (self.form)(value)
    }

    fn whole(&self, text: &str) -> Result<Read> {
        let parser = (self.make)();
        let read = parser.parse_complete_with_tools(text, &self.tools).now_or_never().context("it waits")?;
        let call = read?.1.into_iter().next().context("no call")?;
        Ok(Read::Json(call.function.arguments))
    }

    fn pieces(&self, text: &str, size: usize) -> Result<Read> {
        let mut parser = (self.make)();
        let mut arguments = String::new();
        for piece in cut(text, size) {
            let read = parser.parse_incremental(piece, &self.tools).now_or_never().context("it waits")?;
            arguments.extend(read?.calls.into_iter().map(|item| item.parameters));
        }
        let rest = parser.get_unstreamed_tool_args().unwrap_or_default();
        arguments.extend(rest.into_iter().map(|item| item.parameters));
        Ok(Read::Json(arguments))
    }
}
