//! Expressions: fields compared with fields of the same document, and computed with.

use std::{marker::PhantomData, ops, time::Duration};

use bson::{
    Binary, Bson, DateTime, Decimal128, RawArrayBuf, RawBson, Timestamp, Uuid, oid::ObjectId,
};

use super::{
    filter::{Filter, Node},
    render::document,
    value::encode,
};
use crate::{
    Error, ErrorKind, Result,
    document::{Document, Embedded, Ref, Stored},
    field::{Field, Maybe, Ordered, Path, Single, Step},
};

/// A value that the backend computes from the fields of a document of the model `M`: `a.credits().value() - a.debits()`.
///
/// Made by [`Field::value`] and [`Array::len`](crate::field::Array::len); a comparison makes a [`Filter`] of it, to be
/// combined with others by `&`, `|` and `!`. Where it stands beside conditions that an index serves, only the documents that
/// these find are computed with.
///
/// Integers of all widths are one type, `i64`; a sum or product beyond that is a floating-point number. The difference of
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
/// Other than a condition on one field, a comparison holds between any two values, also between those of different types:
/// MongoDB has one order for them all, in which a missing field comes before null, null before numbers, numbers before
/// texts, and so on. So two fields that are both missing are equal, one that is missing and one that is null are not, and a
/// field that is missing or null is *less* than any number. What is computed with missing or null is null. Where a field
/// may have no value, ask for one as well, as `dissolved` above.
///
/// What is computed with a value of another type, in a document that does not fit its model, makes the whole operation
/// fail on the backend.
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
    /// Equal: `$eq`.
    pub fn eq(self, other: impl IntoExpr<M, T>) -> Filter<M> {
        self.compare("$eq", other)
    }

    /// Not equal: `$ne`.
    pub fn ne(self, other: impl IntoExpr<M, T>) -> Filter<M> {
        self.compare("$ne", other)
    }

    /// Greater: `$gt`.
    pub fn gt(self, other: impl IntoExpr<M, T>) -> Filter<M>
    where
        T: Ordered,
    {
        self.compare("$gt", other)
    }

    /// Greater or equal: `$gte`.
    pub fn gte(self, other: impl IntoExpr<M, T>) -> Filter<M>
    where
        T: Ordered,
    {
        self.compare("$gte", other)
    }

    /// Less: `$lt`.
    pub fn lt(self, other: impl IntoExpr<M, T>) -> Filter<M>
    where
        T: Ordered,
    {
        self.compare("$lt", other)
    }

    /// Less or equal: `$lte`.
    pub fn lte(self, other: impl IntoExpr<M, T>) -> Filter<M>
    where
        T: Ordered,
    {
        self.compare("$lte", other)
    }

    fn compare(self, operator: &'static str, other: impl IntoExpr<M, T>) -> Filter<M> {
        let compared: Expr<M, bool> = self.with(operator, other.into_expr());
        Filter::from_node(match compared.expression {
            Ok(expression) => Node::Expression(expression),
            Err(error) => Node::Refused(error),
        })
    }

    fn with<U, V>(self, operator: &'static str, other: Expr<M, U>) -> Expr<M, V> {
        let both = || call(operator, [self.expression?, other.expression?]);
        Expr::new(both())
    }

    fn new(expression: Result<RawBson>) -> Self {
        Self {
            expression,
            of: PhantomData,
        }
    }

    /// The value at a place.
    pub(crate) fn field(path: &Path) -> Self {
        Self::new(read(path))
    }

    /// A value, which stays one whatever it looks like.
    fn literal(value: Result<RawBson>) -> Self {
        Self::new(value.and_then(|value| Ok(document("$literal", value)?.into())))
    }
}

impl<M> Expr<M, i64> {
    /// The number of elements of an array, of which nothing has none.
    pub(crate) fn len(path: &Path) -> Self {
        let len = || {
            let array = read(path)?;
            let is_array = call("$isArray", [array.clone()])?;
            let size = document("$size", array)?;
            call("$cond", [is_array, size.into(), 0.into()])
        };
        Self::new(len())
    }
}

/// The place as an expression reads it: a number in a path names no element there, so each is asked for by `$arrayElemAt`.
fn read(path: &Path) -> Result<RawBson> {
    let dotted = path.dotted()?;
    path.refuse_variant()?;
    let mut element: Option<RawBson> = None;
    for (part, step) in path.parts() {
        let here = match element {
            None => format!("${part}").into(),
            Some(element) if part.is_empty() => element,
            Some(element) => {
                let mut binding = document("vars", document("element", element)?)?;
                super::render::append(&mut binding, "in", format!("$$element.{part}"))?;
                document("$let", binding)?.into()
            }
        };
        element = Some(match step {
            None => here,
            Some(Step::At(index)) => {
                let index = i32::try_from(*index).map_err(|_| {
                    let message = "no array has so many elements";
                    Error::new(ErrorKind::Invalid, message).with_path(dotted)
                })?;
                call("$arrayElemAt", [here, index.into()])?
            }
            Some(_) => {
                let message = "an expression takes one value, not one for each element";
                return Err(Error::new(ErrorKind::Invalid, message).with_path(dotted));
            }
        });
    }
    element.ok_or_else(|| Error::new(ErrorKind::Invalid, "the document itself is no value"))
}

fn call<const N: usize>(operator: &str, operands: [RawBson; N]) -> Result<RawBson> {
    let operands: RawArrayBuf = operands.into_iter().collect();
    Ok(document(operator, operands)?.into())
}

/// What has fields that can be compared with each other: a document, not the inside of an array element.
#[diagnostic::on_unimplemented(
    message = "a condition on an element of an array cannot compare fields with each other",
    label = "not a field of the document",
    note = "MongoDB has no `$expr` there; compare with a value, or take one element of the document by its index: `p.comments().at(0).votes().value()`"
)]
pub trait Root {}
#[diagnostic::do_not_recommend]
impl<T: Document> Root for T {}

/// Types whose values can be compared with those of another field.
#[diagnostic::on_unimplemented(
    message = "fields of the type `{Self}` cannot be compared with each other",
    label = "no value to compute with"
)]
pub trait Operand: Stored {
    /// The type in an expression: `i64` for integers of all widths.
    type As: 'static;
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
    ($($t:ty => $as:ty),* $(,)?) => {$(
        #[diagnostic::do_not_recommend]
        impl Operand for $t {
            type As = $as;
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

/// What an expression of the type `T` can be compared and computed with: a value, a field of the same document, another
/// expression.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be compared or computed with a `{T}` of `{M}`",
    label = "neither such a value, nor such a field of the same document",
    note = "numbers go with numbers of the same type, where integers of all widths are `i64`; dates with dates, and what is between two of them is a `std::time::Duration`"
)]
pub trait IntoExpr<M, T> {
    /// The expression.
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
        Expr::field(&crate::field::Place::path(&self))
    }
}

impl<M: Root, T: Operand, R, S: Single> IntoExpr<M, T::As> for Maybe<M, T, R, S> {
    fn into_expr(self) -> Expr<M, T::As> {
        Expr::field(&crate::field::Place::path(&self))
    }
}

#[diagnostic::do_not_recommend]
impl<M, T: Operand<As = T>> IntoExpr<M, T> for T {
    fn into_expr(self) -> Expr<M, T> {
        Expr::literal(encode(&self))
    }
}

#[diagnostic::do_not_recommend]
impl<M, T: Operand<As = T>> IntoExpr<M, T> for &T {
    fn into_expr(self) -> Expr<M, T> {
        Expr::literal(encode(self))
    }
}

macro_rules! values {
    ($($given:ty => $as:ty),* $(,)?) => {$(
        #[diagnostic::do_not_recommend]
        impl<M> IntoExpr<M, $as> for $given {
            fn into_expr(self) -> Expr<M, $as> {
                Expr::literal(encode(&self))
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
        Expr::literal(Ok(self.into()))
    }
}

#[diagnostic::do_not_recommend]
impl<M> IntoExpr<M, Duration> for Duration {
    fn into_expr(self) -> Expr<M, Duration> {
        Expr::literal(millis(self))
    }
}

/// Dates have milliseconds, and so has what is between them.
fn millis(duration: Duration) -> Result<RawBson> {
    match i64::try_from(duration.as_millis()) {
        Ok(millis) if duration.subsec_nanos().is_multiple_of(1_000_000) => Ok(millis.into()),
        _ => Err(Error::new(
            ErrorKind::Invalid,
            format!("{duration:?} is no whole number of milliseconds, as dates have them"),
        )),
    }
}

macro_rules! operations {
    ($(
        $(#[$doc:meta])*
        $operation:ident $plus:ident::$sum:ident by $add:ident::$method:ident;
    )*) => {$(
        $(#[$doc])*
        pub trait $plus<M, T> {
            /// The type of the result.
            type $sum;
            #[doc(hidden)]
            fn operand(self) -> Expr<M, Self::$sum>;
        }

        impl<M, T, X: $plus<M, T>> ops::$add<X> for Expr<M, T> {
            type Output = Expr<M, X::$sum>;
            fn $method(self, other: X) -> Self::Output {
                self.with(concat!("$", stringify!($operation)), other.operand())
            }
        }
    )*};
}
operations! {
    /// What can be added to an expression of the type `T`.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` cannot be added to a `{T}` of `{M}`",
        label = "neither such a number, nor such a field of the same document",
        note = "numbers are added to numbers of the same type, where integers of all widths are `i64`; a `std::time::Duration` is added to a date"
    )]
    add Plus::Sum by Add::add;
    /// What can be subtracted from an expression of the type `T`.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` cannot be subtracted from a `{T}` of `{M}`",
        label = "neither such a number, nor such a field of the same document",
        note = "numbers are subtracted from numbers of the same type, where integers of all widths are `i64`; dates and `std::time::Duration`s from dates"
    )]
    subtract Minus::Difference by Sub::sub;
    /// What an expression of the type `T` can be multiplied by.
    #[diagnostic::on_unimplemented(
        message = "a `{T}` of `{M}` cannot be multiplied by `{Self}`",
        label = "neither such a number, nor such a field of the same document",
        note = "numbers are multiplied by numbers of the same type, where integers of all widths are `i64`"
    )]
    multiply Times::Product by Mul::mul;
}

/// `Trait::Result for T by U`: a `U` goes with a `T` and makes a result.
macro_rules! arithmetic {
    ($($plus:ident::$sum:ident { $($t:ty, $by:ty => $result:ty;)* })*) => {$($(
        #[diagnostic::do_not_recommend]
        impl<M, X: IntoExpr<M, $by>> $plus<M, $t> for X {
            type $sum = $result;
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

/// From a date, another date can be subtracted or a duration: two types of results, so each operand stands for itself.
macro_rules! from_dates {
    ($([$($parameter:tt)*] $operand:ty, $by:ty => $result:ty;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<M: Root, $($parameter)*> Minus<M, DateTime> for $operand {
            type Difference = $result;
            fn operand(self) -> Expr<M, $result> {
                let operand: Expr<M, $by> = self.into_expr();
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
    [R, S: Single] Maybe<M, DateTime, R, S>, DateTime => Duration;
}

#[diagnostic::do_not_recommend]
impl Ordered for Duration {}
