//! Classification of addresses, also inside other addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses at which clouds hand out the machine's credentials.
const METADATA_V4: [Ipv4Addr; 7] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(169, 254, 170, 23),
    Ipv4Addr::new(169, 254, 42, 42),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(192, 0, 0, 192),
];

/// The same, of version 6.
const METADATA_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];

/// Returns `true` for an address that serves credentials of the machine, also inside another address.
pub(super) fn is_metadata(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => METADATA_V4.contains(&ip),
        IpAddr::V6(ip) => {
            METADATA_V6.contains(&ip) || embedded(ip).iter().any(|inner| METADATA_V4.contains(inner))
        }
    }
}

/// Returns `true` for an address of the public internet.
pub(super) fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let is_special = matches!(
        (a, b, c),
        // This network, private, loopback; multicast, reserved, broadcast.
        (0 | 10 | 127 | 224.., _, _)
            // Shared by the customers of a provider.
            | (100, 64..=127, _)
            // Link-local, private, private.
            | (169, 254, _) | (172, 16..=31, _) | (192, 168, _)
            // Protocol assignments, documentation, relays of 6to4.
            | (192, 0, 0 | 2) | (192, 88, 99) | (198, 51, 100) | (203, 0, 113)
            // Benchmarks.
            | (198, 18..=19, _)
    );
    !is_special && !METADATA_V4.contains(&ip)
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let parts = ip.segments();
    // Mapped, and the well-known prefix of NAT64: what is inside counts.
    if matches!(parts, [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..]) {
        return is_public_v4(low_v4(parts));
    }
    let is_special = matches!(
        parts,
        // Teredo and other protocol assignments, documentation.
        [0x2001, 0..=0x1ff | 0xdb8, ..]
            // 6to4, documentation.
            | [0x2002, ..] | [0x3fff, 0..=0xfff, ..]
            // ISATAP: an address of version 4 behind a fixed mark.
            | [_, _, _, _, 0 | 0x200, 0x5efe, ..]
    );
    // Outside of global unicast everything is local, multicast or unassigned.
    !is_special && matches!(parts[0], 0x2000..=0x3fff)
}

/// The addresses of version 4 that one of version 6 may carry.
fn embedded(ip: Ipv6Addr) -> Vec<Ipv4Addr> {
    let parts = ip.segments();
    let mut inner = vec![low_v4(parts)];
    match parts {
        [0x2002, high, low, ..] => inner.push(v4(high, low)),
        // Teredo: the server as it is, the client with its bits turned.
        [0x2001, 0, high, low, ..] => inner.extend([v4(high, low), v4(!parts[6], !parts[7])]),
        _ => {}
    }
    inner
}

fn low_v4(parts: [u16; 8]) -> Ipv4Addr {
    v4(parts[6], parts[7])
}

fn v4(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_public_internet_is_public() {
        for ip in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450::1",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2001:4860::1",
        ] {
            assert!(is_public(ip.parse().unwrap()), "{ip}");
        }
        for ip in [
            "0.0.0.0",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.1.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "168.63.129.16",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::808:808",
            "100::1",
            "2001::1",
            "2001:0:4136:e378::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:808:808::1",
            "3fff::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2606:4700::5efe:127.0.0.1",
            "2606:4700::200:5efe:10.0.0.1",
            "4000::1",
        ] {
            assert!(!is_public(ip.parse().unwrap()), "{ip}");
        }
    }

    #[test]
    fn metadata_is_found_inside_other_addresses() {
        for ip in [
            "169.254.169.254",
            "169.254.170.2",
            "168.63.129.16",
            "fd00:ec2::254",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
            "2001:0:a9fe:a9fe::1",
            "2001:0:1:2:3:4:5601:5601",
            "fe80::5efe:169.254.169.254",
        ] {
            assert!(is_metadata(ip.parse().unwrap()), "{ip}");
        }
        assert!(!is_metadata("127.0.0.1".parse().unwrap()));
        assert!(!is_metadata("169.254.1.1".parse().unwrap()));
    }
}
