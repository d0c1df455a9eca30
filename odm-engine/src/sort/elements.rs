//! The order of the elements of one array, by themselves or by their fields.
//!
//! Unlike a query's, this order does not look into arrays, and what is no document sorts like one
//! without fields.

use std::cmp::Ordering;

use bson::RawBsonRef;

use crate::direction::Direction;
use crate::path::Path;
use crate::value::{self, Number};

/// `1`, `-1`, or directions of fields.
#[derive(Debug)]
pub(crate) enum ElementOrder {
    Elements(Direction),
    Fields(Vec<(Path, Direction)>),
}

/// Why a value is no [`ElementOrder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OrderFault {
    /// Neither a number nor a document.
    Type,
    /// A number other than 1 and −1.
    Number,
    /// A document that is empty, or has something else than paths and directions.
    Fields,
}

impl ElementOrder {
    pub(crate) fn parse(value: RawBsonRef<'_>) -> Result<ElementOrder, OrderFault> {
        let RawBsonRef::Document(fields) = value else {
            let number = Number::from_bson(value).ok_or(OrderFault::Type)?;
            let direction = direction(number).ok_or(OrderFault::Number)?;
            return Ok(ElementOrder::Elements(direction));
        };
        let order = |(path, value): (&str, _)| {
            let is_path = !path.split('.').any(str::is_empty);
            let direction = Number::from_bson(value).and_then(direction);
            let direction = direction.filter(|_| is_path);
            Ok((Path::new(path), direction.ok_or(OrderFault::Fields)?))
        };
        let fields: Vec<_> = value::fields(fields).map(order).collect::<Result<_, _>>()?;
        if fields.is_empty() {
            return Err(OrderFault::Fields);
        }
        Ok(ElementOrder::Fields(fields))
    }

    pub(crate) fn compare(&self, a: RawBsonRef<'_>, b: RawBsonRef<'_>) -> Ordering {
        match self {
            ElementOrder::Elements(direction) => direction.apply(value::compare(a, b)),
            ElementOrder::Fields(fields) => fields
                .iter()
                .map(|(path, direction)| {
                    direction.apply(value::compare(field(a, path), field(b, path)))
                })
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal),
        }
    }
}

impl OrderFault {
    pub(crate) fn message(self) -> &'static str {
        match self {
            OrderFault::Type => "the order of elements is 1, -1 or a document of paths with them",
            OrderFault::Number => "the order of elements is 1 or -1",
            OrderFault::Fields => "the order of elements by their fields has paths with 1 or -1",
        }
    }
}

fn direction(number: Number) -> Option<Direction> {
    match number.whole()? {
        1 => Some(Direction::Ascending),
        -1 => Some(Direction::Descending),
        _ => None,
    }
}

fn field<'v>(item: RawBsonRef<'v>, path: &Path) -> RawBsonRef<'v> {
    item.as_document()
        .and_then(|item| path.get(item))
        .unwrap_or(RawBsonRef::Null)
}
