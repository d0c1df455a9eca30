use super::bounds::Bounds;
use crate::direction::Direction;
use crate::store::KeyRange;

/// The ranges of keys that the bounds of the first fields of an index make up: each interval of a field below each of the
/// field before it. They are made one by one.
pub(super) struct Ranges {
    /// What all keys begin with.
    prefix: Vec<u8>,
    /// Points, but for the last field.
    fields: Vec<Bounds>,
    /// How many fields are merged.
    merged: usize,
    direction: Direction,
    /// Which interval of each field is next, counted in this direction; `None` behind the last one.
    next: Option<Vec<usize>>,
}

impl Ranges {
    pub(super) fn new(
        prefix: Vec<u8>,
        fields: Vec<Bounds>,
        merged: usize,
        direction: Direction,
    ) -> Ranges {
        let is_empty = fields.iter().any(|bounds| bounds.intervals().is_empty());
        Ranges {
            next: (!is_empty).then(|| vec![0; fields.len()]),
            prefix,
            fields,
            merged,
            direction,
        }
    }

    fn advance(&mut self) {
        let Some(next) = &mut self.next else {
            return;
        };
        for (place, bounds) in next.iter_mut().zip(&self.fields).rev() {
            *place += 1;
            if *place < bounds.intervals().len() {
                return;
            }
            *place = 0;
        }
        self.next = None;
    }
}

/// Each range with the length of the beginning that the merged fields make up.
impl Iterator for Ranges {
    type Item = (KeyRange, usize);

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next.as_ref()?;
        let mut range = KeyRange::prefix(&self.prefix);
        let mut length = self.prefix.len();
        for (number, (bounds, place)) in self.fields.iter().zip(next).enumerate() {
            let intervals = bounds.intervals();
            let interval = match self.direction {
                Direction::Ascending => intervals.get(*place),
                Direction::Descending => intervals.iter().nth_back(*place),
            };
            range = interval?.below(&range.start);
            if number < self.merged {
                length = range.start.len();
            }
        }
        self.advance();
        Some((range, length))
    }
}
