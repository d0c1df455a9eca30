//! `$slice`: a part of an array by positions.
//!
//! ```json
//! { "first": { "$slice": 3 }, "last": { "$slice": -3 }, "page": { "$slice": [20, 10] } }
//! ```

use bson::{RawArray, RawArrayBuf, RawBsonRef};

use crate::value::{self, Number};

/// The elements to keep.
#[derive(Debug, Clone, Copy)]
pub(super) enum SliceRange {
    /// The first elements, or the last elements if negative.
    Count(i64),
    /// A number of elements from a position. A negative position counts from the end.
    From { skip: i64, limit: i64 },
}

impl SliceRange {
    /// Parses a count, or an array of a position and a count. `None` for other values, which can be
    /// the expression `$slice`.
    pub(super) fn parse(operand: RawBsonRef<'_>) -> Option<SliceRange> {
        if let Some(number) = Number::from_bson(operand) {
            return Some(SliceRange::Count(truncate_to_long(number)));
        }
        let mut items = value::items(operand.as_array()?);
        let (Some(skip), Some(limit), None) = (items.next(), items.next(), items.next()) else {
            return None;
        };
        let (skip, limit) = (Number::from_bson(skip)?, Number::from_bson(limit)?);
        let (skip, limit) = (truncate_to_long(skip), truncate_to_long(limit));
        (limit > 0).then_some(SliceRange::From { skip, limit })
    }

    pub(super) fn apply_to(self, array: &RawArray) -> RawArrayBuf {
        let length = value::items(array).count();
        let from_end = |count: i64| length.saturating_sub(count_as_usize(count));
        let (skip, take) = match self {
            SliceRange::Count(count) if count < 0 => (from_end(count), length),
            SliceRange::Count(count) => (0, count_as_usize(count)),
            SliceRange::From { skip, limit } if skip < 0 => (from_end(skip), count_as_usize(limit)),
            SliceRange::From { skip, limit } => (count_as_usize(skip), count_as_usize(limit)),
        };
        value::items(array).skip(skip).take(take).collect()
    }
}

/// Truncates the number. A number out of range becomes the nearest long.
fn truncate_to_long(number: Number) -> i64 {
    number
        .truncated_long()
        .unwrap_or_else(|| number.to_double() as i64)
}

fn count_as_usize(count: i64) -> usize {
    usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{RawBson, rawbson};

    #[test]
    fn a_slice_needs_a_pair_of_numbers() {
        let is_slice = |operand: RawBson| SliceRange::parse(operand.as_raw_bson_ref()).is_some();
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
            let kept = SliceRange::parse(operand.as_raw_bson_ref())
                .unwrap()
                .apply_to(&array);
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
