//! `/app/lab`: the same jobs against a plain check and through the gate, side by side.

use maud::{Markup, html};

use super::sheet::{Column, table};
use super::{Tone, Viewer, badge, bar, frame, number, number_or_dash, tile};

/// What was raced, and what came of it; without lines nothing was raced yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabView {
    /// What the plan allows.
    pub limit: i64,
    /// How many jobs.
    pub jobs: i64,
    /// What each needs.
    pub amount: i64,
    /// How many start at the same moment.
    pub at_once: i64,
    /// One for each job.
    pub lines: Vec<LabLine>,
    /// By the jobs that the plain check let through.
    pub plain_spent: i64,
    /// What the gate's budget says afterwards.
    pub gate_spent: i64,
    /// What it still holds.
    pub gate_held: i64,
    /// The gate's demo account.
    pub account: String,
}

/// What one job was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabLine {
    /// The plain check let it work.
    pub plain_started: bool,
    /// What the plain check believed to be left.
    pub plain_left: i64,
    /// The gate let it work.
    pub gate_started: bool,
    /// What the gate said was left.
    pub gate_left: Option<i64>,
    /// Status, code and reason.
    pub gate_said: String,
}

impl LabView {
    /// A race that was not run.
    pub const fn new(limit: i64, jobs: i64, amount: i64, at_once: i64) -> Self {
        Self {
            limit,
            jobs,
            amount,
            at_once,
            lines: Vec::new(),
            plain_spent: 0,
            gate_spent: 0,
            gate_held: 0,
            account: String::new(),
        }
    }
}

/// The page.
pub fn lab(viewer: &Viewer, view: &LabView) -> String {
    frame(
        "Concurrency Lab",
        viewer,
        &html! {
            p { "Jobs that each need a part of a plan start at the same moment. The \
                left side reads what is spent, lets the job work, and writes the \
                spending down afterwards. The right side asks the gate, which holds \
                the amount before the work starts. Both are real requests on fresh \
                demo accounts." }
            (form(view))
            @if !view.lines.is_empty() { (result(view)) }
        },
    )
}

fn form(view: &LabView) -> Markup {
    let field = |label: &str, name: &str, value: i64, max: i64| {
        html! {
            label { (label)
                input type="number" name=(name) value=(value) min="1" max=(max) required;
            }
        }
    };
    html! {
        form.row method="post" action="/app/lab/run" {
            (field("The plan allows", "limit", view.limit, 1_000_000_000))
            (field("Jobs", "jobs", view.jobs, 50))
            (field("Each needs", "amount", view.amount, 1_000_000_000))
            (field("At the same moment", "concurrency", view.at_once, 50))
            button type="submit" { "Start them" }
        }
    }
}

fn result(view: &LabView) -> Markup {
    let columns = [
        Column::Number("Job"),
        Column::Text("Plain check"),
        Column::Number("It saw left"),
        Column::Text("Gate"),
        Column::Number("Left"),
        Column::Text("The gate's answer"),
    ];
    let rows: Vec<Vec<Markup>> = (view.lines.iter().enumerate())
        .map(|(index, line)| job(index, line))
        .collect();
    let count = |started: fn(&LabLine) -> bool| {
        i64::try_from(view.lines.iter().filter(|line| started(line)).count()).unwrap_or(0)
    };
    html! {
        div.pair {
            (side("Plain check", view.plain_spent, view, count(|line| line.plain_started)))
            (side("Through the gate", view.gate_spent, view, count(|line| line.gate_started)))
        }
        h2 { "What each job was told" }
        (table("What each job was told", &columns, &rows))
        p.soft {
            "The gate still holds " (number(view.gate_held)) ". Its account: "
            a href={ "/app/jobs?account=" (view.account) } { (view.account) }
        }
    }
}

/// What one side spent, against the plan.
fn side(title: &str, spent: i64, view: &LabView, started: i64) -> Markup {
    let over = spent.saturating_sub(view.limit);
    let tone = if over > 0 { Tone::Bad } else { Tone::Good };
    let label = format!("{} of {} spent", number(spent), number(view.limit));
    html! {
        section.panel.side {
            h2 { (title) }
            (tile(tone, &number(spent), html! {
                "spent of " (number(view.limit)) ", "
                @if over > 0 { b.bad { (number(over)) " over the plan" } }
                @else { span.good { "within the plan" } }
            }))
            (bar(&label, &[(tone, spent)], view.limit))
            p { (number(started)) " started, " (number(view.jobs - started)) " refused" }
        }
    }
}

fn job(index: usize, line: &LabLine) -> Vec<Markup> {
    vec![
        html! { (index + 1) },
        told(line.plain_started),
        html! { (number(line.plain_left)) },
        told(line.gate_started),
        html! { (number_or_dash(line.gate_left)) },
        html! { span.soft { (line.gate_said) } },
    ]
}

fn told(started: bool) -> Markup {
    if started {
        badge(Tone::Good, "started")
    } else {
        badge(Tone::Warn, "refused")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_spent_over_the_plan_is_said() {
        let viewer = Viewer {
            name: None,
            account_id: None,
            stand_in: true,
        };
        let mut view = LabView::new(100_000, 5, 40_000, 5);
        assert!(!lab(&viewer, &view).contains("over the plan"));
        view.plain_spent = 200_000;
        view.gate_spent = 80_000;
        view.lines.push(LabLine {
            plain_started: true,
            plain_left: 100_000,
            gate_started: false,
            gate_left: Some(20_000),
            gate_said: "402 over_limit <held>".to_owned(),
        });
        let page = lab(&viewer, &view);
        for text in [
            "200,000",
            "100,000 over",
            "80,000",
            "20,000",
            "&lt;held&gt;",
        ] {
            assert!(page.contains(text), "{text}");
        }
    }
}
