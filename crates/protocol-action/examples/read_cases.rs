//! Reads a file of cases, one JSON object a line with `id`, `input`, `tools`, and optionally `native`,
//! `finish` and `expand`, and prints what each was read as, one JSON object a line.
//!
//! Each input is also read in pieces of one byte, four bytes and random sizes; a difference to the
//! whole is printed on stderr, and the program then ends with code 1.
//!
//! ```text
//! cargo run -p protocol-action --example read_cases -- FILE
//! ```

use std::process::ExitCode;
use std::sync::Arc;

use protocol_action::{
    Declared, Decoder, Fields, FinishReason, NativeCall, Options, Parsed, StaticVocabulary, parse_with,
};
use serde_json::{Value, json};

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: read_cases FILE");
        return ExitCode::from(2);
    };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("{path}: {error}");
            return ExitCode::from(2);
        }
    };
    let mut differ = false;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match serde_json::from_str(line) {
            Ok(case) => differ |= !read(&case),
            Err(error) => eprintln!("a line is not JSON: {error}"),
        }
    }
    ExitCode::from(u8::from(differ))
}

/// Reads one case and prints it. Returns `true` when all chunkings agree.
fn read(case: &Value) -> bool {
    let vocabulary = vocabulary(&case["tools"]);
    let input = expand(case["input"].as_str().unwrap_or(""), &case["expand"]);
    let finish = match case["finish"].as_str() {
        Some("length") => FinishReason::Length,
        Some(_) | None => FinishReason::Stop,
    };
    let options = Options::default().with_finish(finish).with_native(native(&case["native"]));
    let whole = parse_with(&input, &vocabulary, &options);
    #[expect(clippy::print_stdout, reason = "printing is what the example is for")]
    {
        println!("{}", report(&case["id"], &whole));
    }
    let vocabulary = Arc::new(vocabulary);
    let mut same = true;
    for (name, mut size) in pieces() {
        let mut decoder = Decoder::new(vocabulary.clone(), options.clone());
        let mut rest = input.as_bytes();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(size().min(rest.len()));
            let _events = decoder.push(piece);
            rest = after;
        }
        let pieced = decoder.finish(finish);
        if pieced != whole {
            same = false;
            eprintln!("{}: pieces of {name} give {}", case["id"], report(&case["id"], &pieced));
        }
    }
    same
}

type Sizes = Box<dyn FnMut() -> usize>;

fn pieces() -> [(&'static str, Sizes); 3] {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % 23).unwrap_or(0) + 1
    };
    [("1 byte", Box::new(|| 1)), ("4 bytes", Box::new(|| 4)), ("random sizes", Box::new(random))]
}

fn report(id: &Value, parsed: &Parsed) -> Value {
    let errors: Vec<Value> = parsed.errors().map(|one| json!({"code": one.code, "message": one.message, "hint": one.hint, "tool": one.tool, "parameter": one.parameter, "line": one.line, "column": one.column})).collect();
    let diagnostics: Vec<&str> = parsed.diagnostics.iter().map(|one| one.code.as_str()).collect();
    json!({
        "id": id,
        "text_before": parsed.text_before,
        "text_after": parsed.text_after,
        "reasoning": parsed.reasoning,
        "calls": parsed.calls,
        "repairs": parsed.calls.iter().map(|call| &call.repairs).collect::<Vec<_>>(),
        "errors": errors,
        "diagnostics": diagnostics,
    })
}

fn expand(input: &str, table: &Value) -> String {
    let mut input = input.to_owned();
    for (name, entry) in table.as_object().into_iter().flatten() {
        let times = entry["times"].as_u64().and_then(|times| usize::try_from(times).ok()).unwrap_or(0);
        input = input.replace(name, &entry["unit"].as_str().unwrap_or("").repeat(times));
    }
    input
}

fn native(calls: &Value) -> Vec<NativeCall> {
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let calls = calls.as_array().into_iter().flatten();
    calls.map(|call| NativeCall { name: text(&call["name"]), arguments: text(&call["arguments"]) }).collect()
}

fn vocabulary(tools: &Value) -> StaticVocabulary {
    let mut builder = StaticVocabulary::builder();
    for tool in tools.as_array().into_iter().flatten() {
        builder = builder.tool(tool["name"].as_str().unwrap_or(""), |_| fields(&tool["parameters"]));
    }
    builder.build()
}

fn fields(schema: &Value) -> Fields {
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties.fold(Fields::default(), |fields, (name, schema)| fields.field(name, declared(schema)))
}

/// The shape of a schema, roughly: `tool-schema` does it right.
fn declared(schema: &Value) -> Declared {
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
        _untyped => vec![],
    };
    if types.contains(&"string") {
        Declared::Text
    } else if types.contains(&"object") {
        Declared::Object(fields(schema))
    } else if types.contains(&"array") {
        Declared::List(Box::new(declared(&schema["items"])))
    } else if types.is_empty() {
        Declared::Any
    } else {
        Declared::Scalar
    }
}
