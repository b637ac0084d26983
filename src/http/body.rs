//! JSON bodies, read field by field, so that each mistake is answered with the field's name.

use serde_json::{Map, Value};

use super::reply::Problem;
use super::request::Body;
use crate::moment;
use crate::units::{Formed, Millis, SAFE_MAX, Units};

/// The fields of a JSON object that were not looked at yet.
#[derive(Debug)]
pub struct Fields {
    rest: Map<String, Value>,
    prefix: String,
}

impl Fields {
    /// 413 over the bound, 400 where it does not parse or is not an object. An empty body is an
    /// empty object, so that routes whose fields are all optional need none.
    pub fn parse(body: &Body) -> Result<Self, Problem> {
        let Body::Whole(bytes) = body else {
            return Err(too_large());
        };
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self {
                rest: Map::new(),
                prefix: String::new(),
            });
        }
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(rest)) => Ok(Self {
                rest,
                prefix: String::new(),
            }),
            Ok(_) => Err(Problem::new(
                400,
                "invalid_json",
                "The body is not a JSON object.",
            )),
            Err(_) => Err(Problem::new(
                400,
                "invalid_json",
                "The body is not valid JSON.",
            )),
        }
    }

    /// The fields of an object inside a body; `prefix` names it in errors (`items[3].`).
    pub fn nested(value: Value, prefix: &str) -> Result<Self, Problem> {
        match value {
            Value::Object(rest) => Ok(Self {
                rest,
                prefix: prefix.to_owned(),
            }),
            _ => Err(Problem::field(
                prefix.trim_end_matches('.'),
                "It must be an object.",
            )),
        }
    }

    /// 422 naming this field.
    pub fn wrong(&self, field: &str, detail: &str) -> Problem {
        Problem::field(&format!("{}{field}", self.prefix), detail)
    }

    /// The raw value, if it is there.
    pub fn take(&mut self, field: &str) -> Option<Value> {
        self.rest.remove(field)
    }

    /// Whether it is there and not yet taken, null included.
    pub fn has(&self, field: &str) -> bool {
        self.rest.contains_key(field)
    }

    /// A text, if it is there; null counts as absent.
    pub fn opt_text(&mut self, field: &str) -> Result<Option<String>, Problem> {
        match self.take(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(field, "It must be text.")),
        }
    }

    /// A text of a newtype's form, if it is there.
    pub fn opt_id<T: Formed>(
        &mut self,
        field: &str,
        parse: fn(String) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        match self.opt_text(field)? {
            None => Ok(None),
            Some(text) => match parse(text) {
                Some(id) => Ok(Some(id)),
                None => Err(self.wrong(field, &format!("It must be {}.", T::FORM))),
            },
        }
    }

    /// A text of a newtype's form.
    pub fn id<T: Formed>(
        &mut self,
        field: &str,
        parse: fn(String) -> Option<T>,
    ) -> Result<T, Problem> {
        self.opt_id(field, parse)?
            .ok_or_else(|| self.wrong(field, "It is required."))
    }

    /// A whole number within bounds, if it is there. `1.5`, `1e3` and `"10"` are none.
    pub fn opt_int(&mut self, field: &str, min: i64, max: i64) -> Result<Option<i64>, Problem> {
        match self.take(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match whole_number(&value).filter(|n| (min..=max).contains(n)) {
                Some(number) => Ok(Some(number)),
                None => Err(self.wrong(
                    field,
                    &format!("It must be a whole number, {min} to {max}."),
                )),
            },
        }
    }

    /// An amount of at least `min`, if it is there.
    pub fn opt_units(&mut self, field: &str, min: i64) -> Result<Option<Units>, Problem> {
        Ok(self.opt_int(field, min, SAFE_MAX)?.and_then(Units::new))
    }

    /// An amount of at least `min`.
    pub fn units(&mut self, field: &str, min: i64) -> Result<Units, Problem> {
        self.opt_units(field, min)?
            .ok_or_else(|| self.wrong(field, "It is required."))
    }

    /// A moment (RFC 3339), if it is there.
    pub fn opt_moment(&mut self, field: &str) -> Result<Option<Millis>, Problem> {
        match self.opt_text(field)? {
            None => Ok(None),
            Some(text) => match moment::parse_rfc3339(&text) {
                Some(at) => Ok(Some(at)),
                None => Err(self.wrong(field, "It must be a time such as 2026-10-20T15:29:00Z.")),
            },
        }
    }

    /// A yes or no, if it is there.
    pub fn opt_bool(&mut self, field: &str) -> Result<Option<bool>, Problem> {
        match self.take(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(value)),
            Some(_) => Err(self.wrong(field, "It must be true or false.")),
        }
    }

    /// 422 for the first field that nobody took. Call it last.
    pub fn finish(self) -> Result<(), Problem> {
        match self.rest.keys().next() {
            None => Ok(()),
            Some(unknown) => Err(self.wrong(unknown, "There is no such field.")),
        }
    }
}

/// 413: the bound of every body.
pub fn too_large() -> Problem {
    Problem::new(413, "too_large", "The body is larger than 256 KiB.")
}

/// An integer within the safe range; a number written with a point or exponent is none.
pub fn whole_number(value: &Value) -> Option<i64> {
    value
        .as_i64()
        .filter(|n| (-SAFE_MAX..=SAFE_MAX).contains(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Result<Fields, Problem> {
        Fields::parse(&Body::Whole(text.as_bytes().to_vec()))
    }

    #[test]
    fn a_body_that_is_no_object_is_400_and_a_large_one_413() {
        for bad in ["[]", "7", "{", "nul", "{\"a\":1}x", "\u{feff}{}"] {
            assert_eq!(fields(bad).err().map(|p| p.status), Some(400), "{bad}");
        }
        assert_eq!(
            Fields::parse(&Body::TooLarge).err().map(|p| p.status),
            Some(413)
        );
    }

    #[test]
    fn only_whole_safe_numbers_are_amounts() {
        for bad in [
            "1.5",
            "1e3",
            "\"10\"",
            "-1",
            "0",
            "9007199254740992",
            "1.0",
            "true",
            "[]",
        ] {
            let mut body = fields(&format!("{{\"hold\":{bad}}}")).expect("it parses");
            let problem = body.units("hold", 1).expect_err(bad);
            assert_eq!(
                problem.members.get("field"),
                Some(&Value::from("hold")),
                "{bad}"
            );
        }
        let mut body = fields("{\"hold\":9007199254740991}").expect("it parses");
        assert_eq!(body.units("hold", 1), Ok(Units::MAX));
    }

    #[test]
    fn an_unknown_field_is_named() {
        let problem = fields("{\"x\":1}")
            .expect("parses")
            .finish()
            .expect_err("it is unknown");
        assert_eq!(problem.members.get("field"), Some(&Value::from("x")));
    }
}
