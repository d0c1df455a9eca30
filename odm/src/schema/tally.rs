//! What a model is made of by the documents that refer to its own, as plain data: counts, sums, and the latest of them.

use bson::RawBson;

use super::Model;
use crate::{
    Result,
    document::{Document, Ref},
    field::{AllInside, Array, Field, Maybe, Ordered, Path, Place, Single, role, shape},
    projection::Projected,
    query::IntoValue,
    scope::{InScope, WrittenIn},
};

/// A field that is made of the documents which refer to the one that has it.
#[derive(Debug, Clone, Copy)]
pub struct Tally {
    /// The field in Rust.
    pub field: &'static str,
    /// The field as it is stored.
    pub stored: &'static str,
    /// The collection of the documents that refer.
    pub collection: &'static str,
    /// Their model.
    pub model: fn() -> &'static Model,
    /// Their reference.
    pub reference: fn() -> Path,
    /// Which of them: those that have these values in these fields.
    pub when: fn() -> Vec<(Path, Result<RawBson>)>,
    /// What is kept of them.
    pub keeps: Keeps,
}

/// What a [`Tally`] keeps of documents.
#[derive(Debug, Clone, Copy)]
pub enum Keeps {
    /// How many there are.
    Count,
    /// The sum of what they have in a field.
    Sum(fn() -> Path),
    /// Something of those that have most in a field, the first of them first.
    Latest {
        /// Of how many.
        max: usize,
        /// The field.
        by: fn() -> Path,
        /// What is kept of each: its fields, in Rust and as they are stored.
        fields: &'static [(&'static str, &'static str)],
    },
}

/// A condition on what is counted; called by derived code.
#[doc(hidden)]
pub fn condition<P, V>(place: P, value: V) -> (Path, Result<RawBson>)
where
    P: Place<Shape: Single, Role: Steady, Value: AllInside>,
    V: IntoValue<P::Value>,
{
    (place.path(), value.into_value())
}

/// Every session that writes a `C` also sees its parents; called by derived code, at compile time.
#[doc(hidden)]
pub fn sees_parent<C: SeesParent<M>, M>() {}

/// A child whose writers see its parent `M`, so that no rollup crosses from one scope to another.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not have the scope of its parent `{M}`",
    label = "is written by sessions that do not see a `{M}`",
    note = "a rollup changes the parent with each child: give `{Self}` a `scope = …` of the same type, or leave the scope out of `{M}`"
)]
pub trait SeesParent<M> {}
#[diagnostic::do_not_recommend]
impl<C: WrittenIn, M: InScope<C::Session>> SeesParent<M> for C {}

/// A `C` refers to an `M` by this; called by derived code, at compile time.
#[doc(hidden)]
pub fn counted<M, C: Document, P: CountedBy<M>>(_: impl FnOnce(C::Fields) -> P) {}

/// The type holds a count or a sum; called by derived code, at compile time.
#[doc(hidden)]
pub fn is_counter<T: Counter>() {}

/// What a `C` has there can be summed; called by derived code, at compile time.
#[doc(hidden)]
pub fn summed<C, P>(_: impl FnOnce(C::Fields) -> P)
where
    C: Document,
    P: Place<Shape: Single, Role: Steady, Value: Summed>,
{
}

/// What a `C` has there has an order; called by derived code, at compile time.
#[doc(hidden)]
pub fn ordered<C, P>(_: impl FnOnce(C::Fields) -> P)
where
    C: Document,
    P: Place<Shape: Single, Role: Steady, Value: Ranked>,
{
}

/// What the latest of documents can be told by.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "no documents are the latest by a `{Self}`",
    label = "has no order",
    note = "numbers, texts, dates, `ObjectId`, `Uuid`, and an `Option` of these, have one"
)]
pub trait Ranked {}
#[diagnostic::do_not_recommend]
impl<T: Ordered> Ranked for T {}

/// What an excerpt has of a place; called by derived code.
#[doc(hidden)]
pub fn excerpted<P: Place<Role: Steady>>(_: P) -> Excerpted<P::Value> {
    Excerpted(std::marker::PhantomData)
}

/// Something of a `V`.
#[doc(hidden)]
#[derive(Debug)]
pub struct Excerpted<V>(std::marker::PhantomData<fn() -> V>);

impl<V> Excerpted<V> {
    /// A `T` holds it.
    pub fn fits<T: SameAs<V>>(&self) {}
}

/// The type of a field that an excerpt has.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "the field is a `{V}` in the model, and a `{Self}` here",
    label = "has another type",
    note = "an excerpt has each field as the model has it"
)]
pub trait SameAs<V> {}
#[diagnostic::do_not_recommend]
impl<V> SameAs<V> for V {}

/// The roles of what others can be made of: nothing but a typed write to the document changes it.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "nothing can be made of a field with the role `{Self}`",
    label = "the framework writes it without telling",
    note = "a copy, a count, a version, a timestamp and the inverse of a link change with other writes than those to the field: use the field that \
            they are made of"
)]
pub trait Steady {}
#[diagnostic::do_not_recommend]
impl Steady for role::Own {}
#[diagnostic::do_not_recommend]
impl Steady for role::Id {}
#[diagnostic::do_not_recommend]
impl Steady for role::IdPart {}
#[diagnostic::do_not_recommend]
impl Steady for role::ShardKey {}
#[diagnostic::do_not_recommend]
impl Steady for role::Snapshot {}

/// The reference by which documents are counted at an `M`.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this field is no reference to `{M}`",
    label = "does not lead to a `{M}`",
    note = "documents are counted by a `Ref<{M}>`, an `Option<Ref<{M}>>` or a `Vec<Ref<{M}>>` that the application writes"
)]
pub trait CountedBy<M> {}
#[diagnostic::do_not_recommend]
impl<T, M: Document, R: Steady> CountedBy<M> for Field<T, Ref<M>, R, shape::One> {}
#[diagnostic::do_not_recommend]
impl<T, M: Document, R: Steady> CountedBy<M> for Array<T, Ref<M>, R, shape::One> {}
#[diagnostic::do_not_recommend]
impl<T, M: Document, R: Steady> CountedBy<M> for Maybe<T, Ref<M>, R, shape::One> {}

/// The type of a count, and of a sum.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a count or a sum is an `i64`, not a `{Self}`",
    label = "not an `i64`"
)]
pub trait Counter {}
#[diagnostic::do_not_recommend]
impl Counter for i64 {}

/// What can be summed.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a `{Self}` cannot be summed",
    label = "not an integer",
    note = "a sum is kept exact, whatever the order of the writes: it is of integers, as of cents"
)]
pub trait Summed {}
#[diagnostic::do_not_recommend]
impl Summed for i32 {}
#[diagnostic::do_not_recommend]
impl Summed for i64 {}
#[diagnostic::do_not_recommend]
impl Summed for u32 {}
#[diagnostic::do_not_recommend]
impl<T: Summed> Summed for Option<T> {}

/// An embedded struct with fields of the model `C`: `#[embedded(of = …)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no excerpt of `{C}`",
    label = "not derived with `#[embedded(of = {C})]`",
    note = "what is kept of a document is a struct with some of its fields: `#[derive(Serialize, Deserialize, Embedded)]` with `#[embedded(of = {C})]`"
)]
pub trait ExcerptOf<C>: Projected {}

/// An array of excerpts.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a `{Self}` does not hold the latest of `{C}`",
    label = "not a `Vec` of excerpts of `{C}`",
    note = "it is a `Vec` of a struct with some of the fields: `#[derive(Serialize, Deserialize, Embedded)]` with `#[embedded(of = {C})]`"
)]
pub trait Excerpts<C> {
    /// What each of them has, in Rust and as it is stored.
    const FIELDS: &'static [(&'static str, &'static str)];
}
#[diagnostic::do_not_recommend]
impl<T: ExcerptOf<C>, C> Excerpts<C> for Vec<T> {
    const FIELDS: &'static [(&'static str, &'static str)] = T::NAMES;
}
