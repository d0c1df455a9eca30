//! References with a delete rule, and their inverses, as plain data.

use super::{Model, str_eq};
use crate::{
    language::field::{ArrayPlace, Field, OptionalPlace, OverflowPlace, role, shape},
    model::document::{Document, Overflow, Ref},
};

/// A field with references: either a reference with a delete rule, or an inverse.
#[derive(Debug, Clone, Copy)]
pub struct LinkField {
    /// The Rust name of the field. Inside an embedded struct, the dotted path: `lines.product`.
    pub field: &'static str,
    /// The stored name or path.
    pub stored: &'static str,
    /// Whether the field itself is an array.
    pub is_many: bool,
    /// The fields on the path to the references, including the last.
    pub steps: &'static [LinkStep],
    /// Whether the derive of the model itself checks the opposite side. Models without type parameters do.
    pub is_checked: bool,
    /// The collection of the referenced documents.
    pub collection: &'static str,
    /// The model of the referenced documents.
    pub model: fn() -> &'static Model,
}

/// A field on the path to a reference.
#[derive(Debug, Clone, Copy)]
pub struct LinkStep {
    /// The stored name of the field.
    pub stored: &'static str,
    /// Whether the field is an array: of embedded structs or, as the last field, of references.
    pub is_array: bool,
}

/// A reference with a delete rule. In a two-way link the reference is authoritative, and the inverse is derived from the
/// reference.
#[derive(Debug, Clone, Copy)]
pub struct ReferenceLink {
    /// The field of the reference.
    pub link_field: LinkField,
    /// The Rust name of the inverse in the target's model. `None` without an inverse.
    pub inverse: Option<&'static str>,
    /// The delete rule: the effect on the reference when its target is deleted.
    pub on_delete: OnDelete,
    /// Whether an absent reference is stored as a missing field: serde's `skip_serializing_if`.
    pub omits_none: fn() -> bool,
}

/// An inverse: the field of a document that contains the documents which refer to it. The framework maintains inverses.
#[derive(Debug, Clone, Copy)]
pub struct InverseLink {
    /// The field of the inverse.
    pub link_field: LinkField,
    /// The Rust name of the reference.
    pub reference: &'static str,
    /// The maximum number of referrers: 1 without an array, `None` for an overflow array.
    pub max: Option<usize>,
    /// Whether an absent reference is stored as a missing field: serde's `skip_serializing_if`.
    pub omits_none: fn() -> bool,
}

/// The delete rule of a reference: the effect on the referrer when the target is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDelete {
    /// The target cannot be deleted while a document refers to it.
    Restrict,
    /// The referrer is deleted, too.
    Cascade,
    /// The reference becomes null.
    Nullify,
    /// The reference is removed from its array.
    Pull,
    /// The reference stays and dangles.
    Keep,
}

// Each match is exhaustive, and callers do not compare rules: so a new rule does not compile until each question is answered.
impl OnDelete {
    /// Returns the name in the attribute, such as `cascade`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Restrict => "restrict",
            Self::Cascade => "cascade",
            Self::Nullify => "nullify",
            Self::Pull => "pull",
            Self::Keep => "keep",
        }
    }

    /// Whether the rule can forbid a delete.
    pub(crate) const fn is_restricting(self) -> bool {
        match self {
            Self::Restrict => true,
            Self::Cascade | Self::Nullify | Self::Pull | Self::Keep => false,
        }
    }

    /// Whether a delete also deletes the referrers.
    pub(crate) const fn is_cascading(self) -> bool {
        match self {
            Self::Cascade => true,
            Self::Restrict | Self::Nullify | Self::Pull | Self::Keep => false,
        }
    }

    /// Whether a delete changes or deletes the referrers.
    pub(crate) const fn affects_referrers(self) -> bool {
        match self {
            Self::Cascade | Self::Nullify | Self::Pull => true,
            Self::Restrict | Self::Keep => false,
        }
    }

    /// Whether the target of a reference must exist.
    pub(crate) const fn requires_target(self) -> bool {
        match self {
            Self::Restrict | Self::Cascade | Self::Nullify | Self::Pull => true,
            Self::Keep => false,
        }
    }
}

impl LinkField {
    /// Returns the steps from a path to the references, or `None` for a path to another field.
    ///
    /// The path may contain array positions. The result is empty for the path of a reference, and for a path inside a reference.
    pub(crate) fn steps_after(&self, path: &str) -> Option<&'static [LinkStep]> {
        let mut names = path.split('.').peekable();
        let mut remaining = self.steps;
        while let Some(name) = names.next() {
            let Some((step, rest)) = remaining.split_first() else {
                return Some(remaining);
            };
            if step.stored != name {
                return None;
            }
            remaining = rest;
            let is_position = |name: &&str| name.starts_with('$') || name.parse::<u64>().is_ok();
            if step.is_array {
                names.next_if(is_position);
            }
        }
        Some(remaining)
    }

    /// Whether a path is that of a reference in this field: `lines.3.product`.
    pub(crate) fn is_path_of_reference(&self, path: &str) -> bool {
        self.steps_after(path).is_some_and(<[_]>::is_empty)
    }

    /// Returns the stored name of the document's field that contains the references.
    pub(crate) fn root_field(&self) -> &'static str {
        self.steps.first().map_or(self.stored, |first| first.stored)
    }
}

impl ReferenceLink {
    /// Returns the inverse, if one exists and is no overflow array.
    ///
    /// An overflow array can spill elements, so its document alone does not contain all referrers.
    pub(crate) fn complete_inverse(&self) -> Option<&'static InverseLink> {
        let inverse = self.find_inverse()?;
        let overflows = (self.link_field.model)()
            .overflow_of(&inverse.link_field)
            .is_some();
        (!overflows).then_some(inverse)
    }

    /// Returns the inverse, if one exists.
    pub(crate) fn find_inverse(&self) -> Option<&'static InverseLink> {
        let field = self.inverse?;
        let mut inverses = (self.link_field.model)().inverses.iter();
        inverses.find(|inverse| inverse.link_field.field == field)
    }
}

impl InverseLink {
    /// Returns the reference of the inverse.
    pub(crate) fn find_reference(&self) -> Option<&'static ReferenceLink> {
        let mut links = (self.link_field.model)().links.iter();
        links.find(|link| link.link_field.field == self.reference)
    }
}

/// Whether the references and inverses of a model name each other, except for sides that the model's own derive checks.
///
/// Derived code calls this function at compile time.
#[doc(hidden)]
#[must_use]
pub const fn links_match(models: &[&Model], position: usize) -> bool {
    let model = models[position];
    let mut i = 0;
    while i < model.links.len() {
        let link = &model.links[i];
        if let (Some(_), Some(opposite)) = (
            link.inverse,
            model_of_collection(models, link.link_field.collection),
        ) && !link.link_field.is_checked
            && !has_inverse_in(model, link.link_field.field, opposite)
        {
            return false;
        }
        i += 1;
    }
    let mut i = 0;
    while i < model.inverses.len() {
        let inverse = &model.inverses[i];
        if let Some(opposite) = model_of_collection(models, inverse.link_field.collection)
            && !inverse.link_field.is_checked
            && !has_reference_in(model, inverse.link_field.field, opposite)
        {
            return false;
        }
        i += 1;
    }
    true
}

/// Whether a soft delete that cascades can reach a document: a model with a soft delete refers to the documents with the rule
/// `cascade`. Also true if the soft delete does not cascade. Derived code calls this function at compile time.
#[doc(hidden)]
#[must_use]
pub const fn soft_delete_reaches_documents(models: &[&Model], position: usize) -> bool {
    let target = models[position];
    let mut i = 0;
    while target.soft_delete_cascades && i < models.len() {
        let referrer = models[i];
        let mut j = 0;
        while j < referrer.links.len() {
            let link = &referrer.links[j];
            if link.on_delete.is_cascading()
                && str_eq(link.link_field.collection, target.collection)
                && referrer.soft_delete.is_some()
            {
                return true;
            }
            j += 1;
        }
        // The targets of references in embedded structs are not known at compile time.
        if referrer.embedded_links.writes_on_delete && referrer.soft_delete.is_some() {
            return true;
        }
        i += 1;
    }
    !target.soft_delete_cascades
}

/// Finds the model of a collection. A missing model is reported by another check.
const fn model_of_collection<'m>(models: &[&'m Model], collection: &str) -> Option<&'m Model> {
    let mut i = 0;
    while i < models.len() {
        if str_eq(models[i].collection, collection) {
            return Some(models[i]);
        }
        i += 1;
    }
    None
}

/// Whether an inverse in the other model belongs to the reference. Derived code calls this function at compile time.
#[doc(hidden)]
#[must_use]
pub const fn has_inverse_in(model: &Model, field: &str, other: &Model) -> bool {
    let mut i = 0;
    while i < model.links.len() {
        let link = &model.links[i];
        let mut j = 0;
        while j < other.inverses.len() {
            if str_eq(link.link_field.field, field)
                && are_link_sides(model, link, other, &other.inverses[j])
            {
                return true;
            }
            j += 1;
        }
        i += 1;
    }
    false
}

/// Whether a reference in the other model belongs to the inverse. Derived code calls this function at compile time.
#[doc(hidden)]
#[must_use]
pub const fn has_reference_in(model: &Model, field: &str, other: &Model) -> bool {
    let mut i = 0;
    while i < model.inverses.len() {
        let inverse = &model.inverses[i];
        let mut j = 0;
        while j < other.links.len() {
            if str_eq(inverse.link_field.field, field)
                && are_link_sides(other, &other.links[j], model, inverse)
            {
                return true;
            }
            j += 1;
        }
        i += 1;
    }
    false
}

/// Whether a reference and an inverse are the two sides of one link.
const fn are_link_sides(
    from: &Model,
    link: &ReferenceLink,
    target: &Model,
    inverse: &InverseLink,
) -> bool {
    let Some(field) = link.inverse else {
        return false;
    };
    str_eq(field, inverse.link_field.field)
        && str_eq(inverse.reference, link.link_field.field)
        && str_eq(link.link_field.collection, target.collection)
        && str_eq(inverse.link_field.collection, from.collection)
}

/// The type of a reference field: a reference, an optional reference, or an array of references.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a `{Self}` is not a reference",
    label = "not a `Ref`, an `Option<Ref>`, a `Vec<Ref>` or an `Overflow<Ref>`"
)]
pub trait RefersTo {
    /// The model of the referenced document.
    type Target: Document;
    /// Whether the field is an array.
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

/// A field that is the inverse of a reference from `M`.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this field is not the inverse of a reference from `{M}`",
    label = "not an inverse that contains `{M}`s",
    note = "declare an inverse: `#[reference(inverse_of = …, max = N)]` on a `Vec<Ref<{M}>>`, `#[reference(inverse_of = …, overflow(…))]` on an `Overflow<Ref<{M}>>`, or `#[reference(inverse_of = …)]` on an `Option<Ref<{M}>>`"
)]
pub trait InverseFrom<M> {}
#[diagnostic::do_not_recommend]
impl<T, M: Document> InverseFrom<M> for ArrayPlace<T, Ref<M>, role::Inverse, shape::One> {}
#[diagnostic::do_not_recommend]
impl<T, M: Document> InverseFrom<M> for OverflowPlace<T, Ref<M>, role::Inverse, shape::One> {}
#[diagnostic::do_not_recommend]
impl<T, M: Document> InverseFrom<M> for OptionalPlace<T, Ref<M>, role::Inverse, shape::One> {}

/// A reference to `M` for which another field can be the inverse.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this field is not a reference to `{M}` that the application writes",
    label = "does not refer to a `{M}`",
    note = "declare a reference: `#[reference(inverse = …)]` on a `Ref<{M}>`, an `Option<Ref<{M}>>`, with a `max` a `Vec<Ref<{M}>>`, or with `overflow(…)` an `Overflow<Ref<{M}>>`"
)]
pub trait ReferenceTo<M> {}
#[diagnostic::do_not_recommend]
impl<T, M: Document> ReferenceTo<M> for Field<T, Ref<M>, role::Own, shape::One> {}
#[diagnostic::do_not_recommend]
impl<T, M: Document> ReferenceTo<M> for Field<T, Ref<M>, role::SequenceKey, shape::One> {}
#[diagnostic::do_not_recommend]
impl<T, M: Document> ReferenceTo<M> for ArrayPlace<T, Ref<M>, role::Own, shape::One> {}
#[diagnostic::do_not_recommend]
impl<T, M: Document> ReferenceTo<M> for OverflowPlace<T, Ref<M>, role::Own, shape::One> {}
#[diagnostic::do_not_recommend]
impl<T, M: Document> ReferenceTo<M> for OptionalPlace<T, Ref<M>, role::Own, shape::One> {}
