//! Clients for servers that the settings name, whose protocol other libraries speak.

use agent_types::is_loopback_host;
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
    Ok(if url.host_str().is_some_and(is_loopback_host) { client.no_proxy() } else { client })
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
            let parsed: Url = url.parse().unwrap();
            assert_eq!(parsed.host_str().is_some_and(is_loopback_host), is_here, "{url}");
        }
    }
}
