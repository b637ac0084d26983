//! Lists: `?limit=` and `?after=` in, `{items, next}` out (api.md, "Rules for every route").
//!
//! A handler asks its store for [`Page::rows`] rows, one more than it shows, after the id in
//! [`Page::after`], and hands them to [`Page::answer`].

use serde_json::{Value, json};

use super::reply::{Problem, Response};
use super::request::Request;
use crate::limits::{LIST_ROWS_DEFAULT, LIST_ROWS_MAX};
use crate::moment;
use crate::settings::Settings;
use crate::units::{FeatureName, Formed, Millis, SAFE_MAX, is_caller_text};

/// Which part of a list is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// How many items at most.
    pub limit: i64,
    /// What `next` of the page before said: the id after which this page begins.
    pub after: Option<String>,
}

impl Page {
    /// Reads both parameters: 422 where one does not read.
    pub fn of(request: &Request) -> Result<Self, Problem> {
        let limit = match request.query_param("limit") {
            None => LIST_ROWS_DEFAULT,
            Some(text) => whole(&text)
                .filter(|rows| (1..=LIST_ROWS_MAX).contains(rows))
                .ok_or_else(|| {
                    let detail = format!("It must be a whole number, 1 to {LIST_ROWS_MAX}.");
                    Problem::field("limit", detail)
                })?,
        };
        let after = request.query_param("after").filter(|text| !text.is_empty());
        if after.as_deref().is_some_and(|text| !is_caller_text(text)) {
            return Err(no_next());
        }
        Ok(Self { limit, after })
    }

    /// `after` as the place that `read` makes of it: 422 where it makes none.
    pub fn place<T>(&self, read: impl Fn(&str) -> Option<T>) -> Result<Option<T>, Problem> {
        match self.after.as_deref() {
            None => Ok(None),
            Some(text) => read(text).map(Some).ok_or_else(no_next),
        }
    }

    /// `after` of a list whose rows are numbered.
    pub fn number(&self) -> Result<Option<i64>, Problem> {
        self.place(|text| whole(text).filter(|number| *number <= SAFE_MAX))
    }

    /// How many rows to load: one more than is shown, so that `next` is known.
    pub const fn rows(&self) -> i64 {
        self.limit + 1
    }

    /// `after`, or the text that lies before every id.
    pub fn after_or_first(&self) -> &str {
        self.after.as_deref().unwrap_or("")
    }

    /// The rows that are shown, and `next`: the id of the last one, where more follow.
    pub fn cut<T>(&self, mut rows: Vec<T>, id: impl Fn(&T) -> String) -> (Vec<T>, Option<String>) {
        let shown = usize::try_from(self.limit).unwrap_or(0);
        let more = rows.len() > shown;
        rows.truncate(shown);
        let next = rows.last().filter(|_| more).map(id);
        (rows, next)
    }

    /// The answer, from up to [`Page::rows`] rows in the list's order.
    pub fn answer<T>(
        &self,
        rows: Vec<T>,
        id: impl Fn(&T) -> String,
        view: impl Fn(&T) -> Value,
    ) -> Response {
        let (shown, next) = self.cut(rows, id);
        let items: Vec<Value> = shown.iter().map(view).collect();
        Response::json(200, &json!({"items": items, "next": next}))
    }
}

/// A moment in the query, if it is there and not empty: 422 where it does not read.
pub fn moment_param(request: &Request, name: &str) -> Result<Option<Millis>, Problem> {
    let Some(text) = request.query_param(name).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    // An unescaped `+02:00` arrives as a space.
    moment::parse_rfc3339(&text.replacen(' ', "+", 1))
        .map(Some)
        .ok_or_else(|| Problem::field(name, "It must be a time such as 2026-10-20T15:29:00Z."))
}

/// An id in the query, if it is there: 422 where it does not have its form.
pub fn id_param<T: Formed>(
    request: &Request,
    name: &str,
    parse: fn(String) -> Option<T>,
) -> Result<Option<T>, Problem> {
    match request.query_param(name) {
        None => Ok(None),
        Some(text) => match parse(text) {
            Some(id) => Ok(Some(id)),
            None => Err(Problem::field(name, format!("It must be {}.", T::FORM))),
        },
    }
}

/// A feature in the query, if it is there: 422 where it is not listed.
pub fn feature_param(
    request: &Request,
    settings: &Settings,
) -> Result<Option<FeatureName>, Problem> {
    let feature = id_param(request, "feature", FeatureName::new)?;
    match feature {
        Some(feature) if settings.feature(&feature).is_none() => {
            Err(Problem::field("feature", "There is no such feature."))
        }
        feature => Ok(feature),
    }
}

fn no_next() -> Problem {
    Problem::field("after", "It must be `next` of a page of this list.")
}

/// Digits only, so that `+5` and ` 5` are none.
fn whole(text: &str) -> Option<i64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request::{Body, Method};

    fn page(query: &str) -> Result<Page, Problem> {
        Page::of(&Request {
            method: Method::Get,
            path: "/v1/links".to_owned(),
            query: query.to_owned(),
            origin: "http://localhost".to_owned(),
            headers: Vec::new(),
            body: Body::Whole(Vec::new()),
            peer: None,
            country: None,
        })
    }

    #[test]
    fn a_limit_outside_1_to_500_is_refused() {
        for bad in [
            "0",
            "501",
            "-1",
            "+5",
            "x",
            "",
            "5.0",
            "99999999999999999999",
        ] {
            let problem = page(&format!("limit={bad}")).expect_err(bad);
            assert_eq!(problem.members.get("field"), Some(&json!("limit")));
        }
        assert_eq!(page("").expect("reads").limit, 50);
        assert_eq!(page("limit=500").expect("reads").rows(), 501);
    }

    #[test]
    fn next_is_there_only_where_more_follow() {
        let page = page("limit=2&after=a").expect("reads");
        let body = |rows: Vec<&'static str>| {
            let answer = page.answer(rows, |row| (*row).to_owned(), |row| json!(row));
            serde_json::from_slice::<Value>(&answer.body).expect("JSON")
        };
        assert_eq!(
            body(vec!["b", "c", "d"]),
            json!({"items": ["b", "c"], "next": "c"})
        );
        assert_eq!(
            body(vec!["b", "c"]),
            json!({"items": ["b", "c"], "next": null})
        );
        assert_eq!(body(vec![]), json!({"items": [], "next": null}));
    }
}
