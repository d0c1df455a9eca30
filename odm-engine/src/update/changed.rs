//! Which places an update has changed, as change events tell it.

use std::collections::{BTreeMap, BTreeSet};

use super::target::{Name, dotted};
use crate::change::Place;

/// The array elements that `$[]` and `$[name]` stand for in a document.
#[derive(Debug, Default)]
pub(super) struct Fans(BTreeMap<Vec<Name>, BTreeSet<usize>>);

/// A path whose value counts as modified.
#[derive(Debug)]
pub(super) struct Changed {
    pub(super) path: Vec<Name>,
    /// See [`Place::appended`].
    pub(super) appended: bool,
}

impl Fans {
    /// Notes an element of the array at a path.
    pub(super) fn add(&mut self, array: &[Name], index: usize) {
        match self.0.get_mut(array) {
            Some(indexes) => {
                indexes.insert(index);
            }
            None => {
                self.0.insert(array.to_vec(), BTreeSet::from([index]));
            }
        }
    }

    /// The path to the outermost array of which several elements are meant, and to the element.
    fn outermost<'p>(&self, path: &'p [Name]) -> Option<(&'p [Name], &'p [Name])> {
        let lengths = 1..path.len();
        let arrays = lengths.filter_map(|length| Some((path.get(..length)?, path.get(..=length)?)));
        let mut several = arrays.filter(|(array, _)| {
            let indexes = self.0.get(*array);
            indexes.is_some_and(|indexes| indexes.len() > 1)
        });
        several.next()
    }
}

/// The places of changed paths, which are in order.
///
/// As on MongoDB, an array of which `$[…]` means several elements is one place if several of them have changed; if only
/// one has, that is one, whatever has changed within it.
pub(super) fn places(changed: &[Changed], fans: &Fans) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::with_capacity(changed.len());
    let mut last: Option<&[Name]> = None;
    for at in 0..changed.len() {
        let Some(Changed { path, appended }) = changed.get(at) else {
            break;
        };
        let (path, appended) = match fans.outermost(path) {
            None => (path.as_slice(), *appended),
            Some((array, element)) => {
                // The paths into one array are next to each other, and so are those into one element.
                let into_array = |other: &Changed| other.path.starts_with(array);
                let after = changed.get(at..).unwrap_or_default().iter();
                let mut same = after.take_while(|other| into_array(other));
                let is_only = same.all(|other| other.path.starts_with(element));
                (if is_only { element } else { array }, false)
            }
        };
        // A place that holds the one before it, or is it, has been told.
        if last.is_some_and(|last| path.starts_with(last)) {
            continue;
        }
        last = Some(path);
        places.push(Place {
            path: dotted(path),
            appended,
        });
    }
    places
}
