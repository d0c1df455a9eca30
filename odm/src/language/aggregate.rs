//! Aggregates over several documents: counts, sums, averages, least and greatest values, in total or per group.
//!
//! [`Find`](crate::action::Find) has a method for each aggregate; [`Find::group_by`](crate::action::Find::group_by) has an
//! example of groups.

mod date_bucket;
mod group;
mod number;

pub use date_bucket::DateBucket;
pub(crate) use group::group_field;
pub use group::{Aggregate, Aggregates, Group, GroupKey, GroupKeyOrder, Groups};
pub use number::{NumericResult, Summable};

use crate::{
    language::field::{AlwaysStored, ArrayPlace, Field, OptionalPlace, Place, shape},
    model::document::Stored,
};

/// Fields with at most one value in each document.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no single value in each document",
    label = "an array, a map, a struct, or a field inside an array",
    note = "name a field with a single value; for the elements of arrays use a `pipeline` with `$unwind`"
)]
pub trait SingleValuePlace: Place {
    /// The type of the value.
    type Inner: Stored;
}

#[diagnostic::do_not_recommend]
impl<M, T: Stored, R> SingleValuePlace for Field<M, T, R, shape::One> {
    type Inner = T;
}

#[diagnostic::do_not_recommend]
impl<M, T: Stored, R> SingleValuePlace for OptionalPlace<M, T, R, shape::One>
where
    T::Fields<M, R, shape::One>: SingleValuePlace,
{
    type Inner = <T::Fields<M, R, shape::One> as SingleValuePlace>::Inner;
}

// For a field with serde's `default`, the bound on `AlwaysStored` makes the compile error.
impl<M, T: Stored, R, S: 'static> SingleValuePlace for Field<M, T, R, shape::Defaulted<S>>
where
    shape::SerdeDefault<S>: AlwaysStored,
{
    type Inner = T;
}

impl<M, T: Stored, R, S: 'static> SingleValuePlace for OptionalPlace<M, T, R, shape::Defaulted<S>>
where
    shape::SerdeDefault<S>: AlwaysStored,
    T::Fields<M, R, shape::One>: SingleValuePlace,
{
    type Inner = <T::Fields<M, R, shape::One> as SingleValuePlace>::Inner;
}

/// Fields of the documents or array elements of a group.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no single value in each document or array element",
    label = "an array, a map or a struct",
    note = "name a field with a single value; name the elements of an array by `each()`, as in `p.tags().each()`"
)]
pub trait GroupedPlace: Place {
    /// The type of the value, without `Option`.
    type Inner: Stored;
}

#[diagnostic::do_not_recommend]
impl<P: SingleValuePlace> GroupedPlace for P {
    type Inner = P::Inner;
}

#[diagnostic::do_not_recommend]
impl<M, T: Stored, R> GroupedPlace for Field<M, T, R, shape::Many> {
    type Inner = T;
}

#[diagnostic::do_not_recommend]
impl<M, T: Stored, R> GroupedPlace for OptionalPlace<M, T, R, shape::Many>
where
    T::Fields<M, R, shape::Many>: GroupedPlace,
{
    type Inner = <T::Fields<M, R, shape::Many> as GroupedPlace>::Inner;
}

/// Fields with distinct values: a single value in each document, or the elements of an array.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no distinct values",
    label = "a map or a struct",
    note = "name a field with a single value, or an array of single values"
)]
pub trait DistinctPlace: Place {
    /// The type of the values.
    type Each: Stored;
}

#[diagnostic::do_not_recommend]
impl<M, T: Stored, R> DistinctPlace for Field<M, T, R, shape::One> {
    type Each = T;
}

#[diagnostic::do_not_recommend]
impl<M, T: Stored, R> DistinctPlace for Field<M, T, R, shape::Many> {
    type Each = T;
}

// For a field with serde's `default`, the bound on `AlwaysStored` makes the compile error.
impl<M, T: Stored, R, S: 'static> DistinctPlace for Field<M, T, R, shape::Defaulted<S>>
where
    shape::SerdeDefault<S>: AlwaysStored,
{
    type Each = T;
}

#[diagnostic::do_not_recommend]
impl<M, T: Stored, R, S, V: Stored> DistinctPlace for ArrayPlace<M, T, R, S, V> {
    type Each = T;
}

#[diagnostic::do_not_recommend]
impl<M, T: Stored, R, S> DistinctPlace for OptionalPlace<M, T, R, S>
where
    T::Fields<M, R, S>: DistinctPlace,
{
    type Each = <T::Fields<M, R, S> as DistinctPlace>::Each;
}
