use super::bounds::ValueBounds;
use crate::direction::Direction;
use crate::store::KeyRange;

/// An iterator over the key ranges for the bounds of an index's first fields: the combinations of the intervals of all fields.
/// The ranges are created on demand.
pub(super) struct KeyRanges {
    /// The common prefix of all keys.
    prefix: Vec<u8>,
    /// The bounds of each field. All fields except the last have only points.
    fields: Vec<ValueBounds>,
    /// The number of leading fields whose ranges are merged.
    merged: usize,
    direction: Direction,
    /// The next interval of each field, counted in `direction`; `None` at the end.
    next: Option<Vec<usize>>,
}

impl KeyRanges {
    pub(super) fn new(
        prefix: Vec<u8>,
        fields: Vec<ValueBounds>,
        merged: usize,
        direction: Direction,
    ) -> KeyRanges {
        let is_empty = fields.iter().any(|bounds| bounds.intervals().is_empty());
        KeyRanges {
            next: (!is_empty).then(|| vec![0; fields.len()]),
            prefix,
            fields,
            merged,
            direction,
        }
    }

    fn advance_position(&mut self) {
        let Some(next) = &mut self.next else {
            return;
        };
        for (position, bounds) in next.iter_mut().zip(&self.fields).rev() {
            *position += 1;
            if *position < bounds.intervals().len() {
                return;
            }
            *position = 0;
        }
        self.next = None;
    }
}

/// Iterates over the ranges, each with the length of the prefix that consists of the merged fields.
impl Iterator for KeyRanges {
    type Item = (KeyRange, usize);

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next.as_ref()?;
        let mut range = KeyRange::with_prefix(&self.prefix);
        let mut length = self.prefix.len();
        for (number, (bounds, position)) in self.fields.iter().zip(next).enumerate() {
            let intervals = bounds.intervals();
            let interval = match self.direction {
                Direction::Ascending => intervals.get(*position),
                Direction::Descending => intervals.iter().nth_back(*position),
            };
            range = interval?.with_key_prefix(&range.start);
            if number < self.merged {
                length = range.start.len();
            }
        }
        self.advance_position();
        Some((range, length))
    }
}
