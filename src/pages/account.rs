//! `/app/accounts/{id}`: one account with its plan, budgets, usage and API keys.

use maud::{Markup, html};

use super::sheet::{Column, facts, nothing, table_or};
use super::{
    Tone, Viewer, badge, budget_table, event_table, frame_of, moment, number, or_dash, words,
};
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
    /// How many new jobs a minute it may start, where that was set.
    pub jobs_per_minute: Option<i64>,
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
    let body = html! {
        @if let Some(name) = &view.name { p { (name) } }
        (about(view))
        h2 { "Budget of this cycle" }
        @match &view.budgets {
            None => (nothing("The account's object did not answer; a reload asks it again.")),
            Some(lines) => (budget_table(lines)),
        }
        (usage(view))
        h2 { "Events" }
        (event_table(&view.events, view.may_change))
        (keys(view))
        @if view.may_change { (change(view)) }
    };
    frame_of("Account", &view.id, viewer, &body)
}

fn about(view: &AccountView) -> Markup {
    let (plan, since) = &view.plan;
    let (at, source, is_fixed) = view.anchor;
    let (cycle, starts_at, ends_at) = &view.cycle;
    let tone = if view.payment == "ok" {
        Tone::Good
    } else {
        Tone::Warn
    };
    let balance: Vec<String> = (view.balance.iter())
        .map(|(what, units)| format!("{} {what}", number(*units)))
        .collect();
    html! {
        (facts(&[
            ("Plan", html! {
                b { (plan) }
                @if let Some(since) = since { " since " (moment(*since)) }
            }),
            ("Payment", badge(tone, &view.payment)),
            ("Balance", html! {
                @if balance.is_empty() { span.soft { "nothing granted in this cycle" } }
                @else { (balance.join(", ")) }
            }),
            ("Cycle", html! {
                (cycle) ", from " (moment(*starts_at)) " to " (moment(*ends_at))
            }),
            ("Anchor", html! {
                (moment(at)) " by " (words(source)) @if is_fixed { ", fixed" }
            }),
            ("Customer", code_or_none(view.customer_id.as_deref())),
            ("Agreement", code_or_none(view.agreement_id.as_deref())),
        ]))
        @if view.customer_id.is_some() {
            form data-api={ "POST /v1/account/sync?account=" (view.id) }
                data-said="The plan is what the provider says." {
                button.quiet type="submit" { "Read the plan from the provider, now" }
            }
        }
    }
}

fn code_or_none(text: Option<&str>) -> Markup {
    html! {
        @if let Some(text) = text { code { (text) } } @else { span.soft { "none" } }
    }
}

fn usage(view: &AccountView) -> Markup {
    let columns = [
        Column::Text("Feature"),
        Column::Text("Cycle"),
        Column::Number("Total"),
    ];
    let rows: Vec<Vec<Markup>> = (view.usage.iter())
        .map(|(feature, cycle, total)| {
            vec![
                html! { code { (feature) } },
                html! { (cycle) },
                html! { (number(*total)) },
            ]
        })
        .collect();
    html! {
        h2 { "Usage" }
        (table_or("Usage", &columns, &rows, "The ledger has no entry of this account yet."))
    }
}

fn keys(view: &AccountView) -> Markup {
    let columns = [
        Column::Text("Key"),
        Column::Text("Name"),
        Column::Text("Made"),
        Column::Text("Last used"),
        Column::Aside("Revoke"),
    ];
    let rows: Vec<Vec<Markup>> = view.keys.iter().map(|key| api_key(view, key)).collect();
    html! {
        h2 { "API keys" }
        div #key-list data-fresh {
            (table_or("API keys", &columns, &rows, "This account has no API key."))
        }
        @if view.may_change {
            form.row data-api={ "POST /v1/accounts/" (view.id) "/keys" } data-show="api_key"
                data-said="Made. The key is shown this once:" {
                label { "Name of the key (optional)" input name="name" maxlength="200"; }
                button.quiet type="submit" { "Make a key" }
                output {}
            }
        }
    }
}

fn api_key(view: &AccountView, key: &KeyLine) -> Vec<Markup> {
    vec![
        html! { code { "cfk_" (key.id) "_…" } },
        html! { (or_dash(key.name.as_deref())) },
        moment(key.created_at),
        html! {
            @if let Some(at) = key.last_used_at { (moment(at)) }
            @else { span.soft { "never" } }
        },
        revocation(view, key),
    ]
}

fn revocation(view: &AccountView, key: &KeyLine) -> Markup {
    match key.revoked_at {
        Some(at) => html! { span.soft { "revoked " (moment(at)) } },
        None if view.may_change => html! {
            form data-api={ "DELETE /v1/accounts/" (view.id) "/keys/" (key.id) }
                data-confirm="Revoke this key? Whoever uses it is refused from now on."
                data-said="The key is revoked." {
                button.quiet type="submit" { "Revoke" }
            }
        },
        None => html! {},
    }
}

fn change(view: &AccountView) -> Markup {
    html! {
        h2 { "Change" }
        form.row data-api={ "PATCH /v1/accounts/" (view.id) } data-said="Changed." {
            label { "Name" input name="name" maxlength="200" value=[view.name.as_deref()]; }
            @if view.customer_id.is_none() {
                label { "Customer at the provider" input name="customer_id" maxlength="64"; }
            }
            label { "New jobs a minute"
                input type="number" name="jobs_per_minute" min="1" data-type="int"
                    value=[view.jobs_per_minute];
            }
            @if !view.anchor.2 {
                label { "Cycles begin (UTC)"
                    input type="datetime-local" name="starts_at" step="1" data-type="utc";
                }
            }
            button.quiet type="submit" { "Change" }
        }
    }
}
