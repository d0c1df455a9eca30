//! The operations of an update, and their application to a document.

use std::cell::Cell;
use std::collections::{BTreeSet, HashSet};
use std::fmt;

use bson::{RawBson, RawDocument};

use super::array_filter::ArrayFilters;
use super::changed_places::{ChangedPath, SelectedElements, to_places};
use super::check_id_untouched;
use super::node::{EditOutcome, PathEdit, UpdateNode};
use super::rename::{self, OriginalDocument};
use super::set::Set;
use super::target::{PathName, UpdatePath, dotted_path, length_at};
use crate::change::UpdatedPath;
use crate::collation::ValueOrder;
use crate::error::{Error, Result, code};
use crate::filter::Filter;
use crate::path::Path;
use crate::value;

/// The operations of an update, in the order of their paths.
#[derive(Debug, Default)]
pub(super) struct UpdateOperations {
    all: Vec<PathOperation>,
    /// The paths of the operations.
    targets: BTreeSet<UpdatePath>,
    array_filters: ArrayFilters,
    /// Whether there are few operations, all of them [static](StaticOperation).
    are_static: bool,
    order: ValueOrder,
}

/// An operator on a path of names, outside of the `_id`.
#[derive(Clone, Copy)]
pub(super) struct StaticOperation<'o> {
    pub(super) path: &'o UpdatePath,
    /// The path as text.
    pub(super) dotted: &'o str,
    pub(super) operator: &'o dyn UpdateOperator,
}

#[derive(Debug)]
struct PathOperation {
    target: UpdatePath,
    /// The target as text.
    dotted: String,
    action: PathAction,
    /// Whether the operation runs only if an upsert inserts.
    on_insert: bool,
}

#[derive(Debug)]
enum PathAction {
    /// An operator with the maximum number of bytes that the operator adds at each place.
    Change(Box<dyn UpdateOperator>, usize),
    Remove,
    /// Receives the value that another path had before the update.
    MoveFrom(Path),
    /// Removes the value, which a rename moves to another path.
    MoveAway(Path),
}

/// An update operator on a value.
pub(super) trait UpdateOperator: fmt::Debug + Send + Sync {
    /// Changes an existing value. Returns whether the value counts as modified.
    ///
    /// # Errors
    /// The value has a type that the operator does not support.
    fn change_existing(&self, path: &str, value: &mut UpdateNode<'_>) -> Result<bool>;

    /// Returns the value for a missing field. `None` leaves the field missing.
    fn initial_value(&self) -> Result<Option<RawBson>>;

    /// Returns whether the operator only appends elements to an array of the given length.
    fn appends_to(&self, _length: &dyn Fn() -> usize) -> bool {
        false
    }

    /// Returns whether the operator only removes elements from an array.
    fn only_removes(&self) -> bool {
        false
    }

    /// Returns the number of bytes that the operator may add. 0 if the number is small.
    fn added_bytes(&self) -> usize {
        0
    }
}

/// The maximum number of bytes that an update may add to one document, intermediate states
/// included, as on MongoDB.
const MAX_ADDED_BYTES: usize = 64 << 20;

/// The maximum number of operations that search the bytes of a document, each on its own. More operations need a tree, which finds
/// fields by name.
const MAX_STATIC_OPERATIONS: usize = 8;

/// The maximum number of places that an update may change in one document.
const MAX_CHANGED_PLACES: usize = 5_000_000;

impl UpdateOperations {
    pub(super) fn new(array_filters: ArrayFilters, order: &ValueOrder) -> UpdateOperations {
        UpdateOperations {
            array_filters,
            order: order.clone(),
            ..UpdateOperations::default()
        }
    }

    /// The order of values in comparisons.
    pub(super) fn order(&self) -> &ValueOrder {
        &self.order
    }

    pub(super) fn push_change(
        &mut self,
        path: &str,
        operator: impl UpdateOperator + 'static,
    ) -> Result<()> {
        let size = operator.added_bytes();
        self.push_operation(path, PathAction::Change(Box::new(operator), size), false)
    }

    pub(super) fn push_change_on_insert(
        &mut self,
        path: &str,
        operator: impl UpdateOperator + 'static,
    ) -> Result<()> {
        let size = operator.added_bytes();
        self.push_operation(path, PathAction::Change(Box::new(operator), size), true)
    }

    pub(super) fn push_remove(&mut self, path: &str) -> Result<()> {
        self.push_operation(path, PathAction::Remove, false)
    }

    pub(super) fn push_rename(&mut self, from: &str, target: &str) -> Result<()> {
        // As on MongoDB, a conflict of the source path with an earlier path is reported before
        // errors in the pair of paths.
        self.push_operation(from, PathAction::MoveAway(Path::new(from)), false)?;
        if UpdatePath::parse(from)?.has_dynamic_parts()
            || UpdatePath::parse(target)?.has_dynamic_parts()
        {
            return Err(Error::bad_value(format!(
                "$rename of '{from}' cannot use '$' in its paths"
            )));
        }
        rename::ensure_separate_paths(from, target)?;
        self.push_operation(target, PathAction::MoveFrom(Path::new(from)), false)
    }

    /// Sorts the operations and checks the array filters.
    ///
    /// # Errors
    /// An array filter is not used (code 9).
    pub(super) fn into_sorted(mut self) -> Result<UpdateOperations> {
        self.all.sort_by(|a, b| a.target.cmp(&b.target));
        let identifiers = || {
            self.all
                .iter()
                .flat_map(|operation| operation.target.filter_names())
        };
        let used_names: HashSet<_> = identifiers().collect();
        let unused = self
            .array_filters
            .filter_names()
            .find(|name| !used_names.contains(name));
        if let Some(unused) = unused {
            let message = format!("the array filter '{unused}' is not used in the update");
            return Err(Error::with_server_code(9, message));
        }
        let added_bytes = self.all.iter().map(|operation| match &operation.action {
            PathAction::Change(_, size) => *size,
            _ => 0,
        });
        self.are_static = self.all.len() <= MAX_STATIC_OPERATIONS
            && added_bytes.sum::<usize>() <= MAX_ADDED_BYTES
            && self
                .all
                .iter()
                .all(|operation| operation.as_static().is_some());
        Ok(self)
    }

    /// Returns the operations on an existing document, if there are few operations and all of them are static.
    pub(super) fn static_operations(&self) -> Option<impl Iterator<Item = StaticOperation<'_>>> {
        let of_updates = self.all.iter().filter(|operation| !operation.on_insert);
        self.are_static
            .then(|| of_updates.filter_map(PathOperation::as_static))
    }

    /// Runs the operations on `root`, the tree of a document that `filter` matched. Returns the
    /// places that count as modified.
    pub(super) fn apply_to(
        &self,
        document: &RawDocument,
        filter: &Filter,
        root: &mut UpdateNode<'_>,
        inserting: bool,
    ) -> Result<Vec<UpdatedPath>> {
        let mut position = None;
        let mut selections = SelectedElements::default();
        let mut matched = || match position {
            Some(known) => Ok(known),
            None => Ok(*position.insert(filter.matched_position(document)?)),
        };
        let applies = |operation: &PathOperation| inserting || !operation.on_insert;
        let mut resolved: Vec<(Vec<PathName>, Result<()>, &PathOperation)> =
            Vec::with_capacity(self.all.len());
        for operation in &self.all {
            let mut unused = SelectedElements::default();
            let selections = if applies(operation) {
                &mut selections
            } else {
                &mut unused
            };
            let target = &operation.target;
            let paths =
                target.resolve_paths(document, &mut matched, &self.array_filters, selections)?;
            resolved.extend(paths.into_iter().map(|(path, end)| (path, end, operation)));
            if resolved.len() > MAX_CHANGED_PLACES {
                let message = format!("the update changes more than {MAX_CHANGED_PLACES} places");
                return Err(Error::with_server_code(code::BUFFER_TOO_LARGE, message));
            }
        }
        resolved.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        let mut work = UpdateBudget {
            before: OriginalDocument::new(document),
            remaining_bytes: Cell::new(MAX_ADDED_BYTES),
        };
        let mut changed = Vec::with_capacity(resolved.len());
        let mut rest = resolved.as_slice();
        // MongoDB reports the first failure in this order.
        while let Some(((path, end, operation), after)) = rest.split_first() {
            rest = after;
            end.clone()?;
            if let Some((_, Ok(()), _)) = after.first().filter(|(next, ..)| next.starts_with(path))
            {
                let message = format!("the update changes '{}' twice", dotted_path(path));
                return Err(Error::with_server_code(40, message));
            }
            if !applies(operation) {
                continue;
            }
            let action = &operation.action;
            if !action.run_on(path, &mut work, root)? {
                continue;
            }
            if path.first().is_some_and(|first| first.as_str() == "_id") {
                // An upsert may set an `_id` if the filter gives none.
                if !inserting || value::get(document, "_id").is_some() {
                    check_id_untouched(document, &root.clone().into_document())?;
                }
            }
            // As on MongoDB, an upsert may insert top-level names with `$` that an update may not
            // set.
            if !inserting {
                action.ensure_no_dollar_field(path, document)?;
            }
            let appended = action.only_appends(path, document);
            changed.push(ChangedPath {
                path: path.clone(),
                appended,
            });
        }
        Ok(to_places(&changed, &selections))
    }

    /// # Errors
    /// The path is invalid, overlaps with an earlier path (code 40), or refers to a missing array
    /// filter (code 2).
    fn push_operation(&mut self, path: &str, action: PathAction, on_insert: bool) -> Result<()> {
        let target = UpdatePath::parse(path)?;
        if let Some(unknown) = target
            .filter_names()
            .find(|name| !self.array_filters.contains(name))
        {
            let message = format!(
                "the update path uses '$[{unknown}]', but no array filter is named '{unknown}'"
            );
            return Err(Error::bad_value(message));
        }
        // The paths in the set do not overlap. A path that overlaps with a path of the set is
        // therefore adjacent to that path.
        let neighbours = [
            self.targets.range(..&target).next_back(),
            self.targets.range(&target..).next(),
        ];
        let overlaps = |other: &&UpdatePath| other.conflicts_with(&target);
        if let Some(other) = neighbours.into_iter().flatten().find(overlaps) {
            let message = format!("updating the path '{target}' conflicts with '{other}'");
            return Err(Error::with_server_code(40, message));
        }
        self.targets.insert(target.clone());
        self.all.push(PathOperation {
            target,
            dotted: path.to_owned(),
            action,
            on_insert,
        });
        Ok(())
    }
}

impl PathOperation {
    fn as_static(&self) -> Option<StaticOperation<'_>> {
        let PathAction::Change(operator, _) = &self.action else {
            return None;
        };
        let mut names = self.target.names();
        let first = names.next()??;
        let is_static =
            first != "_id" && !first.starts_with('$') && names.all(|name| name.is_some());
        is_static.then_some(StaticOperation {
            path: &self.target,
            dotted: &self.dotted,
            operator: operator.as_ref(),
        })
    }
}

/// The state shared by the operations on one document.
struct UpdateBudget<'d> {
    before: OriginalDocument<'d>,
    /// The number of bytes that may still be added.
    remaining_bytes: Cell<usize>,
}

impl PathAction {
    /// Checks that the operation neither created nor replaced a top-level field whose name starts
    /// with `$`.
    fn ensure_no_dollar_field(&self, path: &[PathName], before: &RawDocument) -> Result<()> {
        let Some((first, rest)) = path.split_first() else {
            return Ok(());
        };
        if !first.as_str().starts_with('$') {
            return Ok(());
        }
        let is_new = value::get(before, first.as_str()).is_none();
        let gives_value = match self {
            PathAction::Change(operator, _) => !operator.only_removes(),
            PathAction::MoveFrom(_) => true,
            PathAction::Remove | PathAction::MoveAway(_) => false,
        };
        if gives_value && (is_new || rest.is_empty()) {
            let path = dotted_path(path);
            let message = format!("field names cannot start with '$', as in '{path}'");
            return Err(Error::with_server_code(52, message));
        }
        Ok(())
    }

    fn run_on(
        &self,
        path: &[PathName],
        work: &mut UpdateBudget<'_>,
        root: &mut UpdateNode<'_>,
    ) -> Result<bool> {
        match self {
            PathAction::Change(operator, size) => root.edit_path(
                path,
                &ChangeEdit {
                    operator: operator.as_ref(),
                    size: *size,
                    path,
                    remaining_bytes: &work.remaining_bytes,
                },
            ),
            PathAction::Remove => root.edit_path(path, &RemoveEdit),
            PathAction::MoveFrom(from) => match rename::source_value(&mut work.before, from)? {
                Some(value) => {
                    rename::check_destination(&mut work.before, path)?;
                    let set = Set::new(value.into());
                    root.edit_path(
                        path,
                        &ChangeEdit {
                            operator: &set,
                            size: set.added_bytes(),
                            path,
                            remaining_bytes: &work.remaining_bytes,
                        },
                    )
                }
                None => Ok(false),
            },
            // An error of the source is reported by the operation on the destination.
            PathAction::MoveAway(from) => match rename::source_value(&mut work.before, from) {
                Ok(Some(_)) => root.edit_path(path, &RemoveEdit),
                Ok(None) | Err(_) => Ok(false),
            },
        }
    }

    /// Returns whether the operation only appends elements to the array at the path in `before`.
    fn only_appends(&self, path: &[PathName], before: &RawDocument) -> bool {
        match self {
            PathAction::Change(operator, _) => operator.appends_to(&|| length_at(before, path)),
            PathAction::Remove | PathAction::MoveFrom(_) | PathAction::MoveAway(_) => false,
        }
    }
}

/// The edit of an operator on one path.
struct ChangeEdit<'o> {
    operator: &'o dyn UpdateOperator,
    /// The number of bytes that the operator may add.
    size: usize,
    path: &'o [PathName],
    /// The number of bytes that the update may still add.
    remaining_bytes: &'o Cell<usize>,
}

impl PathEdit for ChangeEdit<'_> {
    fn edit_existing(&self, value: &mut UpdateNode<'_>) -> Result<EditOutcome> {
        self.spend_bytes(self.size)?;
        let modified = self
            .operator
            .change_existing(&dotted_path(self.path), value)?;
        Ok(if modified {
            EditOutcome::Modified
        } else {
            EditOutcome::Same
        })
    }

    fn missing_value(&self) -> Result<Option<RawBson>> {
        self.spend_bytes(self.size)?;
        self.operator.initial_value()
    }

    fn needs_path(&self) -> bool {
        true
    }

    fn spend_bytes(&self, bytes: usize) -> Result<()> {
        let remaining = self
            .remaining_bytes
            .get()
            .checked_sub(bytes)
            .ok_or_else(|| {
                let message =
                    format!("the update puts more than {MAX_ADDED_BYTES} bytes into a document");
                Error::with_server_code(code::BUFFER_TOO_LARGE, message)
            })?;
        self.remaining_bytes.set(remaining);
        Ok(())
    }
}

struct RemoveEdit;

impl PathEdit for RemoveEdit {
    fn edit_existing(&self, _: &mut UpdateNode<'_>) -> Result<EditOutcome> {
        Ok(EditOutcome::Removed)
    }

    fn missing_value(&self) -> Result<Option<RawBson>> {
        Ok(None)
    }

    fn needs_path(&self) -> bool {
        false
    }

    fn spend_bytes(&self, _: usize) -> Result<()> {
        Ok(())
    }
}
