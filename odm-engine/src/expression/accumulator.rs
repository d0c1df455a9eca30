//! Accumulators as operators: one value from several operands, or from the elements of an array that is the only one.

mod avg;
mod min_max;
mod std_dev;
mod sum;

use bson::{RawArray, RawDocumentBuf};

use super::Value;
use super::categories::Registry;
use crate::accumulator::Accumulator;
use crate::{Result, value};

pub(super) const OPERATORS: Registry = &[
    ("$avg", avg::parse),
    ("$max", min_max::parse_max),
    ("$min", min_max::parse_min),
    ("$stdDevPop", std_dev::parse_pop),
    ("$stdDevSamp", std_dev::parse_samp),
    ("$sum", sum::parse),
];

/// What an accumulator makes of operands.
fn accumulate<'v>(
    operands: Vec<Value<'_>>,
    mut accumulator: impl Accumulator + 'static,
) -> Result<Value<'v>> {
    let nothing = RawDocumentBuf::new();
    let only = match operands.as_slice() {
        [only] => only.array(),
        _ => None,
    };
    if let Some(array) = only.map(RawArray::to_owned) {
        for item in value::items(&array) {
            accumulator.add(item.into(), &nothing)?;
        }
    } else {
        for operand in operands {
            accumulator.add(operand, &nothing)?;
        }
    }
    Ok(Box::new(accumulator).finish().into())
}
