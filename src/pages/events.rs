//! `/app/events`: what the inbox received, and what became of it; dead ones first.

use maud::{Markup, html};

use super::sheet::{Column, table_or};
use super::{Tone, Viewer, badge, frame, frame_of, moment, number, or_dash};
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
    let body = html! {
        p { "Every verified webhook, once: answered when it is stored, applied behind the answer." }
        (filters(view))
        @if !view.dead.is_empty() {
            h2 { "Dead" }
            p { "Nobody tries these any more. Mend the cause, then replay." }
            (event_table(&view.dead, view.is_operator))
            @if view.is_operator && view.account.is_none() {
                form data-api="POST /v1/events/replay"
                    data-said="The dead events are in the queue again." {
                    input type="hidden" name="status" value="dead";
                    button type="submit" { "Replay all dead events" }
                }
            }
        }
        h2 { "Received" }
        (event_table(&view.events, view.is_operator))
        @if let Some(next) = &view.next {
            p { a href=(next_href(view, next)) { "Older events" } }
        }
    };
    match &view.account {
        Some(account) => frame_of("Events", account, viewer, &body),
        None => frame("Events", viewer, &body),
    }
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
            button.quiet type="submit" { "Show" }
        }
    }
}

/// Events as a table: state, result, tries, deliveries, and the buttons that fit.
pub fn event_table(events: &[EventView], is_operator: bool) -> Markup {
    let columns = [
        Column::Text("Received"),
        Column::Text("Event"),
        Column::Text("Account"),
        Column::Text("Status"),
        Column::Text("Result"),
        Column::Number("Copies"),
        Column::Number("Tries"),
        Column::Aside("Decide"),
    ];
    let rows: Vec<Vec<Markup>> = events.iter().map(|event| row(event, is_operator)).collect();
    table_or("Events", &columns, &rows, "No event is here.")
}

fn row(event: &EventView, is_operator: bool) -> Vec<Markup> {
    vec![
        moment(event.received_at),
        html! {
            (typed(&event.type_name))
            details { summary { "Deliveries" } (deliveries(event, is_operator)) }
        },
        html! {
            @if let Some(account) = &event.account {
                a href={ "/app/accounts/" (account) } { (account) }
            } @else { span.soft { (or_dash(event.customer_id.as_deref())) } }
        },
        html! {
            (badge(tone(&event.status), &event.status))
            @if event.is_conflict { " " (badge(Tone::Bad, "conflict")) }
        },
        html! {
            (event.result.as_deref().unwrap_or_default())
            @if let Some(at) = event.next_at { " " span.soft { "next try " (moment(at)) } }
        },
        html! { (number(event.seen)) },
        html! { (number(event.attempts)) },
        buttons(event, is_operator),
    ]
}

/// A type, broken after its dots where it must be.
fn typed(name: &str) -> Markup {
    html! {
        code.typed {
            @for (index, part) in name.split('.').enumerate() {
                @if index > 0 { "." wbr; }
                (part)
            }
        }
    }
}

fn deliveries(event: &EventView, is_operator: bool) -> Markup {
    html! {
        div {
            p.soft {
                "Event " code { (event.event_id) }
                @if let Some(at) = event.occurred_at { ", happened " (moment(at)) }
                @if is_operator {
                    ". " a href={ "/v1/events/" (event.id) } { "Payload and tries" }
                }
            }
            ol { @for receipt in &event.receipts { (delivery(receipt)) } }
        }
    }
}

fn delivery(receipt: &ReceiptView) -> Markup {
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
            form data-api={ "POST /v1/events/" (event.id) "/replay" }
                data-said="The event is in the queue again." {
                button.quiet type="submit" { "Replay" }
            }
        }
        @if open && is_operator {
            details {
                summary { "Skip" }
                form.row data-api={ "POST /v1/events/" (event.id) "/skip" }
                    data-said="The event is skipped." {
                    label { "Reason" input name="reason" required maxlength="500"; }
                    button.quiet type="submit" { "Skip it" }
                }
            }
        }
    }
}

fn tone(status: &str) -> Tone {
    match status {
        "applied" => Tone::Good,
        "dead" => Tone::Bad,
        "failed" | "waiting" => Tone::Warn,
        _ => Tone::Soft,
    }
}
