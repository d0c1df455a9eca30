//! The places that an update changed, for change events.

use std::collections::{BTreeMap, BTreeSet};

use super::target::{PathName, dotted_path};
use crate::change::UpdatedPath;

/// The array elements that `$[]` and `$[name]` select in a document.
#[derive(Debug, Default)]
pub(super) struct SelectedElements(BTreeMap<Vec<PathName>, BTreeSet<usize>>);

/// A path whose value counts as modified.
#[derive(Debug)]
pub(super) struct ChangedPath {
    pub(super) path: Vec<PathName>,
    /// See [`UpdatedPath::appended`].
    pub(super) appended: bool,
}

impl SelectedElements {
    /// Records a selected element of the array at a path.
    pub(super) fn record_element(&mut self, array: &[PathName], index: usize) {
        match self.0.get_mut(array) {
            Some(indexes) => {
                indexes.insert(index);
            }
            None => {
                self.0.insert(array.to_vec(), BTreeSet::from([index]));
            }
        }
    }

    /// Returns the path to the outermost array with several selected elements, and the path to the
    /// element.
    fn outermost_array<'p>(
        &self,
        path: &'p [PathName],
    ) -> Option<(&'p [PathName], &'p [PathName])> {
        let lengths = 1..path.len();
        let arrays = lengths.filter_map(|length| Some((path.get(..length)?, path.get(..=length)?)));
        let mut several = arrays.filter(|(array, _)| {
            let indexes = self.0.get(*array);
            indexes.is_some_and(|indexes| indexes.len() > 1)
        });
        several.next()
    }
}

/// Converts changed paths, which must be sorted, to places.
///
/// As on MongoDB, an array with several elements selected by `$[…]` is one place if several
/// elements changed. If only one element changed, the element is the place.
pub(super) fn to_places(
    changed: &[ChangedPath],
    selections: &SelectedElements,
) -> Vec<UpdatedPath> {
    let mut places: Vec<UpdatedPath> = Vec::with_capacity(changed.len());
    let mut last: Option<&[PathName]> = None;
    for at in 0..changed.len() {
        let Some(ChangedPath { path, appended }) = changed.get(at) else {
            break;
        };
        let (path, appended) = match selections.outermost_array(path) {
            None => (path.as_slice(), *appended),
            Some((array, element)) => {
                // Paths into the same array are adjacent, and so are paths into the same element.
                let into_array = |other: &ChangedPath| other.path.starts_with(array);
                let after = changed.get(at..).unwrap_or_default().iter();
                let mut same = after.take_while(|other| into_array(other));
                let is_only = same.all(|other| other.path.starts_with(element));
                (if is_only { element } else { array }, false)
            }
        };
        // Skip a path inside the previous place, or equal to that place.
        if last.is_some_and(|last| path.starts_with(last)) {
            continue;
        }
        last = Some(path);
        places.push(UpdatedPath {
            path: dotted_path(path),
            appended,
        });
    }
    places
}
