//! `$pullAll`: takes every element off an array that equals one of some values.
//!
//! ```text
//! { "$pullAll": { "tags": ["old", "used"] } }
//! in: { "tags": ["old", "new", "used"] }
//! out: { "tags": ["new"] }
//! ```

use bson::{RawBson, RawBsonRef};

use super::node::Node;
use super::operation::{Operations, Operator};
use super::pull::retain;
use crate::{Error, Result, value};

/// The values, sorted.
#[derive(Debug)]
struct PullAll(Vec<RawBson>);

pub(super) fn parse(
    operations: &mut Operations,
    path: &str,
    operand: RawBsonRef<'_>,
) -> Result<()> {
    let array = operand
        .as_array()
        .ok_or_else(|| Error::bad_value(format!("$pullAll of '{path}' takes an array")))?;
    let mut values: Vec<_> = value::items(array).map(RawBson::from).collect();
    values.sort_by(|a, b| value::compare(a.as_raw_bson_ref(), b.as_raw_bson_ref()));
    operations.change(path, PullAll(values))
}

impl Operator for PullAll {
    fn existing(&self, path: &str, value: &mut Node<'_>) -> Result<bool> {
        retain(value, "$pullAll", path, |item| {
            self.0
                .binary_search_by(|value| value::compare(value.as_raw_bson_ref(), item))
                .is_err()
        })
    }

    fn missing(&self) -> Result<Option<RawBson>> {
        Ok(None)
    }

    fn only_removes(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::updated;
    use bson::rawdoc;

    #[test]
    fn all_of_the_values_go() {
        let update = rawdoc! { "$pullAll": { "a": [1, { "x": 1 }] } };
        let document = rawdoc! { "a": [1, 2, { "x": 1 }, 1.0, { "x": 1, "y": 2 }] };
        assert_eq!(
            updated(document, update).unwrap(),
            rawdoc! { "a": [2, { "x": 1, "y": 2 }] }
        );
    }
}
