//! `/signin`, and what a browser is shown instead of a page.

use maud::html;

use super::{Viewer, frame};

/// The form; `dev` offers one click, `next` is where it leads, `wrong` says why it is there again.
pub fn sign_in(viewer: &Viewer, dev: bool, next: &str, wrong: Option<&str>) -> String {
    let body = html! {
        @if dev {
            form method="post" action="/signin" {
                input type="hidden" name="dev" value="1";
                input type="hidden" name="next" value=(next);
                button type="submit" { "Sign in as the operator of this local server" }
            }
            p.soft { "One click, because " code { "DEV=1" } " is set. Or with a token:" }
        }
        form method="post" action="/signin" {
            input type="hidden" name="next" value=(next);
            label { "Operator token or an account's API key"
                input type="password" name="token" required autocomplete="current-password"
                    aria-invalid=[wrong.map(|_| "true")];
                @if let Some(wrong) = wrong { span.wrong role="alert" { (wrong) } }
            }
            button type="submit" class=[dev.then_some("quiet")] { "Sign in" }
        }
    };
    frame("Sign in", viewer, &html! { div.card { (body) } })
}

/// Why there is no page, for a browser that asked for one.
pub fn no_page(status: u16, detail: &str, request_id: &str) -> String {
    let viewer = Viewer {
        name: None,
        account_id: None,
        stand_in: false,
    };
    frame(
        &format!("{status}"),
        &viewer,
        &html! {
            p.problem { (detail) }
            p.soft { "Request " code { (request_id) } " · " a href="/app" { "Overview" } }
        },
    )
}
