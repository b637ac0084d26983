//! `/app/links`: an account's links, their QR codes, and their clicks of this cycle by day.

use maud::{Markup, html};

use super::sheet::{Column, nothing, table_or};
use super::{Tone, Viewer, badge, bar, frame, frame_of, moment, number};
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
        (create(account))
        form.row method="get" action="/app/links" {
            input type="hidden" name="account" value=(account);
            label { "Code or destination" input type="search" name="q" value=(view.search); }
            button.quiet type="submit" { "Search" }
        }
        (list(view))
        @if let Some(next) = &view.next {
            p { a href=(target(view, &[("q", &view.search), ("after", next)])) { "More links" } }
        }
        (days(view))
    };
    frame_of("Links", account, viewer, &body)
}

/// The page of an operator who has not said whose links are wanted.
pub fn links_of_whom(viewer: &Viewer, accounts: &[String]) -> String {
    let body = html! {
        p { "Links belong to an account." }
        form.row method="get" action="/app/links" {
            label { "Account" input type="text" name="account" required; }
            button type="submit" { "Show its links" }
        }
        @if accounts.is_empty() {
            (nothing(html! {
                "No account is here yet: " a href="/app#accounts" { "make the first one" } "."
            }))
        }
        ul { @for id in accounts {
            li { a href={ "/app/links?account=" (id) } { (id) } }
        } }
    };
    frame("Links", viewer, &body)
}

fn create(account: &str) -> Markup {
    html! {
        section.panel {
            h2 { "Make a link" }
            form.row data-api={ "POST /v1/links?account=" (account) }
                data-said="The link is there." {
                label { "Leads to"
                    input.wide type="url" name="destination" required
                        placeholder="https://example.com/offer";
                }
                label { "Code (made up where empty)"
                    input type="text" name="code" maxlength="64" autocapitalize="none";
                }
                label { "Expires (UTC, optional)"
                    input type="datetime-local" name="expires_at" data-type="utc";
                }
                button type="submit" { "Make it" }
            }
        }
    }
}

fn list(view: &LinksView) -> Markup {
    let columns = [
        Column::Text("Short link"),
        Column::Text("Leads to"),
        Column::Text("State"),
        Column::Number("Clicks"),
        Column::Aside("QR code"),
        Column::Aside("Switch"),
    ];
    let rows: Vec<Vec<Markup>> = (view.links.iter())
        .map(|link| line(&view.account, link))
        .collect();
    let said = if view.search.is_empty() {
        "No link is here yet. Make the first one above; it works at once."
    } else {
        "No link has that in its code or destination."
    };
    table_or("Links", &columns, &rows, said)
}

fn line(account: &str, link: &LinkLine) -> Vec<Markup> {
    let picture = format!("/v1/links/{}/qr", link.code);
    vec![
        html! { a href=(link.url) rel="nofollow noreferrer" { (link.url) } },
        html! { code { (link.destination) } },
        state(link),
        html! {
            a href={ "/app/links?account=" (account) "&code=" (link.code) "#days" } {
                (number(link.clicks))
            }
        },
        html! {
            a href={ (picture) ".png?size=1024" } title="As a picture to print" {
                img.qr src={ (picture) ".svg" } alt={ "QR code of " (link.url) }
                    width="64" height="64" loading="lazy";
            }
        },
        switch(account, link),
    ]
}

fn switch(account: &str, link: &LinkLine) -> Markup {
    let (verb, said) = if link.disabled {
        ("Switch on", "The link is on.")
    } else {
        ("Switch off", "The link is off.")
    };
    html! {
        form data-api={ "PATCH /v1/links/" (link.code) "?account=" (account) } data-said=(said) {
            input type="checkbox" name="disabled" checked[!link.disabled] hidden;
            button.quiet type="submit" { (verb) span.said { " " (link.code) } }
        }
    }
}

fn state(link: &LinkLine) -> Markup {
    match (link.disabled, link.expires_at) {
        (true, _) => badge(Tone::Bad, "off"),
        (false, Some((at, true))) => html! {
            (badge(Tone::Warn, "expired")) " " span.soft { (moment(at)) }
        },
        (false, Some((at, false))) => html! {
            (badge(Tone::Good, "on")) " " span.soft { "until " (moment(at)) }
        },
        (false, None) => badge(Tone::Good, "on"),
    }
}

fn days(view: &LinksView) -> Markup {
    let columns = [
        Column::Text("Day (UTC)"),
        Column::Number("Clicks"),
        Column::Number("Taken back"),
        Column::Number("Count"),
        Column::Aside("Share"),
    ];
    let most = view.days.iter().map(|day| day.gross).max().unwrap_or(0);
    let rows: Vec<Vec<Markup>> = view.days.iter().map(|day| day_line(day, most)).collect();
    html! {
        h2 #days {
            "Clicks " @if let Some(code) = &view.chosen { "of " code { (code) } " " } "by day"
        }
        p.soft {
            "From the ledger's entries of cycle " (view.cycle) "."
            @if view.chosen.is_some() {
                " " a href=(target(view, &[])) { "All links together" }
            }
        }
        (table_or("Clicks by day", &columns, &rows, "Nothing was recorded in this cycle."))
    }
}

fn day_line(day: &DayLine, most: i64) -> Vec<Markup> {
    let (count, lost) = (day.total.max(0), day.corrected.max(0));
    let label = format!("{} of {} count", number(day.total), number(day.gross));
    vec![
        html! { time datetime=(day.day) { (day.day) } },
        html! { (number(day.gross)) },
        html! { (number(day.corrected)) },
        html! { (number(day.total)) },
        bar(&label, &[(Tone::Plain, count), (Tone::Soft, lost)], most),
    ]
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
