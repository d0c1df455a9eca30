//! Overflow arrays that are sorted by a field of their elements.
//!
//! The resident elements are the first of all elements, in order. Spilled elements have no order in storage, and reads sort them.
//! The manifest stores a bound: resident elements sort before the bound, and no spilled element does. With the bound, a push
//! places new elements without reading the existing ones.

use std::cmp::Ordering;

use bson::{Bson, Document, doc};

use super::max_tail_elements;
use crate::{metadata::overflow::BOUND, model::stored::value_at, schema::OverflowField};

/// The sort order of an array's elements.
#[derive(Debug, Clone)]
pub(crate) struct ArrayOrder {
    key_path: String,
    is_descending: bool,
}

impl ArrayOrder {
    /// Returns the sort order of an array, or `None` if the elements have the order of the pushes.
    pub(crate) fn from_field(field: &OverflowField) -> Option<Self> {
        let order = field.order?;
        Some(Self {
            key_path: (order.by)().to_string(),
            is_descending: order.is_descending,
        })
    }

    /// Returns the path of the sort field in an element.
    pub(crate) fn key_path(&self) -> &str {
        &self.key_path
    }

    /// Returns the sort key of an element.
    pub(crate) fn sort_key(&self, element: &Bson) -> Bson {
        let key = element
            .as_document()
            .and_then(|fields| value_at(fields, &self.key_path));
        key.cloned().unwrap_or(Bson::Null)
    }

    /// Sorts elements as the server does.
    pub(crate) fn sort_elements(&self, elements: &mut [Bson]) {
        elements.sort_by(|a, b| self.compare_keys(&self.sort_key(a), &self.sort_key(b)));
    }

    /// Returns the positions of the elements in sorted order.
    pub(crate) fn sorted_positions(&self, elements: &[Bson]) -> Vec<usize> {
        let keys = elements.iter().map(|element| self.sort_key(element));
        let keys: Vec<_> = keys.collect();
        let mut positions: Vec<_> = (0..keys.len()).collect();
        let key = |position: &usize| keys.get(*position).unwrap_or(&Bson::Null);
        positions.sort_by(|a, b| self.compare_keys(key(a), key(b)));
        positions
    }

    /// Returns whether the elements are sorted.
    pub(crate) fn is_sorted(&self, elements: &[Bson]) -> bool {
        elements.is_sorted_by(|a, b| {
            self.compare_keys(&self.sort_key(a), &self.sort_key(b))
                .is_le()
        })
    }

    /// Returns whether an element sorts before a bound.
    pub(crate) fn is_before(&self, element: &Bson, bound: &Bson) -> bool {
        self.compare_keys(&self.sort_key(element), bound).is_lt()
    }

    /// Returns whether an element sorts after a bound.
    pub(crate) fn is_after(&self, element: &Bson, bound: &Bson) -> bool {
        self.compare_keys(&self.sort_key(element), bound).is_gt()
    }

    /// Returns the bound between resident and spilled elements. Both lists are sorted.
    pub(crate) fn bound_between(&self, resident: &[Bson], spilled: &[Bson]) -> Bson {
        let nearest = spilled.first().or_else(|| resident.last());
        nearest.map_or(Bson::Null, |element| self.sort_key(element))
    }

    /// Splits elements into those before a bound and the rest.
    pub(crate) fn split_at_bound(&self, elements: &[Bson], bound: &Bson) -> (Vec<Bson>, Vec<Bson>) {
        let elements = elements.iter().cloned();
        elements.partition(|element| self.is_before(element, bound))
    }

    /// Returns the document of a `$sort`. `prefix` is the path prefix of the sort field: empty for the `$sort` of a push.
    pub(crate) fn sort_document(&self, prefix: &str) -> Document {
        let direction = if self.is_descending { -1 } else { 1 };
        doc! { format!("{prefix}{}", self.key_path): direction }
    }

    fn compare_keys(&self, a: &Bson, b: &Bson) -> Ordering {
        let order = compare_values(a, b);
        if self.is_descending {
            order.reverse()
        } else {
            order
        }
    }
}

/// Sorts elements if the array has a sort order.
pub(crate) fn sort_if_ordered(field: &OverflowField, elements: &mut [Bson]) {
    if let Some(order) = ArrayOrder::from_field(field) {
        order.sort_elements(elements);
    }
}

/// Returns the filter for documents with a possibly unsorted array, or with a manifest that lacks a bound.
pub(crate) fn unsorted_filter(field: &OverflowField) -> Option<Document> {
    let order = ArrayOrder::from_field(field)?;
    let stored = format!("${}", field.stored);
    let sorted = doc! { "$sortArray": { "input": &stored, "sortBy": order.sort_document("") } };
    let bound = field.manifest_path(BOUND);
    Some(doc! { "$or": [
        { "$expr": { "$ne": [stored, sorted] } },
        { field.manifest: { "$exists": true }, bound: { "$exists": false } },
    ] })
}

/// Returns the maximum number of resident elements.
///
/// A sorted array may keep more than `after` resident elements, so that a push need not spill each time. A full array spills all
/// surplus elements at once.
pub(crate) fn max_resident_elements(field: &OverflowField) -> usize {
    match field.order {
        Some(_) => field.max_resident + max_tail_elements(field) / 2,
        None => field.max_resident,
    }
}

/// Compares two sort keys as the server does.
fn compare_values(a: &Bson, b: &Bson) -> Ordering {
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
        // No sort field has such a type.
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
