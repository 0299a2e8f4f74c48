//! A store for async code: the writer may wait for another process, and the caller's thread does not wait with it.

use std::sync::Arc;

use serde_json::Value;

use crate::encode::masked_value;
use crate::writer::Job;
use crate::{Store, StoreError};

/// A store whose calls wait for the writer without blocking a thread. Readers never wait for the writer of another process.
#[derive(Debug, Clone, Copy)]
pub struct UnblockedStore<'s>(pub(crate) &'s Store);

impl UnblockedStore<'_> {
    /// As [`Store::flush`].
    ///
    /// # Errors
    /// The last group could not be written.
    ///
    /// # Cancel safety
    /// What was sent is written all the same.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.0.0.writer.flush(None).await.unwrap_or_else(|_| Err(stopped()))
    }

    /// As [`Store::update`].
    ///
    /// # Errors
    /// The store cannot be written; the inner error is that of `change`.
    ///
    /// # Cancel safety
    /// The change is made all the same.
    pub async fn update<E: Send + 'static>(
        &self,
        key: &str,
        change: impl FnOnce(Option<Value>) -> Result<Value, E> + Send + 'static,
    ) -> Result<Result<Value, E>, StoreError> {
        let (sender, receiver) = std::sync::mpsc::channel();
        let masks = Arc::clone(&self.0.0.masks);
        let change = move |old| {
            let new = change(old).map(|new| masked_value(&new, &masks));
            let kept = new.as_ref().ok().cloned();
            // Whoever asked waits for it below.
            let _ = sender.send(new);
            kept
        };
        let (done, wait) = futures::channel::oneshot::channel();
        self.0.0.writer.send(Job::Update { key: key.to_owned(), change: Box::new(change), done });
        wait.await.unwrap_or_else(|_| Err(stopped()))?;
        receiver.try_recv().map_err(|_| stopped())
    }

    /// As [`Store::value`].
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn value(&self, key: &str) -> Result<Option<Value>, StoreError> {
        self.flush().await?;
        self.0.0.backend.value(key)
    }

    /// As [`Store::values`].
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn values(&self, prefix: &str) -> Result<Vec<(String, Value)>, StoreError> {
        self.flush().await?;
        self.0.0.backend.values(prefix)
    }

    /// As [`Store::messages`].
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn messages(&self, thread: &str) -> Result<Vec<Value>, StoreError> {
        self.flush().await?;
        self.0.0.backend.messages(thread)
    }
}

fn stopped() -> StoreError {
    StoreError::io("the writer has stopped")
}
