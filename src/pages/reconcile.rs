//! `/app/reconcile`: the ledger beside the provider's meters, what comparisons found, and what a
//! person must look at.

use maud::{Markup, html};
use serde_json::Value;

use super::sheet::{Column, nothing, table_or};
use super::{Tone, Viewer, badge, frame, frame_of, moment, number, number_or_dash, tile, words};
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
    /// The run that was asked for just now.
    pub run: Option<RunView>,
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

/// What a run that the page asked for came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunView {
    /// Whether it wrote nothing on purpose.
    pub is_dry: bool,
    /// What it counted, each with whether somebody should look where it is not zero.
    pub counts: Vec<(&'static str, i64, bool)>,
    /// What a dry run found that does not match; another run keeps it as evidence.
    pub differs: Vec<EvidenceLine>,
    /// Whether every account was looked at.
    pub is_done: bool,
}

/// The page.
pub fn reconcile(viewer: &Viewer, view: &ReconcileView) -> String {
    let body = html! {
        (controls(view))
        @if let Some(run) = &view.run { (run_result(run)) }
        (reviews(&view.reviews))
        (meters(&view.meters))
        @for (label, href) in &view.more { p { a href=(href) { (label) } } }
        (evidence(&view.evidence))
    };
    match &view.account {
        Some(account) => frame_of("Reconcile", account, viewer, &body),
        None => frame("Reconcile", viewer, &body),
    }
}

fn controls(view: &ReconcileView) -> Markup {
    let account = view.account.as_deref().unwrap_or_default();
    html! {
        p {
            "A run compares the sum of all entries with each meter of the running cycle and \
             writes the ledger's total where the meter differs. A dry run writes nothing."
        }
        form.row method="post" action="/app/reconcile/run" {
            label { "Account" input name="account" value=(account) placeholder="all accounts"; }
            button type="submit" { "Run" }
            button.quiet type="submit" name="dry_run" value="1" { "Dry run" }
            button.quiet type="submit" formmethod="get" formaction="/app/reconcile" { "Show" }
        }
    }
}

fn run_result(run: &RunView) -> Markup {
    let title = if run.is_dry {
        "What a run would find"
    } else {
        "What the run found"
    };
    html! {
        section #run {
            h2 { (title) }
            div.tiles {
                @for (label, count, watch) in &run.counts {
                    (tile(look(*watch && *count > 0), &number(*count), *label))
                }
            }
            @if run.is_dry {
                (differs(&run.differs))
                p { "Nothing was written." }
            } @else {
                p { "What it compared stands in the evidence below." }
            }
            @if !run.is_done { p { "Its calls were used up: press the button again to go on." } }
        }
    }
}

/// What every comparison shows.
const COMPARED: [Column; 7] = [
    Column::Text("Meter"),
    Column::Text("Verdict"),
    Column::Number("Ledger"),
    Column::Number("Counters"),
    Column::Number("Base"),
    Column::Number("Sent"),
    Column::Number("Provider"),
];

fn differs(lines: &[EvidenceLine]) -> Markup {
    let rows: Vec<Vec<Markup>> = (lines.iter())
        .map(|line| {
            let mut cells = vec![of(&line.of), judged(line)];
            let known = line.numbers.iter().take(5);
            cells.extend(known.map(|value| html! { (number_or_dash(*value)) }));
            cells
        })
        .collect();
    table_or("What differs", &COMPARED, &rows, "Nothing differs.")
}

const fn look(should: bool) -> Tone {
    if should { Tone::Warn } else { Tone::Plain }
}

/// The account, and the feature with its cycle.
fn of(parts: &[String; 3]) -> Markup {
    let [account, feature, cycle] = parts;
    html! {
        a href={ "/app/accounts/" (account) } { (account) }
        div.whole { code { (feature) } " " span.soft { (cycle) } }
    }
}

/// The verdict, and below it the cause.
fn judged(line: &EvidenceLine) -> Markup {
    let tone = match line.verdict.as_str() {
        "match" => Tone::Good,
        "under_billed" | "over_billed" | "closed_cycle_drift" => Tone::Bad,
        _ => Tone::Warn,
    };
    html! {
        (badge(tone, &line.verdict))
        @if let Some(cause) = &line.cause { div.soft data-code=(cause) { (words(cause)) } }
    }
}

fn meters(lines: &[MeterLine]) -> Markup {
    let columns = [
        Column::Text("Meter"),
        Column::Number("Ledger"),
        Column::Number("Base"),
        Column::Number("Sent"),
        Column::Number("Provider"),
        Column::Text("State"),
        Column::Text("Last report"),
        Column::Text("Provider read"),
    ];
    let rows: Vec<Vec<Markup>> = lines.iter().map(meter).collect();
    let said = "Nothing has been counted yet. A meter appears with an account's first entry.";
    html! {
        h2 { "Meters" }
        (table_or("Meters", &columns, &rows, said))
    }
}

fn meter(line: &MeterLine) -> Vec<Markup> {
    let state = if line.is_marked {
        badge(Tone::Warn, "to_write")
    } else {
        badge(Tone::Good, "told")
    };
    let agreement = line.agreement.as_deref();
    let mut cells = vec![of(&line.of)];
    cells.extend([
        html! { (number(line.ledger)) },
        html! { (number(line.base)) },
        html! { (number_or_dash(line.sent)) },
        html! { (number_or_dash(line.provider)) },
        html! { span title=[agreement] { (state) } },
        html! {
            @if let Some((at, outcome)) = line.last_report {
                (words(outcome)) br; span.soft { (moment(at)) }
            } @else { "–" }
        },
        html! {
            @if let Some(at) = line.read_at { span.soft { (moment(at)) } } @else { "–" }
        },
    ]);
    cells
}

fn evidence(lines: &[EvidenceLine]) -> Markup {
    let repaired = [Column::Number("Repaired to"), Column::Number("Read back")];
    let columns: Vec<Column> = std::iter::once(Column::Text("At"))
        .chain(COMPARED)
        .chain(repaired)
        .collect();
    let rows: Vec<Vec<Markup>> = lines.iter().map(evidence_row).collect();
    let said = "No comparison was made yet: press Run, or wait for the night.";
    html! {
        h2 { "Evidence" }
        (table_or("Evidence", &columns, &rows, said))
    }
}

fn evidence_row(line: &EvidenceLine) -> Vec<Markup> {
    let mut cells = vec![moment(line.at), of(&line.of), judged(line)];
    cells.extend(line.numbers.map(|value| html! { (number_or_dash(value)) }));
    cells
}

fn reviews(lines: &[ReviewLine]) -> Markup {
    html! {
        h2 { "Review" }
        @if lines.is_empty() { (nothing("Nothing waits for a person.")) }
        @for line in lines { (review(line)) }
    }
}

fn review(line: &ReviewLine) -> Markup {
    html! {
        section.panel.review {
            h3 {
                (badge(Tone::Warn, &line.kind)) " "
                (line.of.iter().flatten().cloned().collect::<Vec<_>>().join(" · "))
            }
            p { (meaning(&line.kind)) " " span.soft { "Since " (moment(line.at)) "." } }
            (facts_of(&line.numbers))
            div.row {
                form.row data-api={ "POST /v1/review/" (line.id) "/close" }
                    data-said="The item is closed." {
                    label { "Reason" input name="reason" maxlength="500" required; }
                    button.quiet type="submit" { "Close" }
                }
                @if line.can_carry {
                    form data-api={ "POST /v1/review/" (line.id) "/carry" }
                        data-said="The difference stands in the open cycle." {
                        button.quiet type="submit" { "Carry forward" }
                    }
                }
            }
        }
    }
}

/// What was found, and what closing the item means.
fn meaning(kind: &str) -> &'static str {
    match kind {
        "conflict" => "An entry came again with other content. Closing leaves it as it is.",
        "late_use" => "A job used something after its end. Closing leaves it uncharged.",
        "feed" => "An object lost rows that it cannot send. Closing accepts that loss.",
        "tail" => {
            "A closed cycle has entries after its last confirmed report. Closing leaves them \
             unreported; carrying counts them in the open cycle."
        }
        "closed_cycle" => {
            "A closed cycle differs from its meter. Closing leaves it; carrying counts the \
             difference in the open cycle."
        }
        "foreign_total" => {
            "The meter holds a total that nobody here wrote. Closing replaces it by the ledger's."
        }
        "period_mismatch" => {
            "The provider's period is not our cycle. Closing ends the running cycle with it."
        }
        "customer_deleted" => "The provider deleted this customer. Closing leaves the account.",
        _ => "Somebody should look at this.",
    }
}

fn facts_of(numbers: &Value) -> Markup {
    let shown = |value: &Value| match value {
        Value::Number(n) => n.as_i64().map_or_else(|| n.to_string(), number),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    html! {
        @if let Some(members) = numbers.as_object() {
            p {
                @for (index, (name, value)) in members.iter().enumerate() {
                    @if index > 0 { " · " }
                    span.soft { (words(name)) " " } (shown(value))
                }
            }
        }
    }
}
