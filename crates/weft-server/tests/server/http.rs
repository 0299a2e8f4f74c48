//! A client that writes its bytes unchanged.

use std::fmt::Write;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An answer.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:#?}");
        self
    }

    /// The code of a problem.
    #[track_caller]
    pub(crate) fn code(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        self.json()["code"].as_str().unwrap().to_owned()
    }
}

/// Sends bytes and reads until the other side has had enough.
pub(crate) async fn raw(address: SocketAddr, request: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(answer)
}

/// A request as bytes; the connection ends with its answer.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
    for (name, value) in headers {
        write!(text, "{name}: {value}\r\n").unwrap();
    }
    if !body.is_empty() {
        write!(text, "content-length: {}\r\n", body.len()).unwrap();
    }
    text.push_str("\r\n");
    text.push_str(body);
    text.into_bytes()
}

pub(crate) fn parse(answer: &[u8]) -> Response {
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("an answer has a head");
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let mut body = answer[end + 4..].to_vec();
    if headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked") {
        body = without_chunks(&body);
    }
    Response { status, headers, body: String::from_utf8_lossy(&body).into_owned() }
}

/// Contents of chunks, up to their end or to where they were cut.
pub(crate) fn without_chunks(mut bytes: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(line) = bytes.windows(2).position(|pair| pair == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..line]).unwrap().trim(), 16).unwrap();
        let rest = &bytes[line + 2..];
        whole.extend_from_slice(&rest[..size.min(rest.len())]);
        if size == 0 || rest.len() < size + 2 {
            break;
        }
        bytes = &rest[size + 2..];
    }
    whole
}
