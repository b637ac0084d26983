//! `/app`: how it fares, at a glance, and the accounts.

use maud::{Markup, html};

use super::sheet::{Column, table, table_or};
use super::{Tone, Viewer, badge, frame, moment, number, or_dash, tile, words};
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
    /// The latest alerts, newest first.
    pub alerts: Vec<AlertLine>,
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

/// One alert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertLine {
    /// When it was raised.
    pub at: Millis,
    /// Its kind.
    pub kind: String,
    /// What it is about.
    pub subject: String,
    /// Whether `ALERT_URL` took it.
    pub is_sent: bool,
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
            div.tiles { @for count in &view.counts { (counted(count)) } }
            (alerts(&view.alerts))
            (ledger(&view.features))
            div.pair {
                (events(&view.events))
                (runs(&view.runs))
            }
            (accounts(view))
            p.soft { "Read at " (moment(view.read_at)) "." }
        },
    )
}

fn counted(count: &Counts) -> Markup {
    let tone = if count.watch && count.value > 0 {
        Tone::Warn
    } else {
        Tone::Plain
    };
    let label = html! {
        @match count.href {
            Some(href) => { a href=(href) { (count.label) } }
            None => (count.label),
        }
    };
    tile(tone, &number(count.value), label)
}

fn alerts(alerts: &[AlertLine]) -> Markup {
    let columns = [
        Column::Text("Raised"),
        Column::Text("Alert"),
        Column::Text("About"),
        Column::Text("State"),
    ];
    let line = |alert: &AlertLine| {
        let state = if alert.is_sent { "sent" } else { "not sent" };
        vec![
            moment(alert.at),
            badge(Tone::Warn, &alert.kind),
            html! { code { (alert.subject) } },
            html! { span.soft { (state) } },
        ]
    };
    let rows: Vec<Vec<Markup>> = alerts.iter().map(line).collect();
    html! {
        @if !rows.is_empty() {
            h2 { "Latest alerts" }
            (table("Latest alerts", &columns, &rows))
        }
    }
}

fn ledger(features: &[(String, i64, i64)]) -> Markup {
    let columns = [
        Column::Text("Feature"),
        Column::Number("Sum of all entries"),
        Column::Number("Meters to write"),
    ];
    let rows: Vec<Vec<Markup>> = features
        .iter()
        .map(|(feature, total, marked)| {
            vec![
                html! { code { (feature) } },
                html! { (number(*total)) },
                html! { (number(*marked)) },
            ]
        })
        .collect();
    let said = "Nothing has been counted yet. The first click on a link, or the first job that \
                is charged, makes the first entry.";
    html! {
        h2 { "Ledger" }
        (table_or("Ledger", &columns, &rows, said))
    }
}

fn events(events: &[(String, i64)]) -> Markup {
    let rows: Vec<Vec<Markup>> = events
        .iter()
        .map(|(status, count)| {
            vec![
                html! { a href={ "/app/events?status=" (status) } { (status) } },
                html! { (number(*count)) },
            ]
        })
        .collect();
    let columns = [Column::Text("Status"), Column::Number("Events")];
    let said = "No webhook has come yet. The provider sends them to /webhooks/kinde.";
    html! {
        section {
            h2 { "Events" }
            (table_or("Events by status", &columns, &rows, said))
        }
    }
}

fn runs(runs: &[(String, Option<Millis>)]) -> Markup {
    let rows: Vec<Vec<Markup>> = runs
        .iter()
        .map(|(job, at)| {
            vec![
                html! { (words(job)) },
                html! { @match at { Some(at) => (moment(*at)), None => span.soft { "never" } } },
            ]
        })
        .collect();
    html! {
        section {
            h2 { "Cron" }
            (table("Cron", &[Column::Text("Job"), Column::Number("Last ran")], &rows))
        }
    }
}

fn accounts(view: &Overview) -> Markup {
    let columns = [
        Column::Text("Account"),
        Column::Text("Name"),
        Column::Text("Plan"),
        Column::Text("Payment"),
        Column::Text("Cycle"),
        Column::Text("Ends"),
    ];
    let rows: Vec<Vec<Markup>> = view.accounts.iter().map(account).collect();
    html! {
        h2 #accounts { "Accounts" }
        section.panel { h3 { "Make an account" } (make()) }
        div #account-list data-fresh {
            (table_or("Accounts", &columns, &rows, "No account is here yet: make the first one."))
        }
        @if let Some(next) = &view.next {
            p { a href={ "/app?after=" (next) "#accounts" } { "More accounts" } }
        }
    }
}

fn account(account: &AccountLine) -> Vec<Markup> {
    let payment = match account.payment.as_str() {
        "ok" => html! { "ok" },
        payment => badge(Tone::Warn, payment),
    };
    let (cycle, ends_at) = &account.cycle;
    vec![
        html! { a href={ "/app/accounts/" (account.id) } { (account.id) } },
        html! { (or_dash(account.name.as_deref())) },
        html! { (account.plan) },
        payment,
        html! { (cycle) },
        moment(*ends_at),
    ]
}

fn make() -> Markup {
    html! {
        form.row data-api="POST /v1/accounts" data-show="api_key"
            data-said="Made. Its API key is shown this once:" {
            label { "Id (made up where empty)" input name="id" maxlength="64"; }
            label { "Name (optional)" input name="name" maxlength="200"; }
            label { "Customer at the provider (optional)"
                input name="customer_id" maxlength="64";
            }
            button type="submit" { "Make it" }
            output {}
        }
    }
}
