//! What a request for a code gets, and whether it counts. Pure.

use crate::units::Millis;

/// Why an entry is taken back by a rule, as the ledger and `GET /v1/usage` name it. The
/// double-click rule belongs to the shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A machine that says so.
    Bot,
    /// A fetcher of link previews that says so.
    PreviewCrawler,
    /// No user agent at all.
    NoUserAgent,
}

impl Reason {
    /// As it is stored and answered.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bot => "bot",
            Self::PreviewCrawler => "preview_crawler",
            Self::NoUserAgent => "no_user_agent",
        }
    }
}

/// What is known of a link, as far as a redirect depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// Switched off by its account.
    pub disabled: bool,
    /// From this moment on it is over.
    pub expires_at: Option<Millis>,
}

/// How somebody asks for a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Only the headers are asked for.
    pub head: bool,
    /// A browser asks ahead, before anybody clicked.
    pub prefetch: bool,
    /// When.
    pub now: Millis,
}

/// What a request for a code gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The redirect, and a click is recorded.
    Click,
    /// The redirect, and nothing is recorded.
    RedirectOnly,
    /// There is no such link.
    Unknown,
    /// The link was switched off.
    Disabled,
    /// The link is over.
    Expired,
    /// Nobody clicked yet: the browser is to ask again when somebody does.
    Prefetch,
}

/// The one decision of every path that redirects. A limit is not among its facts, on purpose.
pub fn decide(link: Option<LinkState>, visit: Visit) -> Decision {
    let Some(link) = link else {
        return Decision::Unknown;
    };
    if link.disabled {
        return Decision::Disabled;
    }
    if link.expires_at.is_some_and(|at| at <= visit.now) {
        return Decision::Expired;
    }
    if visit.prefetch {
        return Decision::Prefetch;
    }
    if visit.head {
        return Decision::RedirectOnly;
    }
    Decision::Click
}

/// Whether one of the headers with which browsers ask ahead says so: `Sec-Purpose: prefetch` with
/// or without parameters (`prefetch;prerender`), and the older `Purpose`, `X-Purpose`, `X-Moz`.
pub fn is_prefetch(name: &str, value: &str) -> bool {
    let says = |word: &str| {
        let mut words = value.split([';', ',', ' ']).map(str::trim);
        words.any(|one| one.eq_ignore_ascii_case(word))
    };
    match name {
        "sec-purpose" | "x-moz" => says("prefetch"),
        "purpose" | "x-purpose" => says("prefetch") || says("preview") || says("instant"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIVE: LinkState = LinkState {
        disabled: false,
        expires_at: None,
    };

    fn visit(head: bool, prefetch: bool) -> Visit {
        Visit {
            head,
            prefetch,
            now: Millis::new(1000),
        }
    }

    #[test]
    fn only_a_get_that_nobody_asked_ahead_for_is_a_click() {
        for (head, prefetch, expected) in [
            (false, false, Decision::Click),
            (true, false, Decision::RedirectOnly),
            (false, true, Decision::Prefetch),
            (true, true, Decision::Prefetch),
        ] {
            assert_eq!(decide(Some(LIVE), visit(head, prefetch)), expected);
        }
    }

    #[test]
    fn a_link_that_is_not_there_or_off_or_over_is_never_a_click() {
        assert_eq!(decide(None, visit(false, false)), Decision::Unknown);
        let disabled = LinkState {
            disabled: true,
            ..LIVE
        };
        assert_eq!(
            decide(Some(disabled), visit(false, true)),
            Decision::Disabled
        );
        for (at, expected) in [(999, Decision::Expired), (1000, Decision::Expired)] {
            let link = LinkState {
                expires_at: Some(Millis::new(at)),
                ..LIVE
            };
            assert_eq!(decide(Some(link), visit(false, false)), expected);
        }
        let later = LinkState {
            expires_at: Some(Millis::new(1001)),
            ..LIVE
        };
        assert_eq!(decide(Some(later), visit(false, false)), Decision::Click);
    }

    #[test]
    fn every_form_of_asking_ahead_is_known() {
        for (name, value) in [
            ("sec-purpose", "prefetch"),
            ("sec-purpose", "prefetch;prerender"),
            ("sec-purpose", "Prefetch; anonymous-client-ip"),
            ("purpose", "prefetch"),
            ("x-purpose", "preview"),
            ("x-purpose", "instant"),
            ("x-moz", "prefetch"),
        ] {
            assert!(is_prefetch(name, value), "{name}: {value}");
        }
        assert!(!is_prefetch("sec-purpose", "prefetching"));
        assert!(!is_prefetch("accept", "prefetch"));
        assert!(!is_prefetch("sec-fetch-mode", "navigate"));
    }
}
