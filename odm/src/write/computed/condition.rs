//! Conditions on array elements, translated into expressions with exactly the same meaning.

use bson::{Bson, Document, bson, doc};

/// Translates a condition on an element. `name` is the identifier of an array filter; `None` if the condition is on the element
/// itself. Returns `None` if no expression has the same meaning.
pub(super) fn element_condition(
    condition: &Document,
    name: Option<&str>,
    element: &str,
) -> Option<Bson> {
    let mut conditions = Vec::new();
    for (key, value) in condition {
        conditions.push(match key.as_str() {
            "$and" | "$or" => {
                let operands = value.as_array()?.iter();
                let operands = operands
                    .map(|operand| element_condition(operand.as_document()?, name, element));
                bson!({ key: operands.collect::<Option<Vec<_>>>()? })
            }
            key if key.starts_with('$') => {
                // Only a condition without a name has operators on the element itself.
                let () = name.is_none().then_some(())?;
                operator_test(key, value, element)?
            }
            key => {
                let place = match name {
                    None => format!("{element}.{key}"),
                    Some(name) if key == name => element.to_owned(),
                    Some(name) => {
                        format!("{element}.{}", key.strip_prefix(name)?.strip_prefix('.')?)
                    }
                };
                // A query matches any element of an array on the path, an expression does not.
                let field = place.strip_prefix(element)?;
                let () = (!field.trim_start_matches('.').contains('.')).then_some(())?;
                value_tests(value, &place)?
            }
        });
    }
    Some(bson!({ "$and": conditions }))
}

/// Translates a condition on the value at a path.
fn value_tests(condition: &Bson, place: &str) -> Option<Bson> {
    let operators = condition.as_document().filter(|operators| {
        let first = operators.keys().next();
        first.is_some_and(|first| first.starts_with('$'))
    });
    let Some(operators) = operators else {
        return operator_test("$eq", condition, place);
    };
    let tests = operators.iter();
    let tests = tests.map(|(operator, value)| operator_test(operator, value, place));
    Some(bson!({ "$and": tests.collect::<Option<Vec<_>>>()? }))
}

fn operator_test(operator: &str, value: &Bson, place: &str) -> Option<Bson> {
    let not = |operator: &str| Some(bson!({ "$not": [operator_test(operator, value, place)?] }));
    match operator {
        "$ne" => not("$eq"),
        "$nin" => not("$in"),
        "$exists" => {
            let is_missing = doc! { "$eq": [{ "$type": place }, "missing"] };
            Some(match value.as_bool()? {
                true => bson!({ "$not": [is_missing] }),
                false => is_missing.into(),
            })
        }
        "$eq" => {
            let () = has_plain_equality(value).then_some(())?;
            Some(any_element(
                place,
                |place| bson!({ "$eq": [place, { "$literal": value.clone() }] }),
            ))
        }
        "$in" => {
            let () = value
                .as_array()?
                .iter()
                .all(has_plain_equality)
                .then_some(())?;
            Some(any_element(
                place,
                |place| bson!({ "$in": [place, { "$literal": value.clone() }] }),
            ))
        }
        "$gt" | "$gte" | "$lt" | "$lte" => {
            let types = comparable_types(value)?;
            Some(any_element(place, |place| {
                let is_comparable = doc! { "$in": [{ "$type": place }, &types] };
                let is_number = doc! { "$ne": [place, f64::NAN] };
                let compares = doc! { operator: [place, { "$literal": value.clone() }] };
                bson!({ "$and": [is_comparable, is_number, compares] })
            }))
        }
        _ => None,
    }
}

/// Applies a test to a value and to all elements of the value: a query matches an array by any element.
fn any_element(place: &str, test: impl Fn(&str) -> Bson) -> Bson {
    let elements = doc! { "$cond": [{ "$isArray": [place] }, place, []] };
    let element_tests = doc! { "$map": { "input": elements, "as": "any", "in": test("$$any") } };
    bson!({ "$or": [test(place), { "$anyElementTrue": [element_tests] }] })
}

/// Whether equality with a value has the same meaning in a query and in an expression.
fn has_plain_equality(value: &Bson) -> bool {
    !matches!(
        value,
        Bson::Null | Bson::Undefined | Bson::Array(_) | Bson::RegularExpression(_)
    )
}

/// Returns the types that a query compares with a value. `None` if expressions compare differently.
fn comparable_types(value: &Bson) -> Option<Vec<&'static str>> {
    Some(match value {
        Bson::Double(number) if number.is_nan() => return None,
        Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) => {
            vec!["int", "long", "double", "decimal"]
        }
        Bson::String(_) => vec!["string", "symbol"],
        Bson::DateTime(_) => vec!["date"],
        Bson::ObjectId(_) => vec!["objectId"],
        _ => return None,
    })
}
