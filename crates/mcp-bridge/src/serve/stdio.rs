//! The server over stdin and stdout.

use std::io;
use std::sync::Arc;

use rmcp::ServiceExt;
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::McpServer;
use super::message::{Unreadable, read_message};

/// Longest line, in bytes. A longer one ends the connection.
const MAX_LINE: u64 = 16 * 1024 * 1024;

impl McpServer {
    /// Serves one client over stdin and stdout until it goes away or the token is cancelled. Nothing else may write to stdout.
    ///
    /// # Errors
    /// The client did not begin as it should.
    pub async fn serve_stdio(self, closed: CancellationToken) -> io::Result<()> {
        self.serve_lines(BufReader::new(tokio::io::stdin()), tokio::io::stdout(), closed).await
    }

    async fn serve_lines(
        self,
        reader: impl AsyncBufRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        closed: CancellationToken,
    ) -> io::Result<()> {
        let lines = Lines::new(reader, writer);
        let running =
            self.serve_with_ct(lines, closed).await.map_err(|error| io::Error::other(error.to_string()))?;
        running.waiting().await.map(|_| ()).map_err(io::Error::other)
    }
}

/// Messages as lines. A line that is not a message is answered with the error of the protocol.
struct Lines<R, W> {
    reader: R,
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
    writer: Arc<Mutex<Option<W>>>,
    /// Answers to broken lines that are being written.
    answers: JoinSet<io::Result<()>>,
}

impl<R, W: AsyncWrite + Send + Unpin + 'static> Lines<R, W> {
    fn new(reader: R, writer: W) -> Self {
        let writer = Arc::new(Mutex::new(Some(writer)));
        Self { reader, line: Vec::new(), writer, answers: JoinSet::new() }
    }

    fn write(
        &self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let writer = Arc::clone(&self.writer);
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let mut writer = writer.lock().await;
            let writer = writer.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            writer.write_all(&line).await?;
            writer.flush().await
        }
    }

    fn refuse(&mut self, fault: Unreadable) {
        while self.answers.try_join_next().is_some() {}
        let answer = self.write(TxJsonRpcMessage::<RoleServer>::error(fault.error, fault.id));
        self.answers.spawn(answer);
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncBufRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.write(message)
    }

    /// # Cancel safety
    /// The beginning of a line stays in the buffer.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let room = MAX_LINE.saturating_sub(self.line.len() as u64);
            let read = (&mut self.reader).take(room).read_until(b'\n', &mut self.line).await;
            let is_over = read.map_or(true, |count| count == 0);
            let is_whole = self.line.ends_with(b"\n");
            if !is_whole {
                // The end, or a line that is too long.
                if self.line.is_empty() || self.line.len() as u64 >= MAX_LINE {
                    return None;
                }
                // The last line may lack its end.
                if !is_over {
                    continue;
                }
            }
            let line = std::mem::take(&mut self.line);
            match read_message(&line) {
                Ok(Some(message)) => return Some(message),
                Ok(None) => {}
                Err(answer) => self.refuse(answer),
            }
            if !is_whole {
                return None;
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        while self.answers.join_next().await.is_some() {}
        drop(self.writer.lock().await.take());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use agent_types::SystemClock;
    use serde_json::{Value, json};
    use tool_registry::{Registry, Services};

    use super::*;
    use crate::MemoryCalls;

    async fn answers(input: &str) -> Vec<Value> {
        let calls = MemoryCalls::new(Arc::new(SystemClock), Services::new());
        let server = McpServer::new(Arc::new(Registry::new()), Arc::new(calls));
        let (writer, mut reader) = tokio::io::duplex(1 << 16);
        let input = io::Cursor::new(input.to_owned().into_bytes());
        server.serve_lines(input, writer, CancellationToken::new()).await.unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).await.unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    const HELLO: &str = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";

    #[tokio::test]
    async fn broken_lines_are_answered_and_end_nothing() {
        let lines = "{broken\n\n  \n\u{feff}{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\r\n[]\n\"x\"\n{\"id\":9}\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":7}\n{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"ping\"}\n";
        let answers = answers(&format!("{HELLO}{lines}")).await;
        let codes: Vec<&Value> = answers.iter().filter_map(|answer| answer["error"].get("code")).collect();
        assert_eq!(codes, [&json!(-32700), &json!(-32600), &json!(-32600), &json!(-32600)], "{answers:?}");
        for id in [7, 8] {
            assert!(
                answers.iter().any(|answer| answer["id"] == id && answer["result"] == json!({})),
                "{answers:?}"
            );
        }
        assert!(answers.iter().any(|answer| answer["id"] == 9 && answer["error"].is_object()), "{answers:?}");
    }
}
