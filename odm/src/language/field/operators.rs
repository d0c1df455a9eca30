//! Compile errors for Rust's operators on fields: conditions are made by methods.
//!
//! No type implements [`Comparable`], so Rust's operators never compile. The implementations only exist for the error message;
//! without them rustc reports a missing `PartialEq`. Arrays and options have no implementations, which would hide the methods of
//! the inner fields.

use std::{cmp::Ordering, ops::Not};

use super::Field;
use crate::language::query::Expr;

/// Types that Rust operators can compare with a field; no type implements the trait.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a condition is a method call, not an operator of Rust",
    label = "would compare in Rust, not in the database",
    note = "`==` is `p.votes().eq(3)`, `!=` is `ne`, `<` is `lt`, `<=` is `lte`, `>` is `gt`, `>=` is `gte`; combine conditions \
         by `&`, `|` and `!`"
)]
pub trait Comparable {}

/// The result of `!` on a field, which is not a condition.
#[doc(hidden)]
#[derive(Debug)]
pub struct NotACondition;

macro_rules! is_not_compared {
    ($($place:ident<$($parameter:ident),*>;)*) => {$(
        #[doc(hidden)]
        impl<$($parameter,)* V: Comparable> PartialEq<V> for $place<$($parameter),*> {
            fn eq(&self, _: &V) -> bool {
                false
            }
        }
        #[doc(hidden)]
        impl<$($parameter,)* V: Comparable> PartialOrd<V> for $place<$($parameter),*> {
            fn partial_cmp(&self, _: &V) -> Option<Ordering> {
                None
            }
        }
        #[doc(hidden)]
        impl<$($parameter),*> Not for $place<$($parameter),*> {
            type Output = NotACondition;
            fn not(self) -> NotACondition {
                NotACondition
            }
        }
    )*};
}

is_not_compared! {
    Field<M, T, R, S>;
    Expr<M, T>;
}
