//! What an update is to change.

use std::{
    fmt,
    ops::{Deref, DerefMut},
};

use super::Selection;
use crate::{
    Result,
    action::{Operators, Optional},
    decode,
    document::Document,
    error,
    field::{Assignable, In, Place, Settable, Writable},
    query::IntoValue,
};

/// What an update or a save is to change, and of which documents: that is the [`Selection`] to which this leads by deref.
pub struct Changes<T: Document> {
    pub(crate) selection: Selection<T>,
    pub(crate) operators: Operators,
    pub(crate) is_save: bool,
}

impl<T: Document> Changes<T> {
    /// Whether it is a [`save`](crate::Session::save) or a [`modify`](crate::Session::modify), and no `update`.
    #[must_use]
    pub fn is_save(&self) -> bool {
        self.is_save
    }

    /// The value that the field is set to, if it is; not of one that an operator such as `inc` changes, or that is set along with what it
    /// is in.
    ///
    /// # Errors
    ///
    /// [`Decode`](crate::ErrorKind::Decode), and [`Invalid`](crate::ErrorKind::Invalid) for what is no path.
    pub fn sets<P>(&self, field: impl FnOnce(T::Fields) -> P) -> Result<Option<P::Value>>
    where
        P: Place<Scope: In<T>>,
    {
        let path = field(T::fields()).path();
        let path = path.dotted().map_err(error::of_model::<T>)?;
        let set = self
            .operators
            .each()
            .rfind(|(operator, at, _)| *operator == "$set" && *at == path);
        set.map(|(_, _, value)| decode::value(value))
            .transpose()
            .map_err(|error| error::of_model::<T>(error).with_path(path))
    }

    /// Whether something is changed at the field, in it, or around it.
    pub fn touches<P>(&self, field: impl FnOnce(T::Fields) -> P) -> bool
    where
        P: Place<Scope: In<T>>,
    {
        let path = field(T::fields()).path();
        self.operators.each().any(|(operator, at, value)| {
            let renamed = match (operator, value.as_raw_bson_ref()) {
                ("$rename", bson::RawBsonRef::String(to)) => overlap(to, &path.to_string()),
                _ => false,
            };
            renamed || overlap(at, &path.to_string())
        })
    }

    /// Sets another field too, or another value than was to be set.
    pub fn set<P, V>(&mut self, field: impl FnOnce(T::Fields) -> P, value: V)
    where
        P: Place<Scope: In<T>, Role: Settable, Shape: Assignable>,
        V: IntoValue<P::Value>,
    {
        self.operators
            .set_again(&field(T::fields()).path(), value.into_value());
    }

    /// Removes another field too.
    pub fn unset<P>(&mut self, field: impl FnOnce(T::Fields) -> P)
    where
        P: Place<Scope: In<T>, Role: Settable, Shape: Writable, Value: Optional>,
    {
        self.operators.unset_again(&field(T::fields()).path());
    }
}

/// Whether one path is the other, or leads there; elements of an array may be any.
fn overlap(a: &str, b: &str) -> bool {
    let mut pairs = a.split('.').zip(b.split('.'));
    pairs.all(|(a, b)| a == b || a.starts_with('$') || b.starts_with('$'))
}

impl<T: Document> Deref for Changes<T> {
    type Target = Selection<T>;
    fn deref(&self) -> &Selection<T> {
        &self.selection
    }
}

impl<T: Document> DerefMut for Changes<T> {
    fn deref_mut(&mut self) -> &mut Selection<T> {
        &mut self.selection
    }
}

impl<T: Document> fmt::Debug for Changes<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changes = self.operators.each();
        let changes: Vec<_> = changes
            .map(|(operator, path, _)| (operator, path))
            .collect();
        f.debug_struct("Changes")
            .field("selection", &self.selection)
            .field("operators", &changes)
            .finish_non_exhaustive()
    }
}
