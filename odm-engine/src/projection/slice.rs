//! `$slice`: some elements of an array by their positions.
//!
//! ```json
//! { "first": { "$slice": 3 }, "last": { "$slice": -3 }, "page": { "$slice": [20, 10] } }
//! ```

use bson::{RawArray, RawArrayBuf, RawBsonRef};

use crate::value::{self, Number};

/// Which elements to keep.
#[derive(Debug, Clone, Copy)]
pub(super) enum Slice {
    /// So many; the last ones, if negative.
    Count(i64),
    /// So many from a position on; counted from the end, if negative.
    From { skip: i64, limit: i64 },
}

impl Slice {
    /// Reads a count, or an array of a position and a count. `None` for anything else, which can be the
    /// expression of this name.
    pub(super) fn parse(operand: RawBsonRef<'_>) -> Option<Slice> {
        if let Some(number) = Number::from_bson(operand) {
            return Some(Slice::Count(whole(number)));
        }
        let mut items = value::items(operand.as_array()?);
        let (Some(skip), Some(limit), None) = (items.next(), items.next(), items.next()) else {
            return None;
        };
        let (skip, limit) = (Number::from_bson(skip)?, Number::from_bson(limit)?);
        let (skip, limit) = (whole(skip), whole(limit));
        (limit > 0).then_some(Slice::From { skip, limit })
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
    fn what_is_no_pair_of_numbers_is_no_slice() {
        let is_slice = |operand: RawBson| Slice::parse(operand.as_raw_bson_ref()).is_some();
        assert!(is_slice(rawbson!([1, 2])));
        assert!(!is_slice(rawbson!("a")));
        assert!(!is_slice(rawbson!([1, "a"])));
        assert!(!is_slice(rawbson!([1, 0])));
        assert!(!is_slice(rawbson!(["$a", 1])));
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
