//! Tables and lists of facts, written once: a cell knows the head of its column, so that a phone
//! can show a row as a card.

use maud::{Markup, html};

/// One column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Words.
    Text(&'static str),
    /// Numbers, one below the other by their last digit.
    Number(&'static str),
    /// Buttons, pictures and bars: the head is read out and not shown.
    Aside(&'static str),
}

impl Column {
    const fn head(self) -> &'static str {
        match self {
            Self::Text(head) | Self::Number(head) | Self::Aside(head) => head,
        }
    }

    const fn class(self) -> Option<&'static str> {
        match self {
            Self::Text(_) => None,
            Self::Number(_) => Some("n"),
            Self::Aside(_) => Some("aside"),
        }
    }
}

/// A table; `label` says what it lists. A row has a cell for each column.
pub fn table(label: &str, columns: &[Column], rows: &[Vec<Markup>]) -> Markup {
    let class = if columns.len() > 2 {
        "sheet"
    } else {
        "sheet narrow"
    };
    html! {
        div class=(class) { table aria-label=(label) {
            thead { tr { @for column in columns { (head(*column)) } } }
            tbody { @for row in rows {
                tr { @for (column, cell) in columns.iter().zip(row) {
                    td class=[column.class()] data-of=(column.head()) { (cell) }
                } }
            } }
        } }
    }
}

fn head(column: Column) -> Markup {
    html! {
        th scope="col" class=[column.class()] {
            @if let Column::Aside(head) = column { span.said { (head) } } @else { (column.head()) }
        }
    }
}

/// What stands in the place of a table without rows: why it is empty, or what to do next.
pub fn nothing(said: impl maud::Render) -> Markup {
    html! { p.nothing { (said) } }
}

/// The table, or what is said where it would have no rows.
pub fn table_or(
    label: &str,
    columns: &[Column],
    rows: &[Vec<Markup>],
    said: impl maud::Render,
) -> Markup {
    if rows.is_empty() {
        nothing(said)
    } else {
        table(label, columns, rows)
    }
}

/// Names and what they stand for, one below the other.
pub fn facts(facts: &[(&str, Markup)]) -> Markup {
    html! {
        dl.sheet { @for (name, fact) in facts {
            div { dt { (name) } dd { (fact) } }
        } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cell_names_its_column_and_a_table_without_rows_says_why() {
        let columns = [
            Column::Text("Job"),
            Column::Number("Used"),
            Column::Aside("Settle"),
        ];
        let row = vec![html! { "<j>" }, html! { "1,200" }, html! {}];
        let shown = table_or("Jobs", &columns, &[row], "no job").into_string();
        for part in [
            "aria-label=\"Jobs\"",
            "<th scope=\"col\" class=\"n\">Used</th>",
            "<td data-of=\"Job\">&lt;j&gt;</td>",
            "<td class=\"n\" data-of=\"Used\">1,200</td>",
            "<span class=\"said\">Settle</span>",
        ] {
            assert!(shown.contains(part), "{part} is not in {shown}");
        }
        let empty = table_or("Jobs", &columns, &[], "no <job>").into_string();
        assert_eq!(empty, "<p class=\"nothing\">no &lt;job&gt;</p>");
    }
}
