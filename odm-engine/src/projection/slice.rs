//! `$slice`: some elements of an array by their positions.
//!
//! ```json
//! { "first": { "$slice": 3 }, "last": { "$slice": -3 }, "page": { "$slice": [20, 10] } }
//! ```

use bson::{RawArray, RawArrayBuf, RawBsonRef};

use crate::value::{self, Number};
use crate::{Error, Result};

/// Which elements to keep.
#[derive(Debug, Clone, Copy)]
pub(super) enum Slice {
    /// So many; the last ones, if negative.
    Count(i64),
    /// So many from a position on; counted from the end, if negative.
    From { skip: i64, limit: i64 },
}

impl Slice {
    /// Reads a count, or an array of a position and a count.
    ///
    /// # Errors
    /// Anything else (code 28667), and arrays that are no such pair (code 28724). What MongoDB computes is not
    /// supported.
    pub(super) fn parse(operand: RawBsonRef<'_>) -> Result<Slice> {
        let malformed = |code| {
            let message = "$slice takes a number, or a position and a number above zero";
            Error::server(code, message)
        };
        if let Some(number) = Number::from_bson(operand) {
            return Ok(Slice::Count(whole(number)));
        }
        let array = operand.as_array().ok_or_else(|| malformed(28667))?;
        let mut items = value::items(array);
        let (Some(skip), Some(limit), None) = (items.next(), items.next(), items.next()) else {
            return Err(malformed(28667));
        };
        let is_expression = |item| match item {
            RawBsonRef::Null | RawBsonRef::Undefined => true,
            RawBsonRef::String(text) => text.starts_with('$'),
            _ => false,
        };
        if is_expression(skip) || is_expression(limit) {
            let message = "the expression $slice is not supported; give two numbers";
            return Err(Error::not_supported(message));
        }
        match (Number::from_bson(skip), Number::from_bson(limit).map(whole)) {
            (Some(skip), Some(limit)) if limit > 0 => Ok(Slice::From {
                skip: whole(skip),
                limit,
            }),
            _ => Err(malformed(28724)),
        }
    }

    pub(super) fn apply(self, array: &RawArray) -> RawArrayBuf {
        let length = value::items(array).count();
        let from_end = |count: i64| length.saturating_sub(size(count));
        let (skip, take) = match self {
            Slice::Count(count) if count < 0 => (from_end(count), length),
            Slice::Count(count) => (0, size(count)),
            Slice::From { skip, limit } if skip < 0 => (from_end(skip), size(limit)),
            Slice::From { skip, limit } => (size(skip), size(limit)),
        };
        value::items(array).skip(skip).take(take).collect()
    }
}

/// The number without its fraction, or the nearest that fits.
fn whole(number: Number) -> i64 {
    number
        .truncated()
        .unwrap_or_else(|| number.to_double() as i64)
}

fn size(count: i64) -> usize {
    usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{RawBson, rawbson};

    #[test]
    fn what_is_no_pair_of_numbers_is_refused() {
        let refused = |operand: RawBson| Slice::parse(operand.as_raw_bson_ref()).unwrap_err();
        assert_eq!(refused(rawbson!("a")).code(), Some(28667));
        assert_eq!(refused(rawbson!([1, "a"])).code(), Some(28724));
        assert!(refused(rawbson!([0, null])).is_not_supported());
        assert!(refused(rawbson!(["$a", 1])).is_not_supported());
    }

    #[test]
    fn slices_count_from_either_end() {
        let sliced = |operand: RawBson| {
            let array: RawArrayBuf = [1, 2, 3, 4].into_iter().collect();
            let kept = Slice::parse(operand.as_raw_bson_ref())
                .unwrap()
                .apply(&array);
            value::items(&kept)
                .filter_map(RawBsonRef::as_i32)
                .collect::<Vec<_>>()
        };
        assert_eq!(sliced(rawbson!(2)), [1, 2]);
        assert_eq!(sliced(rawbson!(-1)), [4]);
        assert_eq!(sliced(rawbson!([1, 2])), [2, 3]);
        assert_eq!(sliced(rawbson!([-3, 2])), [2, 3]);
        assert_eq!(sliced(rawbson!([9, 2])), Vec::<i32>::new());
    }
}
