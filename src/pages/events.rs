//! `/app/events`: what the inbox received, and what became of it; dead ones first.

use maud::{Markup, html};

use super::{Viewer, frame, moment};
use crate::inbox::listing::{EventView, ReceiptView};

/// What the page shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventsView {
    /// The account that was asked for.
    pub account: Option<String>,
    /// The state that was asked for.
    pub status: Option<String>,
    /// The type that was asked for.
    pub type_name: Option<String>,
    /// All states, for the filter.
    pub states: Vec<&'static str>,
    /// Dead events, where no state was asked for.
    pub dead: Vec<EventView>,
    /// A page of events, newest first.
    pub events: Vec<EventView>,
    /// Where the next page begins.
    pub next: Option<String>,
    /// Whether the viewer may skip events and replay many.
    pub is_operator: bool,
}

/// The page.
pub fn events(viewer: &Viewer, view: &EventsView) -> String {
    frame(
        "Events",
        viewer,
        &html! {
            p { "Every verified webhook, once. It is answered when it is stored and applied \
                behind the answer; copies are counted." }
            (filters(view))
            @if !view.dead.is_empty() {
                h2.bad { "Dead" }
                p { "Nobody tries these any more. Mend the cause, then replay." }
                (event_table(&view.dead, view.is_operator))
                @if view.is_operator {
                    form.row data-api="POST /v1/events/replay" {
                        input type="hidden" name="status" value="dead";
                        button type="submit" { "Replay all dead events" }
                    }
                }
            }
            h2 { "Received" }
            (event_table(&view.events, view.is_operator))
            @if let Some(next) = &view.next {
                p { a href=(next_href(view, next)) { "Older" } }
            }
        },
    )
}

fn next_href(view: &EventsView, next: &str) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    let given = [
        ("account", view.account.as_deref()),
        ("status", view.status.as_deref()),
        ("type", view.type_name.as_deref()),
        ("after", Some(next)),
    ];
    for (name, value) in given {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    format!("/app/events?{}", query.finish())
}

fn filters(view: &EventsView) -> Markup {
    html! {
        form.row method="get" action="/app/events" {
            label { "Account" input name="account" value=[view.account.as_deref()]; }
            label {
                "Status"
                select name="status" {
                    option value="" { "any" }
                    @for state in &view.states {
                        option value=(state) selected[view.status.as_deref() == Some(state)] {
                            (state)
                        }
                    }
                }
            }
            label {
                "Type"
                input name="type" value=[view.type_name.as_deref()]
                    placeholder="customer.plan_changed";
            }
            button type="submit" { "Show" }
        }
    }
}

/// Events as a table: state, result, tries, deliveries, and the buttons that fit.
pub fn event_table(events: &[EventView], is_operator: bool) -> Markup {
    html! {
        div.scroll { table {
            thead { tr {
                th { "Received" } th { "Type" } th { "Account" } th { "Status" } th { "Result" }
                th.n { "Seen" } th.n { "Tries" } th { "" }
            } }
            tbody {
                @for event in events { (event_row(event, is_operator)) }
                @if events.is_empty() { tr { td.soft colspan="8" { "none" } } }
            }
        } }
    }
}

fn event_row(event: &EventView, is_operator: bool) -> Markup {
    html! {
        tr {
            td { (moment(event.received_at)) }
            td {
                code { (event.type_name) }
                details { summary { "deliveries" } (receipts(event)) }
            }
            td {
                @if let Some(account) = &event.account {
                    a href={ "/app/accounts/" (account) } { (account) }
                } @else { span.soft { (event.customer_id.as_deref().unwrap_or("—")) } }
            }
            td class=(tone(&event.status)) {
                (event.status)
                @if event.is_conflict { " " span.badge.bad { "conflict" } }
            }
            td {
                (event.result.as_deref().unwrap_or(""))
                @if let Some(at) = event.next_at { " " span.soft { "next " (moment(at)) } }
            }
            td.n { (event.seen) }
            td.n { (event.attempts) }
            td { (buttons(event, is_operator)) }
        }
    }
}

fn receipts(event: &EventView) -> Markup {
    html! {
        p.soft {
            code { (event.event_id) } " · " code { (event.id) }
            @if let Some(at) = event.occurred_at { " · happened " (moment(at)) }
        }
        ul { @for receipt in &event.receipts { (receipt_line(receipt)) } }
    }
}

fn receipt_line(receipt: &ReceiptView) -> Markup {
    html! {
        li {
            (moment(receipt.at)) ": " (receipt.outcome) ", sent " (moment(receipt.sent_at))
            @if let Some(id) = &receipt.webhook_id { ", webhook-id " code { (id) } }
            @if let Some(note) = &receipt.note { ", " span.warn { (note) } }
        }
    }
}

/// Only an event at an end is replayed, only one that did not take effect is skipped.
fn buttons(event: &EventView, is_operator: bool) -> Markup {
    let at_end = matches!(
        event.status.as_str(),
        "applied" | "ignored" | "skipped" | "dead"
    );
    let open = matches!(
        event.status.as_str(),
        "received" | "waiting" | "failed" | "dead"
    );
    html! {
        @if at_end {
            form data-api={ "POST /v1/events/" (event.id) "/replay" } {
                button.quiet type="submit" { "Replay" }
            }
        }
        @if open && is_operator {
            form.row data-api={ "POST /v1/events/" (event.id) "/skip" } {
                input name="reason" required maxlength="500" placeholder="why" aria-label="Reason";
                button.quiet type="submit" { "Skip" }
            }
        }
    }
}

fn tone(status: &str) -> &'static str {
    match status {
        "applied" => "good",
        "dead" => "bad",
        "failed" | "waiting" => "warn",
        _ => "soft",
    }
}
