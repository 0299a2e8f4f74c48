//! Long results of calls, kept with the project's runs.

use async_trait::async_trait;
use run_store::Store;
use tool_registry::ToolError;
use tool_system::{BlobPart, BlobSource};

/// Blobs in the store; those that a run's events name go with the run.
#[derive(Debug)]
pub(crate) struct StoreBlobs(pub(crate) Store);

#[async_trait]
impl BlobSource for StoreBlobs {
    async fn put(&self, bytes: Vec<u8>) -> Result<String, ToolError> {
        Ok(self.0.put_blob(&bytes))
    }

    async fn read(&self, sha256: &str, offset: u64, length: usize) -> Result<Option<BlobPart>, ToolError> {
        let found = self.0.blob(sha256).map_err(|error| ToolError::failed(error.to_string()))?;
        let Some(whole) = found else { return Ok(None) };
        let total = whole.len() as u64;
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(whole.len());
        let to = from.saturating_add(length).min(whole.len());
        Ok(Some(BlobPart { bytes: whole[from..to].to_vec(), total }))
    }
}
