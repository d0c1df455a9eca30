//! The operations that an update consists of, and their application.

use std::fmt;

use bson::{RawBson, RawDocument};

use super::array_filter::ArrayFilters;
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

    /// Whether it can do no more than take elements out of an array.
    fn only_removes(&self) -> bool {
        false
    }
}

impl Operations {
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
        if Target::parse(from)?.is_dynamic() || Target::parse(to)?.is_dynamic() {
            return Err(Error::bad_value(format!(
                "$rename of '{from}' cannot use '$' in its paths"
            )));
        }
        self.push(from, Action::MoveAway(Path::new(from)), false)?;
        self.push(to, Action::MoveFrom(Path::new(from)), false)
    }

    /// Completes the operations: puts them in order and checks what can be without a document.
    ///
    /// # Errors
    /// Paths that overlap (code 40), array filters that are missing (code 2) or unused (code 9).
    pub(super) fn finish(mut self, array_filters: ArrayFilters) -> Result<Operations> {
        // In this order a path is next to those that lead into it.
        self.all.sort_by(|a, b| a.target.cmp(&b.target));
        for pair in self.all.windows(2) {
            if let [one, other] = pair
                && one.target.conflicts(&other.target)
            {
                let (one, other) = (&one.target, &other.target);
                let message = format!("updating the path '{other}' conflicts with '{one}'");
                return Err(Error::server(40, message));
            }
        }
        let identifiers = || {
            self.all
                .iter()
                .flat_map(|operation| operation.target.identifiers())
        };
        if let Some(unknown) = identifiers().find(|name| !array_filters.contains(name)) {
            let message = format!("there is no array filter for '$[{unknown}]'");
            return Err(Error::bad_value(message));
        }
        if let Some(unused) = array_filters
            .names()
            .find(|name| !identifiers().any(|used| used == *name))
        {
            let message = format!("the array filter '{unused}' is not used in the update");
            return Err(Error::server(9, message));
        }
        self.array_filters = array_filters;
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
        let mut matched = || match position {
            Some(known) => Ok(known),
            None => Ok(*position.insert(filter.position(document)?)),
        };
        let mut resolved: Vec<(Vec<Name>, &Action)> = Vec::with_capacity(self.all.len());
        for operation in self
            .all
            .iter()
            .filter(|operation| inserting || !operation.on_insert)
        {
            let paths = operation
                .target
                .resolve(document, &mut matched, &self.array_filters)?;
            resolved.extend(paths.into_iter().map(|path| (path, &operation.action)));
        }
        resolved.sort_by(|(a, _), (b, _)| a.cmp(b));
        for pair in resolved.windows(2) {
            if let [(one, _), (other, _)] = pair
                && other.starts_with(one)
            {
                let message = format!("the update changes '{}' twice", dotted(one));
                return Err(Error::server(40, message));
            }
        }
        let mut modified = false;
        for (path, action) in &resolved {
            let changed = action.run(path, document, root)?;
            // As on MongoDB, an upsert may insert what an update may not.
            if changed && !inserting {
                action.refuse_dollar(path, document)?;
            }
            modified |= changed;
        }
        Ok(modified)
    }

    fn push(&mut self, path: &str, action: Action, on_insert: bool) -> Result<()> {
        self.all.push(Operation {
            target: Target::parse(path)?,
            action,
            on_insert,
        });
        Ok(())
    }
}

impl Action {
    /// Refuses that this has made a field at the top whose name starts with `$`, or given one a new value.
    fn refuse_dollar(&self, path: &[Name], before: &RawDocument) -> Result<()> {
        let Some((first, rest)) = path.split_first() else {
            return Ok(());
        };
        if !first.as_str().starts_with('$') {
            return Ok(());
        }
        let is_new = value::get(before, first.as_str()).is_none();
        let gives_value = match self {
            Action::Change(operator) => !operator.only_removes(),
            Action::MoveFrom(_) => true,
            Action::Remove | Action::MoveAway(_) => false,
        };
        if gives_value && (is_new || rest.is_empty()) {
            let path = dotted(path);
            let message = format!("field names cannot start with '$', as in '{path}'");
            return Err(Error::server(52, message));
        }
        Ok(())
    }

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
            Action::MoveAway(from) => match rename::source(before, from)? {
                Some(_) => root.edit(path, &Remove),
                None => Ok(false),
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
