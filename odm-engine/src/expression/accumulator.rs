//! Accumulators as expression operators: one value from several operands, or from the elements of a
//! single array operand.

mod avg;
mod min_max;
mod std_dev;
mod sum;

use bson::{RawArray, RawDocumentBuf};

use super::Value;
use super::categories::OperatorRegistry;
use crate::accumulator::Accumulator;
use crate::{Result, value};

pub(super) const OPERATORS: OperatorRegistry = &[
    ("$avg", avg::parse_avg),
    ("$max", min_max::parse_max),
    ("$min", min_max::parse_min),
    ("$stdDevPop", std_dev::parse_pop),
    ("$stdDevSamp", std_dev::parse_samp),
    ("$sum", sum::parse_sum),
];

/// Runs an accumulator over operands.
fn accumulate_operands<'v>(
    operands: Vec<Value<'_>>,
    mut accumulator: impl Accumulator + 'static,
) -> Result<Value<'v>> {
    let empty = RawDocumentBuf::new();
    let only = match operands.as_slice() {
        [only] => only.as_array(),
        _ => None,
    };
    if let Some(array) = only.map(RawArray::to_owned) {
        for item in value::items(&array) {
            accumulator.add_value(item.into(), &empty)?;
        }
    } else {
        for operand in operands {
            accumulator.add_value(operand, &empty)?;
        }
    }
    Ok(Box::new(accumulator).into_value().into())
}
