//! `/app/jobs`: live holds with the lease running down, the budget, the last refusals.

use maud::{Markup, html};

use super::sheet::{Column, table_or};
use super::{
    BudgetLine, Tone, Viewer, badge, bar, duration, frame, frame_of, moment, number,
    number_or_dash, or_dash,
};
use crate::units::Millis;

/// What the page shows of one account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobsView {
    /// Whose jobs.
    pub account: String,
    /// Its gated features in the current cycle.
    pub budgets: Vec<BudgetLine>,
    /// Running jobs, newest first.
    pub running: Vec<JobLine>,
    /// Whether more run than are shown.
    pub more_run: bool,
    /// The last refusals, newest first.
    pub refusals: Vec<RefusalLine>,
    /// Whether the viewer may settle a job by hand.
    pub may_settle: bool,
}

/// One running job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobLine {
    /// Its id.
    pub id: String,
    /// The caller's key.
    pub key: String,
    /// Feature, held, charged.
    pub holds: Vec<(String, i64, i64)>,
    /// Whether a charge was cut.
    pub capped: bool,
    /// When it was admitted.
    pub since: Millis,
    /// How long the lease still runs.
    pub left_ms: i64,
}

/// One refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalLine {
    /// When.
    pub at: Millis,
    /// The key of the job or its id.
    pub subject: String,
    /// Code and reason.
    pub why: String,
    /// Of which feature.
    pub feature: Option<String>,
    /// How much was asked.
    pub asked: Option<i64>,
    /// How much was left.
    pub remaining: Option<i64>,
}

/// The page of one account.
pub fn jobs(viewer: &Viewer, view: &JobsView) -> String {
    let body = html! {
        h2 { "Budget of this cycle" }
        (budget_table(&view.budgets))
        h2 { "Live holds" }
        (running(view))
        h2 { "Last refusals" }
        (refusals(&view.refusals))
    };
    frame_of("Jobs", &view.account, viewer, &body)
}

/// What a cycle's budgets allow, what is used and held of them, and what is free.
pub fn budget_table(lines: &[BudgetLine]) -> Markup {
    let columns = [
        Column::Text("Feature"),
        Column::Text("Limit"),
        Column::Number("Used"),
        Column::Number("Held"),
        Column::Number("Free"),
        Column::Aside("Share"),
    ];
    let rows: Vec<Vec<Markup>> = lines.iter().map(budget).collect();
    table_or(
        "Budgets",
        &columns,
        &rows,
        "No feature is gated: see FEATURES in the settings.",
    )
}

fn budget(line: &BudgetLine) -> Vec<Markup> {
    let share = format!("{} used, {} held", number(line.used), number(line.held));
    vec![
        html! { code { (line.feature) } },
        html! {
            span.whole {
                @if let Some(limit) = line.limit { (number(limit)) " " }
                span.soft { (line.limit_state) }
            }
        },
        html! { (number(line.used)) },
        html! { (number(line.held)) },
        html! { (number_or_dash(line.remaining)) },
        html! {
            @if let Some(limit) = line.limit {
                (bar(&share, &[(Tone::Plain, line.used), (Tone::Soft, line.held)], limit))
            }
        },
    ]
}

fn running(view: &JobsView) -> Markup {
    let columns = [
        Column::Text("Job"),
        Column::Text("Charged"),
        Column::Text("Admitted"),
        Column::Number("Lease left"),
        Column::Aside("Settle"),
    ];
    let rows: Vec<Vec<Markup>> = view.running.iter().map(|job| live(view, job)).collect();
    let said = "No job is running. Whatever starts one asks POST /v1/jobs first.";
    html! {
        (table_or("Live holds", &columns, &rows, said))
        @if view.more_run { p.soft { "More jobs run than are shown." } }
    }
}

fn live(view: &JobsView, job: &JobLine) -> Vec<Markup> {
    vec![
        html! { code { (job.key) } br; code.soft { (job.id) } },
        html! {
            @for (feature, held, charged) in &job.holds {
                div { (number(*charged)) " of " (number(*held)) " " (feature) }
            }
            @if job.capped { (badge(Tone::Warn, "capped")) }
        },
        moment(job.since),
        html! { span data-left-ms=(job.left_ms) { (duration(job.left_ms)) } },
        html! { @if view.may_settle { (settle(&view.account, &job.id)) } },
    ]
}

fn settle(account: &str, job: &str) -> Markup {
    html! {
        details {
            summary { "Settle by hand" }
            form.row data-api={ "POST /v1/jobs/" (job) "/settle?account=" (account) }
                data-said="The job is settled." {
                label { "Used" input type="number" name="used" min="0" data-type="int"
                    placeholder="as charged"; }
                label { "Reason" input type="text" name="reason" maxlength="500" required; }
                button type="submit" { "Settle" }
            }
        }
    }
}

fn refusals(lines: &[RefusalLine]) -> Markup {
    let columns = [
        Column::Text("When"),
        Column::Text("Key or job"),
        Column::Text("Why"),
        Column::Text("Feature"),
        Column::Number("Asked"),
        Column::Number("Left"),
    ];
    let rows: Vec<Vec<Markup>> = (lines.iter())
        .map(|line| {
            vec![
                moment(line.at),
                html! { code { (line.subject) } },
                why(&line.why),
                html! { (or_dash(line.feature.as_deref())) },
                html! { (number_or_dash(line.asked)) },
                html! { (number_or_dash(line.remaining)) },
            ]
        })
        .collect();
    table_or("Last refusals", &columns, &rows, "Nothing was refused.")
}

/// A refusal's code and reason, and what the reason means.
fn why(codes: &str) -> Markup {
    let meaning = match codes.rsplit(": ").next() {
        Some("too_big") => "more than the whole limit",
        Some("used_up") => "more than is left unused",
        Some("held") => "running jobs hold the rest",
        Some("rate_limited") => "too many new jobs in this minute",
        Some("feature_not_in_plan") => "the plan does not have it",
        Some("limit_unknown") => "the provider could not be read",
        _ => "",
    };
    html! { code { (codes) } " " span.soft { (meaning) } }
}

/// One feature of an account with live holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusyLine {
    /// The account.
    pub account: String,
    /// The feature.
    pub feature: String,
    /// What ended jobs used.
    pub used: i64,
    /// What running jobs hold.
    pub held: i64,
    /// How many run.
    pub jobs: i64,
}

/// The accounts with live holds, for whoever may see them all.
pub fn busy_accounts(viewer: &Viewer, lines: &[BusyLine], next: Option<&str>) -> String {
    let columns = [
        Column::Text("Account"),
        Column::Text("Feature"),
        Column::Number("Used"),
        Column::Number("Held"),
        Column::Number("Jobs"),
    ];
    let rows: Vec<Vec<Markup>> = (lines.iter())
        .map(|line| {
            vec![
                html! { a href={ "/app/jobs?account=" (line.account) } { (line.account) } },
                html! { code { (line.feature) } },
                html! { (number(line.used)) },
                html! { (number(line.held)) },
                html! { (number(line.jobs)) },
            ]
        })
        .collect();
    let said = "No account has a running job. Name an account to see its budget and refusals.";
    let body = html! {
        form.row method="get" action="/app/jobs" {
            label { "Account" input type="text" name="account" required; }
            button.quiet type="submit" { "Show its jobs" }
        }
        h2 { "Accounts with live holds" }
        (table_or("Accounts with live holds", &columns, &rows, said))
        @if let Some(next) = next { p { a href={ "/app/jobs?after=" (next) } { "More" } } }
    };
    frame("Jobs", viewer, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn viewer() -> Viewer {
        Viewer {
            name: Some("ops".to_owned()),
            account_id: None,
            stand_in: false,
        }
    }

    #[test]
    fn a_running_job_shows_its_lease_and_only_an_operator_may_settle_it() {
        let mut view = JobsView {
            account: "a".to_owned(),
            budgets: Vec::new(),
            running: vec![JobLine {
                id: "job_1".to_owned(),
                key: "<k>".to_owned(),
                holds: vec![("tokens".to_owned(), 4000, 1500)],
                capped: true,
                since: Millis::ZERO,
                left_ms: 61_500,
            }],
            more_run: false,
            refusals: Vec::new(),
            may_settle: true,
        };
        let page = jobs(&viewer(), &view);
        for text in [
            "1,500 of 4,000 tokens",
            "data-left-ms=\"61500\"",
            "1 min 1 s",
            "&lt;k&gt;",
        ] {
            assert!(page.contains(text), "{text}");
        }
        assert!(page.contains("POST /v1/jobs/job_1/settle?account=a"));
        view.may_settle = false;
        assert!(!jobs(&viewer(), &view).contains("/settle"));
    }
}
