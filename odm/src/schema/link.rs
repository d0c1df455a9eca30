//! References with rules, and two-way links, as plain data.

use super::{Model, same};
use crate::{
    document::{Document, Overflow, Ref},
    field::{Array, Field, Maybe, Overflowing, role, shape},
};

/// A field with references.
#[derive(Debug, Clone, Copy)]
pub struct LinkSide {
    /// The field in Rust; with those that lead to it, if it is inside of an embedded struct: `lines.product`.
    pub field: &'static str,
    /// The same as they are stored.
    pub stored: &'static str,
    /// Whether it is an array itself.
    pub is_many: bool,
    /// The fields that lead to it, and itself.
    pub way: &'static [LinkStep],
    /// Whether the model itself checks that the other side names this one, as one without parameters does.
    pub is_checked: bool,
    /// The collection of the documents that it leads to.
    pub collection: &'static str,
    /// Their model.
    pub model: fn() -> &'static Model,
}

/// A field on the way to a reference.
#[derive(Debug, Clone, Copy)]
pub struct LinkStep {
    /// Its name as it is stored.
    pub stored: &'static str,
    /// Whether it is an array: of embedded structs or, at the end, of references.
    pub is_array: bool,
}

/// A reference that must lead to a document, and what becomes of it: the truth of a link, if there is another side.
#[derive(Debug, Clone, Copy)]
pub struct OwnLink {
    /// The reference.
    pub side: LinkSide,
    /// The field of the other side, in Rust; none if the documents it leads to do not list what refers to them.
    pub inverse: Option<&'static str>,
    /// What becomes of it when what it leads to is deleted.
    pub on_delete: OnDelete,
    /// Whether no reference is stored as a missing field: serde's `skip_serializing_if`.
    pub omits_none: fn() -> bool,
}

/// What refers to a document: it follows the other side by itself.
#[derive(Debug, Clone, Copy)]
pub struct InverseLink {
    /// Where it is kept.
    pub side: LinkSide,
    /// The reference that it follows, in Rust.
    pub of: &'static str,
    /// How many there can be; any number if it is an array that overflows, and one if it is none.
    pub max: Option<usize>,
    /// Whether no reference is stored as a missing field: serde's `skip_serializing_if`.
    pub omits_none: fn() -> bool,
}

/// What becomes of a reference when the document that it leads to is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDelete {
    /// The document is not deleted while something refers to it.
    Restrict,
    /// The documents that refer to it are deleted too.
    Cascade,
    /// The reference becomes null.
    Nullify,
    /// The reference leaves its array.
    Pull,
    /// The reference stays, and leads nowhere.
    Keep,
}

impl LinkSide {
    /// What of a path inside of a document, with positions or without, is left to the reference: the steps behind the place that the
    /// path names. None is left of the path of the reference and of one inside of it; and there is no answer for a path that leads
    /// elsewhere.
    pub(crate) fn behind(&self, path: &str) -> Option<&'static [LinkStep]> {
        let mut names = path.split('.').peekable();
        let mut left = self.way;
        while let Some(name) = names.next() {
            let Some((step, behind)) = left.split_first() else {
                return Some(left);
            };
            if step.stored != name {
                return None;
            }
            left = behind;
            let is_position = |name: &&str| name.starts_with('$') || name.parse::<u64>().is_ok();
            if step.is_array {
                names.next_if(is_position);
            }
        }
        Some(left)
    }

    /// Whether a path inside of a document is that of a reference here: `lines.3.product`.
    pub(crate) fn is_at(&self, path: &str) -> bool {
        self.behind(path).is_some_and(<[_]>::is_empty)
    }

    /// The field of the document that it is in, as it is stored.
    pub(crate) fn root(&self) -> &'static str {
        self.way.first().map_or(self.stored, |first| first.stored)
    }
}

impl OwnLink {
    /// The other side, if there is one and all of it is in one document.
    pub(crate) fn lister(&self) -> Option<&'static InverseLink> {
        let inverse = self.inverse()?;
        let overflows = (self.side.model)().overflow_of(&inverse.side).is_some();
        (!overflows).then_some(inverse)
    }

    /// The other side, if there is one.
    pub(crate) fn inverse(&self) -> Option<&'static InverseLink> {
        let field = self.inverse?;
        let mut inverses = (self.side.model)().inverses.iter();
        inverses.find(|inverse| inverse.side.field == field)
    }
}

impl InverseLink {
    /// The other side.
    pub(crate) fn own(&self) -> Option<&'static OwnLink> {
        let mut links = (self.side.model)().links.iter();
        links.find(|link| link.side.field == self.of)
    }
}

/// Whether both sides of each link of a model name each other, as far as it does not check that itself; called by derived code, at
/// compile time.
#[doc(hidden)]
#[must_use]
pub const fn links_match(models: &[&Model], position: usize) -> bool {
    let model = models[position];
    let mut i = 0;
    while i < model.links.len() {
        let link = &model.links[i];
        if let (Some(_), Some(other)) = (link.inverse, on(models, link.side.collection))
            && !link.side.is_checked
            && !is_followed(model, link.side.field, other)
        {
            return false;
        }
        i += 1;
    }
    let mut i = 0;
    while i < model.inverses.len() {
        let inverse = &model.inverses[i];
        if let Some(other) = on(models, inverse.side.collection)
            && !inverse.side.is_checked
            && !is_of_link(model, inverse.side.field, other)
        {
            return false;
        }
        i += 1;
    }
    true
}

/// The model of a collection. One that is missing is another error.
const fn on<'m>(models: &[&'m Model], collection: &str) -> Option<&'m Model> {
    let mut i = 0;
    while i < models.len() {
        if same(models[i].collection, collection) {
            return Some(models[i]);
        }
        i += 1;
    }
    None
}

/// Whether an inverse of another model is that of this reference; called by derived code, at compile time.
#[doc(hidden)]
#[must_use]
pub const fn is_followed(model: &Model, field: &str, other: &Model) -> bool {
    let mut i = 0;
    while i < model.links.len() {
        let link = &model.links[i];
        let mut j = 0;
        while j < other.inverses.len() {
            if same(link.side.field, field) && are_one(model, link, other, &other.inverses[j]) {
                return true;
            }
            j += 1;
        }
        i += 1;
    }
    false
}

/// Whether a reference of another model is the one that this inverse follows; called by derived code, at compile time.
#[doc(hidden)]
#[must_use]
pub const fn is_of_link(model: &Model, field: &str, other: &Model) -> bool {
    let mut i = 0;
    while i < model.inverses.len() {
        let inverse = &model.inverses[i];
        let mut j = 0;
        while j < other.links.len() {
            if same(inverse.side.field, field) && are_one(other, &other.links[j], model, inverse) {
                return true;
            }
            j += 1;
        }
        i += 1;
    }
    false
}

/// Whether a reference and an inverse are the two sides of one link.
const fn are_one(from: &Model, link: &OwnLink, to: &Model, inverse: &InverseLink) -> bool {
    let Some(field) = link.inverse else {
        return false;
    };
    same(field, inverse.side.field)
        && same(inverse.of, link.side.field)
        && same(link.side.collection, to.collection)
        && same(inverse.side.collection, from.collection)
}

/// The type of a reference, of one that may be none, or of several.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a `{Self}` is no reference, and no side of a link",
    label = "not a `Ref`, an `Option<Ref>`, a `Vec<Ref>` or an `Overflow<Ref>`"
)]
pub trait RefersTo {
    /// The model that it refers to.
    type Target: Document;
    /// Whether it is an array.
    const IS_MANY: bool = false;
}
#[diagnostic::do_not_recommend]
impl<T: Document> RefersTo for Ref<T> {
    type Target = T;
}
#[diagnostic::do_not_recommend]
impl<T: Document> RefersTo for Option<Ref<T>> {
    type Target = T;
}
#[diagnostic::do_not_recommend]
impl<T: Document> RefersTo for Vec<Ref<T>> {
    type Target = T;
    const IS_MANY: bool = true;
}
#[diagnostic::do_not_recommend]
impl<T: Document> RefersTo for Overflow<Ref<T>> {
    type Target = T;
    const IS_MANY: bool = true;
}

/// The field that is the inverse of a reference from `M`.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this field is no inverse of a reference from `{M}`",
    label = "does not list the `{M}`s that refer to it",
    note = "declare it so: `#[reference(inverse_of = …, max = N)]` on a `Vec<Ref<{M}>>`, `#[reference(inverse_of = …, overflow(…))]` on an `Overflow<Ref<{M}>>`, or `#[reference(inverse_of = …)]` on an `Option<Ref<{M}>>`"
)]
pub trait InverseFrom<M> {}
#[diagnostic::do_not_recommend]
impl<T, M: Document> InverseFrom<M> for Array<T, Ref<M>, role::Inverse, shape::One> {}
#[diagnostic::do_not_recommend]
impl<T, M: Document> InverseFrom<M> for Overflowing<T, Ref<M>, role::Inverse, shape::One> {}
#[diagnostic::do_not_recommend]
impl<T, M: Document> InverseFrom<M> for Maybe<T, Ref<M>, role::Inverse, shape::One> {}

/// The reference to `M` of which a field can be the inverse.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this field is no reference to `{M}` that the application writes",
    label = "does not lead to a `{M}`",
    note = "declare it so: `#[reference(inverse = …)]` on a `Ref<{M}>`, an `Option<Ref<{M}>>`, with a `max` a `Vec<Ref<{M}>>`, or with `overflow(…)` an `Overflow<Ref<{M}>>`"
)]
pub trait LeadsTo<M> {}
#[diagnostic::do_not_recommend]
impl<T, M: Document> LeadsTo<M> for Field<T, Ref<M>, role::Own, shape::One> {}
#[diagnostic::do_not_recommend]
impl<T, M: Document> LeadsTo<M> for Array<T, Ref<M>, role::Own, shape::One> {}
#[diagnostic::do_not_recommend]
impl<T, M: Document> LeadsTo<M> for Overflowing<T, Ref<M>, role::Own, shape::One> {}
#[diagnostic::do_not_recommend]
impl<T, M: Document> LeadsTo<M> for Maybe<T, Ref<M>, role::Own, shape::One> {}
