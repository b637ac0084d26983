//! `/app/engine-room`: nine deliveries through a handler that applies each message on arrival and
//! through the pipeline, step by step side by side.

use maud::{Markup, html};

use super::sheet::{Column, table};
use super::{Tone, Viewer, frame, number, tile};
use crate::inbox::engine::{Report, Side, Step};

/// The page; without a report it explains and offers to run.
pub fn engine_room(viewer: &Viewer, report: Option<&Report>) -> String {
    frame(
        "Engine Room",
        viewer,
        &html! {
            p { "A customer on Free, balance 10, buys Pro. Nine deliveries of three events arrive: \
                in copies, late, out of order, and once the process stops between the plan and the \
                allowance. One side sets the plan to what each message says and adds 490 for \
                every payment or plan change that it handles on Pro. The other is the live intake \
                and the live lane on a fresh account." }
            form.row method="post" action="/app/engine-room/run" {
                label.check {
                    input type="checkbox" name="doorbell" value="1"
                        checked[report.is_some_and(|report| report.doorbell)];
                    "With the doorbell: the provider is asked, as always elsewhere"
                }
                button type="submit" { "Run the nine deliveries" }
            }
            @if let Some(report) = report { (result(report)) }
        },
    )
}

fn result(report: &Report) -> Markup {
    let columns = [
        Column::Number("#"),
        Column::Text("Delivery"),
        Column::Text("Applied on arrival"),
        Column::Text("What it did"),
        Column::Text("Pipeline"),
        Column::Text("What the pipeline did"),
    ];
    let rows: Vec<Vec<Markup>> = (report.steps.iter().enumerate())
        .map(|(index, step)| {
            vec![
                html! { (index + 1) },
                html! { (step.delivery.name()) },
                stands(gone_wrong(step), &step.naive),
                html! { span.soft { (step.naive.note) } },
                stands(Tone::Plain, &step.pipeline),
                html! { span.soft { (step.pipeline.note) } },
            ]
        })
        .collect();
    html! {
        (ends(report))
        (counts(report))
        h2 { "Each delivery, and where both sides stand after it" }
        (table("Nine deliveries", &columns, &rows))
        p.soft { "The pipeline's account: "
            a href={ "/app/accounts/" (report.account_id) } { (report.account_id) } }
    }
}

/// On arrival nothing but the order and the number of deliveries makes it differ.
fn gone_wrong(step: &Step) -> Tone {
    let (naive, pipeline) = (&step.naive, &step.pipeline);
    if naive.plan == pipeline.plan && naive.balance == pipeline.balance {
        Tone::Plain
    } else {
        Tone::Bad
    }
}

/// Plan and balance after a step.
fn stands(tone: Tone, side: &Side) -> Markup {
    html! { span class={ "whole " (tone.class()) } { (side.plan) " · " (number(side.balance)) } }
}

/// Where both sides stand at the end.
fn ends(report: &Report) -> Markup {
    let Some(last) = report.steps.last() else {
        return html! {};
    };
    let end = |side: &Side| format!("{} · {}", side.plan, number(side.balance));
    let too_much = last.naive.balance.saturating_sub(last.pipeline.balance);
    let (tone, said) = if too_much == 0 {
        (Tone::Good, "the same as the pipeline".to_owned())
    } else {
        (
            Tone::Bad,
            format!("{} more than was bought", number(too_much)),
        )
    };
    html! {
        div.pair {
            section.panel.side {
                h2 { "Applied on arrival" }
                (tile(tone, &end(&last.naive), said))
            }
            section.panel.side {
                h2 { "Pipeline" }
                (tile(Tone::Good, &end(&last.pipeline), "what was bought"))
            }
        }
    }
}

fn counts(report: &Report) -> Markup {
    let count = |value: i64, label: &str| tile(Tone::Plain, &number(value), label);
    let ignored = i64::try_from(report.ignored.len()).unwrap_or(0);
    html! {
        div.tiles {
            (count(report.arrived, "copies arrived"))
            (count(report.stored, "events stored"))
            (count(report.dropped, "counted and dropped"))
            (count(report.finished, "stopped in the middle, finished by the next copy"))
            (tile(Tone::Plain, &number(ignored), html! {
                "ignored" @for reason in &report.ignored { ": “" (reason) "”" }
            }))
            (count(report.granted, "times granted"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbox::engine::Delivery;

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
