//! Sort orders of the elements of an array, by value or by their fields.
//!
//! Unlike a query's sort, this order does not enter arrays. An element that is not a document sorts
//! like a document without fields.

use std::cmp::Ordering;

use bson::RawBsonRef;

use crate::collation::ValueOrder;
use crate::direction::Direction;
use crate::path::Path;
use crate::value::{self, Number};

/// A direction of the elements, or directions of their fields.
#[derive(Debug)]
pub(crate) struct ElementOrder {
    directions: ElementDirections,
    order: ValueOrder,
}

#[derive(Debug)]
enum ElementDirections {
    Elements(Direction),
    Fields(Vec<(Path, Direction)>),
}

/// The reason why a value is not an [`ElementOrder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OrderFault {
    /// The value is neither a number nor a document.
    Type,
    /// The value is a number other than 1 and −1.
    Number,
    /// The document is empty, or contains an invalid path or direction.
    Fields,
}

impl ElementOrder {
    /// Parses a direction or directions of fields.
    ///
    /// # Errors
    /// The value is no order.
    pub(crate) fn parse(
        value: RawBsonRef<'_>,
        order: &ValueOrder,
    ) -> Result<ElementOrder, OrderFault> {
        Ok(ElementOrder {
            directions: ElementDirections::parse(value)?,
            order: order.clone(),
        })
    }

    pub(crate) fn compare(&self, a: RawBsonRef<'_>, b: RawBsonRef<'_>) -> Ordering {
        match &self.directions {
            ElementDirections::Elements(direction) => direction.apply_to(self.order.compare(a, b)),
            ElementDirections::Fields(fields) => fields
                .iter()
                .map(|(path, direction)| {
                    let (a, b) = (field_or_null(a, path), field_or_null(b, path));
                    direction.apply_to(self.order.compare(a, b))
                })
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal),
        }
    }
}

impl ElementDirections {
    fn parse(value: RawBsonRef<'_>) -> Result<ElementDirections, OrderFault> {
        let RawBsonRef::Document(fields) = value else {
            let number = Number::from_bson(value).ok_or(OrderFault::Type)?;
            let direction = read_direction(number).ok_or(OrderFault::Number)?;
            return Ok(ElementDirections::Elements(direction));
        };
        let order = |(path, value): (&str, _)| {
            let is_path = !path.split('.').any(str::is_empty);
            let direction = Number::from_bson(value).and_then(read_direction);
            let direction = direction.filter(|_| is_path);
            Ok((Path::new(path), direction.ok_or(OrderFault::Fields)?))
        };
        let fields: Vec<_> = value::fields(fields).map(order).collect::<Result<_, _>>()?;
        if fields.is_empty() {
            return Err(OrderFault::Fields);
        }
        Ok(ElementDirections::Fields(fields))
    }
}

impl OrderFault {
    pub(crate) fn message(self) -> &'static str {
        match self {
            OrderFault::Type => {
                "the order of elements must be 1, -1 or a document of paths with 1 or -1"
            }
            OrderFault::Number => "the order of elements must be 1 or -1",
            OrderFault::Fields => "an order by fields must be a document of paths with 1 or -1",
        }
    }
}

fn read_direction(number: Number) -> Option<Direction> {
    match number.whole_long()? {
        1 => Some(Direction::Ascending),
        -1 => Some(Direction::Descending),
        _ => None,
    }
}

fn field_or_null<'v>(item: RawBsonRef<'v>, path: &Path) -> RawBsonRef<'v> {
    item.as_document()
        .and_then(|item| path.get(item))
        .unwrap_or(RawBsonRef::Null)
}
