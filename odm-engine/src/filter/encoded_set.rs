use bson::RawBsonRef;

use crate::direction::Direction;
use crate::error::Result;
use crate::key::value::encode_value;

/// A large set of values, stored as sorted encodings in one buffer. A value of a few bytes takes a
/// few bytes.
#[derive(Debug)]
pub(super) struct EncodedSet {
    bytes: Vec<u8>,
    /// The end offset of each encoding.
    ends: Vec<usize>,
}

impl EncodedSet {
    pub(super) fn contains(&self, value: RawBsonRef<'_>) -> bool {
        let mut encoded = Vec::new();
        // A value without an encoding cannot be in the set.
        encode_value(value, Direction::Ascending, &mut encoded).is_ok()
            && self.contains_encoding(&encoded)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len()).map(|place| self.encoding_at(place))
    }

    fn contains_encoding(&self, encoded: &[u8]) -> bool {
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.encoding_at(middle).cmp(encoded) {
                std::cmp::Ordering::Equal => return true,
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        false
    }

    fn encoding_at(&self, place: usize) -> &[u8] {
        let start = place
            .checked_sub(1)
            .and_then(|before| self.ends.get(before));
        let start = start.copied().unwrap_or_default();
        let end = self.ends.get(place).copied().unwrap_or(start);
        self.bytes.get(start..end).unwrap_or_default()
    }
}

/// Builds an [`EncodedSet`] from values in any order.
#[derive(Default)]
pub(super) struct EncodedSetBuilder {
    bytes: Vec<u8>,
    places: Vec<(usize, usize)>,
}

impl EncodedSetBuilder {
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(super) fn add_value(&mut self, value: RawBsonRef<'_>) -> Result<()> {
        let start = self.bytes.len();
        encode_value(value, Direction::Ascending, &mut self.bytes)?;
        self.places.push((start, self.bytes.len()));
        Ok(())
    }

    pub(super) fn finish(self) -> EncodedSet {
        let EncodedSetBuilder { bytes, mut places } = self;
        let encoding = |(start, end): &(usize, usize)| bytes.get(*start..*end).unwrap_or_default();
        places.sort_unstable_by(|a, b| encoding(a).cmp(encoding(b)));
        places.dedup_by(|a, b| encoding(a) == encoding(b));
        let mut sorted = Vec::with_capacity(bytes.len());
        let mut ends = Vec::with_capacity(places.len());
        for place in &places {
            sorted.extend_from_slice(encoding(place));
            ends.push(sorted.len());
        }
        EncodedSet {
            bytes: sorted,
            ends,
        }
    }
}
