//! Expressions: comparisons and arithmetic with fields of the same document.

use std::{marker::PhantomData, ops, time::Duration};

use bson::{
    Binary, Bson, DateTime, Decimal128, RawArrayBuf, RawBson, Timestamp, Uuid, oid::ObjectId,
};

use super::{
    filter::{Filter, FilterNode},
    render::single_field_document,
    value::encode_value,
};
use crate::{
    Error, ErrorKind, Result,
    language::field::{Field, OptionalPlace, Ordered, Path, PathStep, Single},
    model::document::{Document, Embedded, Ref, Stored},
};

/// A value that the backend computes from the fields of a document of the model `M`: `a.credits().value() - a.debits()`.
///
/// [`Field::value`] and [`ArrayPlace::len`](crate::field::ArrayPlace::len) create expressions. A comparison turns an expression
/// into a [`Filter`], which `&`, `|` and `!` combine with other filters. Next to conditions with an index, the backend evaluates
/// the expression only for documents that meet these conditions.
///
/// Integers of all widths have the type `i64`; a sum or product beyond the range is a floating-point number. The difference of
/// two dates is a [`Duration`], and a duration can be added to a date.
///
/// ```
/// # use std::time::Duration;
/// # use odm::prelude::*;
/// # #[derive(Serialize, Deserialize, Embedded)]
/// # struct Member { name: String, age: i32 }
/// # #[derive(Serialize, Deserialize, Document)]
/// # #[document(collection = "teams")]
/// # struct Team {
/// #     #[serde(rename = "_id")] id: i64,
/// #     founded: DateTime,
/// #     dissolved: Option<DateTime>,
/// #     #[embed(max = 20)] members: Vec<Member>,
/// # }
/// # #[derive(Schema)] #[schema(models(Team))] struct League;
/// # fn f(db: &odm::Database<League>) {
/// db.find::<Team>().filter(|t| t.members().at(0).age().value().eq(t.members().at(1).age()));
///
/// let year = Duration::from_secs(365 * 86_400);
/// db.find::<Team>().filter(|t| t.dissolved().is_some() & (t.dissolved().value() - t.founded()).lt(year));
/// # }
/// ```
///
/// # Missing and null
///
/// Unlike a condition on one field, a comparison between two fields is defined for all values, also of different types: MongoDB
/// orders missing before null, null before numbers, numbers before texts, and so on. Two missing fields are equal; a missing
/// field and a null field are not. A missing or null field is *less* than any number. Arithmetic with missing or null yields
/// null. If a field may lack a value, test for the value as well, as `dissolved` above.
///
/// Arithmetic with a value of an unexpected type, in a document that does not fit its model, makes the whole operation fail on
/// the backend.
#[must_use = "an expression does nothing until it is compared"]
pub struct Expr<M, T> {
    expression: Result<RawBson>,
    of: PhantomData<fn() -> (M, T)>,
}

impl<M, T> Clone for Expr<M, T> {
    fn clone(&self) -> Self {
        Self::new(self.expression.clone())
    }
}

impl<M, T> Expr<M, T> {
    /// Matches if both values are equal: `$eq`.
    pub fn eq(self, other: impl IntoExpr<M, T>) -> Filter<M> {
        self.comparison_filter("$eq", other)
    }

    /// Matches if the values differ: `$ne`.
    pub fn ne(self, other: impl IntoExpr<M, T>) -> Filter<M> {
        self.comparison_filter("$ne", other)
    }

    /// Matches if this value is greater than the other: `$gt`.
    pub fn gt(self, other: impl IntoExpr<M, T>) -> Filter<M>
    where
        T: Ordered,
    {
        self.comparison_filter("$gt", other)
    }

    /// Matches if this value is greater than or equal to the other: `$gte`.
    pub fn gte(self, other: impl IntoExpr<M, T>) -> Filter<M>
    where
        T: Ordered,
    {
        self.comparison_filter("$gte", other)
    }

    /// Matches if this value is less than the other: `$lt`.
    pub fn lt(self, other: impl IntoExpr<M, T>) -> Filter<M>
    where
        T: Ordered,
    {
        self.comparison_filter("$lt", other)
    }

    /// Matches if this value is less than or equal to the other: `$lte`.
    pub fn lte(self, other: impl IntoExpr<M, T>) -> Filter<M>
    where
        T: Ordered,
    {
        self.comparison_filter("$lte", other)
    }

    fn comparison_filter(self, operator: &'static str, other: impl IntoExpr<M, T>) -> Filter<M> {
        let compared: Expr<M, bool> = self.combine(operator, other.into_expr());
        Filter::from_node(match compared.expression {
            Ok(expression) => FilterNode::Expression(expression),
            Err(error) => FilterNode::Invalid(error),
        })
    }

    fn combine<U, V>(self, operator: &'static str, other: Expr<M, U>) -> Expr<M, V> {
        let both = || operator_call(operator, [self.expression?, other.expression?]);
        Expr::new(both())
    }

    fn new(expression: Result<RawBson>) -> Self {
        Self {
            expression,
            of: PhantomData,
        }
    }

    /// Returns the value at a path.
    pub(crate) fn from_path(path: &Path) -> Self {
        Self::new(render_path(path))
    }

    /// Returns a constant. `$literal` prevents MongoDB from reading the value as an expression.
    fn from_value(value: Result<RawBson>) -> Self {
        Self::new(value.and_then(|value| Ok(single_field_document("$literal", value)?.into())))
    }
}

impl<M> Expr<M, i64> {
    /// Returns the number of elements of an array; 0 for a missing array.
    pub(crate) fn array_len(path: &Path) -> Self {
        let len = || {
            let array = render_path(path)?;
            let is_array = operator_call("$isArray", [array.clone()])?;
            let size = single_field_document("$size", array)?;
            operator_call("$cond", [is_array, size.into(), 0.into()])
        };
        Self::new(len())
    }
}

/// Renders a path as an expression. Expressions cannot index arrays by a number in the path, so each index becomes an
/// `$arrayElemAt`.
fn render_path(path: &Path) -> Result<RawBson> {
    let dotted = path.dotted()?;
    path.ensure_not_in_variant()?;
    let mut element: Option<RawBson> = None;
    for (part, step) in path.split_at_steps() {
        let value = match element {
            None => format!("${part}").into(),
            Some(element) if part.is_empty() => element,
            Some(element) => {
                let mut binding =
                    single_field_document("vars", single_field_document("element", element)?)?;
                super::render::append_field(&mut binding, "in", format!("$$element.{part}"))?;
                single_field_document("$let", binding)?.into()
            }
        };
        element = Some(match step {
            None => value,
            Some(PathStep::At(index)) => {
                let index = i32::try_from(*index).map_err(|_| {
                    let message = "the index is out of range for an array: use an index below 2^31";
                    Error::new(ErrorKind::Invalid, message).with_path(dotted)
                })?;
                operator_call("$arrayElemAt", [value, index.into()])?
            }
            Some(_) => {
                let message = "an expression needs one value, not one for each element: select an element by `at`";
                return Err(Error::new(ErrorKind::Invalid, message).with_path(dotted));
            }
        });
    }
    element.ok_or_else(|| {
        Error::new(
            ErrorKind::Invalid,
            "an expression needs a field, not the document itself",
        )
    })
}

fn operator_call<const N: usize>(operator: &str, operands: [RawBson; N]) -> Result<RawBson> {
    let operands: RawArrayBuf = operands.into_iter().collect();
    Ok(single_field_document(operator, operands)?.into())
}

/// A scope in which fields can be compared with each other: a document, but not an array element.
#[diagnostic::on_unimplemented(
    message = "a condition on an element of an array cannot compare fields with each other",
    label = "not a field of the document",
    note = "MongoDB does not support `$expr` there; compare with a value, or select one element of the document by its index: \
         `p.comments().at(0).votes().value()`"
)]
pub trait Root {}
#[diagnostic::do_not_recommend]
impl<T: Document> Root for T {}

/// Types with values that expressions can compare.
#[diagnostic::on_unimplemented(
    message = "fields of the type `{Self}` cannot be compared with each other",
    label = "not usable in expressions"
)]
pub trait Operand: Stored {
    /// The type in an expression: `i64` for integers of all widths.
    type As: 'static;

    /// Encodes a value of an expression.
    #[doc(hidden)]
    fn encode_operand(&self) -> Result<RawBson> {
        encode_value(self)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Embedded> Operand for T {
    type As = T;
}

#[diagnostic::do_not_recommend]
impl<T: Document> Operand for Ref<T> {
    type As = Self;
}

macro_rules! operands {
    ($($t:ty => $target:ty),* $(,)?) => {$(
        #[diagnostic::do_not_recommend]
        impl Operand for $t {
            type As = $target;
        }
    )*};
}
operands! {
    i8 => i64, i16 => i64, i32 => i64, i64 => i64,
    u8 => i64, u16 => i64, u32 => i64, u64 => i64,
    f32 => f64, f64 => f64, Decimal128 => Decimal128,
    bool => bool, String => String, ObjectId => ObjectId, Uuid => Uuid,
    DateTime => DateTime, Timestamp => Timestamp, Binary => Binary, Bson => Bson, bson::Document => bson::Document,
}

/// An operand for an expression of the type `T`: a value, a field of the same document, or another expression.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be compared or computed with a `{T}` of `{M}`",
    label = "not a value, a field or an expression of this type from the same document",
    note = "numbers need the same type, where integers of all widths are `i64`; dates need dates, and the difference of two \
         dates is a `std::time::Duration`"
)]
pub trait IntoExpr<M, T> {
    /// Returns the operand as an expression.
    fn into_expr(self) -> Expr<M, T>;
}

#[diagnostic::do_not_recommend]
impl<M, T> IntoExpr<M, T> for Expr<M, T> {
    fn into_expr(self) -> Self {
        self
    }
}

impl<M: Root, T: Operand, R, S: Single> IntoExpr<M, T::As> for Field<M, T, R, S> {
    fn into_expr(self) -> Expr<M, T::As> {
        Expr::from_path(&crate::language::field::Place::path(&self))
    }
}

impl<M: Root, T: Operand, R, S: Single> IntoExpr<M, T::As> for OptionalPlace<M, T, R, S> {
    fn into_expr(self) -> Expr<M, T::As> {
        Expr::from_path(&crate::language::field::Place::path(&self))
    }
}

#[diagnostic::do_not_recommend]
impl<M, T: Operand<As = T>> IntoExpr<M, T> for T {
    fn into_expr(self) -> Expr<M, T> {
        Expr::from_value(self.encode_operand())
    }
}

#[diagnostic::do_not_recommend]
impl<M, T: Operand<As = T>> IntoExpr<M, T> for &T {
    fn into_expr(self) -> Expr<M, T> {
        Expr::from_value(self.encode_operand())
    }
}

macro_rules! values {
    ($($source:ty => $target:ty),* $(,)?) => {$(
        #[diagnostic::do_not_recommend]
        impl<M> IntoExpr<M, $target> for $source {
            fn into_expr(self) -> Expr<M, $target> {
                Expr::from_value(encode_value(&self))
            }
        }
    )*};
}
values! {
    i8 => i64, i16 => i64, i32 => i64, u8 => i64, u16 => i64, u32 => i64, u64 => i64,
    f32 => f64,
}

#[diagnostic::do_not_recommend]
impl<M> IntoExpr<M, String> for &str {
    fn into_expr(self) -> Expr<M, String> {
        Expr::from_value(Ok(self.into()))
    }
}

macro_rules! operations {
    ($(
        $(#[$doc:meta])*
        $operation:ident $trait_name:ident::$output:ident by $operator_trait:ident::$method:ident;
    )*) => {$(
        $(#[$doc])*
        pub trait $trait_name<M, T> {
            /// The type of the result.
            type $output;
            #[doc(hidden)]
            fn operand(self) -> Expr<M, Self::$output>;
        }

        impl<M, T, X: $trait_name<M, T>> ops::$operator_trait<X> for Expr<M, T> {
            type Output = Expr<M, X::$output>;
            fn $method(self, other: X) -> Self::Output {
                self.combine(concat!("$", stringify!($operation)), other.operand())
            }
        }
    )*};
}
operations! {
    /// A value that can be added to an expression of the type `T`.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` cannot be added to a `{T}` of `{M}`",
        label = "not a number, a field or an expression of this type from the same document",
        note = "numbers need the same type, where integers of all widths are `i64`; a `std::time::Duration` can be added to a \
             date"
    )]
    add Plus::Sum by Add::add;
    /// A value that can be subtracted from an expression of the type `T`.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` cannot be subtracted from a `{T}` of `{M}`",
        label = "not a number, a field or an expression of this type from the same document",
        note = "numbers need the same type, where integers of all widths are `i64`; dates and `std::time::Duration`s can be \
             subtracted from dates"
    )]
    subtract Minus::Difference by Sub::sub;
    /// A value that can multiply an expression of the type `T`.
    #[diagnostic::on_unimplemented(
        message = "a `{T}` of `{M}` cannot be multiplied by `{Self}`",
        label = "not a number, a field or an expression of this type from the same document",
        note = "numbers need the same type, where integers of all widths are `i64`"
    )]
    multiply Times::Product by Mul::mul;
}

/// `Trait::Result { T, U => R }`: combining a `T` with a `U` yields an `R`.
macro_rules! arithmetic {
    ($($trait_name:ident::$output:ident { $($t:ty, $argument:ty => $result:ty;)* })*) => {$($(
        #[diagnostic::do_not_recommend]
        impl<M, X: IntoExpr<M, $argument>> $trait_name<M, $t> for X {
            type $output = $result;
            fn operand(self) -> Expr<M, $result> {
                Expr::new(self.into_expr().expression)
            }
        }
    )*)*};
}
arithmetic! {
    Plus::Sum {
        i64, i64 => i64;
        f64, f64 => f64;
        Decimal128, Decimal128 => Decimal128;
        DateTime, Duration => DateTime;
        Duration, Duration => Duration;
    }
    Minus::Difference {
        i64, i64 => i64;
        f64, f64 => f64;
        Decimal128, Decimal128 => Decimal128;
        Duration, Duration => Duration;
    }
    Times::Product {
        i64, i64 => i64;
        f64, f64 => f64;
        Decimal128, Decimal128 => Decimal128;
    }
}

/// Subtracts from a date: a date yields a duration, and a duration yields a date. With two result types, each operand type needs
/// its own implementation.
macro_rules! from_dates {
    ($([$($parameter:tt)*] $operand:ty, $argument:ty => $result:ty;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<M: Root, $($parameter)*> Minus<M, DateTime> for $operand {
            type Difference = $result;
            fn operand(self) -> Expr<M, $result> {
                let operand: Expr<M, $argument> = self.into_expr();
                Expr::new(operand.expression)
            }
        }
    )*};
}
from_dates! {
    [] DateTime, DateTime => Duration;
    [] &DateTime, DateTime => Duration;
    [] Expr<M, DateTime>, DateTime => Duration;
    [] Duration, Duration => DateTime;
    [] Expr<M, Duration>, Duration => DateTime;
}
from_dates! {
    [R, S: Single] Field<M, DateTime, R, S>, DateTime => Duration;
    [R, S: Single] OptionalPlace<M, DateTime, R, S>, DateTime => Duration;
}
