//! Matches values by the rules of the unified test format, with operators and with numbers across types.

use bson::{Bson, Document};

use crate::corpus::operation::NotOffered;

/// Returns whether a result matches. A root document may have additional fields.
pub(super) fn is_match(expected: &Bson, got: Option<&Bson>) -> Result<bool, NotOffered> {
    match (expected, got) {
        // The documents of an answer are root documents too.
        (Bson::Array(expected), Some(Bson::Array(got))) => all_match(expected, got, true),
        _ => matches(expected, got, true),
    }
}

fn matches(expected: &Bson, got: Option<&Bson>, is_root: bool) -> Result<bool, NotOffered> {
    if let Bson::Document(operator) = expected
        && let Some((name, operand)) = operator.iter().next()
        && name.starts_with("$$")
    {
        return apply(name, operand, got, is_root);
    }
    Ok(match (expected, got) {
        (_, None) => false,
        (Bson::Document(expected), Some(Bson::Document(got))) => {
            return document_matches(expected, got, is_root);
        }
        (Bson::Array(expected), Some(Bson::Array(got))) => {
            return all_match(expected, got, false);
        }
        (expected, Some(got)) => match (number(expected), number(got)) {
            (Some(expected), Some(got)) => expected == got,
            _ => expected == got,
        },
    })
}

fn apply(
    name: &str,
    operand: &Bson,
    got: Option<&Bson>,
    is_root: bool,
) -> Result<bool, NotOffered> {
    match (name, got) {
        ("$$exists", _) => Ok(*operand == Bson::Boolean(got.is_some())),
        ("$$unsetOrMatches", None) => Ok(true),
        ("$$unsetOrMatches", Some(_)) => matches(operand, got, is_root),
        ("$$matchAsRoot", _) => matches(operand, got, true),
        ("$$type", None) => Ok(false),
        ("$$type", Some(got)) => Ok(match operand {
            Bson::Array(names) => names.iter().any(|name| is_of_type(got, name)),
            name => is_of_type(got, name),
        }),
        _ => Err(NotOffered::new(format!("the matcher {name}"))),
    }
}

fn document_matches(
    expected: &Document,
    got: &Document,
    is_root: bool,
) -> Result<bool, NotOffered> {
    if !is_root && got.keys().any(|name| !expected.contains_key(name)) {
        return Ok(false);
    }
    expected.iter().try_fold(true, |all, (name, expected)| {
        Ok(all && matches(expected, got.get(name), false)?)
    })
}

fn all_match(expected: &[Bson], got: &[Bson], is_root: bool) -> Result<bool, NotOffered> {
    let pairs = expected.iter().zip(got);
    let same = expected.len() == got.len();
    { pairs }.try_fold(same, |all, (expected, got)| {
        Ok(all && matches(expected, Some(got), is_root)?)
    })
}

fn number(value: &Bson) -> Option<f64> {
    match value {
        Bson::Int32(number) => Some(f64::from(*number)),
        Bson::Int64(number) => i32::try_from(*number).ok().map(f64::from),
        Bson::Double(number) => Some(*number),
        _ => None,
    }
}

/// Compares with the type names of `$type`.
fn is_of_type(value: &Bson, name: &Bson) -> bool {
    let is_number = matches!(
        value,
        Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_)
    );
    let type_name = match value {
        Bson::Double(_) => "double",
        Bson::String(_) => "string",
        Bson::Document(_) => "object",
        Bson::Array(_) => "array",
        Bson::Binary(_) => "binData",
        Bson::ObjectId(_) => "objectId",
        Bson::Boolean(_) => "bool",
        Bson::DateTime(_) => "date",
        Bson::Null => "null",
        Bson::RegularExpression(_) => "regex",
        Bson::Int32(_) => "int",
        Bson::Int64(_) => "long",
        Bson::Decimal128(_) => "decimal",
        Bson::Timestamp(_) => "timestamp",
        _ => "",
    };
    let name = name.as_str();
    name == Some(type_name) || is_number && name == Some("number")
}

#[cfg(test)]
mod tests {
    use bson::bson;

    use super::*;

    fn matches_value(expected: &Bson, got: &Bson) -> bool {
        is_match(expected, Some(got)).unwrap()
    }

    #[test]
    fn the_root_may_have_more_fields_than_expected() {
        let expected = bson!({ "a": { "b": 1 } });
        assert!(matches_value(
            &expected,
            &bson!({ "a": { "b": 1 }, "c": 2 })
        ));
        assert!(!matches_value(
            &expected,
            &bson!({ "a": { "b": 1, "c": 2 } })
        ));
        assert!(!matches_value(&expected, &bson!({ "c": 2 })));
        let rows = bson!([{ "a": 1 }]);
        assert!(matches_value(&rows, &bson!([{ "a": 1, "b": 2 }])));
        assert!(!matches_value(&rows, &bson!([{ "a": 1 }, { "a": 1 }])));
    }

    #[test]
    fn numbers_match_across_types() {
        assert!(matches_value(&bson!({ "a": 1 }), &bson!({ "a": 1.0 })));
        assert!(matches_value(&bson!(1_i64), &bson!(1)));
        assert!(!matches_value(&bson!(1), &bson!(2)));
        assert!(!matches_value(&bson!(1), &bson!("1")));
    }

    #[test]
    fn operators_match_values() {
        let has = |expected: Bson, got: Bson| matches_value(&expected, &got);
        assert!(has(bson!({ "a": { "$$exists": false } }), bson!({})));
        assert!(!has(bson!({ "a": { "$$exists": true } }), bson!({})));
        assert!(has(bson!({ "a": { "$$unsetOrMatches": 1 } }), bson!({})));
        assert!(!has(
            bson!({ "a": { "$$unsetOrMatches": 1 } }),
            bson!({ "a": 2 })
        ));
        assert!(has(
            bson!({ "a": { "$$type": ["int", "long"] } }),
            bson!({ "a": 2_i64 })
        ));
        assert!(!has(bson!({ "a": { "$$type": "string" } }), bson!({})));
        assert!(has(bson!({ "$$type": "number" }), bson!(1.5)));
        let inner = bson!({ "a": { "$$matchAsRoot": { "b": 1 } } });
        assert!(has(inner, bson!({ "a": { "b": 1, "c": 2 } })));
        assert!(is_match(&bson!({ "$$sessionLsid": "s" }), None).is_err());
    }
}
