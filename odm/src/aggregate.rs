//! What is calculated from several documents: sums, averages, the least and the greatest, for all or for each group.
//!
//! [`Find`](crate::action::Find) has each of them as a method; [`Find::group_by`](crate::action::Find::group_by) has an
//! example of groups.

mod group;
mod number;

pub(crate) use group::part;
pub use group::{Aggregate, Aggregates, Group, GroupKey, Groups, Key};
pub use number::{Answer, Summable};

use crate::{
    document::Stored,
    field::{AlwaysStored, Array, Field, Maybe, Place, shape},
};

/// A place with one value in each document, or none.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no single value in each document",
    label = "an array, a map, a struct, or a field inside an array",
    note = "name a field of one value; for the elements of arrays write a `pipeline` with `$unwind`"
)]
pub trait Single: Place {
    /// The type of the value, where there is one.
    type Inner: Stored;
}

#[diagnostic::do_not_recommend]
impl<M, T: Stored, R> Single for Field<M, T, R, shape::One> {
    type Inner = T;
}

#[diagnostic::do_not_recommend]
impl<M, T: Stored, R> Single for Maybe<M, T, R, shape::One>
where
    T::Fields<M, R, shape::One>: Single,
{
    type Inner = <T::Fields<M, R, shape::One> as Single>::Inner;
}

// The error of a field with serde's `default` is that of `AlwaysStored`.
impl<M, T: Stored, R, S: 'static> Single for Field<M, T, R, shape::Defaulted<S>>
where
    shape::SerdeDefault<S>: AlwaysStored,
{
    type Inner = T;
}

impl<M, T: Stored, R, S: 'static> Single for Maybe<M, T, R, shape::Defaulted<S>>
where
    shape::SerdeDefault<S>: AlwaysStored,
    T::Fields<M, R, shape::One>: Single,
{
    type Inner = <T::Fields<M, R, shape::One> as Single>::Inner;
}

/// A place with values that can be told apart: one in each document, or the elements of an array.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no values to tell apart",
    label = "a map or a struct",
    note = "name a field of one value, or an array of such"
)]
pub trait Elements: Place {
    /// The type of the values.
    type Each: Stored;
}

#[diagnostic::do_not_recommend]
impl<M, T: Stored, R> Elements for Field<M, T, R, shape::One> {
    type Each = T;
}

#[diagnostic::do_not_recommend]
impl<M, T: Stored, R> Elements for Field<M, T, R, shape::Many> {
    type Each = T;
}

// The error of a field with serde's `default` is that of `AlwaysStored`.
impl<M, T: Stored, R, S: 'static> Elements for Field<M, T, R, shape::Defaulted<S>>
where
    shape::SerdeDefault<S>: AlwaysStored,
{
    type Each = T;
}

#[diagnostic::do_not_recommend]
impl<M, T: Stored, R, S> Elements for Array<M, T, R, S> {
    type Each = T;
}

#[diagnostic::do_not_recommend]
impl<M, T: Stored, R, S> Elements for Maybe<M, T, R, S>
where
    T::Fields<M, R, S>: Elements,
{
    type Each = <T::Fields<M, R, S> as Elements>::Each;
}
