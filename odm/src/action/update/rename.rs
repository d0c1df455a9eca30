//! `$rename`: a value that goes to another place.

use super::{Optional, Update, Which};
use crate::{
    Error, ErrorKind, Result,
    document::Document,
    field::{In, Keyed, Path, Place, Settable, Single},
};

impl<T: Document, K: Which> Update<T, K> {
    /// Moves the value of a field to another of the same type, which loses its own: `$rename`. The first one then reads as
    /// `None`.
    ///
    /// Where the first one is missing, both stay as they are; where it is null, so is the second one then. Neither can be
    /// in an array.
    pub fn rename<P, Q>(
        mut self,
        from: impl FnOnce(T::Fields) -> P,
        to: impl FnOnce(T::Fields) -> Q,
    ) -> Self
    where
        P: Place<Scope: In<T>, Role: Settable, Shape: Single, Value: Optional>,
        Q: Place<Scope: In<T>, Role: Settable, Shape: Single, Value = P::Value>,
    {
        let (from, to) = (from(T::fields()).path(), to(T::fields()).path());
        self.changes.add("$rename", &from, target(&from, &to));
        self.changes.rely(&to);
        self
    }

    /// Gives the value of a key of a map another key: `$rename`. A value that the other key has is lost.
    ///
    /// Where the map has no such key, it stays as it is.
    pub fn rename_key<P>(mut self, map: impl FnOnce(T::Fields) -> P, from: &str, to: &str) -> Self
    where
        P: Place<Scope: In<T>, Role: Settable, Shape: Single, Value: Keyed>,
    {
        let map = map(T::fields()).path();
        let (from, to) = (map.key(from), map.key(to));
        self.changes.add("$rename", &from, target(&from, &to));
        self
    }
}

fn target(from: &Path, to: &Path) -> Result<bson::RawBson> {
    let refuse = |message| Err(Error::new(ErrorKind::Invalid, message));
    let at_index = |path: &Path| path.parts().any(|(_, step)| step.is_some());
    if at_index(from) || at_index(to) {
        return refuse("no element of an array can be renamed, nor what is inside of one");
    }
    match (from.max(), to.max()) {
        (_, None) => {}
        (Some(from), Some(to)) if from <= to => {}
        _ => return refuse("an array can only be renamed to one that holds as many elements"),
    }
    Ok(to.dotted()?.into())
}
