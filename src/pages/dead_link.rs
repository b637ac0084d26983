//! What a visitor is shown whose link leads nowhere: nothing of ours, and no way into it.

use maud::{DOCTYPE, html};

/// The page; `detail` says why.
pub fn dead_link(detail: &str) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex, nofollow";
                title { "This link leads nowhere" }
                link rel="stylesheet" href="/app/style.css";
            }
            body {
                main {
                    h1 { "This link leads nowhere" }
                    p { (detail) " Whoever gave it to you may have a new one." }
                }
            }
        }
    }
    .into_string()
}
