//! What tells the same event from another one under the same id: type, `event_timestamp` and
//! `data`, parsed, keys sorted. Numbers are compared as they are written, so that none of their
//! digits is lost.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::value::RawValue;

/// A hash of the event's own content; the time of sending and `source` are not part of it. `None`
/// where the payload is not a JSON object.
pub fn content(payload: &str) -> Option<String> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(payload).ok()?;
    let mut text = String::new();
    for name in ["type", "event_timestamp", "data"] {
        match members.get(name) {
            Some(value) => write_sorted(&mut text, value.get())?,
            None => text.push('-'),
        }
        text.push('\n');
    }
    let digest = hmac_sha256::Hash::hash(text.as_bytes());
    Some(digest.iter().fold(String::new(), |mut hex, byte| {
        // Writing into a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    }))
}

/// Appends a JSON value with sorted keys, without spaces. The text was parsed before as a whole,
/// so its depth is bounded.
fn write_sorted(into: &mut String, text: &str) -> Option<()> {
    let text = text.trim();
    match text.as_bytes().first()? {
        b'{' => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
            into.push('{');
            for (name, value) in members {
                into.push_str(&serde_json::to_string(&name).ok()?);
                into.push(':');
                write_sorted(into, value.get())?;
                into.push(',');
            }
            into.push('}');
        }
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            into.push('[');
            for item in items {
                write_sorted(into, item.get())?;
                into.push(',');
            }
            into.push(']');
        }
        b'"' => {
            let plain: String = serde_json::from_str(text).ok()?;
            into.push_str(&serde_json::to_string(&plain).ok()?);
        }
        _ => into.push_str(text),
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_keys_spaces_escapes_and_time_of_sending_make_no_difference() {
        let one = r#"{"type":"t","timestamp":"x","data":{"a":1,"b":["\u001b","é"]},"source":"u"}"#;
        let two =
            r#"{ "data" : {"b":["\u001B","\u00e9"], "a":1}, "type":"\u0074", "timestamp":"y"}"#;
        assert!(content(one).is_some());
        assert_eq!(content(one), content(two));
    }

    #[test]
    fn another_type_time_of_event_or_data_is_another_content() {
        let base = r#"{"type":"t","event_timestamp":"1","data":{"id":1524831183200260097}}"#;
        for other in [
            base.replace("\"t\"", "\"u\""),
            base.replace("\"1\"", "\"2\""),
            base.replace("\"event_timestamp\":\"1\",", ""),
            base.replace("1524831183200260097", "1524831183200260096"),
            base.replace("1524831183200260097", "\"1524831183200260097\""),
        ] {
            assert_ne!(content(base), content(&other), "{other}");
        }
        let huge = |digit: &str| {
            content(&format!(
                r#"{{"type":"t","data":{{"id":9999999999999999999999{digit}}}}}"#
            ))
        };
        assert_ne!(huge("1"), huge("2"));
    }
}
