//! `$rename`: moves a value to another field.

use super::{OptionalValue, TargetKind, Update};
use crate::{
    Error, ErrorKind, Result,
    language::field::{IntoMapKey, Keyed, Path, Place, SameScope, Settable, Single},
    model::document::Document,
    write::footprint::Operator,
};

impl<T: Document, K: TargetKind> Update<T, K> {
    /// Moves the value of a field to another field of the same type, and replaces the value there: `$rename`. The source field
    /// then reads as `None`.
    ///
    /// If the source field is missing, both fields stay unchanged. If the source field is null, the target becomes null. Neither
    /// field can be inside an array.
    pub fn rename<P, Q>(
        mut self,
        from: impl FnOnce(T::Fields) -> P,
        to: impl FnOnce(T::Fields) -> Q,
    ) -> Self
    where
        P: Place<Scope: SameScope<T>, Role: Settable, Shape: Single, Value: OptionalValue>,
        Q: Place<Scope: SameScope<T>, Role: Settable, Shape: Single, Value = P::Value>,
    {
        let (from, to) = (from(T::fields()).path(), to(T::fields()).path());
        self.changes
            .add_operator(Operator::Rename, &from, rename_target(&from, &to));
        self.changes.require_variant(&to);
        self
    }

    /// Renames a key of a map: `$rename`. A value under the new key is replaced.
    ///
    /// If the map has no such key, the map stays unchanged.
    pub fn rename_key<P, N>(mut self, map: impl FnOnce(T::Fields) -> P, from: N, to: N) -> Self
    where
        P: Place<Scope: SameScope<T>, Role: Settable, Shape: Single, Value: Keyed>,
        N: IntoMapKey<<P::Value as Keyed>::Key>,
    {
        let map = map(T::fields()).path();
        let (from, to) = (map.at_map_key(from), map.at_map_key(to));
        self.changes
            .add_operator(Operator::Rename, &from, rename_target(&from, &to));
        self
    }
}

fn rename_target(from: &Path, to: &Path) -> Result<bson::RawBson> {
    let invalid = |message| Err(Error::new(ErrorKind::Invalid, message));
    let has_index = |path: &Path| path.split_at_steps().any(|(_, step)| step.is_some());
    if has_index(from) || has_index(to) {
        return invalid(
            "`rename` cannot move an array element or a field inside an array: use `set` and `unset`",
        );
    }
    match (from.max(), to.max()) {
        (_, None) => {}
        (Some(from), Some(to)) if from <= to => {}
        _ => {
            return invalid(
                "the target array of a `rename` has a smaller `max` than the source array: raise the `max` of the target",
            );
        }
    }
    Ok(to.dotted()?.into())
}
