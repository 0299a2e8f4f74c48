//! A store for async code: the writer may wait for another process, and the caller's thread does not wait with it.

use serde_json::Value;

use crate::{Store, StoreError};

/// A store whose calls wait for the writer without blocking a thread. Readers never wait for the writer of another process.
#[derive(Debug, Clone, Copy)]
pub struct UnblockedStore<'s>(&'s Store);

impl<'s> From<&'s Store> for UnblockedStore<'s> {
    fn from(store: &'s Store) -> Self {
        Self(store)
    }
}

impl UnblockedStore<'_> {
    /// As [`Store::flush`].
    ///
    /// # Errors
    /// The last group could not be written.
    ///
    /// # Cancel safety
    /// What was sent is written all the same.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.0.0.writer.flushed().await
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
        self.0.0.writer.updated(key, &self.0.0.masks, change).await
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
