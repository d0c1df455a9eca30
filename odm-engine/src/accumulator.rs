//! Accumulators: one value from many documents, as in `$group`.
//!
//! Each is a file of this module, listed in [`ACCUMULATORS`]; the examples in the documentation of each
//! file are run by a test.

mod add_to_set;
mod avg;
mod count;
mod first;
mod last;
mod merge_objects;
mod min_max;
mod push;
mod several;
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
pub(crate) use sum::Sum;

/// What takes documents in, one after the other, and gives a value at the end.
pub(crate) trait Accumulator: Send {
    /// Takes in a document and the value of the operand for it.
    ///
    /// # Errors
    /// A value that this cannot take.
    fn add(&mut self, value: Value<'_>, document: &RawDocument) -> Result<()>;

    /// The value, or none.
    fn finish(self: Box<Self>) -> Option<RawBson>;

    /// How many bytes it holds, if that grows with the documents.
    fn bytes(&self) -> usize {
        0
    }
}

/// A parsed accumulator: `{ $sum: "$price" }`.
pub(crate) struct Accumulation {
    name: Box<str>,
    operand: Computation,
    start: Box<Start>,
}

/// Begins to accumulate for a group, of which the `_id` is given if that is a document.
type Start = dyn Fn(&RawDocument) -> Result<Box<dyn Accumulator>> + Send + Sync;

/// `{ name: operand }`, not yet understood.
#[derive(Debug, Clone, Copy)]
struct Call<'a> {
    /// The accumulator, as `$sum`.
    name: &'a str,
    operand: RawBsonRef<'a>,
    environment: &'a Arc<Environment>,
}

/// How an accumulator reads its operand.
type Parser = fn(&Call<'_>) -> Result<Accumulation>;

/// The accumulators, sorted by name.
const ACCUMULATORS: &[(&str, Parser)] = &[
    ("$addToSet", add_to_set::parse),
    ("$avg", avg::parse),
    ("$bottom", top::parse),
    ("$bottomN", top::parse_several),
    ("$count", count::parse),
    ("$first", first::parse),
    ("$firstN", first::parse_several),
    ("$last", last::parse),
    ("$lastN", last::parse_several),
    ("$max", min_max::parse),
    ("$maxN", min_max::parse_several),
    ("$mergeObjects", merge_objects::parse),
    ("$min", min_max::parse),
    ("$minN", min_max::parse_several),
    ("$push", push::parse),
    ("$stdDevPop", std_dev::parse),
    ("$stdDevSamp", std_dev::parse),
    ("$sum", sum::parse),
    ("$top", top::parse),
    ("$topN", top::parse_several),
];

/// What MongoDB has and the engine has not, sorted.
const NOT_SUPPORTED: &[&str] = &["$accumulator"];

impl Accumulation {
    /// Reads the accumulator of an output field.
    ///
    /// # Errors
    /// Not one accumulator, an unknown one, malformed operands, with MongoDB's codes.
    pub(crate) fn parse(
        field: &str,
        value: RawBsonRef<'_>,
        environment: &Arc<Environment>,
    ) -> Result<Accumulation> {
        let not_one = |code| {
            let message = format!("the field '{field}' must be computed by one accumulator");
            Error::server(code, message)
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
            let message = format!("the name '{field}' of a field cannot have a dot in it");
            return Err(Error::server(40235, message));
        }
        if field.starts_with('$') {
            let message = format!("the name '{field}' of a field cannot start with '$'");
            return Err(Error::server(40236, message));
        }
        let (name, operand) = match (fields.next(), fields.next()) {
            (Some(only), None) => only,
            _ => return Err(not_one(40238)),
        };
        if let RawBsonRef::Array(_) = operand {
            let message = format!("the accumulator {name} takes one operand");
            return Err(Error::server(40237, message));
        }
        let at = ACCUMULATORS.binary_search_by_key(&name, |(known, _)| known);
        let Some((_, parse)) = at.ok().and_then(|at| ACCUMULATORS.get(at)) else {
            if NOT_SUPPORTED.contains(&name) {
                let message = format!("the accumulator {name} is not supported");
                return Err(Error::not_supported(message));
            }
            let message = format!("unknown group operator '{name}'");
            return Err(Error::unknown_operator(15952, message));
        };
        parse(&Call {
            name,
            operand,
            environment,
        })
    }

    /// Begins to accumulate for a group.
    ///
    /// # Errors
    /// Arguments that depend on the group and do not fit.
    pub(crate) fn start(&self, id: &RawDocument) -> Result<Box<dyn Accumulator>> {
        (self.start)(id)
    }

    /// Takes in a document.
    ///
    /// # Errors
    /// What the operand fails with; a value that the accumulator cannot take.
    pub(crate) fn add(
        &self,
        accumulator: &mut dyn Accumulator,
        document: &RawDocument,
    ) -> Result<()> {
        accumulator.add(self.operand.of(document)?, document)
    }
}

impl Call<'_> {
    /// An accumulator of one operand.
    ///
    /// # Errors
    /// What is wrong with the operand.
    fn unary<A: Accumulator + 'static>(
        &self,
        start: impl Fn() -> A + Send + Sync + 'static,
    ) -> Result<Accumulation> {
        self.accumulation(self.operand, move |_| Ok(Box::new(start())))
    }

    fn accumulation(
        &self,
        operand: RawBsonRef<'_>,
        start: impl Fn(&RawDocument) -> Result<Box<dyn Accumulator>> + Send + Sync + 'static,
    ) -> Result<Accumulation> {
        Ok(Accumulation {
            name: self.name.into(),
            operand: Computation::parse(operand, self.environment)?,
            start: Box::new(start),
        })
    }
}

impl fmt::Debug for Accumulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(&self.name).field(&self.operand).finish()
    }
}

/// The names of all accumulators.
#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
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
