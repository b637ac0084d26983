//! `/app/jobs`: live holds with the lease running down, the budget, the last refusals.

use maud::{Markup, html};

use super::{BudgetLine, Viewer, frame, moment, number};
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
    frame(
        "Jobs",
        viewer,
        &html! {
            p.soft { "Account " code { (view.account) } "." }
            h2 { "Budget of this cycle" }
            div.scroll { table {
                thead { tr {
                    th { "Feature" } th { "Limit" } th.n { "Used" } th.n { "Held" }
                    th.n { "Free" } th {}
                } }
                tbody { @for line in &view.budgets { (budget(line)) } }
            } }
            h2 { "Live holds" }
            @if view.running.is_empty() { p.soft { "No job is running." } }
            @else { (running(view)) }
            h2 { "Last refusals" }
            @if view.refusals.is_empty() { p.soft { "Nothing was refused." } }
            @else { (refusals(&view.refusals)) }
        },
    )
}

fn amount(value: Option<i64>) -> String {
    value.map_or_else(String::new, number)
}

fn budget(line: &BudgetLine) -> Markup {
    html! {
        tr {
            td { (line.feature) }
            td {
                @if let Some(limit) = line.limit { (number(limit)) " " }
                span.soft { (line.limit_state) }
            }
            td.n { (number(line.used)) }
            td.n { (number(line.held)) }
            td.n { (amount(line.remaining)) }
            td {
                @if let Some(limit) = line.limit.filter(|limit| *limit > 0) {
                    meter min="0" max=(limit) value=(line.used.saturating_add(line.held))
                        high=(limit) { }
                }
            }
        }
    }
}

fn running(view: &JobsView) -> Markup {
    html! {
        div.scroll { table {
            thead { tr {
                th { "Job" } th { "Key" } th { "Holds" } th { "Since" } th.n { "Lease left" } th {}
            } }
            tbody { @for job in &view.running {
                tr {
                    td { code { (job.id) } }
                    td { code { (job.key) } }
                    td {
                        @for (feature, held, charged) in &job.holds {
                            (number(*charged)) " of " (number(*held)) " " (feature) " "
                        }
                        @if job.capped { span.badge.warn { "capped" } }
                    }
                    td { (moment(job.since)) }
                    td.n data-left-ms=(job.left_ms) { (job.left_ms.max(0) / 1000) " s" }
                    td { @if view.may_settle { (settle(&view.account, &job.id)) } }
                }
            } }
        } }
        @if view.more_run { p.soft { "More jobs run than are shown." } }
    }
}

fn settle(account: &str, job: &str) -> Markup {
    html! {
        form.row data-api={ "POST /v1/jobs/" (job) "/settle?account=" (account) }
            data-confirm="Settle this job now?" {
            label { "Used" input type="number" name="used" min="0" size="8" data-type="int"
                placeholder="as charged"; }
            label { "Reason" input type="text" name="reason" required; }
            button.quiet type="submit" { "Settle" }
        }
    }
}

fn refusals(lines: &[RefusalLine]) -> Markup {
    html! {
        div.scroll { table {
            thead { tr {
                th { "When" } th { "Key or job" } th { "Why" } th { "Feature" }
                th.n { "Asked" } th.n { "Left" }
            } }
            tbody { @for line in lines {
                tr {
                    td { (moment(line.at)) }
                    td { code { (line.subject) } }
                    td { (line.why) }
                    td { (line.feature.as_deref().unwrap_or_default()) }
                    td.n { (amount(line.asked)) }
                    td.n { (amount(line.remaining)) }
                }
            } }
        } }
    }
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
    frame(
        "Jobs",
        viewer,
        &html! {
            form.row method="get" action="/app/jobs" {
                label { "Account" input type="text" name="account" required; }
                button.quiet type="submit" { "Show" }
            }
            h2 { "Accounts with live holds" }
            @if lines.is_empty() { p.soft { "No account has a running job." } }
            @else {
                div.scroll { table {
                    thead { tr {
                        th { "Account" } th { "Feature" } th.n { "Used" } th.n { "Held" }
                        th.n { "Jobs" }
                    } }
                    tbody { @for line in lines {
                        tr {
                            td { a href={ "/app/jobs?account=" (line.account) } { (line.account) } }
                            td { (line.feature) }
                            td.n { (number(line.used)) }
                            td.n { (number(line.held)) }
                            td.n { (number(line.jobs)) }
                        }
                    } }
                } }
            }
            @if let Some(next) = next { p { a href={ "/app/jobs?after=" (next) } { "More" } } }
        },
    )
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
            "61 s",
            "&lt;k&gt;",
        ] {
            assert!(page.contains(text), "{text}");
        }
        assert!(page.contains("POST /v1/jobs/job_1/settle?account=a"));
        view.may_settle = false;
        assert!(!jobs(&viewer(), &view).contains("/settle"));
    }
}
