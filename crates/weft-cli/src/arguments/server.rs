//! Arguments of `weft serve`, `weft mcp` and what belongs to them.

use std::net::IpAddr;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// Address to bind; absent, that of `[server]` in weft.toml, else 127.0.0.1.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) host: Option<IpAddr>,
    /// Port to bind; 0 takes a free one.
    #[arg(long, value_name = "N")]
    pub(crate) port: Option<u16>,
    /// Accept every client that reaches the address; only 127.0.0.1 and ::1 can be bound so.
    #[arg(long)]
    pub(crate) no_token: bool,
}

#[derive(Debug, Args)]
pub(crate) struct McpArguments {
    /// Offer the tools of this agent alone.
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// Serve nothing; take what this server of `[mcp]` in weft.toml says of its tools now for good.
    #[arg(long, value_name = "SERVER", conflicts_with = "agent")]
    pub(crate) trust: Option<String>,
}
