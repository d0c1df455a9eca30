//! `$stdDevPop`, `$stdDevSamp`: the standard deviation of a population or of a sample. Values that
//! are not numbers are ignored.
//!
//! ```text
//! { "$stdDevPop": "$a" }
//! in:  { "a": 1 }
//! in:  { "a": "x" }
//! in:  { "a": 3 }
//! out: 1.0
//!
//! { "$stdDevSamp": "$a" }
//! in:  { "a": 1 }
//! out: null
//! ```

use bson::{RawBson, RawDocument};

use super::{Accumulator, AccumulatorCall, AccumulatorSpec};
use crate::Result;
use crate::expression::Value;

/// A standard deviation by Welford's method, which needs a single pass.
#[derive(Debug, Clone)]
pub(crate) struct StdDev {
    is_sample: bool,
    count: f64,
    mean: f64,
    /// The sum of the squared distances from the mean.
    squares: f64,
}

pub(super) fn parse_std_dev(call: &AccumulatorCall<'_>) -> Result<AccumulatorSpec> {
    let is_sample = call.name == "$stdDevSamp";
    call.unary_accumulator(move || StdDev::new(is_sample))
}

impl StdDev {
    pub(crate) fn new(is_sample: bool) -> StdDev {
        StdDev {
            is_sample,
            count: 0.0,
            mean: 0.0,
            squares: 0.0,
        }
    }
}

impl Accumulator for StdDev {
    fn add_value(&mut self, value: Value<'_>, _: &RawDocument) -> Result<()> {
        if let Some(number) = value.as_number() {
            let number = number.to_double();
            self.count += 1.0;
            let distance = number - self.mean;
            self.mean += distance / self.count;
            self.squares += distance * (number - self.mean);
        }
        Ok(())
    }

    fn into_value(self: Box<Self>) -> Option<RawBson> {
        let count = self.count - if self.is_sample { 1.0 } else { 0.0 };
        Some(if count > 0.0 {
            RawBson::Double((self.squares / count).sqrt())
        } else {
            RawBson::Null
        })
    }
}
