//! Names to addresses: resolved once, checked, and the checked addresses are what is connected to.

use std::error::Error;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::policy::Permit;
use crate::error::BlockReason;

/// Turns names into addresses.
#[async_trait]
pub trait Resolver: Send + Sync + fmt::Debug {
    /// All addresses of a name.
    ///
    /// # Errors
    /// There is no such name, or nobody to ask.
    async fn resolve(&self, host: &str) -> std::io::Result<Vec<IpAddr>>;
}

/// The resolver of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, host: &str) -> std::io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// A resolver inside a client: what it gives was checked, and the client connects to nothing else.
pub(crate) struct Pinned {
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) permit: Permit,
}

impl Resolve for Pinned {
    fn resolve(&self, name: Name) -> Resolving {
        let (resolver, permit) = (Arc::clone(&self.resolver), self.permit);
        Box::pin(async move {
            let addresses = resolver.resolve(name.as_str()).await?;
            // One private address among several is enough: nobody says which of them would be taken.
            if let Some((address, reason)) =
                addresses.iter().find_map(|&ip| permit.refuses(ip).map(|reason| (ip, reason)))
            {
                return Err(Box::new(Refusal { reason, address }) as _);
            }
            let addresses = addresses.into_iter().map(|ip| SocketAddr::new(ip, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}

/// An address that the policy refuses, on its way through the client.
#[derive(Debug, Clone, Copy)]
struct Refusal {
    reason: BlockReason,
    address: IpAddr,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is refused: {}", self.address, self.reason.as_str())
    }
}

impl Error for Refusal {}

/// The refusal among the causes of an error.
pub(crate) fn refusal(error: &reqwest::Error) -> Option<(BlockReason, IpAddr)> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(refusal) = error.downcast_ref::<Refusal>() {
            return Some((refusal.reason, refusal.address));
        }
        cause = error.source();
    }
    None
}
