//! A small judge of JSON Schema: what the API's description uses of it, and nothing else. A word
//! that it does not know ends the test, so that nothing stands in the description unlooked at.

use counterfoil::moment::parse_rfc3339;
use counterfoil::units::{is_caller_text, is_path_id};
use serde_json::{Map, Value};

/// Why `value` is not what `schema` says; `root` is the document that references lead into.
pub fn wrong(root: &Value, schema: &Value, value: &Value) -> Option<String> {
    check(root, schema, value, "$").err()
}

fn check(root: &Value, schema: &Value, value: &Value, place: &str) -> Result<(), String> {
    let words = schema.as_object().expect("a schema is an object");
    for (word, told) in words {
        let fits = match word.as_str() {
            "description" => Ok(()),
            "$ref" => {
                let path = told.as_str().and_then(|path| path.strip_prefix('#'));
                let target = path.and_then(|path| root.pointer(path));
                let target = target.unwrap_or_else(|| panic!("{told} leads nowhere"));
                check(root, target, value, place)
            }
            "type" => of_type(told, value),
            "enum" => one_of(told, value),
            "required" => required(told, value),
            "properties" => properties(root, told, value, place),
            "additionalProperties" => others(root, words, told, value, place),
            "items" => items(root, told, value, place),
            "minItems" | "maxItems" => length(word, told, value),
            "minimum" | "maximum" => bound(word, told, value),
            "pattern" => pattern(told, value),
            "format" => format(told, value),
            "allOf" | "anyOf" | "oneOf" => several(root, word, told, value, place),
            _ => panic!("{place}: {word} is no word that this test knows"),
        };
        fits.map_err(|why| {
            if why.starts_with('$') {
                why
            } else {
                format!("{place}: {why}: {value}")
            }
        })?;
    }
    Ok(())
}

fn held(is: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if is { Ok(()) } else { Err(why()) }
}

fn of_type(told: &Value, value: &Value) -> Result<(), String> {
    let is = |name: &Value| match name.as_str().expect("a type's name") {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other} is no type that this test knows"),
    };
    let fits = match told {
        Value::Array(names) => names.iter().any(is),
        name => is(name),
    };
    held(fits, || format!("it is not {told}"))
}

fn one_of(told: &Value, value: &Value) -> Result<(), String> {
    let words = told.as_array().expect("a list of words");
    held(words.contains(value), || format!("it is none of {told}"))
}

fn required(told: &Value, value: &Value) -> Result<(), String> {
    let Some(members) = value.as_object() else {
        return Ok(());
    };
    let names = told.as_array().expect("a list of names");
    let missing = names
        .iter()
        .filter_map(Value::as_str)
        .find(|name| !members.contains_key(*name));
    missing.map_or(Ok(()), |name| Err(format!("{name} is not there")))
}

fn properties(root: &Value, told: &Value, value: &Value, place: &str) -> Result<(), String> {
    let Some(members) = value.as_object() else {
        return Ok(());
    };
    for (name, schema) in told.as_object().expect("properties") {
        if let Some(member) = members.get(name) {
            check(root, schema, member, &format!("{place}.{name}"))?;
        }
    }
    Ok(())
}

fn others(
    root: &Value,
    words: &Map<String, Value>,
    told: &Value,
    value: &Value,
    place: &str,
) -> Result<(), String> {
    let known = words.get("properties").and_then(Value::as_object);
    let members = value.as_object().into_iter().flatten();
    let unknown = members.filter(|(name, _)| !known.is_some_and(|known| known.contains_key(*name)));
    for (name, member) in unknown {
        match told {
            Value::Bool(false) => return Err(format!("{name} is not described")),
            schema => check(root, schema, member, &format!("{place}.{name}"))?,
        }
    }
    Ok(())
}

fn items(root: &Value, told: &Value, value: &Value, place: &str) -> Result<(), String> {
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        check(root, told, item, &format!("{place}[{index}]"))?;
    }
    Ok(())
}

fn length(word: &str, told: &Value, value: &Value) -> Result<(), String> {
    let Some(list) = value.as_array() else {
        return Ok(());
    };
    let (length, bound) = (list.len() as u64, told.as_u64().expect("a length"));
    let fits = match word {
        "minItems" => length >= bound,
        _ => length <= bound,
    };
    held(fits, || format!("{word} is {told}"))
}

fn bound(word: &str, told: &Value, value: &Value) -> Result<(), String> {
    let (Some(number), bound) = (value.as_i64(), told.as_i64().expect("a bound")) else {
        return Ok(());
    };
    let fits = match word {
        "minimum" => number >= bound,
        _ => number <= bound,
    };
    held(fits, || format!("{word} is {told}"))
}

/// The two forms that the description knows, by the code that reads them.
fn pattern(told: &Value, value: &Value) -> Result<(), String> {
    let reads = match told.as_str().expect("a pattern") {
        "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$" => is_path_id,
        "^[!-~]{1,200}$" => is_caller_text,
        other => panic!("{other} is no form that this test knows"),
    };
    let fits = value.as_str().is_none_or(reads);
    held(fits, || "it does not have the form".to_owned())
}

fn format(told: &Value, value: &Value) -> Result<(), String> {
    let Some(text) = value.as_str() else {
        return Ok(());
    };
    let fits = match told.as_str().expect("a format") {
        "date-time" => parse_rfc3339(text).is_some(),
        "uri" => url::Url::parse(text).is_ok(),
        other => panic!("{other} is no format that this test knows"),
    };
    held(fits, || format!("it is no {told}"))
}

fn several(
    root: &Value,
    word: &str,
    told: &Value,
    value: &Value,
    place: &str,
) -> Result<(), String> {
    let schemas = told.as_array().expect("a list of schemas");
    let outcomes: Vec<_> = schemas
        .iter()
        .map(|schema| check(root, schema, value, place))
        .collect();
    let fitting = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    let fits = match word {
        "allOf" => fitting == schemas.len(),
        "anyOf" => fitting >= 1,
        _ => fitting == 1,
    };
    let reasons = || outcomes.iter().filter_map(|outcome| outcome.clone().err());
    held(fits, || {
        let reasons: Vec<String> = reasons().collect();
        format!("{fitting} of {word} fit ({})", reasons.join("; "))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::wrong;

    #[test]
    fn what_does_not_fit_is_told_by_its_place() {
        let root = json!({"components": {"Name": {"type": "string"}}});
        let schema = json!({"type": "object", "required": ["a"], "properties": {
            "a": {"type": ["integer", "null"], "minimum": 0},
            "b": {"type": "array", "items": {"$ref": "#/components/Name"}},
            "c": {"anyOf": [{"type": "integer"}, {"type": "object",
                "additionalProperties": {"type": "integer"}}]}},
            "additionalProperties": false});
        for good in [
            json!({"a": null}),
            json!({"a": 0, "b": ["x"], "c": 7}),
            json!({"a": 1, "c": {"x": 1}}),
        ] {
            assert_eq!(wrong(&root, &schema, &good), None, "{good}");
        }
        for (bad, place) in [
            (json!({}), "$: a is not there"),
            (json!({"a": -1}), "$.a: minimum"),
            (json!({"a": "1"}), "$.a: it is not"),
            (json!({"a": 1, "b": [1]}), "$.b[0]: it is not"),
            (json!({"a": 1, "c": {"x": "1"}}), "$.c: 0 of anyOf fit"),
            (json!({"a": 1, "d": 1}), "$: d is not described"),
        ] {
            let why = wrong(&root, &schema, &bad).unwrap_or_default();
            assert!(why.starts_with(place), "{bad}: {why}");
        }
    }
}
