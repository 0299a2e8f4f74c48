//! The Model Context Protocol both ways: servers of others as tools, and a registry as a server.
//!
//! [`McpServer`] offers the tools of a [`ToolSource`](tool_registry::ToolSource) to clients over stdio or HTTP, with prompts and resources
//! from a [`PromptSource`] and a [`ResourceSource`].
//! [`McpClients`] turns servers that settings name into tools `mcp:server/tool`.
//!
//! Descriptions of servers are not trusted: they are cut and escaped, and a changed one is reported.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod client;
mod content;
mod serve;

pub use client::{ElicitationPolicy, MCP, McpClients, McpError, McpSettings, McpTools, MemoryPins, PinStore};
pub use serve::{
    CallRunner, ClientCall, Elicited, McpHttp, McpPeer, McpServer, MemoryCalls, PromptArgument, PromptInfo,
    PromptMessage, PromptSource, ResourceInfo, ResourceSource, ResourceTemplate, Speaker, StartedCall,
};

/// The main types are shared between threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<McpClients>();
    is_shared::<McpError>();
    is_shared::<McpHttp>();
    is_shared::<McpServer>();
    is_shared::<McpTools>();
};
