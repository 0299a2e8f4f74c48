//! Reads recorded answers through a provider: one `{"id", "wire", "status"?, "body", "piece"?}` a line on stdin,
//! one `{"id", "text", "reasoning", "calls", "finish"}` or `{"id", "error"}` a line on stdout.
//!
//! Each body is served over a real socket on loopback, in pieces of so many bytes.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use agent_types::SystemClock;
use llm_provider::{LlmError, LlmRequest, Message, ModelConfig, ProviderKind, StandardResponse, complete};
use serde_json::{Value, json};

type Failure = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    for line in std::io::stdin().lock().lines() {
        let recorded: Value = serde_json::from_str(&line?)?;
        let mut result = match answer(&recorded).await? {
            Ok(answer) => {
                let calls = answer.tool_calls.iter();
                let calls = calls.map(|call| json!({"name": call.name, "arguments": call.arguments}));
                json!({"text": answer.text, "reasoning": answer.reasoning.unwrap_or_default(),
                    "calls": calls.collect::<Vec<_>>(), "finish": answer.finish.as_str()})
            }
            Err(error) => json!({"error": {"code": error.code(), "message": error.to_string()}}),
        };
        result["id"] = recorded["id"].clone();
        println!("{result}");
    }
    Ok(())
}

async fn answer(recorded: &Value) -> Result<Result<StandardResponse, LlmError>, Failure> {
    let provider = match recorded["wire"].as_str() {
        Some("openai-chat") => ProviderKind::OpenAi,
        Some("openai-responses") => ProviderKind::OpenAiResponses,
        Some("anthropic") => ProviderKind::Anthropic,
        Some("gemini") => ProviderKind::Gemini,
        Some("ollama") => ProviderKind::Ollama,
        other => return Err(format!("no provider speaks {other:?}").into()),
    };
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let config = ModelConfig {
        base_url: Some(format!("http://{}", listener.local_addr()?)),
        retries: Some(0),
        ..ModelConfig::new(provider, "recorded")
    };
    let body = recorded["body"].as_str().unwrap_or_default().as_bytes().to_vec();
    let piece = recorded["piece"].as_u64().map_or(body.len(), |piece| usize::try_from(piece).unwrap_or(1));
    let status = recorded["status"].as_u64().unwrap_or(200);
    let server = std::thread::spawn(move || -> std::io::Result<()> {
        let (mut socket, _) = listener.accept()?;
        take_request(&mut socket)?;
        // A client that has heard enough closes the connection.
        let _ = serve(&mut socket, status, &body, piece.max(1));
        Ok(())
    });
    let model = config.connect(Arc::new(SystemClock))?;
    let answer = complete(&model, LlmRequest::new(vec![Message::user("hi")])).await;
    server.join().map_err(|_| "the server failed")??;
    Ok(answer)
}

/// Reads a request to its end.
fn take_request(socket: &mut TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(socket);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if let Some(count) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = count.trim().parse().unwrap_or(0);
        }
        if line.trim().is_empty() {
            break;
        }
    }
    reader.read_exact(&mut vec![0; length])
}

fn serve(socket: &mut TcpStream, status: u64, body: &[u8], piece: usize) -> std::io::Result<()> {
    let kind = if status == 200 { "text/event-stream" } else { "application/json" };
    write!(
        socket,
        "HTTP/1.1 {status} Recorded\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    )?;
    socket.set_nodelay(true)?;
    for piece in body.chunks(piece) {
        let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
        chunk.extend_from_slice(piece);
        chunk.extend_from_slice(b"\r\n");
        socket.write_all(&chunk)?;
    }
    socket.write_all(b"0\r\n\r\n")
}
