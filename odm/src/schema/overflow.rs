//! Overflow arrays, as plain data.

use super::{LinkField, Model, RefersTo};
use crate::{
    Error, ErrorKind, Result, error,
    language::field::{Elem, ElementSortKey, FromPath, Path, Place, Single, role, shape},
    model::document::{Overflow, OverflowArray, Stored},
};

/// An overflow array: only its resident elements are in the owner document, the other elements are spilled.
#[derive(Debug, Clone, Copy)]
pub struct OverflowField {
    /// The Rust name of the field.
    pub field: &'static str,
    /// The stored name of the field.
    pub stored: &'static str,
    /// The maximum number of resident elements.
    pub max_resident: usize,
    /// The maximum size of the resident elements, in bytes. All overflow arrays of a model share the space in the document.
    pub max_resident_bytes: usize,
    /// The maximum size of the tail buffer and of a chunk, in bytes. Smaller than the resident size only for an `inline` array.
    pub max_chunk_bytes: usize,
    /// The stored name of the flag that the array has spilled elements.
    pub flag: &'static str,
    /// The collection of the chunk documents, as a model without fields.
    pub chunks: &'static Model,
    /// The stored name of the chunk's field with the id of the owner.
    pub owner: &'static str,
    /// The stored name of the chunk's field with the number of the chunk.
    pub seq: &'static str,
    /// The stored name of the chunk's field with the elements.
    pub elements: &'static str,
    /// The stored path of the manifest in the owner.
    pub manifest: &'static str,
    /// The stored path of the pending change in the owner.
    pub pending_change: &'static str,
    /// The order of the elements. `None` is the order of the pushes.
    pub order: Option<ElementOrder>,
}

/// The order of the elements in an array.
#[derive(Debug, Clone, Copy)]
pub struct ElementOrder {
    /// Returns the path of the sort key in an element.
    pub by: fn() -> Path,
    /// Whether the greatest element comes first.
    pub is_descending: bool,
}

/// Returns the fields of an array element in the model `M`. Derived code calls this function.
#[doc(hidden)]
pub fn element_fields<A: SpillableArray, M: 'static>()
-> <A::Element as Stored>::Fields<Elem<M>, role::Resident, shape::One> {
    FromPath::from_path(Path::ROOT)
}

/// Checks that the elements can be sorted by a place. Derived code calls this function at compile time.
#[doc(hidden)]
pub fn ensure_sorts_by<A: SpillableArray, M: 'static, P>(
    _: impl FnOnce(<A::Element as Stored>::Fields<Elem<M>, role::Resident, shape::One>) -> P,
) where
    P: Place<Shape: Single, Value: ElementSortKey>,
{
}

/// An array that can spill elements into chunk documents.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a `{Self}` cannot spill elements into chunk documents",
    label = "not an `Overflow` of values, embedded structs or references"
)]
pub trait SpillableArray: OverflowArray<Element: Stored<Kind: SpillableKind>> {}
#[diagnostic::do_not_recommend]
impl<T: Stored<Kind: SpillableKind>> SpillableArray for Overflow<T> {}

/// The kinds of elements that an array can spill.
#[doc(hidden)]
pub trait SpillableKind {
    /// Whether the elements are references.
    const ARE_REFERENCES: bool;
}
macro_rules! spillable_kinds {
    ($($kind:ident: $are_references:expr,)*) => {$(
        #[diagnostic::do_not_recommend]
        impl SpillableKind for crate::model::document::kind::$kind {
            const ARE_REFERENCES: bool = $are_references;
        }
    )*};
}
spillable_kinds! { Value: false, Struct: false, Enum: false, Array: false, FixedArray: false, Map: false, Reference: true, }

/// Returns whether the elements of an overflow array are references. Derived code calls this function at compile time.
#[doc(hidden)]
#[must_use]
pub const fn spills_references<A: SpillableArray>() -> bool {
    <<A::Element as Stored>::Kind as SpillableKind>::ARE_REFERENCES
}

/// Checks that the elements of an overflow array are references. Derived code calls this function at compile time.
#[doc(hidden)]
pub const fn ensure_spills_references<A: SpillableArray + RefersTo>() {}

/// Returns whether the elements of an overflow array have neither copies with a fan-out nor delete rules.
///
/// Derived code calls this function at compile time.
#[doc(hidden)]
#[must_use]
pub const fn spills_plain_elements<A: SpillableArray>() -> bool {
    !A::Element::COPIES.has_fan_out() && !A::Element::LINKS.any
}

/// Returns whether no model and no other overflow array uses the collections of a model's chunk documents.
///
/// Derived code calls this function at compile time.
#[doc(hidden)]
#[must_use]
pub const fn chunk_collections_are_unique(models: &[&Model], position: usize) -> bool {
    let arrays = models[position].overflows;
    let mut i = 0;
    while i < arrays.len() {
        let collection = arrays[i].chunks.collection;
        let mut other = 0;
        while other < models.len() {
            if super::str_eq(models[other].collection, collection) {
                return false;
            }
            let other_arrays = models[other].overflows;
            let mut j = 0;
            while j < other_arrays.len() && other < position {
                if super::str_eq(other_arrays[j].chunks.collection, collection) {
                    return false;
                }
                j += 1;
            }
            other += 1;
        }
        i += 1;
    }
    true
}

impl OverflowField {
    /// Whether the array moves spilled elements back into the document: the `inline` option.
    pub(crate) fn is_inline(&self) -> bool {
        self.max_resident_bytes > self.max_chunk_bytes
    }

    /// Whether a stored path is inside the elements of the array.
    pub(crate) fn contains_path(&self, path: &str) -> bool {
        let suffix = path.strip_prefix(self.stored);
        suffix.is_some_and(|suffix| suffix.starts_with('.'))
    }
}

impl Model {
    /// Returns the overflow array that contains a stored path, or that the path names.
    pub(crate) fn overflow_on(&self, path: &str) -> Option<&'static OverflowField> {
        let name = path.split('.').next()?;
        self.overflows.iter().find(|field| field.stored == name)
    }

    /// Returns the overflow array at a place. Returns an error if the place is not an overflow array.
    pub(crate) fn require_overflow_at(&self, path: &Path) -> Result<&'static OverflowField> {
        self.overflow_at(path).ok_or_else(|| {
            let message = "not an overflow array: read the array with its document";
            error::naming_model(self)(Error::new(ErrorKind::Invalid, message))
        })
    }

    /// Returns the overflow array of a link side, or `None` if the side is not an overflow array.
    pub(crate) fn overflow_of(&self, side: &LinkField) -> Option<&'static OverflowField> {
        let mut fields = self.overflows.iter();
        fields.find(|field| field.stored == side.stored)
    }

    /// Returns the overflow array at a place, or `None` if the place is not an overflow array.
    pub(crate) fn overflow_at(&self, path: &Path) -> Option<&'static OverflowField> {
        let path = path.to_string();
        self.overflows.iter().find(|field| field.stored == path)
    }
}
