//! `/app`: how it fares, at a glance, and the accounts.

use maud::{Markup, html};

use super::{Viewer, frame, moment, number};
use crate::units::Millis;

/// What the page shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overview {
    /// Numbers, each with what it counts and where more of it stands.
    pub counts: Vec<Counts>,
    /// Feature, the sum of all its entries, and how many of its meters wait to be written.
    pub features: Vec<(String, i64, i64)>,
    /// Events by status.
    pub events: Vec<(String, i64)>,
    /// Cron jobs and when each last ran.
    pub runs: Vec<(String, Option<Millis>)>,
    /// Accounts: id, name, plan, payment, cycle.
    pub accounts: Vec<AccountLine>,
    /// The id after which the next page of accounts begins.
    pub next: Option<String>,
    /// When it was read.
    pub read_at: Millis,
}

/// One number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    /// What it counts.
    pub label: &'static str,
    /// How many.
    pub value: i64,
    /// Where more of it stands.
    pub href: Option<&'static str>,
    /// Whether somebody should look at it where it is not zero.
    pub watch: bool,
}

/// One account in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountLine {
    /// Its id.
    pub id: String,
    /// For people.
    pub name: Option<String>,
    /// Its plan.
    pub plan: String,
    /// `ok` or `overdue`.
    pub payment: String,
    /// The current cycle's name and end.
    pub cycle: (String, Millis),
}

/// The page.
pub fn overview(viewer: &Viewer, view: &Overview) -> String {
    frame(
        "Overview",
        viewer,
        &html! {
            div.tiles {
                @for count in &view.counts { (tile(count)) }
            }
            @if !view.features.is_empty() { (features(view)) }
            div.tiles {
                (events(view))
                (runs(view))
            }
            (accounts(view))
            p.soft { "Read at " (moment(view.read_at)) " UTC." }
        },
    )
}

fn tile(count: &Counts) -> Markup {
    let class = if count.watch && count.value > 0 {
        "warn"
    } else {
        ""
    };
    html! {
        div.tile {
            b class=(class) { (number(count.value)) }
            @match count.href {
                Some(href) => { a href=(href) { (count.label) } }
                None => { span { (count.label) } }
            }
        }
    }
}

fn features(view: &Overview) -> Markup {
    html! {
        h2 { "Ledger" }
        div.scroll { table {
            thead { tr {
                th { "Feature" } th.n { "Sum of all entries" } th.n { "Meters to write" }
            } }
            tbody {
                @for (feature, total, marked) in &view.features {
                    tr {
                        td { code { (feature) } }
                        td.n { (number(*total)) }
                        td.n { (number(*marked)) }
                    }
                }
            }
        } }
    }
}

fn events(view: &Overview) -> Markup {
    html! {
        section {
            h2 { "Events" }
            table { tbody {
                @for (status, count) in &view.events {
                    tr {
                        td { a href={ "/app/events?status=" (status) } { (status) } }
                        td.n { (number(*count)) }
                    }
                }
                @if view.events.is_empty() { tr { td.soft { "none yet" } } }
            } }
        }
    }
}

fn runs(view: &Overview) -> Markup {
    html! {
        section {
            h2 { "Cron" }
            table { tbody {
                @for (job, at) in &view.runs {
                    tr {
                        td { (job) }
                        td.n {
                            @match at { Some(at) => (moment(*at)), None => span.soft { "never" } }
                        }
                    }
                }
                @if view.runs.is_empty() { tr { td.soft { "has not run yet" } } }
            } }
        }
    }
}

fn accounts(view: &Overview) -> Markup {
    html! {
        h2 #accounts { "Accounts" }
        form.row data-api="POST /v1/accounts" data-show="api_key" {
            label { "Id" input name="id" maxlength="64"; }
            label { "Name" input name="name" maxlength="200"; }
            label { "Customer at the provider" input name="customer_id" maxlength="64"; }
            button type="submit" { "Make an account" }
            output {}
        }
        div.scroll { table {
            thead { tr {
                th { "Account" } th { "Name" } th { "Plan" } th { "Payment" } th { "Cycle" }
                th { "Ends (UTC)" }
            } }
            tbody {
                @for account in &view.accounts {
                    tr {
                        td { a href={ "/app/accounts/" (account.id) } { (account.id) } }
                        td { (account.name.as_deref().unwrap_or("")) }
                        td { (account.plan) }
                        td class=(if account.payment == "ok" { "" } else { "warn" }) {
                            (account.payment)
                        }
                        td { (account.cycle.0) }
                        td { (moment(account.cycle.1)) }
                    }
                }
                @if view.accounts.is_empty() { tr { td.soft colspan="6" { "none yet" } } }
            }
        } }
        @if let Some(next) = &view.next {
            p { a href={ "/app?after=" (next) "#accounts" } { "More accounts" } }
        }
    }
}
