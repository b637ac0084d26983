//! What every page shares: head, navigation, and the tabs of an account.

use maud::{DOCTYPE, Markup, html};

use crate::units::AccountId;

/// The stub of a slip, as the browser's tab shows it.
const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' \
    viewBox='0 0 16 16'%3E%3Crect x='1' y='3' width='14' height='10' rx='2' fill='%230b5cad'/%3E\
    %3Cpath d='M6 3v10' stroke='white' stroke-dasharray='1.5 1.5'/%3E%3C/svg%3E";

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
    whole(title, title, viewer, &html! { h1 { (title) } }, body)
}

/// A whole page about one account, with tabs to what else there is of it.
pub fn frame_of(title: &str, account: &str, viewer: &Viewer, body: &Markup) -> String {
    let head = html! {
        h1 { (title) " " span.of { (account) } }
        @if viewer.account_id.is_none() { (tabs(title, account)) }
    };
    whole(title, &format!("{title} of {account}"), viewer, &head, body)
}

fn whole(entry: &str, title: &str, viewer: &Viewer, head: &Markup, body: &Markup) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Counterfoil" }
                link rel="icon" href=(ICON);
                link rel="stylesheet" href="/app/style.css";
                script src="/app/script.js" defer {}
            }
            body {
                a.skip href="#main" { "Skip to content" }
                header.top {
                    a.brand href="/app" { "Counterfoil" }
                    nav aria-label="Pages" { (navigation(entry, viewer)) }
                    (person(viewer))
                }
                main #main tabindex="-1" {
                    (head)
                    p #problem role="alert" hidden {}
                    p #done role="status" hidden {}
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
        if let Some(id) = &viewer.account_id {
            entries.push(("Account", format!("/app/accounts/{id}")));
        } else {
            entries.push(("Overview", "/app".to_owned()));
        }
        for (name, href) in [
            ("Links", "/app/links"),
            ("Jobs", "/app/jobs"),
            ("Events", "/app/events"),
        ] {
            entries.push((name, href.to_owned()));
        }
        if viewer.account_id.is_none() {
            entries.push(("Reconcile", "/app/reconcile".to_owned()));
            if viewer.stand_in {
                entries.push(("Concurrency Lab", "/app/lab".to_owned()));
                entries.push(("Engine Room", "/app/engine-room".to_owned()));
            }
        }
    }
    entries.push(("API", "/docs".to_owned()));
    linked(title, &entries)
}

/// What there is of one account, for whoever may see them all.
fn tabs(title: &str, account: &str) -> Markup {
    let of = |page: &str| format!("/app/{page}?account={account}");
    let entries = [
        ("Account", format!("/app/accounts/{account}")),
        ("Links", of("links")),
        ("Jobs", of("jobs")),
        ("Events", of("events")),
        ("Reconcile", of("reconcile")),
    ];
    html! { nav.tabs aria-label={ "Account " (account) } { (linked(title, &entries)) } }
}

fn linked(title: &str, entries: &[(&str, String)]) -> Markup {
    html! {
        @for (name, href) in entries {
            a href=(href) aria-current=[(*name == title).then_some("page")] { (name) }
        }
    }
}

fn person(viewer: &Viewer) -> Markup {
    html! {
        @if let Some(name) = &viewer.name {
            form.person method="post" action="/signout" {
                span { (name) }
                button.quiet type="submit" { "Sign out" }
            }
        } @else {
            a.person href="/signin" { "Sign in" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn viewer(name: Option<&str>) -> Viewer {
        Viewer {
            name: name.map(str::to_owned),
            account_id: None,
            stand_in: false,
        }
    }

    #[test]
    fn a_hostile_name_is_shown_as_text() {
        let viewer = viewer(Some("<script>alert(1)</script>"));
        let page = frame("\"><b>", &viewer, &html! {});
        assert!(!page.contains("<script>alert"));
        assert!(!page.contains("<b>"));
        assert!(!page.contains("Concurrency Lab"));
    }

    #[test]
    fn an_accounts_page_has_its_tabs_for_an_operator_only() {
        let mut viewer = viewer(Some("operator"));
        let page = frame_of("Jobs", "a", &viewer, &html! {});
        let tab = "<a href=\"/app/jobs?account=a\" aria-current=\"page\">Jobs</a>";
        assert!(page.contains(tab), "{page}");
        viewer.account_id = AccountId::new("a".to_owned());
        assert!(!frame_of("Jobs", "a", &viewer, &html! {}).contains("class=\"tabs\""));
    }
}
