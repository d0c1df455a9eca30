//! `$pullAll`: takes every element off an array that equals one of some values.
//!
//! ```json
//! { "$pullAll": { "tags": ["old", "used"] } }
//! ```

use bson::{RawBson, RawBsonRef};

use super::node::Node;
use super::operation::{Operations, Operator};
use super::pull::retain;
use crate::{Error, Result, value};

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
    operations.change(
        path,
        PullAll(value::items(array).map(RawBson::from).collect()),
    )
}

impl Operator for PullAll {
    fn existing(&self, path: &str, value: &mut Node<'_>) -> Result<bool> {
        retain(value, "$pullAll", path, |item| {
            !self
                .0
                .iter()
                .any(|value| value::equal(value.as_raw_bson_ref(), item))
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
