//! Rollups over children as plain data: counts, sums and latest-N lists.

use bson::RawBson;

use super::Model;
use crate::{
    Result,
    language::{
        field::{
            AlwaysStored, ArrayPlace, Field, FullyResident, OptionalPlace, Ordered, Path, Place,
            Single, role, shape,
        },
        query::IntoValue,
    },
    model::{
        document::{Document, Ref},
        projection::Projected,
    },
    session::scope::{InScope, WrittenIn},
};

/// A rollup: a field of a parent that is derived from the parent's children.
#[derive(Debug, Clone, Copy)]
pub struct Rollup {
    /// The Rust name of the field.
    pub field: &'static str,
    /// The stored name of the field.
    pub stored: &'static str,
    /// The collection of the children.
    pub collection: &'static str,
    /// The model of the children.
    pub model: fn() -> &'static Model,
    /// Returns the path of the children's reference to the parent.
    pub reference: fn() -> Path,
    /// Returns the condition on children: the required values of fields.
    pub when: fn() -> Vec<(Path, Result<RawBson>)>,
    /// The kind of the rollup.
    pub kind: RollupKind,
}

/// The kind of a [`Rollup`].
#[derive(Debug, Clone, Copy)]
pub enum RollupKind {
    /// The number of children.
    Count,
    /// The sum of a field over the children.
    Sum(fn() -> Path),
    /// Excerpts of the children with the greatest values of a field, the greatest first.
    Latest {
        /// The maximum number of excerpts.
        max: usize,
        /// Returns the path of the field by which children are ordered.
        by: fn() -> Path,
        /// The fields of an excerpt, as pairs of Rust name and stored name.
        fields: &'static [(&'static str, &'static str)],
    },
}

/// Returns a condition on children. Derived code calls this function.
#[doc(hidden)]
pub fn rollup_condition<P, V>(place: P, value: V) -> (Path, Result<RawBson>)
where
    P: Place<Shape: Single, Role: StableRole, Value: FullyResident>,
    V: IntoValue<P::Value>,
{
    (place.path(), value.into_value())
}

/// Checks that every session that writes a `C` also sees its parent. Derived code calls this function at compile time.
#[doc(hidden)]
pub fn ensure_sees_parent<C: SeesParent<M>, M>() {}

/// A child with writers that see the parent `M`, so that no rollup crosses a scope boundary.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not have the scope of its parent `{M}`",
    label = "is written by sessions that do not see a `{M}`",
    note = "a rollup changes the parent with each child: give `{Self}` a `scope = …` of the same type, or leave the scope out of `{M}`"
)]
pub trait SeesParent<M> {}
#[diagnostic::do_not_recommend]
impl<C: WrittenIn, M: InScope<C::Session>> SeesParent<M> for C {}

/// Checks that a `C` refers to an `M` by this field. Derived code calls this function at compile time.
#[doc(hidden)]
pub fn ensure_counted_by<M, C: Document, P: CountedBy<M>>(_: impl FnOnce(C::Fields) -> P) {}

/// Checks that a field of type `T` can hold a count or a sum. Derived code calls this function at compile time.
#[doc(hidden)]
pub fn ensure_counter<T: CounterValue>() {}

/// Checks that a field of a `C` can be summed. Derived code calls this function at compile time.
#[doc(hidden)]
pub fn ensure_summable<C, P>(_: impl FnOnce(C::Fields) -> P)
where
    C: Document,
    P: Place<Shape: Single, Role: StableRole, Value: SummableValue>,
{
}

/// Checks that a field of a `C` has an order. Derived code calls this function at compile time.
#[doc(hidden)]
pub fn ensure_ranked<C, P>(_: impl FnOnce(C::Fields) -> P)
where
    C: Document,
    P: Place<Shape: Single, Role: StableRole, Value: RankedValue>,
{
}

/// A type of value by which a latest-N list can be ordered.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "documents cannot be ordered by a `{Self}`",
    label = "has no order",
    note = "order documents by a number, a text, a date, an `ObjectId`, a `Uuid`, or an `Option` of these"
)]
pub trait RankedValue {}
#[diagnostic::do_not_recommend]
impl<T: Ordered> RankedValue for T {}

/// Returns the source of a field in an excerpt. Derived code calls this function.
#[doc(hidden)]
pub fn excerpt_source<P: Place<Role: StableRole, Shape: AlwaysStored>>(
    _: P,
) -> ExcerptSource<P::Value> {
    ExcerptSource(std::marker::PhantomData)
}

/// The source of a field in an excerpt, with the type `V`.
#[doc(hidden)]
#[derive(Debug)]
pub struct ExcerptSource<V>(std::marker::PhantomData<fn() -> V>);

impl<V> ExcerptSource<V> {
    /// Checks that a field of type `T` can hold the value.
    pub fn ensure_fits<T: SameType<V>>(&self) {}
}

/// The type of a field in an excerpt.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "the field is a `{V}` in the model, and a `{Self}` here",
    label = "wrong type",
    note = "a field of an excerpt has the type of the model's field"
)]
pub trait SameType<V> {}
#[diagnostic::do_not_recommend]
impl<V> SameType<V> for V {}

/// The roles of fields that a rollup can use: only a typed write to the document changes these fields.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a rollup cannot use a field with the role `{Self}`",
    label = "changes without a typed write to the field",
    note = "copies, rollups, versions, timestamps and inverses change without a typed write to the field: use the field from which \
            they are derived"
)]
pub trait StableRole {}
#[diagnostic::do_not_recommend]
impl StableRole for role::Own {}
#[diagnostic::do_not_recommend]
impl StableRole for role::Id {}
#[diagnostic::do_not_recommend]
impl StableRole for role::IdPartField {}
#[diagnostic::do_not_recommend]
impl StableRole for role::ShardKeyField {}
#[diagnostic::do_not_recommend]
impl StableRole for role::Snapshot {}

/// A field by which children refer to their parent `M`.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this field is not a reference to `{M}`",
    label = "does not refer to a `{M}`",
    note = "a rollup needs a reference to the parent that the application writes: a `Ref<{M}>`, an `Option<Ref<{M}>>` or a `Vec<Ref<{M}>>`"
)]
pub trait CountedBy<M> {}
#[diagnostic::do_not_recommend]
impl<T, M: Document, R: StableRole> CountedBy<M> for Field<T, Ref<M>, R, shape::One> {}
#[diagnostic::do_not_recommend]
impl<T, M: Document, R: StableRole> CountedBy<M> for ArrayPlace<T, Ref<M>, R, shape::One> {}
#[diagnostic::do_not_recommend]
impl<T, M: Document, R: StableRole> CountedBy<M> for OptionalPlace<T, Ref<M>, R, shape::One> {}

/// The type of a count or a sum.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a count or a sum is an `i64`, not a `{Self}`",
    label = "not an `i64`"
)]
pub trait CounterValue {}
#[diagnostic::do_not_recommend]
impl CounterValue for i64 {}

/// A type of value that can be summed.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a `{Self}` cannot be summed",
    label = "not an integer",
    note = "a sum must be exact for every order of the writes: store integers, such as cents"
)]
pub trait SummableValue {}
#[diagnostic::do_not_recommend]
impl SummableValue for i32 {}
#[diagnostic::do_not_recommend]
impl SummableValue for i64 {}
#[diagnostic::do_not_recommend]
impl SummableValue for u32 {}
#[diagnostic::do_not_recommend]
impl<T: SummableValue> SummableValue for Option<T> {}

/// An embedded struct with fields of the model `C`: `#[embedded(of = …)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an excerpt of `{C}`",
    label = "not derived with `#[embedded(of = {C})]`",
    note = "an excerpt is a struct with some of the fields: `#[derive(Serialize, Deserialize, Embedded)]` with `#[embedded(of = {C})]`"
)]
pub trait ExcerptOf<C>: Projected {}

/// An array of excerpts of the model `C`.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a `{Self}` cannot hold a latest-N list of `{C}`",
    label = "not a `Vec` of excerpts of `{C}`",
    note = "a latest-N list is a `Vec` of a struct with some of the fields: `#[derive(Serialize, Deserialize, Embedded)]` with `#[embedded(of = {C})]`"
)]
pub trait ExcerptArray<C> {
    /// The fields of an excerpt, as pairs of Rust name and stored name.
    const FIELDS: &'static [(&'static str, &'static str)];
}
#[diagnostic::do_not_recommend]
impl<T: ExcerptOf<C>, C> ExcerptArray<C> for Vec<T> {
    const FIELDS: &'static [(&'static str, &'static str)] = T::NAMES;
}
