//! A request as the router sees it, free of the platform.

use percent_encoding::percent_decode_str;

/// The methods that some route knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // The HTTP methods of these names.
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
    /// Any other method.
    Other,
}

impl Method {
    /// From the request line.
    pub fn parse(text: &str) -> Self {
        match text {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "PATCH" => Self::Patch,
            "DELETE" => Self::Delete,
            "OPTIONS" => Self::Options,
            _ => Self::Other,
        }
    }

    /// For the `Allow` header and the OpenAPI document.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
            Self::Other => "OTHER",
        }
    }
}

/// A body that was read up to its bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The whole of it, at most 256 KiB.
    Whole(Vec<u8>),
    /// It was longer; the rest was not read.
    TooLarge,
}

/// A request. Header names are in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The path as it came, still escaped, beginning with `/`.
    pub path: String,
    /// What follows `?`, still escaped, without it.
    pub query: String,
    /// `https://host[:port]` under which the request came.
    pub origin: String,
    /// In their order; names in lower case.
    pub headers: Vec<(String, String)>,
    /// Bounded.
    pub body: Body,
    /// The connecting address as the platform gives it (`CF-Connecting-IP`), never a forwarded one.
    pub peer: Option<String>,
    /// The two-letter country as the platform gives it.
    pub country: Option<String>,
}

impl Request {
    /// The first header of that (lower-case) name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// The first query parameter of that name, unescaped; `+` is a space.
    pub fn query_param(&self, name: &str) -> Option<String> {
        url::form_urlencoded::parse(self.query.as_bytes())
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.into_owned())
    }

    /// Whether a browser asks, to show what it is answered to a person.
    pub fn wants_html(&self) -> bool {
        self.header("accept")
            .is_some_and(|accept| accept.contains("text/html"))
    }

    /// The value of a cookie.
    pub fn cookie(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .filter(|(key, _)| key == "cookie")
            .flat_map(|(_, value)| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    }
}

/// The path's segments, unescaped; `None` where an escape is bad or is not UTF-8. One slash at the
/// end is allowed.
pub fn segments(path: &str) -> Option<Vec<String>> {
    if path == "/" {
        return Some(Vec::new());
    }
    let inner = path.strip_prefix('/')?;
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    inner.split('/').map(unescape).collect()
}

fn unescape(segment: &str) -> Option<String> {
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let hex = [rest.next()?, rest.next()?];
            if !hex.iter().all(u8::is_ascii_hexdigit) {
                return None;
            }
        }
    }
    percent_decode_str(segment)
        .decode_utf8()
        .ok()
        .map(std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_escape_is_no_path() {
        assert_eq!(segments("/a%2"), None);
        assert_eq!(segments("/a%zz"), None);
        assert_eq!(segments("/%ff"), None);
        assert_eq!(
            segments("/a%20b/c/"),
            Some(vec!["a b".to_owned(), "c".to_owned()])
        );
        assert_eq!(segments("/"), Some(vec![]));
        assert_eq!(segments("//"), Some(vec![String::new()]));
    }
}
