//! Clients for servers that the settings name, whose protocol other libraries speak.

use std::net::IpAddr;

use reqwest::{Client, ClientBuilder, Url};

use crate::caller::install_tls;

/// Settings of a client for one server: it follows no redirect, so that headers and bodies stay with their origin, reads no
/// compressed body, and uses no proxy of the environment for this machine.
///
/// # Errors
/// The address is invalid.
pub fn builder_of_peer(url: &str) -> Result<ClientBuilder, String> {
    install_tls();
    let url = Url::parse(url).map_err(|error| format!("`{url}` is not a valid address: {error}"))?;
    let client = Client::builder()
        .no_gzip()
        .no_brotli()
        .no_deflate()
        .no_zstd()
        .referer(false)
        .redirect(reqwest::redirect::Policy::none());
    Ok(if is_loopback(&url) { client.no_proxy() } else { client })
}

fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    let is_name = host == "localhost" || host.ends_with(".localhost");
    is_name || host.parse().is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n22_this_machine_is_known_in_every_spelling() {
        for (url, is_here) in [
            ("http://127.0.0.1:1/", true),
            ("http://2130706433/", true),
            ("http://[::1]:8/", true),
            ("http://[::ffff:127.0.0.1]/", true),
            ("http://LOCALHOST./", true),
            ("http://a.localhost/", true),
            ("http://localhost.test/", false),
            ("http://10.0.0.1/", false),
        ] {
            assert_eq!(is_loopback(&url.parse().unwrap()), is_here, "{url}");
        }
    }
}
