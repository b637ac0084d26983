//! The rules of the house that a compiler does not check.
//!
//! Goal: whoever breaks one is told the file, the line and the rule.
//! Method: every file of `src` is read as text.

use std::fs;
use std::path::{Path, PathBuf};

const COLUMNS_MAX: usize = 100;
const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 600;

/// Long because they are tables: one line for each thing, nothing to follow.
const TABLES: &[&str] = &["http/app.rs: fn dispatch", "settings.rs: pub fn read"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Path below `src` with forward slashes, and the text.
fn sources() -> Vec<(String, String)> {
    let src = root().join("src");
    let name = |path: &Path| {
        path.strip_prefix(&src)
            .expect("below src")
            .display()
            .to_string()
    };
    let read = |path: &PathBuf| fs::read_to_string(path).expect("text");
    rust_files(&src)
        .iter()
        .map(|path| (name(path), read(path)))
        .collect()
}

fn is_test_file(name: &str) -> bool {
    name.ends_with("tests.rs") || name.contains("/tests/")
}

/// The text before the file's own test module.
fn production(text: &str) -> &str {
    let starts = ["#[cfg(test)]", "#[cfg(all(test"].map(|start| text.find(start));
    let end = starts.into_iter().flatten().min();
    end.map_or(text, |end| &text[..end])
}

fn report(broken: &[String]) {
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

#[test]
fn only_edge_names_worker_and_only_native_names_rusqlite() {
    let mut broken = Vec::new();
    for (name, text) in sources() {
        for (word, home) in [("worker::", "edge/"), ("rusqlite::", "native/")] {
            let names_it = text.lines().any(|line| {
                let code = line.split("//").next().unwrap_or("");
                code.contains(&format!("use {word}"))
                    || code.contains(&format!(" {word}"))
                    || code.contains(&format!("({word}"))
            });
            if names_it && !name.starts_with(home) {
                broken.push(format!("{name}: names {word}, which only {home} may"));
            }
        }
    }
    report(&broken);
}

#[test]
fn rules_know_neither_ports_nor_clock_nor_json() {
    let mut broken = Vec::new();
    for (name, text) in sources() {
        let file = name.rsplit('/').next().unwrap_or("");
        if !file.ends_with("rules.rs") {
            continue;
        }
        for banned in [
            "crate::ports",
            "serde",
            "async ",
            ".await",
            "crate::world",
            "HashMap",
        ] {
            if production(&text).contains(banned) {
                broken.push(format!(
                    "{name}: rules are pure and must not name `{banned}`"
                ));
            }
        }
    }
    report(&broken);
}

#[test]
fn pages_ask_no_database_and_decisions_know_no_http() {
    let mut broken = Vec::new();
    for (name, text) in sources() {
        let code = production(&text);
        if name.starts_with("pages/") && code.contains("crate::ports") {
            broken.push(format!(
                "{name}: a page gets a view struct, it does not query"
            ));
        }
        let below_http = [
            "gate/",
            "links/",
            "ledger/",
            "inbox/",
            "plans/",
            "accounts/",
        ];
        let exempt = name.starts_with("inbox/receive") || name.starts_with("inbox/engine");
        let is_below = below_http.iter().any(|home| name.starts_with(home)) && !exempt;
        if is_below && code.contains("crate::http::app") {
            broken.push(format!("{name}: a feature does not know the router"));
        }
    }
    report(&broken);
}

#[test]
fn lines_functions_and_files_stay_short() {
    let mut broken = Vec::new();
    for (name, text) in sources() {
        for (index, line) in text.lines().enumerate() {
            if line.chars().count() > COLUMNS_MAX && !line.trim_start().starts_with("spec(") {
                broken.push(format!(
                    "{name}:{}: more than {COLUMNS_MAX} columns",
                    index + 1
                ));
            }
        }
        if is_test_file(&name) {
            continue;
        }
        let lines = production(&text).lines().count();
        if lines > FILE_LINES_MAX {
            broken.push(format!("{name}: {lines} lines; one reason to exist?"));
        }
        long_functions(&name, production(&text), &mut broken);
    }
    report(&broken);
}

/// A function begins where its line does and ends at the `}` of the same indent; a declaration
/// without a body ends with `;` before any `{` came.
fn long_functions(name: &str, text: &str, broken: &mut Vec<String>) {
    let mut open: Option<(usize, String, bool)> = None;
    for (index, line) in text.lines().enumerate() {
        let indent: String = line.chars().take_while(|c| *c == ' ').collect();
        let code = line.trim_start();
        if open.is_none() && begins_function(code) && !is_table(name, code) {
            open = Some((index, indent.clone(), false));
        }
        let Some((start, level, has_body)) = &mut open else {
            continue;
        };
        *has_body |= code.ends_with('{') || code.ends_with("{}");
        if *has_body && indent == *level && (code == "}" || code.ends_with("{}")) {
            if index - *start + 1 > FUNCTION_LINES_MAX {
                broken.push(format!(
                    "{name}:{}: {} lines",
                    *start + 1,
                    index - *start + 1
                ));
            }
            open = None;
        } else if !*has_body && code.ends_with(';')
            || *has_body && index == *start && code.ends_with('}')
        {
            open = None;
        }
    }
}

fn begins_function(code: &str) -> bool {
    let code = code
        .trim_start_matches("pub(crate) ")
        .trim_start_matches("pub ");
    let code = code
        .trim_start_matches("const ")
        .trim_start_matches("async ");
    code.starts_with("fn ")
}

fn is_table(name: &str, code: &str) -> bool {
    let known = TABLES.iter().filter_map(|known| known.split_once(": "));
    known
        .into_iter()
        .any(|(file, start)| name == file && code.starts_with(start))
}

#[test]
fn nothing_that_can_panic_stands_in_the_worker() {
    let mut broken = Vec::new();
    for (name, text) in sources() {
        if name.starts_with("native/") || name.starts_with("bin/") || is_test_file(&name) {
            continue;
        }
        for (index, line) in production(&text).lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            for banned in [
                ".unwrap()",
                ".expect(",
                "panic!(",
                "todo!(",
                "unimplemented!(",
            ] {
                if code.contains(banned) {
                    broken.push(format!("{name}:{}: {banned}", index + 1));
                }
            }
        }
    }
    report(&broken);
}

#[test]
fn no_file_is_called_after_nothing_in_particular() {
    let banned = [
        "util", "utils", "common", "helpers", "types", "manager", "misc",
    ];
    let mut broken = Vec::new();
    for (name, text) in sources() {
        let stem = name
            .trim_end_matches(".rs")
            .rsplit('/')
            .next()
            .unwrap_or("");
        if banned.contains(&stem) {
            broken.push(format!("{name}: what does it do?"));
        }
        for word in ["TODO", "FIXME", "XXX", "HACK"] {
            if text.contains(word) {
                broken.push(format!("{name}: {word}; mend it or leave it out"));
            }
        }
        if !text.starts_with("//!") {
            broken.push(format!("{name}: begins without saying what it promises"));
        }
    }
    report(&broken);
}

#[test]
fn every_table_says_what_its_rows_promise() {
    let mut broken = Vec::new();
    for folder in ["control", "ledger"] {
        for entry in fs::read_dir(root().join("migrations").join(folder)).expect("a folder") {
            let path = entry.expect("an entry").path();
            let text = fs::read_to_string(&path).expect("text");
            let lines: Vec<&str> = text.lines().collect();
            for (index, line) in lines.iter().enumerate() {
                let said = index > 0 && lines[index - 1].starts_with("--");
                if line.starts_with("create table") && !said {
                    broken.push(format!("{}:{}: {line}", path.display(), index + 1));
                }
            }
        }
    }
    report(&broken);
}

#[test]
fn every_dependency_has_a_reason() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("text");
    let reasons = fs::read_to_string(root().join("docs/decisions.md")).expect("text");
    let mut inside = false;
    let mut broken = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line.contains("dependencies");
        } else if inside && let Some((name, _)) = line.split_once('=') {
            let name = name.trim();
            if !name.is_empty() && !name.starts_with('#') && !reasons.contains(&format!("`{name}`"))
            {
                broken.push(format!("{name}: docs/decisions.md does not say why"));
            }
        }
    }
    report(&broken);
}
