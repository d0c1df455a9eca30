//! The order of elements by a field of theirs.
//!
//! In the document are the first of all elements, in order; outside of it they are in any order, and sorted as they are read. An owner
//! knows a bound: what is in the document comes before it, and nothing that is outside does. So a push knows where its elements belong
//! without looking at others.

use std::cmp::Ordering;

use bson::{Bson, Document, doc};

use super::room_in_tail;
use crate::{schema::OverflowField, stored::get};

/// In which order the elements of an array are.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    by: String,
    is_descending: bool,
}

impl Order {
    pub(crate) fn of(field: &OverflowField) -> Option<Self> {
        let order = field.order?;
        Some(Self {
            by: (order.by)().to_string(),
            is_descending: order.is_descending,
        })
    }

    /// The field of an element.
    pub(crate) fn by(&self) -> &str {
        &self.by
    }

    /// What an element is ordered by.
    pub(crate) fn key(&self, element: &Bson) -> Bson {
        let key = element.as_document().and_then(|own| get(own, &self.by));
        key.cloned().unwrap_or(Bson::Null)
    }

    /// As the servers sort.
    pub(crate) fn sort(&self, elements: &mut [Bson]) {
        elements.sort_by(|a, b| self.compare(&self.key(a), &self.key(b)));
    }

    /// Where elements are, in their order.
    pub(crate) fn positions(&self, elements: &[Bson]) -> Vec<usize> {
        let keys: Vec<_> = elements.iter().map(|element| self.key(element)).collect();
        let mut positions: Vec<_> = (0..keys.len()).collect();
        let key = |position: &usize| keys.get(*position).unwrap_or(&Bson::Null);
        positions.sort_by(|a, b| self.compare(key(a), key(b)));
        positions
    }

    pub(crate) fn is_sorted(&self, elements: &[Bson]) -> bool {
        elements.is_sorted_by(|a, b| self.compare(&self.key(a), &self.key(b)).is_le())
    }

    /// Whether an element comes before a bound.
    pub(crate) fn is_before(&self, element: &Bson, bound: &Bson) -> bool {
        self.compare(&self.key(element), bound).is_lt()
    }

    /// Whether it comes behind it.
    pub(crate) fn is_behind(&self, element: &Bson, bound: &Bson) -> bool {
        self.compare(&self.key(element), bound).is_gt()
    }

    /// The bound between elements in the document and those outside of it, both in order.
    pub(crate) fn bound(&self, inside: &[Bson], outside: &[Bson]) -> Bson {
        let nearest = outside.first().or_else(|| inside.last());
        nearest.map_or(Bson::Null, |element| self.key(element))
    }

    /// Those of some elements that come before a bound, and those that do not.
    pub(crate) fn split(&self, elements: &[Bson], bound: &Bson) -> (Vec<Bson>, Vec<Bson>) {
        let elements = elements.iter().cloned();
        elements.partition(|element| self.is_before(element, bound))
    }

    /// The same of fields for a `$sort`, and for the stage of that name with what is before their names.
    pub(crate) fn sort_by(&self, before: &str) -> Document {
        let direction = if self.is_descending { -1 } else { 1 };
        doc! { format!("{before}{}", self.by): direction }
    }

    fn compare(&self, a: &Bson, b: &Bson) -> Ordering {
        let order = compare(a, b);
        if self.is_descending {
            order.reverse()
        } else {
            order
        }
    }
}

/// Elements as they are kept.
pub(crate) fn in_order(field: &OverflowField, elements: &mut [Bson]) {
    if let Some(order) = Order::of(field) {
        order.sort(elements);
    }
}

/// The condition that an array is perhaps not in its order, in the document or beside what is outside of it.
pub(crate) fn unsorted(field: &OverflowField) -> Option<Document> {
    let order = Order::of(field)?;
    let stored = format!("${}", field.stored);
    let sorted = doc! { "$sortArray": { "input": &stored, "sortBy": order.sort_by("") } };
    let bound = format!("{}.bound", field.header);
    Some(doc! { "$or": [
        { "$expr": { "$ne": [stored, sorted] } },
        { field.header: { "$exists": true }, bound: { "$exists": false } },
    ] })
}

/// How many elements may be in a document: of those in an order some more than stay there, which go at once when these are too many.
pub(crate) fn most_inside(field: &OverflowField) -> usize {
    match field.order {
        Some(_) => field.after + room_in_tail(field) / 2,
        None => field.after,
    }
}

/// The order of the values that elements are ordered by.
fn compare(a: &Bson, b: &Bson) -> Ordering {
    let ranks = rank(a).cmp(&rank(b));
    ranks.then_with(|| match (a, b) {
        (Bson::String(a), Bson::String(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Bson::DateTime(a), Bson::DateTime(b)) => a.cmp(b),
        (Bson::ObjectId(a), Bson::ObjectId(b)) => a.bytes().cmp(&b.bytes()),
        (Bson::Timestamp(a), Bson::Timestamp(b)) => {
            (a.time, a.increment).cmp(&(b.time, b.increment))
        }
        (Bson::Binary(a), Bson::Binary(b)) => {
            let key = |of: &bson::Binary| (of.bytes.len(), u8::from(of.subtype));
            key(a).cmp(&key(b)).then_with(|| a.bytes.cmp(&b.bytes))
        }
        _ => numbers(a, b),
    })
}

/// Which types come before which.
fn rank(value: &Bson) -> u8 {
    match value {
        Bson::Null | Bson::Undefined => 0,
        Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) => 1,
        Bson::String(_) => 2,
        Bson::Binary(_) => 3,
        Bson::ObjectId(_) => 4,
        Bson::Boolean(_) => 5,
        Bson::DateTime(_) => 6,
        Bson::Timestamp(_) => 7,
        // Nothing is ordered by it.
        _ => 8,
    }
}

/// The order of numbers of any width: what is no number comes first.
fn numbers(a: &Bson, b: &Bson) -> Ordering {
    let whole = |value: &Bson| match value {
        Bson::Int32(number) => Some(i64::from(*number)),
        Bson::Int64(number) => Some(*number),
        _ => None,
    };
    match (a, whole(a), b, whole(b)) {
        (_, Some(a), _, Some(b)) => a.cmp(&b),
        (Bson::Double(a), None, Bson::Double(b), None) => doubles(*a, *b),
        (_, Some(a), Bson::Double(b), None) => mixed(a, *b),
        (Bson::Double(a), None, _, Some(b)) => mixed(b, *a).reverse(),
        _ => Ordering::Equal,
    }
}

fn doubles(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b)
        .unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

/// A whole number beside a double: exact, where one of both has no place among the others.
fn mixed(whole: i64, double: f64) -> Ordering {
    // Two to the power of 63, which every `i64` is below.
    const END: f64 = 9_223_372_036_854_775_808.0;
    if double.is_nan() || double < -END {
        return Ordering::Greater;
    }
    if double >= END {
        return Ordering::Less;
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it is in range, and what is behind the point is looked at"
    )]
    let truncated = double.trunc() as i64;
    whole
        .cmp(&truncated)
        .then_with(|| doubles(0.0, double.fract()))
}

#[cfg(test)]
mod tests {
    use bson::{Bson, DateTime, oid::ObjectId};

    use super::compare;

    /// As documented by MongoDB: the order of types, and of numbers whatever their width.
    #[test]
    fn values_are_in_the_order_of_the_server() {
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
                assert_eq!(compare(a, b), i.cmp(&j), "{a} and {b}");
            }
        }
        assert!(compare(&Bson::Int32(1), &Bson::Double(1.0)).is_eq());
        assert!(compare(&Bson::Double(-0.0), &Bson::Int64(0)).is_eq());
    }
}
