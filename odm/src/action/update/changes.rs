//! The update document, as it is put together.

use bson::{RawArrayBuf, RawBson, RawDocumentBuf};

use crate::{
    Error, ErrorKind, Result,
    error::too_many,
    field::Path,
    query::{Node, append, document},
};

/// An array with a `max`.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) path: String,
    pub(super) max: usize,
}

/// The operators of an update, with the room that the arrays need for it.
#[derive(Debug, Default)]
pub(super) struct Changes {
    operators: Vec<(&'static str, Vec<(String, RawBson)>)>,
    room: Vec<(Node, Bound)>,
    /// The places that are inside of an enum's variant: that the value is of it.
    only_where: Vec<Node>,
    error: Option<Error>,
}

/// What an update does and relies on.
pub(super) struct Finished {
    pub(super) update: RawDocumentBuf,
    /// For each array that grows, the condition that it has room.
    pub(super) rooms: Vec<(Node, Bound)>,
    /// The condition that what is changed inside of an enum's variant is of that variant.
    pub(super) only_where: Node,
}

impl Changes {
    /// One operator on one path.
    pub(super) fn add(&mut self, operator: &'static str, path: &Path, value: Result<RawBson>) {
        let added = path.dotted().and_then(|path| {
            let value = value?;
            self.fields(operator).push((path.to_owned(), value));
            Ok(())
        });
        self.rely(path);
        self.keep(added, path);
    }

    /// `$set`, of an array only with as many elements as it may have.
    pub(super) fn set(&mut self, path: &Path, value: Result<RawBson>) {
        let value = value.and_then(|value| match (&value, path.max()) {
            (RawBson::Array(array), Some(max)) if len(array) > max => {
                Err(too_many(max, len(array)))
            }
            _ => Ok(value),
        });
        self.add("$set", path, value);
    }

    /// An operator with a list of values; further lists for the same path are appended to the first.
    pub(super) fn add_each(&mut self, operator: &'static str, path: &Path, of: Result<RawBson>) {
        let added = self.try_add_each(operator, path, of);
        self.rely(path);
        self.keep(added, path);
    }

    fn try_add_each(
        &mut self,
        operator: &'static str,
        path: &Path,
        of: Result<RawBson>,
    ) -> Result<()> {
        let dotted = path.dotted()?.to_owned();
        let RawBson::Array(of) = of? else {
            return Ok(());
        };
        let fields = self.fields(operator);
        let all = match fields.iter_mut().find(|(other, _)| *other == dotted) {
            Some((_, RawBson::Array(before))) => {
                for value in of.into_iter().flatten() {
                    before.push(value);
                }
                before.clone()
            }
            _ => {
                fields.push((dotted, RawBson::Array(of.clone())));
                of
            }
        };
        if operator != "$pullAll"
            && let Some(max) = path.max()
        {
            let room = room(operator, path, &all, max)?;
            self.room.push((
                room,
                Bound {
                    path: path.to_string(),
                    max,
                },
            ));
        }
        Ok(())
    }

    /// The update document, and its conditions.
    pub(super) fn finish(self) -> Result<Finished> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if self.operators.is_empty() {
            return Err(Error::new(
                ErrorKind::Invalid,
                "the update changes nothing: say what, by `set`, `inc`, `push`, …",
            ));
        }
        let mut update = RawDocumentBuf::new();
        for (operator, fields) in self.operators {
            let mut changes = RawDocumentBuf::new();
            for (path, value) in fields {
                let value = match operator {
                    "$push" | "$addToSet" => document("$each", value)?.into(),
                    _ => value,
                };
                append(&mut changes, &path, value)?;
            }
            append(&mut update, operator, changes)?;
        }
        Ok(Finished {
            update,
            rooms: self.room,
            only_where: self.only_where.into_iter().fold(Node::All, Node::and),
        })
    }

    /// Of another variant, the place would be made in the midst of it.
    fn rely(&mut self, path: &Path) {
        self.only_where.extend(path.condition().cloned());
    }

    fn fields(&mut self, operator: &'static str) -> &mut Vec<(String, RawBson)> {
        let at = self
            .operators
            .iter()
            .position(|(other, _)| *other == operator)
            .unwrap_or_else(|| {
                self.operators.push((operator, Vec::new()));
                self.operators.len() - 1
            });
        &mut self.operators[at].1
    }

    /// The first error is the one that is reported.
    fn keep(&mut self, added: Result<()>, path: &Path) {
        if let Err(error) = added
            && self.error.is_none()
        {
            let error = match error.path() {
                Some(_) => error,
                None => error.with_path(path.to_string()),
            };
            self.error = Some(error);
        }
    }
}

/// The condition that the array at `path` can take the elements and stay within `max`.
fn room(operator: &str, path: &Path, elements: &RawArrayBuf, max: usize) -> Result<Node> {
    // `$[]` is no path of a filter: without it, the filter speaks about every element.
    let every = path.dotted()?.replace(".$[]", "");
    let place = |name: &str| Path::ROOT.append(&every).append(name);
    let at_most = |len: usize| Node::Test(place(&len.to_string()), "$exists", false.into());
    let count = len(elements);
    if operator == "$push" {
        let Some(left) = max.checked_sub(count) else {
            return Err(too_many(max, count));
        };
        return Ok(at_most(left));
    }
    // Of a set, only what it does not have takes room: how much that is depends on which are there.
    let present = |value: RawBson| Node::Test(Path::ROOT.append(&every), "$eq", value);
    let elements: Vec<RawBson> = elements.into_iter().flatten().map(RawBson::from).collect();
    match elements.as_slice() {
        [] => Ok(Node::All),
        [only] => Ok(Node::Or(match max.checked_sub(1) {
            Some(left) => vec![at_most(left), present(only.clone())],
            None => vec![present(only.clone())],
        })),
        several => {
            let all_there = Node::And(several.iter().cloned().map(present).collect());
            match max.checked_sub(several.len()) {
                Some(left) => Ok(Node::Or(vec![at_most(left), all_there])),
                None => Ok(all_there),
            }
        }
    }
}

fn len(array: &RawArrayBuf) -> usize {
    array.into_iter().count()
}
