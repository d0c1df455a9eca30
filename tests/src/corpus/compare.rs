//! Comparison of an answer with the recorded answer.

use bson::{Bson, Document};

/// How lists of results are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultOrder {
    /// As lists.
    Total,
    /// As multisets.
    Any,
}

/// Returns whether `got` contains all recorded fields, and no unrecorded error or upserted id.
pub(crate) fn same_answer(expected: &Document, got: &Document, order: ResultOrder) -> bool {
    let unexpected = |name: &&str| got.contains_key(*name) && !expected.contains_key(*name);
    !["error", "upsertedId"].iter().any(unexpected)
        && expected.iter().all(|(name, expected_value)| {
            let got_value = got.get(name).unwrap_or(&Bson::Null);
            match name.as_str() {
                "error" => same_error(expected_value, got_value),
                "errors" => same_values(expected_value, got_value, ResultOrder::Total, &same_error),
                "docs" => same_values(expected_value, got_value, order, &same_value),
                "indexes" => {
                    same_values(expected_value, got_value, ResultOrder::Total, &same_value)
                }
                "after" | "changed" | "values" => {
                    same_values(expected_value, got_value, ResultOrder::Any, &same_value)
                }
                "matched" | "modified" if expected.contains_key("error") => true,
                "matched" | "modified" | "count" | "deleted" | "inserted" => {
                    same_number(expected_value, got_value)
                }
                "ids" => ids(got).is_some_and(|got| {
                    same_values(
                        expected_value,
                        &Bson::Array(got),
                        ResultOrder::Any,
                        &same_value,
                    )
                }),
                "groups" => ids(got).is_some_and(|got| matches_groups(expected_value, &got)),
                // Not compared: labels, names, and values that further fields repeat.
                "ok" | "errorLabels" | "code" | "codeName" => true,
                _ => same_value(expected_value, got_value),
            }
        })
}

/// Returns whether two values have the same type, value and order of fields. A generated value equals any `ObjectId`.
pub(crate) fn same_value(expected: &Bson, got: &Bson) -> bool {
    match (expected, got) {
        (Bson::Document(expected), Bson::ObjectId(_)) => is_generated(expected),
        (Bson::Document(expected), Bson::Document(got)) => same_document(expected, got),
        (Bson::Array(expected), Bson::Array(got)) => {
            expected.len() == got.len() && expected.iter().zip(got).all(|(a, b)| same_value(a, b))
        }
        // All NaN values are equal, and the two zeros differ.
        (Bson::Double(expected), Bson::Double(got)) => {
            expected.is_nan() && got.is_nan() || expected.to_bits() == got.to_bits()
        }
        (Bson::JavaScriptCodeWithScope(expected), Bson::JavaScriptCodeWithScope(got)) => {
            expected.code == got.code && same_document(&expected.scope, &got.scope)
        }
        _ => expected == got,
    }
}

/// Sorts the arrays within a value, the inner arrays first.
pub(crate) fn sort_arrays(value: &mut Bson) {
    match value {
        Bson::Array(values) => {
            values.iter_mut().for_each(sort_arrays);
            values.sort_by_cached_key(|value| format!("{value:?}"));
        }
        Bson::Document(document) => document
            .iter_mut()
            .for_each(|(_, value)| sort_arrays(value)),
        _ => {}
    }
}

fn same_document(expected: &Document, got: &Document) -> bool {
    let pairs = || expected.iter().zip(got);
    expected.len() == got.len() && pairs().all(|((a, x), (b, y))| a == b && same_value(x, y))
}

/// Returns whether two lists contain the same values, compared in `order`.
fn same_values(
    expected: &Bson,
    got: &Bson,
    order: ResultOrder,
    same: &dyn Fn(&Bson, &Bson) -> bool,
) -> bool {
    let (Bson::Array(expected), Bson::Array(got)) = (expected, got) else {
        return false;
    };
    if expected.len() != got.len() {
        return false;
    }
    if order == ResultOrder::Total {
        return expected
            .iter()
            .zip(got)
            .all(|(expected, got)| same(expected, got));
    }
    // Match generated values last: a generated value matches any `ObjectId`, and could take the match of a fixed value.
    let (generated, fixed): (Vec<_>, Vec<_>) =
        expected.iter().partition(|value| has_generated(value));
    let mut unmatched: Vec<_> = got.iter().collect();
    fixed.into_iter().chain(generated).all(|expected| {
        let found = unmatched.iter().position(|got| same(expected, got));
        found
            .map(|position| unmatched.swap_remove(position))
            .is_some()
    })
}

/// Compares the error code and the keys, which a program reads. The message is for people and is not compared.
fn same_error(expected: &Bson, got: &Bson) -> bool {
    let (Bson::Document(expected), Bson::Document(got)) = (expected, got) else {
        return false;
    };
    let field = |document: &'_ Document, name| document.get(name).cloned().unwrap_or(Bson::Null);
    ["code", "index"]
        .into_iter()
        .filter(|name| expected.contains_key(*name))
        .all(|name| same_number(&field(expected, name), &field(got, name)))
        && ["keyPattern", "keyValue", "collation"]
            .into_iter()
            .filter(|name| expected.contains_key(*name))
            // With a collation, a server reports ICU collation keys, and the engine reports the strings of the document.
            .filter(|name| *name != "keyValue" || !expected.contains_key("collation"))
            .all(|name| same_value(&field(expected, name), &field(got, name)))
}

fn same_number(expected: &Bson, got: &Bson) -> bool {
    let number = |value: &Bson| match value {
        Bson::Int32(number) => Some(f64::from(*number)),
        Bson::Int64(number) => i32::try_from(*number).ok().map(f64::from),
        Bson::Double(number) => Some(*number),
        _ => None,
    };
    number(expected).is_some() && number(expected) == number(got)
}

fn is_generated(value: &Document) -> bool {
    value.contains_key("$$generated")
}

fn has_generated(value: &Bson) -> bool {
    match value {
        Bson::Array(values) => values.iter().any(has_generated),
        Bson::Document(document) => is_generated(document) || document.values().any(has_generated),
        _ => false,
    }
}

/// Returns the `_id`s of the documents in an answer.
fn ids(answer: &Document) -> Option<Vec<Bson>> {
    let documents = answer.get_array("docs").ok()?;
    documents
        .iter()
        .map(|document| document.as_document()?.get("_id").cloned())
        .collect()
}

/// Returns whether values come group by group, in any order within a group.
fn matches_groups(groups: &Bson, mut got: &[Bson]) -> bool {
    let Bson::Array(groups) = groups else {
        return false;
    };
    let all_found = groups.iter().all(|group| {
        let length = group.as_array().map_or(0, Vec::len);
        let Some((first, rest)) = got.split_at_checked(length) else {
            return false;
        };
        got = rest;
        same_values(
            group,
            &Bson::Array(first.to_vec()),
            ResultOrder::Any,
            &same_value,
        )
    });
    all_found && got.is_empty()
}

#[cfg(test)]
mod tests {
    use bson::{bson, doc, oid::ObjectId};

    use super::*;

    #[test]
    fn types_zeros_and_the_order_of_fields_make_a_difference() {
        assert!(!same_value(&bson!(1), &bson!(1_i64)));
        assert!(!same_value(&bson!(0.0), &bson!(-0.0)));
        assert!(same_value(&bson!([f64::NAN]), &bson!([-f64::NAN])));
        assert!(!same_value(
            &bson!({ "a": 1, "b": 1 }),
            &bson!({ "b": 1, "a": 1 })
        ));
    }

    #[test]
    fn unordered_lists_count_duplicates() {
        let same =
            |expected: Bson, got| same_values(&expected, &got, ResultOrder::Any, &same_value);
        assert!(same(bson!([1, 2, 1]), bson!([2, 1, 1])));
        assert!(!same(bson!([1, 2, 2]), bson!([2, 1, 1])));
    }

    #[test]
    fn a_generated_value_replaces_no_other_value() {
        let known = ObjectId::new();
        let expected = bson!([{ "$$generated": "objectId" }, known]);
        let got = bson!([known, ObjectId::new()]);
        assert!(same_values(&expected, &got, ResultOrder::Any, &same_value));
        assert!(!same_value(
            &bson!({ "$$generated": "objectId" }),
            &bson!(1)
        ));
    }

    #[test]
    fn groups_are_in_order_and_complete() {
        let in_groups = |got: &[i32]| {
            let got: Vec<_> = got.iter().copied().map(Bson::from).collect();
            matches_groups(&bson!([[1, 2], [3]]), &got)
        };
        assert!(in_groups(&[2, 1, 3]));
        assert!(!in_groups(&[1, 3, 2]));
        assert!(!in_groups(&[1, 2]));
        assert!(!in_groups(&[1, 2, 3, 4]));
    }

    #[test]
    fn errors_are_compared_by_code_and_keys() {
        let expected = doc! { "error": { "code": 11000, "message": "E", "keyValue": { "a": 1 } } };
        let got =
            |code: i32, value: i32| doc! { "error": { "code": code, "keyValue": { "a": value } } };
        assert!(same_answer(&expected, &got(11000, 1), ResultOrder::Any));
        assert!(!same_answer(&expected, &got(11000, 2), ResultOrder::Any));
        assert!(!same_answer(&expected, &got(2, 1), ResultOrder::Any));
        assert!(!same_answer(
            &expected,
            &doc! { "inserted": 1 },
            ResultOrder::Any
        ));
    }

    #[test]
    fn an_unrecorded_error_is_a_difference() {
        let got = doc! { "error": { "code": 2 }, "docs": [] };
        assert!(!same_answer(&doc! { "docs": [] }, &got, ResultOrder::Any));
        assert!(!same_answer(&doc! { "ok": true }, &got, ResultOrder::Any));
    }
}
