//! `/app/accounts/{id}`: one account with its plan, budgets, usage and API keys.

use maud::{Markup, html};

use super::{Viewer, event_table, frame, moment, number};
use crate::inbox::listing::EventView;
use crate::units::Millis;

/// What the page shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountView {
    /// Its id.
    pub id: String,
    /// For people.
    pub name: Option<String>,
    /// The account's id at the provider.
    pub customer_id: Option<String>,
    /// Its plan, and since when.
    pub plan: (String, Option<Millis>),
    /// `ok` or `overdue`.
    pub payment: String,
    /// The current agreement.
    pub agreement_id: Option<String>,
    /// Where cycles begin, where that came from, and whether it can no longer move.
    pub anchor: (Millis, &'static str, bool),
    /// The current cycle: name, start, end.
    pub cycle: (String, Millis, Millis),
    /// What the plan grants in this cycle.
    pub balance: Vec<(String, i64)>,
    /// Budgets, where the account's object answered.
    pub budgets: Option<Vec<BudgetLine>>,
    /// Usage in the ledger: feature, cycle, total; newest cycle first.
    pub usage: Vec<(String, String, i64)>,
    /// Its latest events, newest first.
    pub events: Vec<EventView>,
    /// API keys.
    pub keys: Vec<KeyLine>,
    /// Whether the viewer may change account and keys.
    pub may_change: bool,
}

/// One gated feature's budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetLine {
    /// The feature.
    pub feature: String,
    /// Absent where there is none or it is not known.
    pub limit: Option<i64>,
    /// `known`, `stale`, `unlimited`, `absent` or `unknown`.
    pub limit_state: String,
    /// What ended jobs used.
    pub used: i64,
    /// What running jobs hold.
    pub held: i64,
    /// Absent where the limit is.
    pub remaining: Option<i64>,
}

/// One API key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyLine {
    /// Its id.
    pub id: String,
    /// For people.
    pub name: Option<String>,
    /// When it was made.
    pub created_at: Millis,
    /// To about ten minutes.
    pub last_used_at: Option<Millis>,
    /// When it was revoked.
    pub revoked_at: Option<Millis>,
}

/// The page.
pub fn account(viewer: &Viewer, view: &AccountView) -> String {
    frame(
        "Account",
        viewer,
        &html! {
            p { code { (view.id) } @if let Some(name) = &view.name { " · " (name) } }
            (facts(view))
            (budgets(view))
            (usage(view))
            h2 { "Events" }
            (event_table(&view.events, view.may_change))
            (keys(view))
            @if view.may_change { (change(view)) }
        },
    )
}

fn facts(view: &AccountView) -> Markup {
    let (plan, since) = &view.plan;
    let (at, source, fixed) = view.anchor;
    let (cycle, starts_at, ends_at) = &view.cycle;
    html! {
        div.scroll { table { tbody {
            tr { th { "Plan" } td {
                (plan) @if let Some(since) = since { " since " (moment(*since)) }
            } }
            tr { th { "Payment" } td class=(if view.payment == "ok" { "good" } else { "warn" }) {
                (view.payment)
            } }
            tr { th { "Customer" } td { (optional(view.customer_id.as_deref())) } }
            tr { th { "Agreement" } td { (optional(view.agreement_id.as_deref())) } }
            tr { th { "Cycle" } td {
                (cycle) ": " (moment(*starts_at)) " to " (moment(*ends_at))
            } }
            tr { th { "Anchor" } td {
                (moment(at)) " from " code { (source) } @if fixed { ", fixed" }
            } }
            tr { th { "Balance" } td {
                @for (what, units) in &view.balance { span { (what) " " (number(*units)) " " } }
                @if view.balance.is_empty() { span.soft { "nothing granted" } }
            } }
        } } }
        form data-api={ "POST /v1/account/sync?account=" (view.id) } {
            button.quiet type="submit" { "Read the plan from the provider, now" }
        }
    }
}

fn optional(text: Option<&str>) -> Markup {
    html! {
        @if let Some(text) = text { code { (text) } } @else { span.soft { "none" } }
    }
}

fn budgets(view: &AccountView) -> Markup {
    html! {
        h2 { "Budgets" }
        @match &view.budgets {
            None => { p.soft { "The account's object did not answer." } }
            Some(lines) => { div.scroll { table {
                thead { tr {
                    th { "Feature" } th { "Limit is" } th.n { "Limit" } th.n { "Used" }
                    th.n { "Held" } th.n { "Remaining" }
                } }
                tbody { @for line in lines { tr {
                    td { code { (line.feature) } }
                    td { (line.limit_state) }
                    td.n { (line.limit.map_or_else(|| "—".to_owned(), number)) }
                    td.n { (number(line.used)) }
                    td.n { (number(line.held)) }
                    td.n { (line.remaining.map_or_else(|| "—".to_owned(), number)) }
                } } }
            } } }
        }
    }
}

fn usage(view: &AccountView) -> Markup {
    html! {
        h2 { "Usage" }
        div.scroll { table {
            thead { tr { th { "Feature" } th { "Cycle" } th.n { "Total" } } }
            tbody {
                @for (feature, cycle, total) in &view.usage {
                    tr { td { code { (feature) } } td { (cycle) } td.n { (number(*total)) } }
                }
                @if view.usage.is_empty() { tr { td.soft colspan="3" { "none yet" } } }
            }
        } }
        p {
            a href={ "/app/jobs?account=" (view.id) } { "Jobs" } " · "
            a href={ "/app/links?account=" (view.id) } { "Links" } " · "
            a href={ "/app/events?account=" (view.id) } { "Events" }
        }
    }
}

fn keys(view: &AccountView) -> Markup {
    html! {
        h2 { "API keys" }
        div.scroll { table {
            thead { tr {
                th { "Key" } th { "Name" } th { "Made" } th { "Last used" } th { "" }
            } }
            tbody { @for key in &view.keys { tr {
                td { code { "cfk_" (key.id) "_…" } }
                td { (key.name.as_deref().unwrap_or("")) }
                td { (moment(key.created_at)) }
                td { @if let Some(at) = key.last_used_at { (moment(at)) } }
                td { (revocation(view, key)) }
            } } }
        } }
        @if view.may_change {
            form.row data-api={ "POST /v1/accounts/" (view.id) "/keys" } data-show="api_key" {
                label { "Name" input name="name" maxlength="200"; }
                button type="submit" { "Make a key" }
                output {}
            }
        }
    }
}

fn revocation(view: &AccountView, key: &KeyLine) -> Markup {
    match key.revoked_at {
        Some(at) => html! { span.soft { "revoked " (moment(at)) } },
        None if view.may_change => html! {
            form data-api={ "DELETE /v1/accounts/" (view.id) "/keys/" (key.id) }
                data-confirm="Revoke this key?" {
                button.quiet type="submit" { "Revoke" }
            }
        },
        None => html! {},
    }
}

fn change(view: &AccountView) -> Markup {
    html! {
        h2 { "Change" }
        form.row data-api={ "PATCH /v1/accounts/" (view.id) } {
            label { "Name" input name="name" maxlength="200"; }
            @if view.customer_id.is_none() {
                label { "Customer at the provider" input name="customer_id" maxlength="64"; }
            }
            label { "New jobs a minute" input name="jobs_per_minute" data-type="int"; }
            @if !view.anchor.2 {
                label {
                    "Cycles begin at"
                    input name="starts_at" placeholder="2026-10-20T15:29:00Z";
                }
            }
            button type="submit" { "Change" }
        }
    }
}
