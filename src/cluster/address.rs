//! The one check of a task's network address, `host:port`.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::job_name::parse_index;

/// The error of a text that is not a task's address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The text is empty or white space.
    #[error("the address is empty; write `host:port`")]
    Empty,
    /// A URL such as `grpc://host:2222`.
    #[error("`{0}` is a URL; write only its `host:port`")]
    Url(String),
    /// No colon and port follow the host.
    #[error("`{0}` has no port; write `host:port`, such as `{0}:2222`")]
    NoPort(String),
    /// The port is not made of digits.
    #[error("`{0}` is not a port; write a number from 1 to 65535")]
    Port(String),
    /// The port is out of range.
    #[error("port {0} is out of range (1 to 65535)")]
    PortRange(String),
    /// Colons outside brackets: an IPv6 address without them.
    #[error("`{0}` has more than one colon; an IPv6 address goes in brackets, as in `[::1]:2222`")]
    Brackets(String),
    /// The host is neither a DNS name nor an IPv4 or bracketed IPv6 address.
    #[error(
        "`{0}` is not a host; write a DNS name, an IPv4 address or an IPv6 address in brackets"
    )]
    Host(String),
}

/// An address in its canonical form, equal for two spellings of one address.
pub(crate) type Endpoint = (String, u16);

/// The host and the port of `text`, the host in lower case.
pub(crate) fn parse_address(text: &str) -> Result<Endpoint, AddressError> {
    if text.trim().is_empty() {
        return Err(AddressError::Empty);
    }
    if text.contains("://") {
        return Err(AddressError::Url(text.to_owned()));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((_, port)) if port.ends_with(']') => {
            return Err(AddressError::NoPort(text.to_owned()));
        }
        Some((host, port)) => (host, port),
        None => return Err(AddressError::NoPort(text.to_owned())),
    };
    Ok((parse_host(host, text)?, parse_port(port)?))
}

fn parse_port(port: &str) -> Result<u16, AddressError> {
    if port.is_empty() || !port.bytes().all(|b| b.is_ascii_digit()) {
        return Err(AddressError::Port(port.to_owned()));
    }
    let number = parse_index(port).and_then(|number| u16::try_from(number).ok());
    number.filter(|number| *number > 0).ok_or_else(|| AddressError::PortRange(port.to_owned()))
}

/// The canonical form of a host. Underscores are permitted, because container networks use them in
/// names.
fn parse_host(host: &str, text: &str) -> Result<String, AddressError> {
    let wrong = || AddressError::Host(host.to_owned());
    if let Some(inner) = host.strip_prefix('[') {
        let inner = inner.strip_suffix(']').ok_or_else(wrong)?;
        return inner.parse::<Ipv6Addr>().map(|address| address.to_string()).map_err(|_| wrong());
    }
    if host.contains(':') {
        return Err(AddressError::Brackets(text.to_owned()));
    }
    if host.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return host.parse::<Ipv4Addr>().map(|address| address.to_string()).map_err(|_| wrong());
    }
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    let name = host.strip_suffix('.').unwrap_or(host);
    if name.len() > 253 || !name.split('.').all(label) {
        return Err(wrong());
    }
    Ok(name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_and_both_kinds_of_internet_addresses_are_taken() {
        for (text, host) in [
            ("ps0:2222", "ps0"),
            ("Host-1.example.org:1", "host-1.example.org"),
            ("j-ps-0.ns.svc:65535", "j-ps-0.ns.svc"),
            ("compose_ps:2222", "compose_ps"),
            ("10.0.0.1:2222", "10.0.0.1"),
            ("[::1]:2222", "::1"),
            ("[0:0:0:0:0:0:0:1]:2222", "::1"),
        ] {
            assert_eq!(parse_address(text).unwrap().0, host, "{text}");
        }
    }

    #[test]
    fn each_mistake_in_an_address_has_its_own_error() {
        let error = |text: &str| parse_address(text).unwrap_err();
        assert_eq!(error(" "), AddressError::Empty);
        assert_eq!(error("grpc://ps0:2222"), AddressError::Url("grpc://ps0:2222".into()));
        assert_eq!(error("ps0"), AddressError::NoPort("ps0".into()));
        assert_eq!(error("[::1]"), AddressError::NoPort("[::1]".into()));
        assert_eq!(error("::1:2222"), AddressError::Brackets("::1:2222".into()));
        for port in ["", "http", "-1", "+80", "22 "] {
            assert_eq!(error(&format!("ps0:{port}")), AddressError::Port(port.into()));
        }
        for port in ["0", "65536", "99999", "99999999999999999999"] {
            assert_eq!(error(&format!("ps0:{port}")), AddressError::PortRange(port.into()));
        }
        for host in ["", "a b", "10.0.0.300", "1.2.3", "[::g]", "[::1", "-a", "a..b", "bü"] {
            assert_eq!(error(&format!("{host}:2222")), AddressError::Host(host.into()));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "[\\PC:\\[\\].]*") {
            let _parsed_or_refused = parse_address(&text);
        }
    }
}
