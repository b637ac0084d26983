//! `/app/engine-room`: nine deliveries through a handler that applies each message on arrival and
//! through the pipeline, step by step side by side.

use maud::{Markup, html};

use super::{Viewer, frame, number};
use crate::inbox::engine::{Report, Side};

/// The page; without a report it explains and offers to run.
pub fn engine_room(viewer: &Viewer, report: Option<&Report>) -> String {
    frame(
        "Engine Room",
        viewer,
        &html! {
            p { "A customer on Free, balance 10, buys Pro. Nine deliveries of three events arrive: \
                twice, late, out of order, and once the process stops between the plan and the \
                allowance. The left side sets the plan to what each message says and adds 490 for \
                every payment or plan change that it handles on Pro. The right side is the live \
                intake and the live lane on a fresh account." }
            form.row method="post" action="/app/engine-room/run" {
                label {
                    input type="checkbox" name="doorbell" value="1"
                        checked[report.is_some_and(|report| report.doorbell)];
                    " with the doorbell: the provider is asked, as always elsewhere"
                }
                button type="submit" { "Run the nine deliveries" }
            }
            @if let Some(report) = report { (result(report)) }
        },
    )
}

fn result(report: &Report) -> Markup {
    html! {
        (tiles(report))
        div.scroll { table {
            caption { "Each delivery, and where both sides stand after it" }
            thead { tr {
                th.n { "#" } th { "Delivery" } th { "On arrival" } th.n { "Balance" } th { "" }
                th { "Pipeline" } th.n { "Balance" } th { "" }
            } }
            tbody {
                @for (index, step) in report.steps.iter().enumerate() {
                    tr {
                        td.n { (index + 1) }
                        td { (step.delivery.name()) }
                        (side(&step.naive))
                        (side(&step.pipeline))
                    }
                }
            }
        } }
        p { "The pipeline's account: "
            a href={ "/app/accounts/" (report.account_id) } { (report.account_id) } }
    }
}

fn side(side: &Side) -> Markup {
    html! {
        td { (side.plan) }
        td.n { (number(side.balance)) }
        td.soft { (side.note) }
    }
}

fn tiles(report: &Report) -> Markup {
    let last = report.steps.last();
    let tile = |value: String, label: &str| html! { div.tile { b { (value) } span { (label) } } };
    html! {
        div.tiles {
            (tile(number(report.arrived), "copies arrived"))
            (tile(number(report.stored), "events stored"))
            (tile(number(report.dropped), "counted and dropped"))
            (tile(number(report.finished), "stopped in the middle, finished by the next copy"))
            (tile(report.ignored.len().to_string(), "ignored"))
            (tile(number(report.granted), "times granted"))
            @if let Some(last) = last {
                (tile(format!("{} · {}", last.pipeline.plan, number(last.pipeline.balance)),
                    "the pipeline"))
                (tile(format!("{} · {}", last.naive.plan, number(last.naive.balance)),
                    "on arrival"))
            }
        }
        @for reason in &report.ignored { p.soft { "Ignored: “" (reason) "”" } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbox::engine::{Delivery, Step};

    #[test]
    fn both_sides_of_every_step_and_the_counts_are_shown() {
        let side = |plan: &str, balance| Side {
            plan: plan.to_owned(),
            balance,
            note: "<b>".to_owned(),
        };
        let report = Report {
            doorbell: false,
            account_id: "acc_1".to_owned(),
            steps: vec![Step {
                delivery: Delivery::Payment,
                naive: side("Pro", 2950),
                pipeline: side("Pro", 500),
            }],
            arrived: 9,
            stored: 3,
            dropped: 6,
            finished: 1,
            ignored: vec!["a newer plan change is already stored".to_owned()],
            granted: 1,
        };
        let viewer = Viewer {
            name: None,
            account_id: None,
            stand_in: true,
        };
        let page = engine_room(&viewer, Some(&report));
        for text in [
            "2,950",
            "Pro · 500",
            "copies arrived",
            "a newer plan change",
            "&lt;b&gt;",
        ] {
            assert!(page.contains(text), "{text}");
        }
        assert!(!engine_room(&viewer, None).contains("copies arrived"));
    }
}
