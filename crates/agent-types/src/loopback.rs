//! Hosts of this machine.

use std::net::IpAddr;

/// Returns `true` for the host of an address on this machine, as a parsed URL gives it: `localhost`, a name below it, or a
/// loopback address, IPv6 in brackets included. Other names are not resolved.
///
/// ```
/// use agent_types::is_loopback_host;
///
/// assert!(is_loopback_host("127.0.0.1") && is_loopback_host("[::ffff:127.0.0.1]") && is_loopback_host("a.localhost."));
/// assert!(!is_loopback_host("localhost.test") && !is_loopback_host("10.0.0.1"));
/// ```
#[must_use]
pub fn is_loopback_host(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    let is_name = host == "localhost" || host.ends_with(".localhost");
    is_name || host.parse().is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback())
}
