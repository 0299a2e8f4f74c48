//! `weft parse`: a model's reply into calls.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::Arc;

use protocol_action::{
    Decoder, FinishReason, NativeCall, NoVocabulary, Options, Parsed, Vocabulary, parse_with, unread_call,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tool_schema::{CallFault, ToolSet, TypedCall, parameter};

use super::tools;
use crate::arguments::ParseArguments;
use crate::failure::{Exit, Failure};
use crate::{inputs, output};

/// Tool lists of requests that are kept compiled.
const MAX_KEPT: usize = 256;

pub(super) fn run(arguments: &ParseArguments) -> Result<Exit, Failure> {
    let tools = arguments.tools.as_deref().map(tools::read).transpose()?.map(Arc::new);
    let piece = arguments.stream.map(|bytes| bytes as usize);
    if arguments.jsonl {
        return each_line(tools, piece);
    }
    let input = inputs::stdin_bytes()?;
    let parsed = read(&input, tools.as_ref(), Options::default(), piece);
    let text = String::from_utf8_lossy(&input);
    output::json(&result(&parsed, &text, tools.as_deref()))?;
    Ok(Exit::Ok)
}

/// One request of `--jsonl`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    #[serde(default)]
    id: Option<Value>,
    input: String,
    #[serde(default)]
    tools: Option<Value>,
    #[serde(default)]
    native: Vec<Native>,
    #[serde(default)]
    finish: Option<String>,
}

#[derive(Deserialize)]
struct Native {
    name: String,
    #[serde(default)]
    arguments: String,
}

fn each_line(tools: Option<Arc<ToolSet>>, piece: Option<usize>) -> Result<Exit, Failure> {
    let mut cache = ToolSets { given: tools, sets: HashMap::new() };
    let mut lines = std::io::stdin().lock();
    let mut stdout = std::io::BufWriter::new(std::io::stdout().lock());
    let mut line = Vec::new();
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::BrokenPipe => Failure::new(Exit::Ok, "closed_output", "stdout was closed"),
        _ => Failure::new(Exit::Failed, "input", error.to_string()),
    };
    while lines.read_until(b'\n', &mut line).map_err(failed)? > 0 {
        if !line.trim_ascii().is_empty() {
            let text = output::text_of(&cache.answer(&line, piece))?;
            writeln!(stdout, "{text}").map_err(failed)?;
        }
        line.clear();
    }
    stdout.flush().map_err(failed)?;
    Ok(Exit::Ok)
}

/// The tools of the command line, and those of earlier lines.
struct ToolSets {
    given: Option<Arc<ToolSet>>,
    sets: HashMap<String, Arc<ToolSet>>,
}

impl ToolSets {
    fn answer(&mut self, line: &[u8], piece: Option<usize>) -> Value {
        let request: Request = match serde_json::from_slice(line) {
            Ok(request) => request,
            Err(error) => return bad_request(id_of(line), &error.to_string()),
        };
        let id = request.id.clone();
        match self.read(request, piece) {
            Ok(mut result) => {
                if let Some(id) = id {
                    result.insert("id".into(), id);
                }
                Value::Object(result)
            }
            Err(message) => bad_request(id, &message),
        }
    }

    fn read(&mut self, request: Request, piece: Option<usize>) -> Result<Map<String, Value>, String> {
        let tools = match &request.tools {
            Some(tools) => Some(self.compiled(tools)?),
            None => self.given.clone(),
        };
        let finish = match request.finish.as_deref() {
            None | Some("stop") => FinishReason::Stop,
            Some("length") => FinishReason::Length,
            Some("tool_calls") => FinishReason::ToolCalls,
            Some("content_filter") => FinishReason::ContentFilter,
            Some(other) => return Err(format!("unknown finish reason `{other}`")),
        };
        let native = request.native.into_iter();
        let native = native.map(|call| NativeCall { name: call.name, arguments: call.arguments }).collect();
        let options = Options::default().with_finish(finish).with_native(native);
        let parsed = self::read(request.input.as_bytes(), tools.as_ref(), options, piece);
        Ok(result(&parsed, &request.input, tools.as_deref()))
    }

    fn compiled(&mut self, tools: &Value) -> Result<Arc<ToolSet>, String> {
        let key = tools.to_string();
        if let Some(set) = self.sets.get(&key) {
            return Ok(Arc::clone(set));
        }
        let set = Arc::new(tools::tool_set(tools)?);
        if self.sets.len() >= MAX_KEPT {
            self.sets.clear();
        }
        self.sets.insert(key, Arc::clone(&set));
        Ok(set)
    }
}

fn id_of(line: &[u8]) -> Option<Value> {
    serde_json::from_slice::<Value>(line).ok()?.get("id").cloned()
}

fn bad_request(id: Option<Value>, message: &str) -> Value {
    let mut result = json!({"errors": [{"code": "bad_request", "message": message}]});
    if let Some(id) = id {
        result["id"] = id;
    }
    result
}

fn read(input: &[u8], tools: Option<&Arc<ToolSet>>, options: Options, piece: Option<usize>) -> Parsed {
    let vocabulary: Arc<dyn Vocabulary> = match tools {
        Some(tools) => Arc::clone(tools) as Arc<dyn Vocabulary>,
        None => Arc::new(NoVocabulary),
    };
    let whole = std::str::from_utf8(input).ok().filter(|_| piece.is_none());
    if let Some(text) = whole {
        return parse_with(text, &*vocabulary, &options);
    }
    let finish = options.finish;
    let mut decoder = Decoder::new(vocabulary, options);
    for piece in input.chunks(piece.unwrap_or(usize::MAX)) {
        // The events are those of the result; only the result is printed.
        let _ = decoder.push(piece);
    }
    decoder.finish(finish)
}

fn result(parsed: &Parsed, text: &str, tools: Option<&ToolSet>) -> Map<String, Value> {
    let mut result = Map::new();
    result.insert("text_before".into(), parsed.text_before.as_str().into());
    result.insert("text_after".into(), parsed.text_after.as_str().into());
    if let Some(reasoning) = &parsed.reasoning {
        result.insert("reasoning".into(), reasoning.as_str().into());
    }
    let mut errors: Vec<Value> = parsed.errors().map(error_of).collect();
    let calls = match tools {
        None => parsed.calls.iter().map(|call| json!(call)).collect(),
        Some(tools) => {
            let decision = tools.interpret(parsed);
            errors.extend(decision.faults().flat_map(errors_of));
            decision.calls().map(call_of).collect::<Vec<Value>>()
        }
    };
    let may_run = errors.is_empty();
    result.insert("calls".into(), if may_run { calls.into() } else { json!([]) });
    result.insert("errors".into(), errors.into());
    let diagnostics = parsed.diagnostics.iter();
    let diagnostics = diagnostics
        .map(|found| json!({"code": found.code.as_str(), "line": found.line, "column": found.column}));
    result.insert("diagnostics".into(), diagnostics.collect());
    if let Some(unread) = tools.filter(|_| parsed.calls.is_empty()).and_then(|tools| unread_call(text, tools))
    {
        result.insert("unread".into(), json!(unread));
    }
    result
}

fn call_of(call: &TypedCall) -> Value {
    let repairs: Vec<&str> = call.repairs.iter().map(|code| code.as_str()).collect();
    json!({"tool": call.tool, "arguments": call.arguments, "dialect": call.dialect, "repairs": repairs})
}

fn error_of(found: &protocol_action::Diagnostic) -> Value {
    let mut error = json!({"code": found.code.as_str(), "message": found.message});
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            error[key] = value;
        }
    };
    put("tool", found.tool.as_deref().map(Value::from));
    put("parameter", found.parameter.as_deref().map(Value::from));
    put("line", (found.line > 0).then(|| found.line.into()));
    put("column", (found.line > 0).then(|| found.column.into()));
    put("hint", (!found.hint.is_empty()).then(|| found.hint.as_str().into()));
    error
}

fn errors_of(fault: &CallFault) -> Vec<Value> {
    match fault {
        CallFault::UnknownTool { name, near, available, .. } => {
            let hint = match near {
                Some(near) => format!("did you mean '{near}'?"),
                None => {
                    format!("offered: {}", available.iter().take(20).cloned().collect::<Vec<_>>().join(", "))
                }
            };
            let message = match near {
                Some(near) => format!("Unknown tool '{name}', did you mean '{near}'?"),
                None => format!("Unknown tool '{name}'"),
            };
            vec![json!({"code": "unknown_tool", "message": message, "tool": name, "hint": hint})]
        }
        CallFault::Arguments { tool, problems, .. } => problems
            .iter()
            .map(|problem| {
                let mut error = json!({"code": problem.code, "message": problem.message,
                    "tool": tool, "parameter": parameter(problem.value_path())});
                if let Some(near) = &problem.suggest {
                    error["hint"] = format!("did you mean '{near}'?").into();
                }
                error
            })
            .collect(),
        other => vec![json!({"code": other.code(), "message": "the call is wrong"})],
    }
}
