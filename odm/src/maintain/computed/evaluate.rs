//! What a field is, computed here: the same as what the [expression](super::expression) gives in the database.

#[cfg(feature = "engine")]
use bson::Decimal128;
use bson::{Bson, RawBsonRef, RawDocument};
#[cfg(feature = "engine")]
use odm_engine::decimal;

use crate::{
    Error, ErrorKind, Result, error,
    schema::{Computation, ComputedField, Kind, Term},
};

/// What a field of a document is.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) if that is beyond an int64.
pub(super) fn value(field: &ComputedField, document: &RawDocument) -> Result<Bson> {
    let Computation { kind, term } = (field.computation)();
    let scope = Scope {
        kind,
        document,
        element: None,
    };
    let value = scope.value(&term).map_err(error::encode)?;
    let value = value
        .ok_or_else(|| Error::new(ErrorKind::Invalid, super::TOO_LARGE).with_path(field.stored))?;
    Ok(match value {
        Number::Whole(number) => number.into(),
        Number::Float(number) => number.into(),
        #[cfg(feature = "engine")]
        Number::Decimal(number) => number.into(),
    })
}

/// All numbers of one computation are of one kind.
#[derive(Clone, Copy)]
enum Number {
    Whole(i64),
    Float(f64),
    #[cfg(feature = "engine")]
    Decimal(Decimal128),
}

/// Where numbers are looked for.
#[derive(Clone, Copy)]
struct Scope<'d> {
    kind: Kind,
    document: &'d RawDocument,
    element: Option<RawBsonRef<'d>>,
}

/// None is a number that is too large.
type Computed = std::result::Result<Option<Number>, bson::error::Error>;

impl Scope<'_> {
    fn value(self, term: &Term) -> Computed {
        let both = |both: &[Term; 2], compute: fn(Number, Number) -> Option<Number>| {
            let [a, b] = both;
            Ok(match (self.value(a)?, self.value(b)?) {
                (Some(a), Some(b)) => compute(a, b),
                _ => None,
            })
        };
        match term {
            Term::Whole(number) => Ok(Some(self.whole(*number))),
            Term::Float(number) => Ok(Some(Number::Float(*number))),
            Term::Value(place) => Ok(Some(self.number(at(self.document.into(), place)?))),
            Term::Inside(place) => {
                let found = match self.element {
                    Some(element) => at(element, place)?,
                    None => None,
                };
                Ok(Some(self.number(found)))
            }
            Term::Len(place) => {
                let len = match at(self.document.into(), place)? {
                    Some(RawBsonRef::Array(array)) => array.into_iter().count(),
                    Some(RawBsonRef::Document(map)) => map.iter().count(),
                    _ => 0,
                };
                Ok(Some(self.whole(i64::try_from(len).unwrap_or(i64::MAX))))
            }
            Term::Add(terms) => both(terms, add),
            Term::Subtract(terms) => both(terms, subtract),
            Term::Multiply(terms) => both(terms, multiply),
            Term::Sum(array, each) => {
                let mut sum = Some(self.whole(0));
                if let Some(RawBsonRef::Array(array)) = at(self.document.into(), array)? {
                    for element in array {
                        let scope = Scope {
                            element: Some(element?),
                            ..self
                        };
                        let own = scope.value(each)?;
                        sum = sum.zip(own).and_then(|(sum, own)| add(sum, own));
                    }
                }
                Ok(sum)
            }
        }
    }

    fn whole(self, number: i64) -> Number {
        match self.kind {
            Kind::Whole => Number::Whole(number),
            Kind::Float => Number::Float(number as f64),
            #[cfg(feature = "engine")]
            Kind::Decimal => Number::Decimal(decimal::whole(number)),
        }
    }

    /// What is no number of this kind counts as nothing.
    fn number(self, value: Option<RawBsonRef<'_>>) -> Number {
        match (value, self.kind) {
            (Some(RawBsonRef::Int32(number)), _) => self.whole(number.into()),
            (Some(RawBsonRef::Int64(number)), _) => self.whole(number),
            (Some(RawBsonRef::Double(number)), Kind::Float) => Number::Float(number),
            #[cfg(feature = "engine")]
            (Some(RawBsonRef::Decimal128(number)), Kind::Decimal) => Number::Decimal(number),
            _ => self.whole(0),
        }
    }
}

/// The value at a path of names, none of which leads through an array.
fn at<'d>(
    value: RawBsonRef<'d>,
    path: &str,
) -> std::result::Result<Option<RawBsonRef<'d>>, bson::error::Error> {
    if path.is_empty() {
        return Ok(Some(value));
    }
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let RawBsonRef::Document(document) = value else {
        return Ok(None);
    };
    match document.get(first)? {
        Some(value) => at(value, rest),
        None => Ok(None),
    }
}

fn add(a: Number, b: Number) -> Option<Number> {
    Some(match (a, b) {
        (Number::Whole(a), Number::Whole(b)) => Number::Whole(a.checked_add(b)?),
        // The server begins its sums with 0, which -0 is lost in.
        (Number::Float(a), Number::Float(b)) => Number::Float(0.0 + a + b),
        #[cfg(feature = "engine")]
        (Number::Decimal(a), Number::Decimal(b)) => Number::Decimal(decimal::add(a, b)),
        _ => return None,
    })
}

fn subtract(a: Number, b: Number) -> Option<Number> {
    Some(match (a, b) {
        (Number::Whole(a), Number::Whole(b)) => Number::Whole(a.checked_sub(b)?),
        (Number::Float(a), Number::Float(b)) => Number::Float(a - b),
        #[cfg(feature = "engine")]
        (Number::Decimal(a), Number::Decimal(b)) => Number::Decimal(decimal::subtract(a, b)),
        _ => return None,
    })
}

fn multiply(a: Number, b: Number) -> Option<Number> {
    Some(match (a, b) {
        (Number::Whole(a), Number::Whole(b)) => Number::Whole(a.checked_mul(b)?),
        (Number::Float(a), Number::Float(b)) => Number::Float(a * b),
        #[cfg(feature = "engine")]
        (Number::Decimal(a), Number::Decimal(b)) => Number::Decimal(decimal::multiply(a, b)),
        _ => return None,
    })
}
