//! `$addToSet`, with `$each`: adds to an array what it does not hold.
//!
//! ```json
//! { "$addToSet": { "tags": { "$each": ["red", "round"] } } }
//! ```

use bson::{RawArrayBuf, RawBson, RawBsonRef};

use super::node::Node;
use super::operation::{Operations, Operator};
use crate::{Error, Result, value};

/// The values to add, each once.
#[derive(Debug)]
struct AddToSet(Vec<RawBson>);

pub(super) fn parse(
    operations: &mut Operations,
    path: &str,
    operand: RawBsonRef<'_>,
) -> Result<()> {
    let mut values: Vec<RawBson> = Vec::new();
    for value in each(path, operand)? {
        if !values
            .iter()
            .any(|known| value::equal(known.as_raw_bson_ref(), value))
        {
            values.push(value.into());
        }
    }
    operations.change(path, AddToSet(values))
}

fn each<'a>(path: &str, operand: RawBsonRef<'a>) -> Result<Vec<RawBsonRef<'a>>> {
    let fields = operand
        .as_document()
        .into_iter()
        .flat_map(value::fields)
        .collect::<Vec<_>>();
    match fields.as_slice() {
        [("$each", RawBsonRef::Array(array))] => Ok(value::items(array).collect()),
        [("$each", _)] => Err(Error::server(
            14,
            format!("$each in $addToSet of '{path}' takes an array"),
        )),
        [("$each", _), ..] => Err(Error::bad_value(format!(
            "$addToSet of '{path}' takes nothing beside $each"
        ))),
        _ => Ok(vec![operand]),
    }
}

impl Operator for AddToSet {
    fn existing(&self, path: &str, value: &mut Node<'_>) -> Result<bool> {
        let kind = value.with(value::type_name);
        let items = value.as_array().ok_or_else(|| {
            let message = format!("$addToSet needs an array at '{path}', which is of type {kind}");
            Error::bad_value(message)
        })?;
        let before = items.len();
        for value in &self.0 {
            let held =
                |item: &Node<'_>| item.with(|item| value::equal(item, value.as_raw_bson_ref()));
            if !items.iter().any(held) {
                items.push(Node::New(value.clone()));
            }
        }
        Ok(items.len() > before)
    }

    fn missing(&self) -> Result<Option<RawBson>> {
        let array: RawArrayBuf = self.0.iter().map(RawBson::as_raw_bson_ref).collect();
        Ok(Some(RawBson::Array(array)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::updated;
    use bson::rawdoc;

    #[test]
    fn equal_values_are_added_once() {
        let update = rawdoc! { "$addToSet": { "a": { "$each": [1.0, 3, 3] }, "b": 1, "c": [1] } };
        let changed = updated(rawdoc! { "a": [1, 1], "c": [1] }, update).unwrap();
        assert_eq!(changed, rawdoc! { "a": [1, 1, 3], "c": [1, [1]], "b": [1] });
    }
}
