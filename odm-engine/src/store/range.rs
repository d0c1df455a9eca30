use std::ops::Bound;

/// An interval of keys: `start` is included, `end` is excluded, and `None` means no upper limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub(crate) start: Vec<u8>,
    pub(crate) end: Option<Vec<u8>>,
}

impl KeyRange {
    /// Returns the range of all keys that begin with `prefix`.
    pub(crate) fn with_prefix(prefix: &[u8]) -> KeyRange {
        KeyRange {
            start: prefix.to_vec(),
            end: after_prefix(prefix),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    pub(crate) fn as_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let end = match &self.end {
            Some(end) => Bound::Excluded(end.as_slice()),
            None => Bound::Unbounded,
        };
        (Bound::Included(self.start.as_slice()), end)
    }
}

/// Returns the smallest key that is greater than every key beginning with `prefix`.
pub(crate) fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            return Some(end);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_its_last_incrementable_byte_grows() {
        assert_eq!(after_prefix(&[1, 2]), Some(vec![1, 3]));
        assert_eq!(after_prefix(&[1, 0xFF, 0xFF]), Some(vec![2]));
        assert_eq!(after_prefix(&[0xFF]), None);
        assert_eq!(after_prefix(&[]), None);
    }
}
