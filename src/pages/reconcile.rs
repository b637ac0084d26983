//! `/app/reconcile`: the ledger beside the provider's meters, what comparisons found, and what a
//! person must look at.

use maud::{Markup, html};
use serde_json::Value;

use super::{Viewer, frame, moment, number};
use crate::units::Millis;

/// What the page shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReconcileView {
    /// The only account that is shown, where one was asked for.
    pub account: Option<String>,
    /// One line for each meter.
    pub meters: Vec<MeterLine>,
    /// Newest first.
    pub evidence: Vec<EvidenceLine>,
    /// Oldest first.
    pub reviews: Vec<ReviewLine>,
    /// Where each list goes on, as the query that shows it.
    pub more: Vec<(&'static str, String)>,
}

/// One meter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeterLine {
    /// Account, feature, cycle.
    pub of: [String; 3],
    /// The provider's agreement; absent where the meter is still to be made.
    pub agreement: Option<String>,
    /// The cycle's total.
    pub ledger: i64,
    /// What earlier meters of the cycle hold.
    pub base: i64,
    /// The last total that the provider confirmed.
    pub sent: Option<i64>,
    /// The last total read.
    pub provider: Option<i64>,
    /// When.
    pub read_at: Option<Millis>,
    /// Whether it is still to be told.
    pub is_marked: bool,
    /// How the last report ended, and when.
    pub last_report: Option<(Millis, &'static str)>,
}

/// One comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvidenceLine {
    /// Account, feature, cycle.
    pub of: [String; 3],
    /// When.
    pub at: Millis,
    /// The numbers: ledger, counters, base, sent, provider, repaired to, read back.
    pub numbers: [Option<i64>; 7],
    /// What was found.
    pub verdict: String,
    /// Why.
    pub cause: Option<String>,
}

/// One item of the review.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewLine {
    /// Its id.
    pub id: String,
    /// Its kind.
    pub kind: String,
    /// Account, feature and cycle, as far as it is about one.
    pub of: [Option<String>; 3],
    /// What was found.
    pub numbers: Value,
    /// When.
    pub at: Millis,
    /// Whether it can be carried.
    pub can_carry: bool,
}

/// The page.
pub fn reconcile(viewer: &Viewer, view: &ReconcileView) -> String {
    let body = html! {
        (controls(view))
        (reviews(&view.reviews))
        (meters(&view.meters))
        (evidence(&view.evidence))
        @for (label, href) in &view.more {
            p { a href=(href) { (label) } }
        }
    };
    frame("Reconcile", viewer, &body)
}

fn controls(view: &ReconcileView) -> Markup {
    let account = view.account.as_deref().unwrap_or_default();
    html! {
        form.row method="get" action="/app/reconcile" {
            label { "Account" input name="account" value=(account) placeholder="all"; }
            button.quiet type="submit" { "Show" }
        }
        div.row {
            (run_form(account, false))
            (run_form(account, true))
        }
        p.soft {
            "A run compares the sum of all entries with each meter of the running cycle and writes \
             the ledger's total where it differs. A dry run writes nothing."
        }
    }
}

fn run_form(account: &str, is_dry: bool) -> Markup {
    html! {
        form.row data-api="POST /v1/run/reconciler" {
            input type="hidden" name="account" value=(account);
            @if is_dry { input type="checkbox" name="dry_run" checked hidden; }
            button type="submit" class=[is_dry.then_some("quiet")] {
                @if is_dry { "Dry run" } @else { "Run" }
            }
            output {}
        }
    }
}

fn of(parts: &[String; 3]) -> Markup {
    let [account, feature, cycle] = parts;
    html! {
        td { a href={ "/app/accounts/" (account) } { (account) } }
        td { code { (feature) } }
        td { (cycle) }
    }
}

fn opt(value: Option<i64>) -> Markup {
    html! { td.n { @if let Some(value) = value { (number(value)) } @else { "–" } } }
}

fn meters(lines: &[MeterLine]) -> Markup {
    html! {
        h2 { "Meters" }
        @if lines.is_empty() { p.soft { "Nothing has been counted yet." } }
        @else { div.scroll { table {
            thead { tr {
                th { "Account" } th { "Feature" } th { "Cycle" } th { "Agreement" }
                th.n { "Ledger" } th.n { "Base" } th.n { "Sent" } th.n { "Provider" }
                th { "Read" } th { "Last report" } th { "State" }
            } }
            tbody { @for line in lines { (meter(line)) } }
        } } }
    }
}

fn meter(line: &MeterLine) -> Markup {
    html! {
        tr {
            (of(&line.of))
            td { @if let Some(id) = &line.agreement { code { (id) } } @else { "–" } }
            td.n { (number(line.ledger)) }
            td.n { (number(line.base)) }
            (opt(line.sent))
            (opt(line.provider))
            td { @if let Some(at) = line.read_at { (moment(at)) } @else { "–" } }
            td { @if let Some((at, outcome)) = line.last_report {
                (outcome) " " span.soft { (moment(at)) }
            } @else { "–" } }
            td { @if line.is_marked { span.badge.warn { "to write" } }
                @else { span.badge.good { "told" } } }
        }
    }
}

fn evidence(lines: &[EvidenceLine]) -> Markup {
    html! {
        h2 { "Evidence" }
        @if lines.is_empty() { p.soft { "No comparison was made yet." } }
        @else { div.scroll { table {
            thead { tr {
                th { "At" } th { "Account" } th { "Feature" } th { "Cycle" } th { "Verdict" }
                th { "Cause" } th.n { "Ledger" } th.n { "Counters" } th.n { "Base" }
                th.n { "Sent" } th.n { "Provider" } th.n { "Repaired to" } th.n { "Read back" }
            } }
            tbody { @for line in lines {
                tr {
                    td { (moment(line.at)) }
                    (of(&line.of))
                    td { span class={ "badge " (colour(&line.verdict)) } { (line.verdict) } }
                    td { (line.cause.as_deref().unwrap_or("–")) }
                    @for value in line.numbers { (opt(value)) }
                }
            } }
        } } }
    }
}

fn colour(verdict: &str) -> &'static str {
    match verdict {
        "match" => "good",
        "under_billed" | "over_billed" | "closed_cycle_drift" => "bad",
        _ => "warn",
    }
}

fn reviews(lines: &[ReviewLine]) -> Markup {
    html! {
        h2 { "Review" }
        @if lines.is_empty() { p.soft { "Nothing waits for a person." } }
        @else { div.scroll { table {
            thead { tr {
                th { "Since" } th { "What" } th { "Account" } th { "Feature" } th { "Cycle" }
                th { "Numbers" } th { "Decision" }
            } }
            tbody { @for line in lines { (review(line)) } }
        } } }
    }
}

fn review(line: &ReviewLine) -> Markup {
    html! {
        tr {
            td { (moment(line.at)) }
            td { span.badge.warn { (line.kind) } }
            @for part in &line.of { td { (part.as_deref().unwrap_or("–")) } }
            td { code { (line.numbers) } }
            td {
                form.row data-api={ "POST /v1/review/" (line.id) "/close" } {
                    input name="reason" required placeholder="Reason" aria-label="Reason";
                    button.quiet type="submit" { "Close" }
                }
                @if line.can_carry {
                    form.row data-api={ "POST /v1/review/" (line.id) "/carry" } {
                        button type="submit" { "Carry forward" }
                    }
                }
            }
        }
    }
}
