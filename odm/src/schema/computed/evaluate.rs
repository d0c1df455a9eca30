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
    schema::{Computation, ComputationKind, ComputedField, Model, Term, computed::WHITE_SPACE},
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
        TermValue::Whole(number) => number.into(),
        TermValue::Float(number) => number.into(),
        #[cfg(feature = "engine")]
        TermValue::Decimal(number) => number.into(),
        TermValue::Text(text) => text.into(),
        TermValue::Stored(value) => value,
    })
}

/// The value of a term. All numbers of one computation have the same kind.
enum TermValue {
    Whole(i64),
    Float(f64),
    #[cfg(feature = "engine")]
    Decimal(Decimal128),
    Text(String),
    Stored(Bson),
}

impl TermValue {
    fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            // The derive accepts only texts in a computed text.
            _ => String::new(),
        }
    }
}

/// The document and the array element that a term reads.
#[derive(Clone, Copy)]
struct EvaluationScope<'d> {
    kind: ComputationKind,
    document: &'d RawDocument,
    element: Option<RawBsonRef<'d>>,
}

/// `None` is an overflow of a whole number, or a zero divisor in a float.
type EvaluationResult = std::result::Result<Option<TermValue>, bson::error::Error>;

impl EvaluationScope<'_> {
    fn evaluate_term(self, term: &Term) -> EvaluationResult {
        let binary = |binary: &[Term; 2],
                      compute: fn(TermValue, TermValue) -> Option<TermValue>| {
            let [a, b] = binary;
            Ok(match (self.evaluate_term(a)?, self.evaluate_term(b)?) {
                (Some(a), Some(b)) => compute(a, b),
                _ => None,
            })
        };
        match term {
            Term::Whole(number) => Ok(Some(self.integer_of_kind(*number))),
            Term::Float(number) => Ok(Some(TermValue::Float(*number))),
            Term::Text(text) => Ok(Some(TermValue::Text(text.clone()))),
            Term::Null => Ok(Some(TermValue::Stored(Bson::Null))),
            Term::Value(path) => Ok(Some(
                self.value_or_zero(value_at(self.document.into(), path)?),
            )),
            Term::ElementValue(path) => {
                let value = match self.element {
                    Some(element) => value_at(element, path)?,
                    None => None,
                };
                Ok(Some(self.value_or_zero(value)))
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
            Term::Divide(terms) => binary(terms, checked_divide),
            Term::IfZeroDivisor(terms) => {
                let [term, default] = &**terms;
                match self.evaluate_term(term)? {
                    None => self.evaluate_term(default),
                    value => Ok(value),
                }
            }
            Term::Lower(term) => self.evaluate_text(term, |text| text.to_ascii_lowercase()),
            Term::Trim(term) => self.evaluate_text(term, |text| {
                text.trim_matches(|c| WHITE_SPACE.contains(c)).to_owned()
            }),
            Term::Concat(terms) => {
                let mut all = String::new();
                for term in terms {
                    all.extend(self.evaluate_term(term)?.map(TermValue::into_text));
                }
                Ok(Some(TermValue::Text(all)))
            }
            Term::First(array, path) => {
                let first = match value_at(self.document.into(), array)? {
                    Some(RawBsonRef::Array(array)) => array.into_iter().next().transpose()?,
                    _ => None,
                };
                let value = first.map(|first| value_at(first, path)).transpose()?;
                let value = value.flatten().map_or(Ok(Bson::Null), Bson::try_from)?;
                Ok(Some(TermValue::Stored(value)))
            }
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

    fn evaluate_text(self, term: &Term, change: fn(&str) -> String) -> EvaluationResult {
        let value = self.evaluate_term(term)?;
        Ok(value.map(|value| TermValue::Text(change(&value.into_text()))))
    }

    fn integer_of_kind(self, number: i64) -> TermValue {
        match self.kind {
            ComputationKind::Whole | ComputationKind::Stored => TermValue::Whole(number),
            ComputationKind::Float => TermValue::Float(number as f64),
            #[cfg(feature = "engine")]
            ComputationKind::Decimal => TermValue::Decimal(decimal::from_integer(number)),
            ComputationKind::Text => TermValue::Text(String::new()),
        }
    }

    /// Converts a value. Any value of another kind counts as zero, or as an empty text.
    fn value_or_zero(self, value: Option<RawBsonRef<'_>>) -> TermValue {
        match (value, self.kind) {
            (Some(RawBsonRef::Int32(number)), _) => self.integer_of_kind(number.into()),
            (Some(RawBsonRef::Int64(number)), _) => self.integer_of_kind(number),
            (Some(RawBsonRef::Double(number)), ComputationKind::Float) => TermValue::Float(number),
            #[cfg(feature = "engine")]
            (Some(RawBsonRef::Decimal128(number)), ComputationKind::Decimal) => {
                TermValue::Decimal(number)
            }
            (Some(RawBsonRef::String(text)), ComputationKind::Text) => {
                TermValue::Text(text.to_owned())
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

fn checked_add(a: TermValue, b: TermValue) -> Option<TermValue> {
    Some(match (a, b) {
        (TermValue::Whole(a), TermValue::Whole(b)) => TermValue::Whole(a.checked_add(b)?),
        // The server starts sums with 0, so -0 becomes 0.
        (TermValue::Float(a), TermValue::Float(b)) => TermValue::Float(0.0 + a + b),
        #[cfg(feature = "engine")]
        (TermValue::Decimal(a), TermValue::Decimal(b)) => TermValue::Decimal(decimal::add(a, b)),
        _ => return None,
    })
}

fn checked_subtract(a: TermValue, b: TermValue) -> Option<TermValue> {
    Some(match (a, b) {
        (TermValue::Whole(a), TermValue::Whole(b)) => TermValue::Whole(a.checked_sub(b)?),
        (TermValue::Float(a), TermValue::Float(b)) => TermValue::Float(a - b),
        #[cfg(feature = "engine")]
        (TermValue::Decimal(a), TermValue::Decimal(b)) => {
            TermValue::Decimal(decimal::subtract(a, b))
        }
        _ => return None,
    })
}

fn checked_multiply(a: TermValue, b: TermValue) -> Option<TermValue> {
    Some(match (a, b) {
        (TermValue::Whole(a), TermValue::Whole(b)) => TermValue::Whole(a.checked_mul(b)?),
        (TermValue::Float(a), TermValue::Float(b)) => TermValue::Float(a * b),
        #[cfg(feature = "engine")]
        (TermValue::Decimal(a), TermValue::Decimal(b)) => {
            TermValue::Decimal(decimal::multiply(a, b))
        }
        _ => return None,
    })
}

/// Returns the quotient. `None` if the divisor is 0.
fn checked_divide(a: TermValue, b: TermValue) -> Option<TermValue> {
    match (a, b) {
        (TermValue::Float(a), TermValue::Float(b)) if b != 0.0 => Some(TermValue::Float(a / b)),
        _ => None,
    }
}
