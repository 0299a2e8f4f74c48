//! Templated HTTP requests under a network policy.
//!
//! An [`Endpoint`] is what a file says of a request, checked and parsed once; an [`HttpCaller`] fills it with values and sends it.
//! Values never become structure: scheme, host and port are fixed when the endpoint is loaded, path and query are percent-encoded, a body is filled as a tree, and nothing is expanded twice.
//! By default only the public internet is reached, in whatever spelling an address comes and at every redirect; secrets come from the environment and are taken out of everything that comes back.
//! Proxies of the environment are ignored: a proxy would resolve names for itself.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod answer;
mod auth;
mod body;
mod caller;
mod config;
mod encode;
mod endpoint;
mod error;
#[cfg(test)]
mod laws;
mod network;
mod peer;
mod query;
mod reply;
mod request;
mod response;
mod secret;
mod secret_policy;
mod template;
mod transport;

pub use caller::{CallValues, HttpAnswer, HttpCaller, HttpCallerBuilder, install_tls};
pub use config::{
    AuthConfig, DEFAULT_MAX_BYTES, DEFAULT_TIMEOUT_MS, EndpointConfig, ProblemCode, QueryStyle, QueryValue,
    ResponseConfig, RetryConfig, StyledValue,
};
pub use endpoint::{CallConfig, ConfigError, Endpoint};
pub use error::{BlockReason, HttpError};
pub use network::{HostRule, InvalidHostRule, NetworkPolicy, Resolver, SystemResolver};
pub use peer::builder_of_peer;
pub use query::{JsonQuery, QueryTooLarge};
pub use reply::ReplyTemplate;
pub use secret::{EnvSecrets, Secret, SecretMask, SecretSource};
pub use secret_policy::RefusedSecret;
pub use template::Scope;
pub use transport::{Transport, WireAnswer, WireRequest};

/// The main types are shared between threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Endpoint>();
    is_shared::<HttpCaller>();
    is_shared::<HttpError>();
    is_shared::<NetworkPolicy>();
    is_shared::<ReplyTemplate>();
};
