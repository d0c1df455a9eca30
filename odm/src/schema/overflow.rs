//! Arrays whose elements overflow into another collection, as plain data.

use super::{LinkSide, Model, RefersTo};
use crate::{
    Error, ErrorKind, Result,
    document::{Overflow, OverflowArray, Stored},
    error,
    field::{Elem, FromPath, Path, Place, Single, Sorts, role, shape},
};

/// An array of a model of which only the first elements are in the document.
#[derive(Debug, Clone, Copy)]
pub struct OverflowField {
    /// The field in Rust.
    pub field: &'static str,
    /// The same as it is stored.
    pub stored: &'static str,
    /// How many elements stay in the document.
    pub after: usize,
    /// How many bytes of them do: all arrays of the model share what there is.
    pub room: usize,
    /// How many bytes wait there to go elsewhere: the same, but where all are to stay in the document again.
    pub part: usize,
    /// The stored name of the field that says that there are more.
    pub flag: &'static str,
    /// The collection of the others, as a model without fields.
    pub extras: &'static Model,
    /// In their documents the field with the id of the owner.
    pub owner: &'static str,
    /// That with the number of the document.
    pub seq: &'static str,
    /// That with the elements.
    pub elements: &'static str,
    /// Where the owner keeps what it knows of them.
    pub header: &'static str,
    /// Where it says what is being done to them.
    pub work: &'static str,
    /// In which order they are; none if in that of the pushes.
    pub order: Option<ElementOrder>,
}

/// The order of the elements of an array.
#[derive(Debug, Clone, Copy)]
pub struct ElementOrder {
    /// Where they have what they are ordered by.
    pub by: fn() -> Path,
    /// The greatest first.
    pub is_descending: bool,
}

/// The fields of the elements of an array of an `M`; called by derived code.
#[doc(hidden)]
pub fn element_fields<A: Overflown, M: 'static>()
-> <A::Element as Stored>::Fields<Elem<M>, role::Resident, shape::One> {
    FromPath::from_path(Path::ROOT)
}

/// The elements can be in the order of this; called by derived code, at compile time.
#[doc(hidden)]
pub fn sorts_by<A: Overflown, M: 'static, P>(
    _: impl FnOnce(<A::Element as Stored>::Fields<Elem<M>, role::Resident, shape::One>) -> P,
) where
    P: Place<Shape: Single, Value: Sorts>,
{
}

/// An array whose elements can be in documents of their own.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "the elements of a `{Self}` cannot be in documents of their own",
    label = "no `Overflow` of values, of embedded structs or of references"
)]
pub trait Overflown: OverflowArray<Element: Stored<Kind: Spills>> {}
#[diagnostic::do_not_recommend]
impl<T: Stored<Kind: Spills>> Overflown for Overflow<T> {}

/// The kinds of elements that can be in another document.
#[doc(hidden)]
pub trait Spills {
    /// Whether they are references.
    const ARE_REFERENCES: bool;
}
macro_rules! spills {
    ($($kind:ident: $are_references:expr,)*) => {$(
        #[diagnostic::do_not_recommend]
        impl Spills for crate::document::kind::$kind {
            const ARE_REFERENCES: bool = $are_references;
        }
    )*};
}
spills! { Value: false, Struct: false, Enum: false, Array: false, Map: false, Reference: true, }

/// Whether the elements of an array that overflows are references; called by derived code, at compile time.
#[must_use]
pub const fn overflows_references<A: Overflown>() -> bool {
    <<A::Element as Stored>::Kind as Spills>::ARE_REFERENCES
}

/// The elements of an array that overflows are references; called by derived code, at compile time.
pub const fn overflowing_references<A: Overflown + RefersTo>() {}

/// Whether nothing inside of the elements of an array that overflows follows other documents; called by derived code, at compile time.
#[must_use]
pub const fn overflows_plainly<A: Overflown>() -> bool {
    !A::Element::COPIES.is_following() && !A::Element::LINKS.any
}

/// Whether no other array and no model of the schema is on the collection of a model's extras; called by derived code, at compile
/// time.
#[must_use]
pub const fn extras_are_alone(models: &[&Model], position: usize) -> bool {
    let own = models[position].overflows;
    let mut i = 0;
    while i < own.len() {
        let into = own[i].extras.collection;
        let mut at = 0;
        while at < models.len() {
            if super::same(models[at].collection, into) {
                return false;
            }
            let others = models[at].overflows;
            let mut j = 0;
            while j < others.len() && at < position {
                if super::same(others[j].extras.collection, into) {
                    return false;
                }
                j += 1;
            }
            at += 1;
        }
        i += 1;
    }
    true
}

impl OverflowField {
    /// Whether all elements are to stay in the document again.
    pub(crate) fn gathers(&self) -> bool {
        self.room > self.part
    }

    /// Whether a stored path leads into its elements.
    pub(crate) fn holds(&self, path: &str) -> bool {
        let rest = path.strip_prefix(self.stored);
        rest.is_some_and(|rest| rest.starts_with('.'))
    }
}

impl Model {
    /// The array that overflows on the way of a stored path, or at its end.
    pub(crate) fn overflow_on(&self, path: &str) -> Option<&'static OverflowField> {
        let name = path.split('.').next()?;
        self.overflows.iter().find(|field| field.stored == name)
    }

    /// The array at a place: it is an error if it does not overflow.
    pub(crate) fn overflowing(&self, path: &Path) -> Result<&'static OverflowField> {
        self.overflow_at(path).ok_or_else(|| {
            let message = "no array that overflows: read it with its document";
            error::of(self)(Error::new(ErrorKind::Invalid, message))
        })
    }

    /// The array that a side of a link of the model is, if that overflows.
    pub(crate) fn overflow_of(&self, side: &LinkSide) -> Option<&'static OverflowField> {
        let mut fields = self.overflows.iter();
        fields.find(|field| field.stored == side.stored)
    }

    /// The array at a place, if its elements overflow.
    pub(crate) fn overflow_at(&self, path: &Path) -> Option<&'static OverflowField> {
        let path = path.to_string();
        self.overflows.iter().find(|field| field.stored == path)
    }
}
