//! `/app/links`: an account's links, their QR codes, and their clicks of this cycle by day.

use maud::{Markup, html};

use super::{Viewer, frame, moment, number};
use crate::units::Millis;

/// What the page shows of one account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinksView {
    /// Whose links.
    pub account: String,
    /// The current cycle's name.
    pub cycle: String,
    /// What was searched for; empty: everything.
    pub search: String,
    /// One page of links.
    pub links: Vec<LinkLine>,
    /// The next page, where there is one.
    pub next: Option<String>,
    /// The link whose days are shown; none: all links together.
    pub chosen: Option<String>,
    /// The days of the current cycle on which anything was recorded.
    pub days: Vec<DayLine>,
}

/// One link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkLine {
    /// Its code.
    pub code: String,
    /// The address that is printed.
    pub url: String,
    /// Where it leads.
    pub destination: String,
    /// Switched off.
    pub disabled: bool,
    /// When it is over, and whether it is.
    pub expires_at: Option<(Millis, bool)>,
    /// Clicks that count in the current cycle.
    pub clicks: i64,
}

/// One UTC day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DayLine {
    /// `2026-11-30`.
    pub day: String,
    /// What was recorded.
    pub gross: i64,
    /// What was taken back.
    pub corrected: i64,
    /// What counts.
    pub total: i64,
}

/// The page of one account.
pub fn links(viewer: &Viewer, view: &LinksView) -> String {
    let account = &view.account;
    let body = html! {
        p.soft { "Account " code { (account) } ", cycle " (view.cycle) "." }
        (create(account))
        h2 { "Links" }
        form.row method="get" action="/app/links" {
            input type="hidden" name="account" value=(account);
            label { "Code or destination" input type="search" name="q" value=(view.search); }
            button.quiet type="submit" { "Search" }
        }
        @if view.links.is_empty() { p.soft { "No link is here yet." } }
        @else {
            div.scroll { table {
                thead { tr {
                    th { "Code" } th { "Leads to" } th { "State" }
                    th.n { "Clicks" } th { "QR" } th {}
                } }
                tbody { @for link in &view.links { (line(account, link)) } }
            } }
        }
        @if let Some(next) = &view.next {
            p { a href=(target(view, &[("q", &view.search), ("after", next)])) { "More" } }
        }
        (days(view))
    };
    frame("Links", viewer, &body)
}

/// The page of an operator who has not said whose links are wanted.
pub fn links_of_whom(viewer: &Viewer, accounts: &[String]) -> String {
    let body = html! {
        p { "Links belong to an account." }
        form.row method="get" action="/app/links" {
            label { "Account" input type="text" name="account" required; }
            button type="submit" { "Show its links" }
        }
        ul { @for id in accounts {
            li { a href={ "/app/links?account=" (id) } { (id) } }
        } }
    };
    frame("Links", viewer, &body)
}

fn create(account: &str) -> Markup {
    html! {
        form.row data-api={ "POST /v1/links?account=" (account) } {
            label { "Leads to"
                input.wide type="url" name="destination" size="44" required
                    placeholder="https://example.com/offer";
            }
            label { "Code (made up where empty)"
                input type="text" name="code" maxlength="64" pattern="[A-Za-z0-9_\\-]+";
            }
            label { "Expires (UTC, optional)"
                input type="text" name="expires_at" placeholder="2027-01-31T00:00:00Z";
            }
            button type="submit" { "Make a link" }
        }
    }
}

fn line(account: &str, link: &LinkLine) -> Markup {
    let api = format!("PATCH /v1/links/{}?account={account}", link.code);
    let picture = format!("/v1/links/{}/qr", link.code);
    html! {
        tr {
            td { a href=(link.url) rel="nofollow noreferrer" { code { (link.code) } } }
            td { code { (link.destination) } }
            td { (state(link)) }
            td.n {
                a href={ "/app/links?account=" (account) "&code=" (link.code) "#days" } {
                    (number(link.clicks))
                }
            }
            td {
                a href={ (picture) ".png?size=1024" } title="PNG to print" {
                    img src={ (picture) ".svg" } alt={ "QR code of " (link.url) }
                        width="56" height="56" loading="lazy";
                }
            }
            td {
                form data-api=(api) {
                    input type="checkbox" name="disabled" checked[!link.disabled] hidden;
                    button.quiet type="submit" {
                        @if link.disabled { "Switch on" } @else { "Switch off" }
                    }
                }
            }
        }
    }
}

fn state(link: &LinkLine) -> Markup {
    match (link.disabled, link.expires_at) {
        (true, _) => html! { span."badge bad" { "off" } },
        (false, Some((at, true))) => html! { span."badge warn" { "expired" } " " (moment(at)) },
        (false, Some((at, false))) => html! { span."badge good" { "on" } " until " (moment(at)) },
        (false, None) => html! { span."badge good" { "on" } },
    }
}

fn days(view: &LinksView) -> Markup {
    let most = view
        .days
        .iter()
        .map(|day| day.gross)
        .max()
        .unwrap_or(0)
        .max(1);
    html! {
        h2 #days {
            @match &view.chosen {
                Some(code) => { "Clicks of " code { (code) } " by day" }
                None => "Clicks by day"
            }
        }
        @if view.chosen.is_some() {
            p { a href=(target(view, &[])) { "All links together" } }
        }
        @if view.days.is_empty() { p.soft { "Nothing was recorded in this cycle." } }
        @else {
            div.scroll { table {
                caption { "From the ledger's entries, UTC days of cycle " (view.cycle) "." }
                thead { tr {
                    th { "Day" } th.n { "Clicks" } th.n { "Taken back" } th.n { "Count" } th {}
                } }
                tbody { @for day in &view.days { tr {
                    td { (day.day) }
                    td.n { (number(day.gross)) }
                    td.n { (number(day.corrected)) }
                    td.n { (number(day.total)) }
                    td { meter min="0" max=(most) value=(day.total.max(0)) { (day.total) } }
                } } }
            } }
        }
    }
}

/// This page with other parameters; the account stays.
fn target(view: &LinksView, params: &[(&str, &str)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair("account", &view.account);
    for (name, value) in params.iter().filter(|(_, value)| !value.is_empty()) {
        query.append_pair(name, value);
    }
    format!("/app/links?{}", query.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> LinksView {
        LinksView {
            account: "a".to_owned(),
            cycle: "2026-11".to_owned(),
            search: "\"><script>".to_owned(),
            links: vec![LinkLine {
                code: "x".to_owned(),
                url: "https://sho.rt/x".to_owned(),
                destination: "https://d.example/?\"><script>alert(1)</script>".to_owned(),
                disabled: false,
                expires_at: None,
                clicks: 1234,
            }],
            next: Some("x".to_owned()),
            chosen: None,
            days: vec![DayLine {
                day: "2026-11-10".to_owned(),
                gross: 3,
                corrected: 1,
                total: 2,
            }],
        }
    }

    fn viewer() -> Viewer {
        Viewer {
            name: Some("operator".to_owned()),
            account_id: None,
            stand_in: false,
        }
    }

    #[test]
    fn a_hostile_destination_is_shown_as_text_and_never_as_a_link() {
        let page = links(&viewer(), &view());
        assert!(!page.contains("<script>alert"));
        assert!(!page.contains("href=\"https://d.example"));
        assert!(page.contains("/app/links?account=a&amp;q=%22%3E%3Cscript%3E&amp;after=x"));
    }

    #[test]
    fn the_button_says_what_it_does() {
        let mut view = view();
        let page = links(&viewer(), &view);
        assert!(page.contains("name=\"disabled\" checked hidden") && page.contains("Switch off"));
        view.links[0].disabled = true;
        let page = links(&viewer(), &view);
        assert!(page.contains("name=\"disabled\" hidden") && page.contains("Switch on"));
    }
}
