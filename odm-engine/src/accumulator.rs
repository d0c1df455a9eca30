//! Accumulators of `$group`: each computes one value from many documents.
//!
//! Each accumulator is a file of this module, listed in [`ACCUMULATORS`]. A test runs the examples
//! in the documentation of each file.

mod add_to_set;
mod avg;
mod count;
mod first;
mod keep_n;
mod last;
mod merge_objects;
mod min_max;
mod push;
mod std_dev;
mod sum;
mod top;

use std::fmt;
use std::sync::Arc;

use bson::{RawBson, RawBsonRef, RawDocument};

use crate::expression::{Computation, Environment, Value};
use crate::{Error, Result, value};

pub(crate) use avg::Avg;
pub(crate) use min_max::MinMax;
pub(crate) use std_dev::StdDev;
pub(crate) use sum::SumAccumulator;

/// The state of one accumulator for one group: takes in documents and returns a value at the end.
pub(crate) trait Accumulator: Send {
    /// Takes in a document and the value of the operand for that document.
    ///
    /// # Errors
    /// The value has a type that the accumulator cannot take.
    fn add_value(&mut self, value: Value<'_>, document: &RawDocument) -> Result<()>;

    /// Returns the accumulated value. `None` if there is no value.
    fn into_value(self: Box<Self>) -> Option<RawBson>;

    /// Returns the number of held bytes if that number grows with the documents, else 0.
    fn held_bytes(&self) -> usize {
        0
    }
}

/// A parsed accumulator: `{ $sum: "$price" }`.
pub(crate) struct AccumulatorSpec {
    name: Box<str>,
    operand: Computation,
    start: Box<StartGroup>,
}

/// Creates the state of an accumulator for a group. The argument is the group's `_id` if that is a
/// document.
type StartGroup = dyn Fn(&RawDocument) -> Result<Box<dyn Accumulator>> + Send + Sync;

/// An accumulator with its operand before parsing: `{ name: operand }`.
#[derive(Debug, Clone, Copy)]
struct AccumulatorCall<'a> {
    /// The name of the accumulator, such as `$sum`.
    name: &'a str,
    operand: RawBsonRef<'a>,
    environment: &'a Arc<Environment>,
}

/// The parser of an accumulator's operand.
type AccumulatorParser = fn(&AccumulatorCall<'_>) -> Result<AccumulatorSpec>;

/// The accumulators, sorted by name.
const ACCUMULATORS: &[(&str, AccumulatorParser)] = &[
    ("$addToSet", add_to_set::parse_add_to_set),
    ("$avg", avg::parse_avg),
    ("$bottom", top::parse_top),
    ("$bottomN", top::parse_top_n),
    ("$count", count::parse_count),
    ("$first", first::parse_first),
    ("$firstN", first::parse_first_n),
    ("$last", last::parse_last),
    ("$lastN", last::parse_last_n),
    ("$max", min_max::parse_min_max),
    ("$maxN", min_max::parse_min_max_n),
    ("$mergeObjects", merge_objects::parse_merge_objects),
    ("$min", min_max::parse_min_max),
    ("$minN", min_max::parse_min_max_n),
    ("$push", push::parse_push),
    ("$stdDevPop", std_dev::parse_std_dev),
    ("$stdDevSamp", std_dev::parse_std_dev),
    ("$sum", sum::parse_sum),
    ("$top", top::parse_top),
    ("$topN", top::parse_top_n),
];

/// Accumulators of MongoDB that the engine does not support, sorted.
const UNSUPPORTED_ACCUMULATORS: &[&str] = &["$accumulator"];

impl AccumulatorSpec {
    /// Reads the accumulator of an output field.
    ///
    /// # Errors
    /// The field has no accumulator or more than one, the accumulator is unknown, or an operand is
    /// malformed. Codes are MongoDB's.
    pub(crate) fn parse(
        field: &str,
        value: RawBsonRef<'_>,
        environment: &Arc<Environment>,
    ) -> Result<AccumulatorSpec> {
        let not_one = |code| {
            let message = format!("the field '{field}' must be computed by one accumulator");
            Error::with_server_code(code, message)
        };
        let RawBsonRef::Document(document) = value else {
            return Err(not_one(40234));
        };
        let mut fields = value::fields(document);
        let is_accumulator = |(name, _): (&str, _)| name.starts_with('$');
        if !value::fields(document).next().is_some_and(is_accumulator) {
            return Err(not_one(40234));
        }
        if field.contains('.') {
            let message = format!("the output field '{field}' cannot contain a dot");
            return Err(Error::with_server_code(40235, message));
        }
        if field.starts_with('$') {
            let message = format!("the output field '{field}' cannot start with '$'");
            return Err(Error::with_server_code(40236, message));
        }
        let (name, operand) = match (fields.next(), fields.next()) {
            (Some(only), None) => only,
            _ => return Err(not_one(40238)),
        };
        if let RawBsonRef::Array(_) = operand {
            let message = format!("the accumulator {name} takes one operand");
            return Err(Error::with_server_code(40237, message));
        }
        let at = ACCUMULATORS.binary_search_by_key(&name, |(known, _)| known);
        let Some((_, parse)) = at.ok().and_then(|at| ACCUMULATORS.get(at)) else {
            if UNSUPPORTED_ACCUMULATORS.contains(&name) {
                let message = format!("the accumulator {name} is not supported");
                return Err(Error::not_supported(message));
            }
            let message = format!("unknown group operator '{name}'");
            return Err(Error::unknown_operator(15952, message));
        };
        parse(&AccumulatorCall {
            name,
            operand,
            environment,
        })
    }

    /// Creates the accumulator's state for a group.
    ///
    /// # Errors
    /// An argument that depends on the group has an invalid value.
    pub(crate) fn start_group(&self, id: &RawDocument) -> Result<Box<dyn Accumulator>> {
        (self.start)(id)
    }

    /// Adds a document to the state of a group.
    ///
    /// # Errors
    /// The operand fails, or its value has a type that the accumulator cannot take.
    pub(crate) fn add_document(
        &self,
        accumulator: &mut dyn Accumulator,
        document: &RawDocument,
    ) -> Result<()> {
        accumulator.add_value(self.operand.evaluate(document)?, document)
    }
}

impl AccumulatorCall<'_> {
    /// Parses an accumulator of one operand.
    ///
    /// # Errors
    /// The operand cannot be parsed.
    fn unary_accumulator<A: Accumulator + 'static>(
        &self,
        start: impl Fn() -> A + Send + Sync + 'static,
    ) -> Result<AccumulatorSpec> {
        self.accumulator_spec(self.operand, move |_| Ok(Box::new(start())))
    }

    fn accumulator_spec(
        &self,
        operand: RawBsonRef<'_>,
        start: impl Fn(&RawDocument) -> Result<Box<dyn Accumulator>> + Send + Sync + 'static,
    ) -> Result<AccumulatorSpec> {
        Ok(AccumulatorSpec {
            name: self.name.into(),
            operand: Computation::parse(operand, self.environment)?,
            start: Box::new(start),
        })
    }
}

impl fmt::Debug for AccumulatorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(&self.name).field(&self.operand).finish()
    }
}

/// Returns the names of all accumulators.
#[cfg(test)]
pub(crate) fn accumulator_names() -> impl Iterator<Item = &'static str> {
    ACCUMULATORS.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_is_sorted() {
        assert!(ACCUMULATORS.is_sorted_by(|(a, _), (b, _)| a < b));
    }
}
