//! Something else than the network, for tests and rehearsals.

use std::fmt;

use async_trait::async_trait;

/// A request as it would go out: checked against the policy, with all values filled in.
pub type WireRequest = http::Request<Vec<u8>>;

/// Answer to such a request.
pub type WireAnswer = http::Response<Vec<u8>>;

/// Transport that answers requests instead of the network. The policy, redirects, limits and masks are those of the
/// caller.
#[async_trait]
pub trait Transport: Send + Sync + fmt::Debug {
    /// Answers one request.
    ///
    /// # Errors
    /// No peer answers; the call fails as unreachable.
    async fn send(&self, request: WireRequest) -> std::io::Result<WireAnswer>;
}
