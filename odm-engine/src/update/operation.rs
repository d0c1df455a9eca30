//! The operations that an update consists of, and their application.

use std::cell::Cell;
use std::collections::{BTreeSet, HashSet};
use std::fmt;

use bson::{RawBson, RawDocument};

use super::array_filter::ArrayFilters;
use super::changed::{Changed, Fans, places};
use super::check_id_untouched;
use super::node::{Edit, Node, Outcome};
use super::rename::{self, Before};
use super::set::Set;
use super::target::{Name, Target, dotted, length_at};
use crate::change::Place;
use crate::error::{Error, Result, code};
use crate::filter::Filter;
use crate::path::Path;
use crate::value;

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
    /// The operator, and how many bytes it may put in at each place.
    Change(Box<dyn Operator>, usize),
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

    /// Whether all that this does to an array of that length is to add elements at its end.
    fn appends_to(&self, _length: &dyn Fn() -> usize) -> bool {
        false
    }

    /// Whether it can do no more than take elements out of an array.
    fn only_removes(&self) -> bool {
        false
    }

    /// How many bytes it may put in, if not just a few.
    fn size(&self) -> usize {
        0
    }
}

/// How many bytes an update may put into one document on the way to its new state, as on MongoDB.
const MAX_BYTES: usize = 64 << 20;

/// How many places an update may change in one document.
const MAX_PLACES: usize = 5_000_000;

impl Operations {
    pub(super) fn new(array_filters: ArrayFilters) -> Operations {
        Operations {
            array_filters,
            ..Operations::default()
        }
    }

    pub(super) fn change(&mut self, path: &str, operator: impl Operator + 'static) -> Result<()> {
        let size = operator.size();
        self.push(path, Action::Change(Box::new(operator), size), false)
    }

    pub(super) fn change_on_insert(
        &mut self,
        path: &str,
        operator: impl Operator + 'static,
    ) -> Result<()> {
        let size = operator.size();
        self.push(path, Action::Change(Box::new(operator), size), true)
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
        let used: HashSet<_> = identifiers().collect();
        let unused = self.array_filters.names().find(|name| !used.contains(name));
        if let Some(unused) = unused {
            let message = format!("the array filter '{unused}' is not used in the update");
            return Err(Error::server(9, message));
        }
        Ok(self)
    }

    /// Runs the operations on a document that `filter` has found, whose tree is `root`. Returns
    /// the places that count as modified.
    pub(super) fn apply(
        &self,
        document: &RawDocument,
        filter: &Filter,
        root: &mut Node<'_>,
        inserting: bool,
    ) -> Result<Vec<Place>> {
        let mut position = None;
        let mut fans = Fans::default();
        let mut matched = || match position {
            Some(known) => Ok(known),
            None => Ok(*position.insert(filter.position(document)?)),
        };
        let acts = |operation: &Operation| inserting || !operation.on_insert;
        let mut resolved: Vec<(Vec<Name>, Result<()>, &Operation)> =
            Vec::with_capacity(self.all.len());
        for operation in &self.all {
            let mut none = Fans::default();
            let fans = if acts(operation) {
                &mut fans
            } else {
                &mut none
            };
            let target = &operation.target;
            let paths = target.resolve(document, &mut matched, &self.array_filters, fans)?;
            resolved.extend(paths.into_iter().map(|(path, end)| (path, end, operation)));
            if resolved.len() > MAX_PLACES {
                let message = format!("the update changes more than {MAX_PLACES} places");
                return Err(Error::server(code::BUFFER_TOO_LARGE, message));
            }
        }
        resolved.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        let mut work = Work {
            before: Before::new(document),
            left: Cell::new(MAX_BYTES),
        };
        let mut changed = Vec::with_capacity(resolved.len());
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
            let action = &operation.action;
            if !action.run(path, &mut work, root)? {
                continue;
            }
            if path.first().is_some_and(|first| first.as_str() == "_id") {
                // An upsert may give an id to what has none.
                if !inserting || value::get(document, "_id").is_some() {
                    check_id_untouched(document, &root.clone().into_document())?;
                }
            }
            // As on MongoDB, an upsert may insert what an update may not.
            if !inserting {
                action.refuse_dollar(path, document)?;
            }
            let appended = action.appends(path, document);
            changed.push(Changed {
                path: path.clone(),
                appended,
            });
        }
        Ok(places(&changed, &fans))
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

/// What the operations on one document share.
struct Work<'d> {
    before: Before<'d>,
    /// How many bytes may still be put in.
    left: Cell<usize>,
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
            Action::Change(operator, _) => !operator.only_removes(),
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

    fn run(&self, path: &[Name], work: &mut Work<'_>, root: &mut Node<'_>) -> Result<bool> {
        match self {
            Action::Change(operator, size) => root.edit(
                path,
                &Change {
                    operator: operator.as_ref(),
                    size: *size,
                    path,
                    left: &work.left,
                },
            ),
            Action::Remove => root.edit(path, &Remove),
            Action::MoveFrom(from) => match rename::source(&mut work.before, from)? {
                Some(value) => {
                    rename::check_destination(&mut work.before, path)?;
                    let set = Set::new(value.into());
                    root.edit(
                        path,
                        &Change {
                            operator: &set,
                            size: set.size(),
                            path,
                            left: &work.left,
                        },
                    )
                }
                None => Ok(false),
            },
            // What is wrong with the source is said where the value is to arrive.
            Action::MoveAway(from) => match rename::source(&mut work.before, from) {
                Ok(Some(_)) => root.edit(path, &Remove),
                Ok(None) | Err(_) => Ok(false),
            },
        }
    }

    /// Whether all that this does is to add elements to the array that `before` has there.
    fn appends(&self, path: &[Name], before: &RawDocument) -> bool {
        match self {
            Action::Change(operator, _) => operator.appends_to(&|| length_at(before, path)),
            Action::Remove | Action::MoveFrom(_) | Action::MoveAway(_) => false,
        }
    }
}

/// An operator at work on a path.
struct Change<'o> {
    operator: &'o dyn Operator,
    /// How many bytes the operator may put in.
    size: usize,
    path: &'o [Name],
    /// How many the update still may.
    left: &'o Cell<usize>,
}

impl Edit for Change<'_> {
    fn existing(&self, value: &mut Node<'_>) -> Result<Outcome> {
        self.spend(self.size)?;
        let modified = self.operator.existing(&dotted(self.path), value)?;
        Ok(if modified {
            Outcome::Modified
        } else {
            Outcome::Same
        })
    }

    fn missing(&self) -> Result<Option<RawBson>> {
        self.spend(self.size)?;
        self.operator.missing()
    }

    fn needs_path(&self) -> bool {
        true
    }

    fn spend(&self, bytes: usize) -> Result<()> {
        let left = self.left.get().checked_sub(bytes).ok_or_else(|| {
            let message = format!("the update puts more than {MAX_BYTES} bytes into a document");
            Error::server(code::BUFFER_TOO_LARGE, message)
        })?;
        self.left.set(left);
        Ok(())
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

    fn spend(&self, _: usize) -> Result<()> {
        Ok(())
    }
}
