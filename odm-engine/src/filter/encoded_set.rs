use bson::RawBsonRef;

use crate::direction::Direction;
use crate::error::Result;
use crate::key::value::encode;

/// Many values, as their encodings one after the other in ascending order: a value of a few bytes takes a few bytes.
#[derive(Debug)]
pub(super) struct EncodedSet {
    bytes: Vec<u8>,
    /// Where each encoding ends.
    ends: Vec<usize>,
}

impl EncodedSet {
    pub(super) fn contains(&self, value: RawBsonRef<'_>) -> bool {
        let mut sought = Vec::new();
        // What has no encoding is none of these.
        encode(value, Direction::Ascending, &mut sought).is_ok() && self.has(&sought)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len()).map(|place| self.get(place))
    }

    fn has(&self, sought: &[u8]) -> bool {
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(middle).cmp(sought) {
                std::cmp::Ordering::Equal => return true,
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        false
    }

    fn get(&self, place: usize) -> &[u8] {
        let start = place
            .checked_sub(1)
            .and_then(|before| self.ends.get(before));
        let start = start.copied().unwrap_or_default();
        let end = self.ends.get(place).copied().unwrap_or(start);
        self.bytes.get(start..end).unwrap_or_default()
    }
}

/// Encodes values in any order.
#[derive(Default)]
pub(super) struct Encoder {
    bytes: Vec<u8>,
    places: Vec<(usize, usize)>,
}

impl Encoder {
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(super) fn add(&mut self, value: RawBsonRef<'_>) -> Result<()> {
        let start = self.bytes.len();
        encode(value, Direction::Ascending, &mut self.bytes)?;
        self.places.push((start, self.bytes.len()));
        Ok(())
    }

    pub(super) fn finish(self) -> EncodedSet {
        let Encoder { bytes, mut places } = self;
        let encoding = |(start, end): &(usize, usize)| bytes.get(*start..*end).unwrap_or_default();
        places.sort_unstable_by(|one, other| encoding(one).cmp(encoding(other)));
        places.dedup_by(|one, other| encoding(one) == encoding(other));
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
