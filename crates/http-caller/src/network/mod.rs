//! Policy for the addresses that requests may reach.

mod address;
mod policy;
mod resolve;

pub use policy::{HostRule, InvalidHostRule, NetworkPolicy};
pub(crate) use policy::{Permit, check_url, host_of, target};
pub(crate) use resolve::{Pinned, refusal};
pub use resolve::{Resolver, SystemResolver};
