//! Where a link leads: read once, kept byte for byte, safe in a header.
//!
//! A URL is refused where two readers could see two hosts in it (RFC 3986 and the browsers differ
//! on backslashes, missing slashes and spaces), because what we checked must be what a browser
//! opens. It is never rebuilt from its parts: a valueless parameter or an empty fragment would not
//! survive that.

use std::fmt;

use url::{Host, Url};

use crate::limits::DESTINATION_BYTES_MAX;

/// A destination that was accepted: `http` or `https`, visible ASCII, no credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination(String);

/// Why a destination is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DestinationRefused {
    /// Longer than the bound.
    TooLong,
    /// A space, control character or anything else that is not visible ASCII.
    NotAscii,
    /// Another scheme than `http` and `https`, or none.
    Scheme,
    /// It does not read as a URL with a host.
    Malformed,
    /// A user name or password stands in it.
    Credentials,
    /// It leads to ourselves.
    OwnHost,
}

impl DestinationRefused {
    /// One sentence for people.
    pub const fn message(self) -> &'static str {
        match self {
            Self::TooLong => "It must have at most 8192 characters.",
            Self::NotAscii => "It must be percent-encoded: visible ASCII characters only.",
            Self::Scheme => "It must begin with http:// or https://.",
            Self::Malformed => "It must be a URL with a host.",
            Self::Credentials => "It must not contain a user name or password.",
            Self::OwnHost => "It must not lead to this service itself.",
        }
    }
}

impl Destination {
    /// Reads what a caller gave; `own` are the hosts under which we answer.
    pub fn parse(text: &str, own: &OwnHosts) -> Result<Self, DestinationRefused> {
        if text.len() > DESTINATION_BYTES_MAX {
            return Err(DestinationRefused::TooLong);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(DestinationRefused::NotAscii);
        }
        let rest = after_scheme(text).ok_or(DestinationRefused::Scheme)?;
        let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(end);
        if authority.contains('@') {
            return Err(DestinationRefused::Credentials);
        }
        if authority.is_empty() || tail.starts_with('\\') {
            return Err(DestinationRefused::Malformed);
        }
        let url = Url::parse(text).map_err(|_| DestinationRefused::Malformed)?;
        let host = HostPort::of(&url).ok_or(DestinationRefused::Malformed)?;
        if own.0.iter().any(|one| one.is_same(&host)) {
            return Err(DestinationRefused::OwnHost);
        }
        Ok(Self(text.to_owned()))
    }

    /// One that was accepted before and stored.
    pub fn stored(text: String) -> Option<Self> {
        let safe = text.bytes().all(|byte| byte.is_ascii_graphic());
        (safe && after_scheme(&text).is_some()).then_some(Self(text))
    }

    /// The bytes as they were given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What follows `http://` or `https://`, in any case.
fn after_scheme(text: &str) -> Option<&str> {
    ["http://", "https://"].iter().find_map(|scheme| {
        let head = text.get(..scheme.len())?;
        let rest = text.get(scheme.len()..)?;
        head.eq_ignore_ascii_case(scheme).then_some(rest)
    })
}

/// The hosts under which we answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnHosts(Vec<HostPort>);

impl OwnHosts {
    /// From the base URLs that lead to us; one that does not read is none.
    pub fn of(urls: &[&str]) -> Self {
        let parsed = urls.iter().filter_map(|text| Url::parse(text).ok());
        Self(parsed.filter_map(|url| HostPort::of(&url)).collect())
    }
}

/// A host as browsers see it, with the port that is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HostPort {
    host: String,
    port: u16,
}

/// All names of this machine are one.
const LOOPBACK: &str = "localhost";

impl HostPort {
    fn of(url: &Url) -> Option<Self> {
        let loopback = match url.host()? {
            Host::Ipv4(address) => address.is_loopback() || address.is_unspecified(),
            Host::Ipv6(address) => address.is_loopback() || address.is_unspecified(),
            Host::Domain(name) => name.trim_end_matches('.') == LOOPBACK,
        };
        let host = if loopback {
            LOOPBACK
        } else {
            url.host_str()?.trim_end_matches('.')
        };
        Some(Self {
            host: host.to_ascii_lowercase(),
            port: url.port_or_known_default()?,
        })
    }

    /// A public host is ourselves on every port; on this machine other ports are other programs.
    fn is_same(&self, other: &Self) -> bool {
        self.host == other.host && (self.host != LOOPBACK || self.port == other.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn own() -> OwnHosts {
        OwnHosts::of(&["https://sho.rt", "http://localhost:8787"])
    }

    fn refused(text: &str) -> Option<DestinationRefused> {
        Destination::parse(text, &own()).err()
    }

    #[test]
    fn other_schemes_and_texts_that_only_look_like_urls_are_refused() {
        use DestinationRefused as R;
        for (text, why) in [
            ("javascript:alert(1)", R::Scheme),
            (" JavaScript:alert(1)", R::NotAscii),
            ("JaVaScRiPt:alert(1)", R::Scheme),
            ("java\tscript:alert(1)", R::NotAscii),
            ("data:text/html,x", R::Scheme),
            ("file:///etc/passwd", R::Scheme),
            ("vbscript:x", R::Scheme),
            ("blob:https://d.example/1", R::Scheme),
            ("ftp://d.example/", R::Scheme),
            ("//evil.example", R::Scheme),
            ("/path", R::Scheme),
            ("d.example", R::Scheme),
            ("", R::Scheme),
            ("https:d.example", R::Scheme),
            ("https:/d.example", R::Scheme),
            ("https:\\\\d.example", R::Scheme),
            ("https://", R::Malformed),
            ("https:///d.example", R::Malformed),
            ("https://?x", R::Malformed),
            ("https://d.example\\@evil.example/", R::Malformed),
            ("https://d.example\\evil", R::Malformed),
            ("https://user:pw@d.example/", R::Credentials),
            ("https://user@d.example/", R::Credentials),
            ("https://@d.example/", R::Credentials),
            ("https://d.example:99999/", R::Malformed),
            ("https://[::1", R::Malformed),
            ("https://d.example/ x", R::NotAscii),
            ("https://d.example/\r\nSet-Cookie: a=b", R::NotAscii),
            ("https://d.example/\u{fc}", R::NotAscii),
            ("https://d.example/\0", R::NotAscii),
            ("https://%00/", R::Malformed),
        ] {
            assert_eq!(refused(text), Some(why), "{text:?}");
        }
        let long = format!("https://d.example/{}", "a".repeat(DESTINATION_BYTES_MAX));
        assert_eq!(refused(&long), Some(R::TooLong));
    }

    #[test]
    fn our_own_host_is_refused_however_it_is_written() {
        for text in [
            "https://sho.rt/x",
            "http://SHO.RT/x",
            "https://sho.rt./x",
            "https://sho.rt:8443/x",
            "http://localhost:8787/x",
            "http://127.0.0.1:8787/",
            "http://2130706433:8787/",
            "http://[::1]:8787/",
            "http://0.0.0.0:8787/",
        ] {
            assert_eq!(refused(text), Some(DestinationRefused::OwnHost), "{text}");
        }
        for text in [
            "https://sub.sho.rt/",
            "https://sho.rt.example/",
            "http://localhost:3000/",
            "http://169.254.169.254/latest",
        ] {
            assert_eq!(refused(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_accepted_is_kept_byte_for_byte() {
        for text in [
            "https://d.example/p?abc#123",
            "HTTPS://D.Example",
            "https://d.example/p?a=1&a=1&&=#",
            "https://d.example:443/../x/./y%2f%zz",
            "https://xn--bcher-kva.example/?q=%C3%BC",
            "http://[2001:db8::1]/",
            "https://d.example/a\\b",
            "https://d.example?x=https://user@other.example/",
        ] {
            let kept = Destination::parse(text, &own()).expect(text);
            assert_eq!(kept.as_str(), text);
            assert_eq!(Destination::stored(text.to_owned()), Some(kept));
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_and_an_accepted_one_is_a_safe_header(text in "\\PC{0,120}") {
            if let Ok(kept) = Destination::parse(&text, &own()) {
                prop_assert_eq!(kept.as_str(), text.as_str());
            }
        }

        #[test]
        fn near_urls_never_panic_and_browsers_see_the_host_that_was_checked(
            scheme in "(?i)https?:[/\\\\]{0,3}",
            authority in "[a-z0-9.:@\\\\\\[\\]%-]{0,24}",
            tail in "[/?#\\\\][ -~]{0,40}",
        ) {
            let text = format!("{scheme}{authority}{tail}");
            if let Ok(kept) = Destination::parse(&text, &own()) {
                prop_assert_eq!(kept.as_str(), text.as_str());
                prop_assert!(text.bytes().all(|b| b.is_ascii_graphic()));
                // Resolved against our own address, as a browser does with a Location header.
                let base = Url::parse("https://sho.rt/x").expect("it is one");
                let seen = base.join(kept.as_str()).expect("a browser reads it");
                prop_assert!(matches!(seen.scheme(), "http" | "https"));
                prop_assert!(seen.username().is_empty() && seen.password().is_none());
                prop_assert_ne!(seen.host_str(), Some("sho.rt"));
            }
        }
    }
}
