//! Overflow arrays that are sorted by a field of their elements.
//!
//! The resident elements are the first of all elements, in order. Spilled elements have no order in storage, and reads sort them.
//! The manifest stores a bound: resident elements sort before the bound, and no spilled element does. With the bound, a push
//! places new elements without reading the existing ones.

use std::cmp::Ordering;

use bson::{Bson, Document, doc};

use super::max_tail_elements;
use crate::{
    metadata::overflow::BOUND,
    model::{stored::value_at, value_order::compare_values},
    schema::OverflowField,
};

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
