//! What Rust's own operators are told on fields: a condition is made by a method.
//!
//! No value is [`Comparable`], so none of these operators can be used: they are here for the message, which without them is
//! that Rust does not know how to compare a field. Arrays and options have none: their trait methods would hide those of what is inside.

use std::{cmp::Ordering, ops::Not};

use super::Field;
use crate::query::Expr;

/// What a field can be compared with by an operator of Rust: nothing.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a condition is made by a method, not by an operator of Rust",
    label = "compares here and now, and not in the database",
    note = "`==` is `p.votes().eq(3)`, `!=` is `ne`, `<` is `lt`, `<=` is `lte`, `>` is `gt`, `>=` is `gte`; conditions are combined by `&`, \
            `|` and `!`"
)]
pub trait Comparable {}

/// What `!` makes of a field: no condition.
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
