//! Conditions on the elements of an array, as expressions: those that mean exactly the same.

use bson::{Bson, Document, bson, doc};

/// Whether an element, which is named in the condition or is all that this is about, meets it; none if no expression says that.
pub(super) fn condition(condition: &Document, name: Option<&str>, element: &str) -> Option<Bson> {
    let mut all = Vec::new();
    for (key, value) in condition {
        all.push(match key.as_str() {
            "$and" | "$or" => {
                let parts = value.as_array()?.iter();
                let parts = parts.map(|part| self::condition(part.as_document()?, name, element));
                bson!({ key: parts.collect::<Option<Vec<_>>>()? })
            }
            key if key.starts_with('$') => {
                // Operators on the element itself.
                let () = name.is_none().then_some(())?;
                test(key, value, element)?
            }
            key => {
                let place = match name {
                    None => format!("{element}.{key}"),
                    Some(name) if key == name => element.to_owned(),
                    Some(name) => {
                        format!("{element}.{}", key.strip_prefix(name)?.strip_prefix('.')?)
                    }
                };
                // Arrays on the way would have their own meaning.
                let field = place.strip_prefix(element)?;
                let () = (!field.trim_start_matches('.').contains('.')).then_some(())?;
                tests(value, &place)?
            }
        });
    }
    Some(bson!({ "$and": all }))
}

/// The tests of the value at a place.
fn tests(condition: &Bson, place: &str) -> Option<Bson> {
    let operators = condition.as_document().filter(|operators| {
        let first = operators.keys().next();
        first.is_some_and(|first| first.starts_with('$'))
    });
    let Some(operators) = operators else {
        return test("$eq", condition, place);
    };
    let each = operators.iter();
    let each = each.map(|(operator, value)| test(operator, value, place));
    Some(bson!({ "$and": each.collect::<Option<Vec<_>>>()? }))
}

fn test(operator: &str, value: &Bson, place: &str) -> Option<Bson> {
    let not = |operator: &str| Some(bson!({ "$not": [test(operator, value, place)?] }));
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
            let () = is_plain(value).then_some(())?;
            Some(any(
                place,
                |place| bson!({ "$eq": [place, { "$literal": value.clone() }] }),
            ))
        }
        "$in" => {
            let () = value.as_array()?.iter().all(is_plain).then_some(())?;
            Some(any(
                place,
                |place| bson!({ "$in": [place, { "$literal": value.clone() }] }),
            ))
        }
        "$gt" | "$gte" | "$lt" | "$lte" => {
            let bracket = bracket(value)?;
            Some(any(place, |place| {
                let is_of_it = doc! { "$in": [{ "$type": place }, &bracket] };
                let is_number = doc! { "$ne": [place, f64::NAN] };
                let compares = doc! { operator: [place, { "$literal": value.clone() }] };
                bson!({ "$and": [is_of_it, is_number, compares] })
            }))
        }
        _ => None,
    }
}

/// A query means by a value in an array any of its elements.
fn any(place: &str, test: impl Fn(&str) -> Bson) -> Bson {
    let elements = doc! { "$cond": [{ "$isArray": [place] }, place, []] };
    let each = doc! { "$map": { "input": elements, "as": "any", "in": test("$$any") } };
    bson!({ "$or": [test(place), { "$anyElementTrue": [each] }] })
}

/// Whether equality with it is the same in a query and in an expression.
fn is_plain(value: &Bson) -> bool {
    !matches!(
        value,
        Bson::Null | Bson::Undefined | Bson::Array(_) | Bson::RegularExpression(_)
    )
}

/// The types that a query compares with such a value.
fn bracket(value: &Bson) -> Option<Vec<&'static str>> {
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
