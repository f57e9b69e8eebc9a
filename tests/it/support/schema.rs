//! A validator of JSON against the schemas that `trainyard schema` prints. It knows the keywords
//! that they use, and refuses a schema with any other.

use serde_json::{Map, Value};

use super::binary::trainyard;

/// Keywords that say nothing about a value.
const NOTES: [&str; 5] = ["$schema", "$comment", "$defs", "title", "description"];

/// Asserts that `value` has the form that `trainyard schema NAME` gives.
#[track_caller]
pub(crate) fn assert_valid(name: &str, value: &Value) {
    let mistakes = mistakes(&schema(name), value);
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

pub(crate) fn schema(name: &str) -> Value {
    let said = trainyard(&["schema", name]);
    assert_eq!(said.code, 0, "{}", said.err);
    serde_json::from_str(&said.out).unwrap()
}

/// The mistakes of `value` by `schema`, each with its place.
pub(crate) fn mistakes(schema: &Value, value: &Value) -> Vec<String> {
    let mut check = Check { root: schema, found: Vec::new() };
    check.value("", schema, value);
    check.found
}

struct Check<'a> {
    root: &'a Value,
    found: Vec<String>,
}

impl<'a> Check<'a> {
    fn value(&mut self, at: &str, schema: &Value, value: &Value) {
        let Value::Object(keywords) = schema else {
            return self.expect(schema == true, at, "nothing may be here");
        };
        for (keyword, by) in keywords {
            match keyword.as_str() {
                "$ref" => self.value(at, self.definition(by), value),
                "anyOf" => self.any_of(at, by, value),
                "type" => self.expect(has_type(by, value), at, &format!("{value} is no {by}")),
                "const" => self.expect(by == value, at, &format!("{value} is not {by}")),
                "enum" => {
                    let is_one = by.as_array().unwrap().contains(value);
                    self.expect(is_one, at, &format!("{value} is none of {by}"));
                }
                "minimum" | "maximum" => self.bound(at, (keyword, by), value),
                "minLength" | "maxLength" | "minItems" | "maxItems" => {
                    self.length(at, (keyword, by), value);
                }
                "items" | "prefixItems" => self.items(at, by, value),
                "additionalProperties" => self.object(at, keywords, value),
                "propertyNames" => {
                    for key in value.as_object().into_iter().flat_map(Map::keys) {
                        self.value(&format!("{at}/{key}"), by, &Value::from(key.as_str()));
                    }
                }
                "properties" | "required" => {
                    assert!(keywords.contains_key("additionalProperties"), "{at} is open");
                }
                note if NOTES.contains(&note) => {}
                other => panic!("the schema has the keyword `{other}`, which is not known here"),
            }
        }
    }

    fn definition(&self, reference: &Value) -> &'a Value {
        let path = reference.as_str().unwrap().strip_prefix('#').unwrap();
        self.root.pointer(path).unwrap_or_else(|| panic!("{path} is not defined"))
    }

    fn any_of(&mut self, at: &str, alternatives: &Value, value: &Value) {
        let mut told = Vec::new();
        for one in alternatives.as_array().unwrap() {
            let mut check = Check { root: self.root, found: Vec::new() };
            check.value(at, one, value);
            if check.found.is_empty() {
                return;
            }
            told.append(&mut check.found);
        }
        self.found.append(&mut told);
    }

    fn bound(&mut self, at: &str, (keyword, bound): (&str, &Value), value: &Value) {
        if let Some(number) = value.as_f64() {
            let bound = bound.as_f64().unwrap();
            let keeps = if keyword == "minimum" { number >= bound } else { number <= bound };
            self.expect(keeps, at, &format!("{number}, but the {keyword} is {bound}"));
        }
    }

    fn length(&mut self, at: &str, (keyword, bound): (&str, &Value), value: &Value) {
        let length = match value {
            Value::String(text) if keyword.ends_with("Length") => text.chars().count() as u64,
            Value::Array(items) if keyword.ends_with("Items") => items.len() as u64,
            _ => return,
        };
        let bound = bound.as_u64().unwrap();
        let keeps = if keyword.starts_with("min") { length >= bound } else { length <= bound };
        self.expect(keeps, at, &format!("a length of {length}, but {keyword} is {bound}"));
    }

    fn items(&mut self, at: &str, schema: &Value, value: &Value) {
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            let schema = match schema {
                Value::Array(schemas) => schemas.get(index).unwrap_or(&Value::Bool(true)),
                one => one,
            };
            self.value(&format!("{at}/{index}"), schema, item);
        }
    }

    /// Of an object whose keys are given, every one is there.
    fn object(&mut self, at: &str, keywords: &Map<String, Value>, value: &Value) {
        let Some(object) = value.as_object() else { return };
        let none = Map::new();
        let known = keywords.get("properties").map_or(&none, |known| known.as_object().unwrap());
        let required = keywords.get("required").and_then(Value::as_array);
        assert_eq!(known.len(), required.map_or(0, Vec::len), "{at}: not all keys are required");
        for key in required.into_iter().flatten().filter_map(Value::as_str) {
            self.expect(object.contains_key(key), at, &format!("`{key}` is missing"));
        }
        for (key, value) in object {
            let schema = known.get(key).unwrap_or(&keywords["additionalProperties"]);
            self.value(&format!("{at}/{key}"), schema, value);
        }
    }

    fn expect(&mut self, is_so: bool, at: &str, otherwise: &str) {
        if !is_so {
            self.found.push(format!("{at}: {otherwise}"));
        }
    }
}

fn has_type(types: &Value, value: &Value) -> bool {
    let has = |name: &Value| match name.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("`{other}` is no type of JSON"),
    };
    types.as_array().map_or_else(|| has(types), |types| types.iter().any(has))
}
