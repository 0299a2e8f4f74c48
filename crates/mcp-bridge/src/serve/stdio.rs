//! The server over stdin and stdout.

use rmcp::ServiceExt;
use tokio_util::sync::CancellationToken;

use super::McpServer;

impl McpServer {
    /// Serves one client over stdin and stdout until it goes away or the token is cancelled. Nothing else may write to stdout.
    ///
    /// # Errors
    /// The client did not begin as it should.
    pub async fn serve_stdio(self, closed: CancellationToken) -> std::io::Result<()> {
        let running = self
            .serve_with_ct(rmcp::transport::stdio(), closed)
            .await
            .map_err(|error| std::io::Error::other(error.to_string()))?;
        running.waiting().await.map(|_| ()).map_err(std::io::Error::other)
    }
}
