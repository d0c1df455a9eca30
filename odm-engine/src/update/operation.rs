//! The operations that an update consists of, and their application.

use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

use bson::{RawBson, RawDocument};

use super::array_filter::ArrayFilters;
use super::changed::{Changed, Fans, places};
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
        let used: HashSet<_> = identifiers().collect();
        if let Some(unused) = array_filters.names().find(|name| !used.contains(name)) {
            let message = format!("the array filter '{unused}' is not used in the update");
            return Err(Error::server(9, message));
        }
        self.array_filters = array_filters;
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
        let mut resolved: Vec<(Vec<Name>, &Action)> = Vec::with_capacity(self.all.len());
        for operation in self
            .all
            .iter()
            .filter(|operation| inserting || !operation.on_insert)
        {
            let paths =
                operation
                    .target
                    .resolve(document, &mut matched, &self.array_filters, &mut fans)?;
            resolved.extend(paths.into_iter().map(|path| (path, &operation.action)));
            if resolved.len() > MAX_PLACES {
                let message = format!("the update changes more than {MAX_PLACES} places");
                return Err(Error::server(code::BUFFER_TOO_LARGE, message));
            }
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
        let mut work = Work {
            before: Before::new(document),
            left: Cell::new(MAX_BYTES),
        };
        let mut changed = Vec::with_capacity(resolved.len());
        for (path, action) in resolved {
            if action.run(&path, &mut work, root)? {
                // As on MongoDB, an upsert may insert what an update may not.
                if !inserting {
                    action.refuse_dollar(&path, document)?;
                }
                let appended = action.appends(&path, document);
                changed.push(Changed { path, appended });
            }
        }
        Ok(places(&changed, &fans))
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
            Action::MoveAway(from) => match rename::source(&mut work.before, from)? {
                Some(_) => root.edit(path, &Remove),
                None => Ok(false),
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
