//! `docs/contract.md` names a test for every rule: each one named is there.

use std::fs;
use std::path::Path;

#[test]
fn every_test_that_the_table_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let text = read(&root.join("docs/contract.md"));
    let mut named = 0;
    let mut missing = Vec::new();
    for row in text.lines().filter(|line| line.starts_with("| ")) {
        let cell = row.trim_end_matches('|').rsplit("| ").next();
        let tests = cell.unwrap_or_default().split('`').skip(1).step_by(2);
        for test in tests {
            let Some((file, name)) = test.split_once(' ') else {
                continue;
            };
            let below = if file.starts_with("src/") {
                ""
            } else {
                "tests"
            };
            named += 1;
            if !read(&root.join(below).join(file)).contains(name) {
                missing.push(test.to_owned());
            }
        }
        let is_head = cell.is_some_and(|cell| cell.trim() == "test");
        let has_one = row.contains(".rs ") || row.contains(".mjs ") || row.contains("the same");
        assert!(is_head || has_one, "a rule without a test: {row}");
    }
    assert!(named > 100, "{named}");
    assert_eq!(missing, Vec::<String>::new());
}
