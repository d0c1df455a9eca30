//! The update document, as it is put together.

use bson::{RawArrayBuf, RawBson, RawDocumentBuf};

use super::{
    elements::{Elements, Levels},
    place::OutOfRange,
    push::Modifiers,
    requirement::{Reason, Requirement},
};
use crate::{
    Error, ErrorKind, Result,
    document::Stored,
    error::too_many,
    field::Path,
    query::{Node, append, document},
};

/// A place that an operator works on, and whether null may stand there for a missing value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operand<'p> {
    path: &'p Path,
    null: NullAt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NullAt {
    Never,
    Value,
    Array,
}

impl<'p> Operand<'p> {
    /// A place that holds a `V`.
    pub(super) fn of<V: Stored>(path: &'p Path) -> Self {
        let null = match (V::MAY_BE_NONE, V::IS_ARRAY) {
            (false, _) => NullAt::Never,
            (true, false) => NullAt::Value,
            (true, true) => NullAt::Array,
        };
        Self { path, null }
    }
}

/// The operators of an update, with what they require of the documents.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changes {
    operators: Vec<(&'static str, Vec<(String, RawBson)>)>,
    /// How `$push` puts its values in, for paths that have something to say about it.
    modifiers: Vec<(String, RawDocumentBuf)>,
    elements: Elements,
    requirements: Vec<Requirement>,
    /// That the places are there which are written to.
    required: Vec<Node>,
    /// The places that are inside of an enum's variant: that the value is of it.
    only_where: Vec<Node>,
    error: Option<Error>,
    /// What a hook has added: a value to be set, or none to be removed.
    added: Vec<(String, Option<RawBson>)>,
}

/// An update as a backend takes it, with what it asks of the documents.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) update: RawDocumentBuf,
    /// The conditions behind `$[name]` in the paths.
    pub(super) array_filters: Vec<RawDocumentBuf>,
    /// The conditions of the paths: the condition of `$`, existing places, and the variant of an enum that is changed inside.
    pub(super) asked: Node,
    pub(super) requirements: Vec<Requirement>,
}

impl Changes {
    /// One operator on one path.
    pub(super) fn add(&mut self, operator: &'static str, path: &Path, value: Result<RawBson>) {
        let added = Levels::of(path).and_then(|levels| {
            let place = self.place(&levels)?;
            self.fields(operator).push((place, value?));
            Ok(())
        });
        self.rely(path);
        self.keep(added, path);
    }

    /// An operator that works on the value of a place.
    pub(super) fn add_to(
        &mut self,
        operator: &'static str,
        operand: Operand<'_>,
        value: Result<RawBson>,
    ) {
        self.require_no_null(operand);
        self.add(operator, operand.path, value);
    }

    /// An operator that changes a number, which stays in a range.
    pub(super) fn add_to_number(
        &mut self,
        operator: &'static str,
        operand: Operand<'_>,
        value: Result<RawBson>,
        out: Option<OutOfRange>,
    ) {
        self.require_no_null(operand);
        let path = operand.path;
        let added = Levels::of(path).and_then(|mut levels| {
            let by = value?;
            if let Some(out) = out {
                let (requirement, stays) =
                    Requirement::in_range((path, &levels), operator, &by, out);
                self.requirements.push(requirement);
                // A concurrent write may change an element in a chunk document after the check. The element then stays as it is.
                if levels.may_spill {
                    levels = levels.and(&stays);
                }
            }
            let place = self.place(&levels)?;
            self.fields(operator).push((place, by));
            Ok(())
        });
        self.rely(path);
        self.keep(added, path);
    }

    /// The path as the update writes it, with what it requires of the documents.
    fn place(&mut self, levels: &Levels) -> Result<String> {
        let place = self.elements.place(levels)?;
        if !matches!(levels.required, Node::All) {
            self.required.push(levels.required.clone());
        }
        for map in levels.null_maps() {
            self.requirements.push(Requirement::no_null(&map, false)?);
        }
        Ok(place)
    }

    fn require_no_null(&mut self, Operand { path, null }: Operand<'_>) {
        if null == NullAt::Never {
            return;
        }
        let levels = Levels::of(path);
        match levels.and_then(|levels| Requirement::no_null(&levels, null == NullAt::Array)) {
            Ok(requirement) => self.requirements.push(requirement),
            Err(error) => self.keep(Err(error), path),
        }
    }

    /// `$set`, of an array only with as many elements as it may have.
    pub(super) fn set(&mut self, path: &Path, value: Result<RawBson>) {
        let value = value.and_then(|value| match (&value, path.max()) {
            (RawBson::Array(array), Some(max)) if len(array) > max => {
                Err(too_many(max, len(array)))
            }
            _ => Ok(value),
        });
        // As a document that is inserted with this value.
        match value {
            Ok(value) if path.omits(&value) => self.add("$unset", path, Ok(true.into())),
            value => self.add("$set", path, value),
        }
    }

    /// An operator with a list of values; further lists for the same path are appended to the first.
    pub(super) fn add_each(
        &mut self,
        operator: &'static str,
        operand: Operand<'_>,
        of: Result<RawBson>,
    ) {
        self.require_no_null(operand);
        let path = operand.path;
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
        let dotted = self.place(&Levels::of(path)?)?;
        let RawBson::Array(of) = of? else {
            return Ok(());
        };
        if operator == "$push" && self.modifiers.iter().any(|(other, _)| *other == dotted) {
            return Err(pushed_twice());
        }
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
            self.need_room(operator, path, &all, max)?;
        }
        Ok(())
    }

    /// `$push` with modifiers.
    pub(super) fn push_with(
        &mut self,
        operand: Operand<'_>,
        of: Result<RawBson>,
        modifiers: Result<Modifiers>,
    ) {
        self.require_no_null(operand);
        let path = operand.path;
        let added = self.try_push_with(path, of, modifiers);
        self.rely(path);
        self.keep(added, path);
    }

    fn try_push_with(
        &mut self,
        path: &Path,
        of: Result<RawBson>,
        modifiers: Result<Modifiers>,
    ) -> Result<()> {
        let dotted = self.place(&Levels::of(path)?)?;
        let Modifiers { raw, keeps } = modifiers?;
        let of = of?;
        let fields = self.fields("$push");
        if fields.iter().any(|(other, _)| *other == dotted) {
            return Err(pushed_twice());
        }
        fields.push((dotted.clone(), of.clone()));
        self.modifiers.push((dotted, raw));
        // A slice within the bound leaves no more than that, however much there was.
        if let (RawBson::Array(of), Some(max)) = (of, path.max())
            && keeps.is_none_or(|keeps| keeps > max)
        {
            self.need_room("$push", path, &of, max)?;
        }
        Ok(())
    }

    fn need_room(
        &mut self,
        operator: &str,
        path: &Path,
        elements: &RawArrayBuf,
        max: usize,
    ) -> Result<()> {
        let condition = room(operator, path, elements, max)?;
        let (path, may_spill) = (path.to_string(), path.may_spill());
        self.requirements.push(Requirement {
            condition,
            may_spill,
            reason: Reason::Room { path, max },
        });
        Ok(())
    }

    /// What a save sets and removes, for hooks to look at.
    pub(crate) fn of_a_save(update: &RawDocumentBuf) -> Self {
        let mut changes = Self::default();
        const OPERATORS: [&str; 3] = ["$set", "$unset", "$push"];
        for (name, fields) in update.iter().flatten() {
            let Some(operator) = OPERATORS.into_iter().find(|other| name.as_str() == *other) else {
                continue;
            };
            let fields = fields
                .as_document()
                .into_iter()
                .flat_map(|fields| fields.iter().flatten());
            for (path, value) in fields {
                let own = changes.fields(operator);
                own.push((path.as_str().to_owned(), value.into()));
            }
        }
        changes
    }

    /// `$set`, in the place of one before it.
    pub(crate) fn set_again(&mut self, path: &Path, value: Result<RawBson>) {
        self.forget(path);
        if let Ok(value) = &value {
            self.added.push((path.to_string(), Some(value.clone())));
        }
        self.set(path, value);
    }

    /// `$unset`, in the place of a `$set` before it.
    pub(crate) fn unset_again(&mut self, path: &Path) {
        self.forget(path);
        self.added.push((path.to_string(), None));
        self.add("$unset", path, Ok(true.into()));
    }

    /// What a hook has added, or why it cannot be.
    pub(crate) fn added(&self) -> Result<&[(String, Option<RawBson>)]> {
        match &self.error {
            Some(error) => Err(error.clone()),
            None => Ok(&self.added),
        }
    }

    fn forget(&mut self, path: &Path) {
        let path = path.to_string();
        for (operator, fields) in &mut self.operators {
            if matches!(*operator, "$set" | "$unset") {
                fields.retain(|(other, _)| *other != path);
            }
        }
        self.operators.retain(|(_, fields)| !fields.is_empty());
    }

    /// Each operator with each path, and what it does there.
    pub(crate) fn each(&self) -> impl DoubleEndedIterator<Item = (&str, &str, &RawBson)> {
        self.operators.iter().flat_map(|(operator, fields)| {
            let fields = fields.iter();
            fields.map(move |(path, value)| (*operator, path.as_str(), value))
        })
    }

    /// The update, and what it asks for.
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
                    "$push" | "$addToSet" => {
                        let mut push = document("$each", value)?;
                        let modifiers = self.modifiers.iter().find(|(other, _)| *other == path);
                        if let (Some((_, modifiers)), "$push") = (modifiers, operator) {
                            for modifier in modifiers.iter() {
                                let (name, value) = modifier.map_err(crate::error::encode)?;
                                append(&mut push, name.as_str(), RawBson::from(value))?;
                            }
                        }
                        push.into()
                    }
                    _ => value,
                };
                append(&mut changes, &path, value)?;
            }
            append(&mut update, operator, changes)?;
        }
        let only_where = self.only_where.into_iter().fold(Node::All, Node::and);
        self.elements.check(&only_where)?;
        for Requirement { condition, .. } in &self.requirements {
            // The ways of an `$or` of different conditions name no element.
            if !matches!(condition, Node::Or(ways) if ways.len() > 1) {
                self.elements.check(condition)?;
            }
        }
        let required = self.required.into_iter().fold(Node::All, Node::and);
        Ok(Finished {
            update,
            array_filters: self.elements.array_filters()?,
            asked: self.elements.condition().and(only_where).and(required),
            requirements: self.requirements,
        })
    }

    /// Whether something is changed inside of an enum's variant, which needs a value of that variant.
    pub(super) fn is_of_a_variant(&self) -> bool {
        !self.only_where.is_empty()
    }

    /// Of another variant, the place would be made in the midst of it.
    pub(super) fn rely(&mut self, path: &Path) {
        self.only_where.extend(path.condition().cloned());
    }

    /// Refuses a condition on the documents that an update with these changes cannot have.
    pub(super) fn check(&self, condition: &Node) -> Result<()> {
        self.elements.check(condition)
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

/// The condition that the array at `path` can take the elements and stay within `max`. Where the path leads through arrays, it
/// is that no element that is changed has too little room.
fn room(operator: &str, path: &Path, elements: &RawArrayBuf, max: usize) -> Result<Node> {
    let levels = Levels::of(path)?;
    match room_at(operator, &levels.rest, elements, max)? {
        Node::All => Ok(Node::All),
        room => Ok(levels.none_meets(Node::Not(Box::new(room)))),
    }
}

fn room_at(operator: &str, path: &Path, elements: &RawArrayBuf, max: usize) -> Result<Node> {
    let place = |name: &str| path.append(name);
    let at_most = |len: usize| Node::Test(place(&len.to_string()), "$exists", false.into());
    let count = len(elements);
    if operator == "$push" {
        let Some(left) = max.checked_sub(count) else {
            return Err(too_many(max, count));
        };
        return Ok(at_most(left));
    }
    // Of a set, only what it does not have takes room: how much that is depends on which are there.
    let array = path.clone().array();
    let present = |value: RawBson| Node::Test(array.clone(), "$eq", value);
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

fn pushed_twice() -> Error {
    Error::new(
        ErrorKind::Invalid,
        "the update pushes to this array twice, once with `push_with`: give it all values at once",
    )
}

fn len(array: &RawArrayBuf) -> usize {
    array.into_iter().count()
}
