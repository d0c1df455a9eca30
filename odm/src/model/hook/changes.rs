//! The changes of an update, for hooks.

use std::{
    fmt,
    ops::{Deref, DerefMut},
};

use super::Selection;
use crate::{
    Result,
    action::{OptionalValue, UpdateOperators},
    error,
    language::{
        field::{Assignable, Place, SameScope, Settable, Writable},
        query::IntoValue,
    },
    model::{decode, document::Document},
    write::footprint::Operator,
};

/// The changes of an update or a save, for hooks. Dereferences to the [`Selection`] of the documents to change.
pub struct Changes<T: Document> {
    pub(crate) selection: Selection<T>,
    pub(crate) operators: UpdateOperators,
    pub(crate) is_save: bool,
}

impl<T: Document> Changes<T> {
    /// Returns whether the write is a [`save`](crate::Session::save) or a [`modify`](crate::Session::modify) instead of an
    /// `update`.
    #[must_use]
    pub fn is_save(&self) -> bool {
        self.is_save
    }

    /// Returns the new value of a field that the write sets. Returns `None` for a field that an operator such as `inc` changes,
    /// or that is set as part of its parent.
    ///
    /// # Errors
    ///
    /// [`Decode`](crate::ErrorKind::Decode) for a value that does not fit the field, [`Invalid`](crate::ErrorKind::Invalid) for
    /// an invalid path.
    pub fn value<P>(&self, field: impl FnOnce(T::Fields) -> P) -> Result<Option<P::Value>>
    where
        P: Place<Scope: SameScope<T>>,
    {
        let path = field(T::fields()).path();
        let path = path.dotted().map_err(error::of_model::<T>)?;
        let mut changes = self.operators.path_changes();
        let set = changes.rfind(|change| change.operator == Operator::Set && change.path == path);
        set.map(|set| decode::decode_value(&set.operand.into()))
            .transpose()
            .map_err(|error| error::of_model::<T>(error).with_path(path))
    }

    /// Returns whether the write changes the field, a part of the field, or a parent of the field.
    pub fn contains<P>(&self, field: impl FnOnce(T::Fields) -> P) -> bool
    where
        P: Place<Scope: SameScope<T>>,
    {
        let place = field(T::fields()).path().to_string();
        let mut changes = self.operators.path_changes();
        changes.any(|change| {
            let mut paths = change.written_paths();
            paths.any(|path| paths_overlap(path, &place))
        })
    }

    /// Sets a further field, or replaces the new value of a field.
    pub fn set<P, V>(&mut self, field: impl FnOnce(T::Fields) -> P, value: V)
    where
        P: Place<Scope: SameScope<T>, Role: Settable, Shape: Assignable>,
        V: IntoValue<P::Value>,
    {
        self.operators
            .replace_with_set(&field(T::fields()).path(), value.into_value());
    }

    /// Removes a further field.
    pub fn unset<P>(&mut self, field: impl FnOnce(T::Fields) -> P)
    where
        P: Place<Scope: SameScope<T>, Role: Settable, Shape: Writable, Value: OptionalValue>,
    {
        self.operators
            .replace_with_unset(&field(T::fields()).path());
    }
}

/// Whether one path is a prefix of the other. A placeholder for array elements matches any part.
fn paths_overlap(a: &str, b: &str) -> bool {
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
        let changes = self.operators.path_changes();
        let changes: Vec<_> = changes
            .map(|change| (change.operator_name, change.path))
            .collect();
        f.debug_struct("Changes")
            .field("selection", &self.selection)
            .field("operators", &changes)
            .finish_non_exhaustive()
    }
}
