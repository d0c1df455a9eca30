//! The operations that an update consists of, and their application.

use std::collections::BTreeSet;
use std::fmt;

use bson::{RawBson, RawDocument};

use super::array_filter::ArrayFilters;
use super::check_id_untouched;
use super::node::{Edit, Node, Outcome};
use super::rename;
use super::set::Set;
use super::target::{Name, Target, dotted};
use crate::filter::Filter;
use crate::path::Path;
use crate::{Error, Result, value};

/// What an update does, in the order of its paths.
#[derive(Debug, Default)]
pub(super) struct Operations {
    all: Vec<Operation>,
    /// Their paths.
    targets: BTreeSet<Target>,
    array_filters: ArrayFilters,
}

#[derive(Debug)]
struct Operation {
    target: Target,
    action: Action,
    /// Only an upsert that inserts does this.
    on_insert: bool,
}

#[derive(Debug)]
enum Action {
    Change(Box<dyn Operator>),
    Remove,
    /// Takes the value that another path had before the update.
    MoveFrom(Path),
    /// Goes away, its value having been taken to another path.
    MoveAway(Path),
}

/// What an update operator does to a value.
pub(super) trait Operator: fmt::Debug + Send + Sync {
    /// Changes the value that the path leads to. Returns whether it counts as modified.
    ///
    /// # Errors
    /// The value is not of a kind that this applies to.
    fn existing(&self, path: &str, value: &mut Node<'_>) -> Result<bool>;

    /// The value to start with where there is none. `None` leaves it missing.
    fn missing(&self) -> Result<Option<RawBson>>;
}

impl Operations {
    pub(super) fn new(array_filters: ArrayFilters) -> Operations {
        Operations {
            array_filters,
            ..Operations::default()
        }
    }

    pub(super) fn change(&mut self, path: &str, operator: impl Operator + 'static) -> Result<()> {
        self.push(path, Action::Change(Box::new(operator)), false)
    }

    pub(super) fn change_on_insert(
        &mut self,
        path: &str,
        operator: impl Operator + 'static,
    ) -> Result<()> {
        self.push(path, Action::Change(Box::new(operator)), true)
    }

    pub(super) fn remove(&mut self, path: &str) -> Result<()> {
        self.push(path, Action::Remove, false)
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        // The path that is left may overlap with others before the two are looked at together.
        self.push(from, Action::MoveAway(Path::new(from)), false)?;
        if Target::parse(from)?.is_dynamic() || Target::parse(to)?.is_dynamic() {
            return Err(Error::bad_value(format!(
                "$rename of '{from}' cannot use '$' in its paths"
            )));
        }
        rename::check_apart(from, to)?;
        self.push(to, Action::MoveFrom(Path::new(from)), false)
    }

    /// Completes the operations: puts them in order.
    ///
    /// # Errors
    /// Array filters that are not used (code 9).
    pub(super) fn finish(mut self) -> Result<Operations> {
        self.all.sort_by(|a, b| a.target.cmp(&b.target));
        let identifiers = || {
            self.all
                .iter()
                .flat_map(|operation| operation.target.identifiers())
        };
        if let Some(unused) = self
            .array_filters
            .names()
            .find(|name| !identifiers().any(|used| used == *name))
        {
            let message = format!("the array filter '{unused}' is not used in the update");
            return Err(Error::server(9, message));
        }
        Ok(self)
    }

    /// Runs the operations on a document that `filter` has found, whose tree is `root`. Returns
    /// whether anything counts as modified.
    pub(super) fn apply(
        &self,
        document: &RawDocument,
        filter: &Filter,
        root: &mut Node<'_>,
        inserting: bool,
    ) -> Result<bool> {
        let mut position = None;
        let mut matched = || *position.get_or_insert_with(|| filter.position(document));
        let mut resolved: Vec<(Vec<Name>, Result<()>, &Operation)> =
            Vec::with_capacity(self.all.len());
        for operation in &self.all {
            let paths = operation
                .target
                .resolve(document, &mut matched, &self.array_filters);
            resolved.extend(paths.into_iter().map(|(path, end)| (path, end, operation)));
        }
        resolved.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        // As on MongoDB, an upsert may insert what an update may not name.
        let dollar = |path: &[Name]| {
            path.first()
                .is_some_and(|first| first.as_str().starts_with('$'))
        };
        let acts = |operation: &Operation| inserting || !operation.on_insert;
        if let Some((path, ..)) = resolved
            .iter()
            .find(|(path, _, operation)| !inserting && acts(operation) && dollar(path))
        {
            let message = format!(
                "field names cannot start with '$', as in '{}'",
                dotted(path)
            );
            return Err(Error::server(52, message));
        }
        let mut modified = false;
        let mut rest = resolved.as_slice();
        // What fails first in this order is what MongoDB reports.
        while let Some(((path, end, operation), after)) = rest.split_first() {
            rest = after;
            end.clone()?;
            if let Some((_, Ok(()), _)) = after.first().filter(|(next, ..)| next.starts_with(path))
            {
                let message = format!("the update changes '{}' twice", dotted(path));
                return Err(Error::server(40, message));
            }
            if !acts(operation) {
                continue;
            }
            modified |= operation.action.run(path, document, root)?;
            if path.first().is_some_and(|first| first.as_str() == "_id") {
                // An upsert may give an id to what has none.
                if !inserting || value::get(document, "_id").is_some() {
                    check_id_untouched(document, &root.clone().into_document())?;
                }
            }
        }
        Ok(modified)
    }

    /// # Errors
    /// A path that is none, that overlaps with one before it (code 40), or that refers to an array filter that is
    /// missing (code 2).
    fn push(&mut self, path: &str, action: Action, on_insert: bool) -> Result<()> {
        let target = Target::parse(path)?;
        if let Some(unknown) = target
            .identifiers()
            .find(|name| !self.array_filters.contains(name))
        {
            let message = format!("there is no array filter for '$[{unknown}]'");
            return Err(Error::bad_value(message));
        }
        // Among paths that do not overlap, one that does stands beside those that it overlaps with.
        let neighbours = [
            self.targets.range(..&target).next_back(),
            self.targets.range(&target..).next(),
        ];
        let overlaps = |other: &&Target| other.conflicts(&target);
        if let Some(other) = neighbours.into_iter().flatten().find(overlaps) {
            let message = format!("updating the path '{target}' conflicts with '{other}'");
            return Err(Error::server(40, message));
        }
        self.targets.insert(target.clone());
        self.all.push(Operation {
            target,
            action,
            on_insert,
        });
        Ok(())
    }
}

impl Action {
    fn run(&self, path: &[Name], before: &RawDocument, root: &mut Node<'_>) -> Result<bool> {
        match self {
            Action::Change(operator) => root.edit(
                path,
                &Change {
                    operator: operator.as_ref(),
                    path,
                },
            ),
            Action::Remove => root.edit(path, &Remove),
            Action::MoveFrom(from) => match rename::source(before, from)? {
                Some(value) => {
                    rename::check_destination(before, path)?;
                    let set = Set::new(value.into());
                    root.edit(
                        path,
                        &Change {
                            operator: &set,
                            path,
                        },
                    )
                }
                None => Ok(false),
            },
            // What is wrong with the source is said where the value is to arrive.
            Action::MoveAway(from) => match rename::source(before, from) {
                Ok(Some(_)) => root.edit(path, &Remove),
                Ok(None) | Err(_) => Ok(false),
            },
        }
    }
}

/// An operator at work on a path.
struct Change<'o> {
    operator: &'o dyn Operator,
    path: &'o [Name],
}

impl Edit for Change<'_> {
    fn existing(&self, value: &mut Node<'_>) -> Result<Outcome> {
        let modified = self.operator.existing(&dotted(self.path), value)?;
        Ok(if modified {
            Outcome::Modified
        } else {
            Outcome::Same
        })
    }

    fn missing(&self) -> Result<Option<RawBson>> {
        self.operator.missing()
    }

    fn needs_path(&self) -> bool {
        true
    }
}

struct Remove;

impl Edit for Remove {
    fn existing(&self, _: &mut Node<'_>) -> Result<Outcome> {
        Ok(Outcome::Removed)
    }

    fn missing(&self) -> Result<Option<RawBson>> {
        Ok(None)
    }

    fn needs_path(&self) -> bool {
        false
    }
}
