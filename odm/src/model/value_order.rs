//! The order of values as MongoDB defines it: first by type, and numbers by value.

use std::cmp::Ordering;

use bson::Bson;

/// Returns whether two values have types that a comparison compares, such as two numbers. A comparison with a value of another type
/// is false.
pub(crate) fn are_comparable(a: &Bson, b: &Bson) -> bool {
    let is_nan = |value: &Bson| matches!(value, Bson::Double(number) if number.is_nan());
    type_rank(a) == type_rank(b) && !is_nan(a) && !is_nan(b)
}

/// Compares two values as the server does. Decimals have no order here.
pub(crate) fn compare_values(a: &Bson, b: &Bson) -> Ordering {
    let ranks = type_rank(a).cmp(&type_rank(b));
    ranks.then_with(|| match (a, b) {
        (Bson::String(a), Bson::String(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Bson::DateTime(a), Bson::DateTime(b)) => a.cmp(b),
        (Bson::ObjectId(a), Bson::ObjectId(b)) => a.bytes().cmp(&b.bytes()),
        (Bson::Timestamp(a), Bson::Timestamp(b)) => {
            (a.time, a.increment).cmp(&(b.time, b.increment))
        }
        (Bson::Binary(a), Bson::Binary(b)) => {
            let length_and_subtype =
                |binary: &bson::Binary| (binary.bytes.len(), u8::from(binary.subtype));
            length_and_subtype(a)
                .cmp(&length_and_subtype(b))
                .then_with(|| a.bytes.cmp(&b.bytes))
        }
        _ => compare_numbers(a, b),
    })
}

/// Returns the rank of a BSON type in the server's sort order.
fn type_rank(value: &Bson) -> u8 {
    match value {
        Bson::Null | Bson::Undefined => 0,
        Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) => 1,
        Bson::String(_) => 2,
        Bson::Binary(_) => 3,
        Bson::ObjectId(_) => 4,
        Bson::Boolean(_) => 5,
        Bson::DateTime(_) => 6,
        Bson::Timestamp(_) => 7,
        // A type without an order here.
        _ => 8,
    }
}

/// Compares numbers of any width by value. NaN comes first.
fn compare_numbers(a: &Bson, b: &Bson) -> Ordering {
    let integer = |value: &Bson| match value {
        Bson::Int32(number) => Some(i64::from(*number)),
        Bson::Int64(number) => Some(*number),
        _ => None,
    };
    match (a, integer(a), b, integer(b)) {
        (_, Some(a), _, Some(b)) => a.cmp(&b),
        (Bson::Double(a), None, Bson::Double(b), None) => compare_doubles(*a, *b),
        (_, Some(a), Bson::Double(b), None) => compare_integer_with_double(a, *b),
        (Bson::Double(a), None, _, Some(b)) => compare_integer_with_double(b, *a).reverse(),
        _ => Ordering::Equal,
    }
}

fn compare_doubles(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b)
        .unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

/// Compares an integer with a double exactly.
fn compare_integer_with_double(integer: i64, double: f64) -> Ordering {
    // 2^63: the first number above every `i64`.
    const I64_UPPER_BOUND: f64 = 9_223_372_036_854_775_808.0;
    if double.is_nan() || double < -I64_UPPER_BOUND {
        return Ordering::Greater;
    }
    if double >= I64_UPPER_BOUND {
        return Ordering::Less;
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the value is in range, and the fraction is compared separately"
    )]
    let truncated = double.trunc() as i64;
    integer
        .cmp(&truncated)
        .then_with(|| compare_doubles(0.0, double.fract()))
}

#[cfg(test)]
mod tests {
    use bson::{Bson, DateTime, oid::ObjectId};

    use super::compare_values;

    /// The documented order of MongoDB: first by type, and numbers by value, independent of width.
    #[test]
    fn values_sort_as_on_the_server() {
        let ordered = [
            Bson::Null,
            Bson::Double(f64::NAN),
            Bson::Double(f64::NEG_INFINITY),
            Bson::Int64(i64::MIN),
            Bson::Int32(-1),
            Bson::Double(-0.5),
            Bson::Int64(0),
            Bson::Double(0.5),
            Bson::Int32(1),
            Bson::Int64(9_007_199_254_740_993),
            Bson::Double(9_007_199_254_740_994.0),
            Bson::Int64(i64::MAX),
            Bson::Double(9_223_372_036_854_775_808.0),
            Bson::String(String::new()),
            Bson::String("Z".into()),
            Bson::String("a".into()),
            Bson::ObjectId(ObjectId::from_bytes([1; 12])),
            Bson::ObjectId(ObjectId::from_bytes([2; 12])),
            Bson::DateTime(DateTime::from_millis(-1)),
            Bson::DateTime(DateTime::from_millis(1)),
        ];
        for (i, a) in ordered.iter().enumerate() {
            for (j, b) in ordered.iter().enumerate() {
                assert_eq!(compare_values(a, b), i.cmp(&j), "{a} and {b}");
            }
        }
        assert!(compare_values(&Bson::Int32(1), &Bson::Double(1.0)).is_eq());
        assert!(compare_values(&Bson::Double(-0.0), &Bson::Int64(0)).is_eq());
    }
}
