//! `$size`: arrays with exactly this number of elements.
//!
//! ```text
//! { "tags": { "$size": 2 } }
//! in: { "tags": ["a", "b"] }
//! in: { "tags": ["a"] }
//! in: { "tags": "ab" }
//! out: { "tags": ["a", "b"] }
//! ```

use bson::RawBsonRef;

use super::parse::FieldOperand;
use super::{OpaqueTest, ValuePredicate};
use crate::path::LeafArrayMode;
use crate::value::{self, Number};
use crate::{Error, Result};

#[derive(Debug)]
struct SizeTest(usize);

pub(super) fn parse_size(operand: &FieldOperand<'_>) -> Result<ValuePredicate> {
    let size = Number::from_bson(operand.value).and_then(Number::whole_long);
    let size = size
        .and_then(|size| u32::try_from(size).ok())
        .filter(|size| *size <= i32::MAX as u32);
    let size =
        size.ok_or_else(|| Error::bad_value("$size needs a whole number that is not negative"))?;
    Ok(ValuePredicate::from_opaque(SizeTest(size as usize)))
}

impl OpaqueTest for SizeTest {
    fn match_rank(&self) -> u8 {
        4
    }

    fn matches_value(&self, value: Option<RawBsonRef<'_>>) -> bool {
        let array = value.and_then(RawBsonRef::as_array);
        array.is_some_and(|array| value::items(array).count() == self.0)
    }

    fn leaf_mode(&self) -> LeafArrayMode {
        LeafArrayMode::Whole
    }
}

#[cfg(test)]
mod tests {
    use crate::filter::Filter;
    use bson::rawdoc;

    #[test]
    fn only_arrays_have_a_size() {
        let filter = Filter::parse(&rawdoc! { "a": { "$size": 1.0 } }).unwrap();
        assert!(filter.matches(&rawdoc! { "a": [[1, 2]] }).unwrap());
        assert!(!filter.matches(&rawdoc! { "a": [1, 2] }).unwrap());
        assert!(!filter.matches(&rawdoc! { "a": 1 }).unwrap());
        assert!(Filter::parse(&rawdoc! { "a": { "$size": -1 } }).is_err());
    }
}
