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
    /// The name does not exist, or no resolver is reachable.
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
            // One private address among several is enough: the one that would be used is unknown.
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Answers one after the other.
    #[derive(Debug)]
    struct Answers(Mutex<Vec<Vec<IpAddr>>>);

    #[async_trait]
    impl Resolver for Answers {
        async fn resolve(&self, _: &str) -> std::io::Result<Vec<IpAddr>> {
            let mut answers = self.0.lock().unwrap();
            if answers.is_empty() { Err(std::io::ErrorKind::NotFound.into()) } else { Ok(answers.remove(0)) }
        }
    }

    #[test]
    fn s17_the_client_gets_what_was_checked_and_a_second_answer_is_checked_again() {
        let ips = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpAddr>>();
        let answers = vec![
            ips(&["93.184.215.14", "2606:4700::1"]),
            ips(&["127.0.0.1"]),
            ips(&["93.184.215.14", "10.0.0.1"]),
        ];
        let pinned = Pinned { resolver: Arc::new(Answers(Mutex::new(answers))), permit: Permit::Public };
        let ask = || {
            let asked =
                futures::executor::block_on(Resolve::resolve(&pinned, "rebind.test".parse().unwrap()));
            asked
                .map(|found| found.map(|address| address.ip()).collect::<Vec<_>>())
                .map_err(|error| error.to_string())
        };
        assert_eq!(ask(), Ok(ips(&["93.184.215.14", "2606:4700::1"])));
        assert_eq!(ask(), Err("127.0.0.1 is refused: private_address".into()));
        assert_eq!(ask(), Err("10.0.0.1 is refused: private_address".into()));
        assert!(ask().is_err());
    }
}
