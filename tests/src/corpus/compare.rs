//! Whether an answer is the one that was recorded.

use bson::{Bson, Document};

/// How lists of results are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// As lists.
    Total,
    /// As multisets.
    Any,
}

/// Whether `got` has all that was recorded, and neither an error nor an insertion that was not.
pub(crate) fn same_answer(expected: &Document, got: &Document, order: Order) -> bool {
    let unexpected = |name: &&str| got.contains_key(*name) && !expected.contains_key(*name);
    !["error", "upsertedId"].iter().any(unexpected)
        && expected.iter().all(|(name, expected_value)| {
            let got_value = got.get(name).unwrap_or(&Bson::Null);
            match name.as_str() {
                "error" => same_error(expected_value, got_value),
                "errors" => same_values(expected_value, got_value, Order::Total, &same_error),
                "docs" => same_values(expected_value, got_value, order, &same),
                "indexes" => same_values(expected_value, got_value, Order::Total, &same),
                "after" | "changed" | "values" => {
                    same_values(expected_value, got_value, Order::Any, &same)
                }
                "matched" | "modified" if expected.contains_key("error") => true,
                "matched" | "modified" | "count" | "deleted" | "inserted" => {
                    same_number(expected_value, got_value)
                }
                "ids" => ids(got).is_some_and(|got| {
                    same_values(expected_value, &Bson::Array(got), Order::Any, &same)
                }),
                "groups" => ids(got).is_some_and(|got| in_groups(expected_value, &got)),
                // What it is called besides, and what other fields say already.
                "ok" | "errorLabels" | "code" | "codeName" => true,
                _ => same(expected_value, got_value),
            }
        })
}

/// Whether two values are the same in type, value and order of fields. A generated value is as good as any other.
pub(crate) fn same(expected: &Bson, got: &Bson) -> bool {
    match (expected, got) {
        (Bson::Document(expected), Bson::ObjectId(_)) => is_generated(expected),
        (Bson::Document(expected), Bson::Document(got)) => same_document(expected, got),
        (Bson::Array(expected), Bson::Array(got)) => {
            expected.len() == got.len() && expected.iter().zip(got).all(|(a, b)| same(a, b))
        }
        // There is one NaN, and two zeros.
        (Bson::Double(expected), Bson::Double(got)) => {
            expected.is_nan() && got.is_nan() || expected.to_bits() == got.to_bits()
        }
        (Bson::JavaScriptCodeWithScope(expected), Bson::JavaScriptCodeWithScope(got)) => {
            expected.code == got.code && same_document(&expected.scope, &got.scope)
        }
        _ => expected == got,
    }
}

/// Sorts the arrays within a value, the inner ones first.
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
    expected.len() == got.len() && pairs().all(|((a, x), (b, y))| a == b && same(x, y))
}

/// Whether these are the same values, in this order.
fn same_values(
    expected: &Bson,
    got: &Bson,
    order: Order,
    same: &dyn Fn(&Bson, &Bson) -> bool,
) -> bool {
    let (Bson::Array(expected), Bson::Array(got)) = (expected, got) else {
        return false;
    };
    if expected.len() != got.len() {
        return false;
    }
    if order == Order::Total {
        return expected
            .iter()
            .zip(got)
            .all(|(expected, got)| same(expected, got));
    }
    // Generated values take what the others leave.
    let (generated, fixed): (Vec<_>, Vec<_>) =
        expected.iter().partition(|value| has_generated(value));
    let mut left: Vec<_> = got.iter().collect();
    fixed.into_iter().chain(generated).all(|expected| {
        let found = left.iter().position(|got| same(expected, got));
        found.map(|position| left.swap_remove(position)).is_some()
    })
}

/// The message is for people: the code and the keys are what a program sees.
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
            // A server tells the collation keys of its ICU, the engine the document's strings.
            .filter(|name| *name != "keyValue" || !expected.contains_key("collation"))
            .all(|name| same(&field(expected, name), &field(got, name)))
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

/// The `_id`s of the documents of an answer.
fn ids(answer: &Document) -> Option<Vec<Bson>> {
    let documents = answer.get_array("docs").ok()?;
    documents
        .iter()
        .map(|document| document.as_document()?.get("_id").cloned())
        .collect()
}

/// Whether values come group by group, in any order within a group.
fn in_groups(groups: &Bson, mut got: &[Bson]) -> bool {
    let Bson::Array(groups) = groups else {
        return false;
    };
    let all_found = groups.iter().all(|group| {
        let length = group.as_array().map_or(0, Vec::len);
        let Some((first, rest)) = got.split_at_checked(length) else {
            return false;
        };
        got = rest;
        same_values(group, &Bson::Array(first.to_vec()), Order::Any, &same)
    });
    all_found && got.is_empty()
}

#[cfg(test)]
mod tests {
    use bson::{bson, doc, oid::ObjectId};

    use super::*;

    #[test]
    fn types_zeros_and_the_order_of_fields_make_a_difference() {
        assert!(!same(&bson!(1), &bson!(1_i64)));
        assert!(!same(&bson!(0.0), &bson!(-0.0)));
        assert!(same(&bson!([f64::NAN]), &bson!([-f64::NAN])));
        assert!(!same(
            &bson!({ "a": 1, "b": 1 }),
            &bson!({ "b": 1, "a": 1 })
        ));
    }

    #[test]
    fn a_multiset_counts() {
        let same = |expected: Bson, got| same_values(&expected, &got, Order::Any, &same);
        assert!(same(bson!([1, 2, 1]), bson!([2, 1, 1])));
        assert!(!same(bson!([1, 2, 2]), bson!([2, 1, 1])));
    }

    #[test]
    fn a_generated_value_takes_no_other_values_place() {
        let known = ObjectId::new();
        let expected = bson!([{ "$$generated": "objectId" }, known]);
        let got = bson!([known, ObjectId::new()]);
        assert!(same_values(&expected, &got, Order::Any, &same));
        assert!(!same(&bson!({ "$$generated": "objectId" }), &bson!(1)));
    }

    #[test]
    fn groups_are_in_order_and_complete() {
        let in_groups = |got: &[i32]| {
            let got: Vec<_> = got.iter().copied().map(Bson::from).collect();
            in_groups(&bson!([[1, 2], [3]]), &got)
        };
        assert!(in_groups(&[2, 1, 3]));
        assert!(!in_groups(&[1, 3, 2]));
        assert!(!in_groups(&[1, 2]));
        assert!(!in_groups(&[1, 2, 3, 4]));
    }

    #[test]
    fn an_error_is_known_by_its_code_and_keys() {
        let expected = doc! { "error": { "code": 11000, "message": "E", "keyValue": { "a": 1 } } };
        let got =
            |code: i32, value: i32| doc! { "error": { "code": code, "keyValue": { "a": value } } };
        assert!(same_answer(&expected, &got(11000, 1), Order::Any));
        assert!(!same_answer(&expected, &got(11000, 2), Order::Any));
        assert!(!same_answer(&expected, &got(2, 1), Order::Any));
        assert!(!same_answer(&expected, &doc! { "inserted": 1 }, Order::Any));
    }

    #[test]
    fn an_error_that_was_not_recorded_is_wrong() {
        let got = doc! { "error": { "code": 2 }, "docs": [] };
        assert!(!same_answer(&doc! { "docs": [] }, &got, Order::Any));
        assert!(!same_answer(&doc! { "ok": true }, &got, Order::Any));
    }
}
