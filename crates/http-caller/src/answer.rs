//! Reading a body: decompressed, and no more of it than allowed.

use std::borrow::Cow;
use std::io::Write;

use encoding_rs::{Encoding, UTF_8};
use flate2::write::MultiGzDecoder;
use reqwest::Response;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE};

use crate::error::HttpError;

/// Compressed bytes that are decompressed at a time, so that a bomb shows before it is large.
const STEP: usize = 1024;

/// Bytes that a compressed body may have beyond the limit of what it holds.
const RAW_MARGIN: usize = 64 * 1024;

/// A body, read.
pub(crate) struct Body {
    pub(crate) bytes: Vec<u8>,
    /// Set when the body exceeded the limit.
    pub(crate) is_cut: bool,
    /// Media type as the server names it, in lower case and without parameters.
    pub(crate) media: String,
    /// The encoding of its text, where the server names one that is known.
    pub(crate) charset: Option<&'static Encoding>,
}

impl Body {
    /// Returns the body as text; `None` for other content.
    pub(crate) fn text(&self) -> Option<Cow<'_, str>> {
        let (encoding, rest) = self.encoded();
        encoding.decode_without_bom_handling_and_without_replacement(rest)
    }

    /// Returns the body as text, with replacement characters for invalid bytes.
    pub(crate) fn text_lossy(&self) -> Cow<'_, str> {
        let (encoding, rest) = self.encoded();
        encoding.decode_without_bom_handling(rest).0
    }

    /// Encoding of the text, and its bytes: a byte order mark takes precedence over the header, and JSON is UTF-8
    /// wherever it can be.
    fn encoded(&self) -> (&'static Encoding, &[u8]) {
        let media = self.media.as_str();
        let is_json = media.ends_with("json");
        let is_text = is_json
            || media.starts_with("text/")
            || media.ends_with("xml")
            || media.ends_with("javascript")
            || media.is_empty();
        if !is_text || (is_json && std::str::from_utf8(&self.bytes).is_ok()) {
            return (UTF_8, &self.bytes);
        }
        match Encoding::for_bom(&self.bytes) {
            Some((encoding, length)) => (encoding, &self.bytes[length..]),
            None => (self.charset.unwrap_or(UTF_8), &self.bytes),
        }
    }
}

/// The encoding that a `Content-Type` in small letters names.
fn charset_of(content_type: &str) -> Option<&'static Encoding> {
    let mut parameters = content_type.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let (_, label) = parameters.find(|(name, _)| name.trim() == "charset")?;
    Encoding::for_label_no_replacement(label.trim().trim_matches('"').as_bytes())
}

/// Reads at most `limit` bytes.
///
/// # Errors
/// An encoding that was not requested, or a stream that breaks off or is not valid gzip.
pub(crate) async fn read(mut response: Response, limit: u64) -> Result<Body, HttpError> {
    let header = |name| {
        let value = response.headers().get(name).map(reqwest::header::HeaderValue::as_bytes);
        String::from_utf8_lossy(value.unwrap_or_default()).trim().to_ascii_lowercase()
    };
    let content_type = header(CONTENT_TYPE);
    let media = content_type.split(';').next().unwrap_or_default().trim().to_owned();
    let charset = charset_of(&content_type);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut sink = match header(CONTENT_ENCODING).as_str() {
        "" | "identity" => Sink::Plain(Vec::new()),
        "gzip" | "x-gzip" => Sink::NoGzipYet,
        other => {
            let other: String = other.chars().take(40).collect();
            return Err(HttpError::BadAnswer {
                message: format!("it is encoded as `{other}`, which was not asked for"),
            });
        }
    };
    let broken = |error: reqwest::Error| HttpError::BadAnswer { message: crate::caller::cause(error) };
    let mut received = 0_usize;
    while let Some(chunk) = response.chunk().await.map_err(broken)? {
        received = received.saturating_add(chunk.len());
        // Empty parts of a compressed body are bytes too.
        if received > limit.saturating_add(RAW_MARGIN) {
            return Ok(Body { bytes: sink.into_bytes(), is_cut: true, media, charset });
        }
        for step in chunk.chunks(STEP) {
            sink.write(step)?;
            if sink.len() > limit {
                let mut bytes = sink.into_bytes();
                bytes.truncate(limit);
                return Ok(Body { bytes, is_cut: true, media, charset });
            }
        }
    }
    let bytes = sink.finish()?;
    let is_cut = bytes.len() > limit;
    Ok(Body { bytes, is_cut, media, charset })
}

enum Sink {
    Plain(Vec<u8>),
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    /// Said to be gzip, and nothing came yet: an answer to `HEAD` has no body.
    NoGzipYet,
}

impl Sink {
    fn write(&mut self, bytes: &[u8]) -> Result<(), HttpError> {
        if let Self::NoGzipYet = self {
            *self = Self::Gzip(Box::new(MultiGzDecoder::new(Vec::new())));
        }
        match self {
            Self::NoGzipYet => {}
            Self::Plain(body) => body.extend_from_slice(bytes),
            Self::Gzip(decoder) => decoder.write_all(bytes).map_err(no_gzip)?,
        }
        Ok(())
    }

    fn len(&self) -> usize {
        match self {
            Self::Plain(body) => body.len(),
            Self::Gzip(decoder) => decoder.get_ref().len(),
            Self::NoGzipYet => 0,
        }
    }

    fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Plain(body) => body,
            Self::Gzip(mut decoder) => std::mem::take(decoder.get_mut()),
            Self::NoGzipYet => Vec::new(),
        }
    }

    fn finish(self) -> Result<Vec<u8>, HttpError> {
        match self {
            Self::Plain(body) => Ok(body),
            Self::Gzip(decoder) => decoder.finish().map_err(no_gzip),
            Self::NoGzipYet => Ok(Vec::new()),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "handed to map_err")]
fn no_gzip(error: std::io::Error) -> HttpError {
    HttpError::BadAnswer { message: format!("it is not valid gzip: {error}") }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    async fn read_gzip(body: Vec<u8>) -> Body {
        let answer = http::Response::builder().header(CONTENT_ENCODING, "gzip").body(body).unwrap();
        read(answer.into(), 1000).await.unwrap()
    }

    #[tokio::test]
    async fn n04_a_small_compressed_body_is_cut_where_it_becomes_large() {
        let body = read_gzip(gzip(&vec![b' '; 50 << 20])).await;
        assert!(body.is_cut && body.bytes.len() == 1000);
    }

    #[tokio::test]
    async fn n04_parts_that_hold_nothing_count_as_they_come() {
        let body = read_gzip(gzip(b"").repeat(20_000)).await;
        assert!(body.is_cut && body.bytes.is_empty());
        let body = read_gzip([gzip(b"a"), gzip(b""), gzip(b"b")].concat()).await;
        assert!(!body.is_cut && body.bytes == b"ab");
    }
}
