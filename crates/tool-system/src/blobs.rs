//! Large results, kept whole and read in pieces.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::fmt::Write;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tool_registry::{Dep, RegistryError, Tool, ToolError, ToolErrorKind, tool};

/// A piece of a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobPart {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Length of the whole, in bytes.
    pub total: u64,
}

/// Store of large values, by the SHA-256 of their bytes.
#[async_trait]
pub trait BlobSource: Send + Sync + fmt::Debug {
    /// Keeps bytes; gives their SHA-256 in hex.
    ///
    /// # Errors
    /// They cannot be kept.
    async fn put(&self, bytes: Vec<u8>) -> Result<String, ToolError>;

    /// At most `length` bytes from `offset` on; `None` if the blob is unknown.
    ///
    /// # Errors
    /// It cannot be read.
    async fn read(&self, sha256: &str, offset: u64, length: usize) -> Result<Option<BlobPart>, ToolError>;
}

/// Blobs in memory, the newest ones up to a limit.
pub struct MemoryBlobs {
    limit: usize,
    kept: Mutex<Stored>,
}

#[derive(Default)]
struct Stored {
    bytes: usize,
    blobs: HashMap<String, Arc<[u8]>>,
    order: VecDeque<String>,
}

impl fmt::Debug for MemoryBlobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBlobs").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl Default for MemoryBlobs {
    /// 64 MiB.
    fn default() -> Self {
        Self::new(64 * 1024 * 1024)
    }
}

impl MemoryBlobs {
    /// Keeps at most this many bytes; the oldest blobs are removed first.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, kept: Mutex::default() }
    }
}

#[async_trait]
impl BlobSource for MemoryBlobs {
    async fn put(&self, bytes: Vec<u8>) -> Result<String, ToolError> {
        if bytes.len() > self.limit {
            return Err(ToolError::new(ToolErrorKind::Refused, format!("more than {} bytes", self.limit)));
        }
        let mut sha256 = String::with_capacity(64);
        for byte in Sha256::digest(&bytes) {
            // Writing to a string cannot fail.
            let _ = write!(sha256, "{byte:02x}");
        }
        let mut kept = self.kept.lock();
        if kept.blobs.contains_key(&sha256) {
            return Ok(sha256);
        }
        kept.bytes += bytes.len();
        kept.blobs.insert(sha256.clone(), bytes.into());
        kept.order.push_back(sha256.clone());
        while kept.bytes > self.limit {
            let Some(oldest) = kept.order.pop_front() else { break };
            kept.bytes -= kept.blobs.remove(&oldest).map_or(0, |bytes| bytes.len());
        }
        Ok(sha256)
    }

    async fn read(&self, sha256: &str, offset: u64, length: usize) -> Result<Option<BlobPart>, ToolError> {
        let kept = self.kept.lock();
        Ok(kept.blobs.get(sha256).map(|bytes| {
            let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
            let end = start.saturating_add(length).min(bytes.len());
            BlobPart { bytes: bytes[start..end].to_vec(), total: bytes.len() as u64 }
        }))
    }
}

/// Reads a part of a long result.
/// * `reference` - its id, as it was given: `blob:` and 64 hex digits
/// * `offset` - the first byte to read
/// * `limit` - most bytes to read
#[tool(name = "system:read_blob", read_only)]
async fn read_blob(
    #[arg(name = "ref")] reference: String,
    #[arg(default = 0)] offset: u64,
    #[arg(default = 4096, range = 1..=8_000)] limit: usize,
    blobs: Dep<dyn BlobSource>,
) -> Result<String, ToolError> {
    let sha256 = reference.trim().trim_start_matches("blob:").to_ascii_lowercase();
    let part = blobs.read(&sha256, offset, limit).await?;
    let part = part.ok_or_else(|| {
        ToolError::new(ToolErrorKind::InvalidArguments, format!("unknown or expired blob '{reference}'"))
    })?;
    let end = offset.saturating_add(part.bytes.len() as u64).min(part.total);
    Ok(format!("[bytes {offset} to {end} of {}]\n{}", part.total, String::from_utf8_lossy(&part.bytes)))
}

pub(super) fn tools() -> [Result<Tool, RegistryError>; 1] {
    tool_registry::tools![read_blob]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_newest_are_kept_and_read_in_pieces() {
        let blobs = MemoryBlobs::new(10);
        let first = blobs.put(b"012345".to_vec()).await.unwrap();
        assert_eq!(first, blobs.put(b"012345".to_vec()).await.unwrap());
        let part = blobs.read(&first, 4, 10).await.unwrap().unwrap();
        assert_eq!((part.bytes.as_slice(), part.total), (&b"45"[..], 6));
        assert!(blobs.read(&first, 99, 1).await.unwrap().unwrap().bytes.is_empty());
        blobs.put(b"abcdef".to_vec()).await.unwrap();
        assert_eq!(blobs.read(&first, 0, 1).await.unwrap(), None, "the oldest makes room");
        assert!(blobs.put(vec![0; 11]).await.is_err());
    }
}
