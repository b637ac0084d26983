//! What every page shares: head, navigation, and how moments and numbers are written.

use maud::{DOCTYPE, Markup, html};

use crate::moment;
use crate::units::{AccountId, Millis};

/// Who looks at a page, as far as the frame shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Viewer {
    /// The token's or key's name; absent where nobody is signed in.
    pub name: Option<String>,
    /// The only account that may be seen; absent for operator and backend.
    pub account_id: Option<AccountId>,
    /// Whether the pages that need the stand-in are there.
    pub stand_in: bool,
}

/// A whole page. `title` is also how the navigation knows which entry is the current one.
pub fn frame(title: &str, viewer: &Viewer, body: &Markup) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Counterfoil" }
                link rel="stylesheet" href="/app/style.css";
                script src="/app/script.js" defer {}
            }
            body {
                a.skip href="#main" { "Skip to content" }
                header.bar {
                    a.brand href="/app" { "Counterfoil" }
                    nav aria-label="Pages" { (navigation(title, viewer)) }
                    (person(viewer))
                }
                main #main {
                    h1 { (title) }
                    p #problem role="alert" hidden {}
                    (body)
                }
            }
        }
    }
    .into_string()
}

fn navigation(title: &str, viewer: &Viewer) -> Markup {
    let mut entries: Vec<(&str, String)> = Vec::new();
    if viewer.name.is_some() {
        entries.push(("Overview", "/app".to_owned()));
        if let Some(id) = &viewer.account_id {
            entries.push(("Account", format!("/app/accounts/{id}")));
        }
        entries.push(("Jobs", "/app/jobs".to_owned()));
        entries.push(("Links", "/app/links".to_owned()));
        entries.push(("Events", "/app/events".to_owned()));
        if viewer.account_id.is_none() {
            entries.push(("Reconcile", "/app/reconcile".to_owned()));
            if viewer.stand_in {
                entries.push(("Concurrency Lab", "/app/lab".to_owned()));
                entries.push(("Engine Room", "/app/engine-room".to_owned()));
            }
        }
    }
    entries.push(("API", "/docs".to_owned()));
    html! {
        @for (name, href) in &entries {
            a href=(href) aria-current=[(*name == title).then_some("page")] { (name) }
        }
    }
}

fn person(viewer: &Viewer) -> Markup {
    html! {
        @if let Some(name) = &viewer.name {
            form.person method="post" action="/signout" {
                span { (name) }
                button type="submit" { "Sign out" }
            }
        } @else {
            a.person href="/signin" { "Sign in" }
        }
    }
}

/// A moment for people, exact for machines.
pub fn moment(at: Millis) -> Markup {
    let exact = moment::format(at);
    let short = exact.get(..19).unwrap_or(&exact).replacen('T', " ", 1);
    html! { time datetime=(exact) title=(exact) { (short) } }
}

/// `1234567` as `1,234,567`.
pub fn number(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = String::new();
    if value < 0 {
        text.push('−');
    }
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_three() {
        assert_eq!(number(0), "0");
        assert_eq!(number(999), "999");
        assert_eq!(number(-1000), "−1,000");
        assert_eq!(number(9_007_199_254_740_991), "9,007,199,254,740,991");
    }

    #[test]
    fn a_hostile_name_is_shown_as_text() {
        let viewer = Viewer {
            name: Some("<script>alert(1)</script>".to_owned()),
            account_id: None,
            stand_in: false,
        };
        let page = frame("\"><b>", &viewer, &html! {});
        assert!(!page.contains("<script>alert"));
        assert!(!page.contains("<b>"));
        assert!(!page.contains("Concurrency Lab"));
    }
}
