//! Canonical Extended JSON, with macros for values that are too large to write down.

use bson::{Bson, Document};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The maximum number of printed characters of a document.
const MAX_PRINTED_CHARS: usize = 1500;

/// Parses a line of a corpus file.
pub(super) fn parse_line(line: &str) -> Result<Document, String> {
    let mut deserializer = serde_json::Deserializer::from_str(line);
    // Some documents have MongoDB's maximum nesting depth.
    deserializer.disable_recursion_limit();
    let value = Value::deserialize(&mut deserializer).map_err(|error| error.to_string())?;
    match Bson::try_from(expand_macros(value)) {
        Ok(Bson::Document(document)) => Ok(document),
        Ok(other) => Err(format!("not a document: {other}")),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns the canonical Extended JSON of a document, truncated to `MAX_PRINTED_CHARS` characters.
pub(super) fn print_truncated(document: &Document) -> String {
    let mut text = Bson::from(document.clone())
        .into_canonical_extjson()
        .to_string();
    if let Some((end, _)) = text.char_indices().nth(MAX_PRINTED_CHARS) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Expands the macros.
fn expand_macros(value: Value) -> Value {
    match value {
        Value::Array(values) => values.into_iter().map(expand_macros).collect(),
        Value::Object(fields) => expand_macro(&fields).unwrap_or_else(|| {
            let expanded = fields
                .into_iter()
                .map(|(name, value)| (name, expand_macros(value)));
            Value::Object(expanded.collect())
        }),
        other => other,
    }
}

fn expand_macro(fields: &Map<String, Value>) -> Option<Value> {
    let (name, argument) = fields.iter().next().filter(|_| fields.len() == 1)?;
    let times = |count: &Value| count.as_u64().and_then(|count| usize::try_from(count).ok());
    let innermost = json!({ "$numberInt": "1" });
    Some(match name.as_str() {
        "$$repeat" => Value::from(argument[0].as_str()?.repeat(times(&argument[1])?)),
        "$$array" => Value::from(vec![
            expand_macros(argument[1].clone());
            times(&argument[0])?
        ]),
        "$$nestArray" => (0..times(argument)?).fold(innermost, |inner, _| Value::from(vec![inner])),
        "$$nest" => {
            let key = argument[1].as_str()?;
            let nest = |inner, _| Value::Object(Map::from_iter([(key.to_owned(), inner)]));
            (0..times(&argument[0])?).fold(innermost, nest)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn the_order_of_fields_is_kept() {
        let parsed = parse_line(r#"{"b": {"$numberLong": "1"}, "a": null}"#).unwrap();
        assert_eq!(parsed.keys().collect::<Vec<_>>(), ["b", "a"]);
        assert_eq!(parsed, doc! { "b": 1_i64, "a": null });
    }

    #[test]
    fn macros_are_expanded() {
        let parsed = parse_line(
            r#"{"r": {"$$repeat": ["ab", 2]}, "n": {"$$nest": [2, "k"]}, "a": {"$$array": [2, {"$$nestArray": 1}]}}"#,
        );
        let expanded = doc! { "r": "abab", "n": { "k": { "k": 1 } }, "a": [[1], [1]] };
        assert_eq!(parsed.unwrap(), expanded);
    }
}
