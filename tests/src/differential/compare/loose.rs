//! Answers without the parts that MongoDB does not determine.

use bson::Bson;

use crate::corpus::compare::same_value;

pub(super) fn sort_fields(value: &mut Bson) {
    match value {
        Bson::Array(values) => values.iter_mut().for_each(sort_fields),
        Bson::Document(document) => {
            let mut fields: Vec<_> = std::mem::take(document).into_iter().collect();
            fields.sort_by(|(one, _), (other, _)| one.cmp(other));
            fields.iter_mut().for_each(|(_, value)| sort_fields(value));
            document.extend(fields);
        }
        _ => {}
    }
}

pub(super) fn remove_nulls(value: &mut Bson) {
    match value {
        Bson::Array(values) => values.iter_mut().for_each(remove_nulls),
        Bson::Document(document) => {
            let fields = std::mem::take(document).into_iter();
            document.extend(fields.filter(|(_, value)| *value != Bson::Null));
            document
                .iter_mut()
                .for_each(|(_, value)| remove_nulls(value));
        }
        _ => {}
    }
}

pub(super) fn same_by_value(one: &[Bson], other: &[Bson]) -> bool {
    let sorted = |values: &[Bson]| {
        let mut apart = Vec::new();
        flatten_values(values, &mut apart);
        let mut apart: Vec<_> = apart.into_iter().map(without_type).collect();
        apart.sort_by_cached_key(|value| format!("{value:?}"));
        apart.dedup_by(|a, b| same_value(a, b));
        apart
    };
    let (one, other) = (sorted(one), sorted(other));
    one.len() == other.len() && one.iter().zip(&other).all(|(a, b)| same_value(a, b))
}

fn flatten_values(values: &[Bson], apart: &mut Vec<Bson>) {
    for value in values {
        match value {
            Bson::Null | Bson::Undefined => {}
            Bson::Array(inner) => flatten_values(inner, apart),
            value => apart.push(value.clone()),
        }
    }
}

/// Returns a value with every number as a double. Equal numbers become identical, and few different numbers do.
fn without_type(value: Bson) -> Bson {
    match value {
        Bson::Int32(number) => Bson::Double(f64::from(number)),
        // An integer beyond 2^53 may round to a neighbour.
        #[expect(clippy::cast_precision_loss, reason = "as said above")]
        Bson::Int64(number) => Bson::Double(number as f64),
        // Adding 0.0 turns the negative zero into the positive zero.
        Bson::Double(number) => Bson::Double(number + 0.0),
        Bson::Decimal128(number) => match number.to_string().parse::<f64>() {
            Ok(number) => Bson::Double(number + 0.0),
            Err(_) => Bson::Decimal128(number),
        },
        Bson::Array(values) => values.into_iter().map(without_type).collect(),
        Bson::Document(document) => {
            let fields = document.into_iter();
            Bson::Document(
                fields
                    .map(|(name, value)| (name, without_type(value)))
                    .collect(),
            )
        }
        other => other,
    }
}
