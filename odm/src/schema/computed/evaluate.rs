//! Computing a field in this process, with the same result as the expression in the database.

#[cfg(feature = "engine")]
use bson::Decimal128;
use bson::{Bson, Document, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
#[cfg(feature = "engine")]
use odm_engine::decimal;

use crate::{
    Error, ErrorKind, Result, error,
    language::query::append_field,
    model::stored::{parse_document, to_raw_document, to_raw_value},
    schema::{Computation, ComputedField, Model, NumberKind, Term},
};

/// The message for a result outside the range of an int64.
pub(crate) const OUT_OF_RANGE_MESSAGE: &str = "the computed value does not fit into an int64, and nothing was written: write smaller values to the fields of the formula";

/// Computes the fields of a document before an insert.
pub(crate) fn compute_fields(model: &Model, document: &mut RawDocumentBuf) -> Result<()> {
    for field in model.computed {
        let value = evaluate_field(field, document).map_err(error::naming_model(model))?;
        *document = with_field(document, field.stored, to_raw_value(&value)?)?;
    }
    Ok(())
}

/// Computes the fields of a decoded document.
pub(crate) fn compute_document(model: &Model, document: &mut Document) -> Result<()> {
    if model.computed.is_empty() {
        return Ok(());
    }
    let mut raw = to_raw_document(document)?;
    compute_fields(model, &mut raw)?;
    *document = parse_document(&raw)?;
    Ok(())
}

/// Returns the document with a new value in a field.
pub(crate) fn with_field(raw: &RawDocument, field: &str, value: RawBson) -> Result<RawDocumentBuf> {
    let mut result = RawDocumentBuf::new();
    let mut new = Some(value);
    for entry in raw.iter() {
        let (name, old) = entry.map_err(error::from_bson)?;
        match new.take_if(|_| name == field) {
            Some(new) => append_field(&mut result, field, new)?,
            None => append_field(&mut result, name.as_str(), RawBson::from(old))?,
        }
    }
    if let Some(new) = new {
        append_field(&mut result, field, new)?;
    }
    Ok(result)
}

/// Returns the value of a computed field.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) if the value does not fit into an int64.
pub(crate) fn evaluate_field(field: &ComputedField, document: &RawDocument) -> Result<Bson> {
    let Computation { kind, term } = (field.computation)();
    let scope = EvaluationScope {
        kind,
        document,
        element: None,
    };
    let value = scope.evaluate_term(&term).map_err(error::from_bson)?;
    let value = value.ok_or_else(|| {
        Error::new(ErrorKind::Invalid, OUT_OF_RANGE_MESSAGE).with_path(field.stored)
    })?;
    Ok(match value {
        ComputedNumber::Whole(number) => number.into(),
        ComputedNumber::Float(number) => number.into(),
        #[cfg(feature = "engine")]
        ComputedNumber::Decimal(number) => number.into(),
    })
}

/// A number. All numbers of one computation have the same kind.
#[derive(Clone, Copy)]
enum ComputedNumber {
    Whole(i64),
    Float(f64),
    #[cfg(feature = "engine")]
    Decimal(Decimal128),
}

/// The document and the array element that a term reads.
#[derive(Clone, Copy)]
struct EvaluationScope<'d> {
    kind: NumberKind,
    document: &'d RawDocument,
    element: Option<RawBsonRef<'d>>,
}

/// `None` is an overflow.
type EvaluationResult = std::result::Result<Option<ComputedNumber>, bson::error::Error>;

impl EvaluationScope<'_> {
    fn evaluate_term(self, term: &Term) -> EvaluationResult {
        let binary =
            |binary: &[Term; 2],
             compute: fn(ComputedNumber, ComputedNumber) -> Option<ComputedNumber>| {
                let [a, b] = binary;
                Ok(match (self.evaluate_term(a)?, self.evaluate_term(b)?) {
                    (Some(a), Some(b)) => compute(a, b),
                    _ => None,
                })
            };
        match term {
            Term::Whole(number) => Ok(Some(self.integer_of_kind(*number))),
            Term::Float(number) => Ok(Some(ComputedNumber::Float(*number))),
            Term::Value(path) => Ok(Some(
                self.number_or_zero(value_at(self.document.into(), path)?),
            )),
            Term::ElementValue(path) => {
                let value = match self.element {
                    Some(element) => value_at(element, path)?,
                    None => None,
                };
                Ok(Some(self.number_or_zero(value)))
            }
            Term::Len(path) => {
                let len = match value_at(self.document.into(), path)? {
                    Some(RawBsonRef::Array(array)) => array.into_iter().count(),
                    Some(RawBsonRef::Document(map)) => map.iter().count(),
                    _ => 0,
                };
                Ok(Some(
                    self.integer_of_kind(i64::try_from(len).unwrap_or(i64::MAX)),
                ))
            }
            Term::Add(terms) => binary(terms, checked_add),
            Term::Subtract(terms) => binary(terms, checked_subtract),
            Term::Multiply(terms) => binary(terms, checked_multiply),
            Term::Sum(array, each) => {
                let mut sum = Some(self.integer_of_kind(0));
                if let Some(RawBsonRef::Array(array)) = value_at(self.document.into(), array)? {
                    for element in array {
                        let scope = EvaluationScope {
                            element: Some(element?),
                            ..self
                        };
                        let element_value = scope.evaluate_term(each)?;
                        sum = sum
                            .zip(element_value)
                            .and_then(|(sum, element_value)| checked_add(sum, element_value));
                    }
                }
                Ok(sum)
            }
        }
    }

    fn integer_of_kind(self, number: i64) -> ComputedNumber {
        match self.kind {
            NumberKind::Whole => ComputedNumber::Whole(number),
            NumberKind::Float => ComputedNumber::Float(number as f64),
            #[cfg(feature = "engine")]
            NumberKind::Decimal => ComputedNumber::Decimal(decimal::from_integer(number)),
        }
    }

    /// Converts a value. Any value that is not a number of this kind counts as zero.
    fn number_or_zero(self, value: Option<RawBsonRef<'_>>) -> ComputedNumber {
        match (value, self.kind) {
            (Some(RawBsonRef::Int32(number)), _) => self.integer_of_kind(number.into()),
            (Some(RawBsonRef::Int64(number)), _) => self.integer_of_kind(number),
            (Some(RawBsonRef::Double(number)), NumberKind::Float) => ComputedNumber::Float(number),
            #[cfg(feature = "engine")]
            (Some(RawBsonRef::Decimal128(number)), NumberKind::Decimal) => {
                ComputedNumber::Decimal(number)
            }
            _ => self.integer_of_kind(0),
        }
    }
}

/// Returns the value at a path of field names. The path does not pass through arrays.
fn value_at<'d>(
    value: RawBsonRef<'d>,
    path: &str,
) -> std::result::Result<Option<RawBsonRef<'d>>, bson::error::Error> {
    if path.is_empty() {
        return Ok(Some(value));
    }
    let (first, suffix) = path.split_once('.').unwrap_or((path, ""));
    let RawBsonRef::Document(document) = value else {
        return Ok(None);
    };
    match document.get(first)? {
        Some(value) => value_at(value, suffix),
        None => Ok(None),
    }
}

fn checked_add(a: ComputedNumber, b: ComputedNumber) -> Option<ComputedNumber> {
    Some(match (a, b) {
        (ComputedNumber::Whole(a), ComputedNumber::Whole(b)) => {
            ComputedNumber::Whole(a.checked_add(b)?)
        }
        // The server starts sums with 0, so -0 becomes 0.
        (ComputedNumber::Float(a), ComputedNumber::Float(b)) => ComputedNumber::Float(0.0 + a + b),
        #[cfg(feature = "engine")]
        (ComputedNumber::Decimal(a), ComputedNumber::Decimal(b)) => {
            ComputedNumber::Decimal(decimal::add(a, b))
        }
        _ => return None,
    })
}

fn checked_subtract(a: ComputedNumber, b: ComputedNumber) -> Option<ComputedNumber> {
    Some(match (a, b) {
        (ComputedNumber::Whole(a), ComputedNumber::Whole(b)) => {
            ComputedNumber::Whole(a.checked_sub(b)?)
        }
        (ComputedNumber::Float(a), ComputedNumber::Float(b)) => ComputedNumber::Float(a - b),
        #[cfg(feature = "engine")]
        (ComputedNumber::Decimal(a), ComputedNumber::Decimal(b)) => {
            ComputedNumber::Decimal(decimal::subtract(a, b))
        }
        _ => return None,
    })
}

fn checked_multiply(a: ComputedNumber, b: ComputedNumber) -> Option<ComputedNumber> {
    Some(match (a, b) {
        (ComputedNumber::Whole(a), ComputedNumber::Whole(b)) => {
            ComputedNumber::Whole(a.checked_mul(b)?)
        }
        (ComputedNumber::Float(a), ComputedNumber::Float(b)) => ComputedNumber::Float(a * b),
        #[cfg(feature = "engine")]
        (ComputedNumber::Decimal(a), ComputedNumber::Decimal(b)) => {
            ComputedNumber::Decimal(decimal::multiply(a, b))
        }
        _ => return None,
    })
}
