//! What has changed in a document, as an update of as little as possible.

use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use crate::{
    Result,
    backend::operation::Change,
    field::{Path, Tag, Variants, refuse_key},
    query::{Node, append, document, same},
    schema::Model,
};

/// The update that brings a stored document to what it has been changed to, and what it relies on.
#[derive(Debug, Default)]
pub(super) struct Difference {
    set: Vec<(String, RawBson)>,
    unset: Vec<String>,
    push: Vec<(String, RawArrayBuf)>,
    /// For each place that is written, that it still is as it was read.
    guards: Vec<(String, Guard)>,
    /// The document has become another variant, so that nothing of it stays.
    is_another: bool,
}

#[derive(Debug)]
enum Guard {
    Missing,
    Equal(RawBson),
    /// An array to which is appended has not grown or shrunk.
    Length(usize),
    /// The field that says of which variant an enum is, by being there.
    Present,
}

/// One document in three states.
#[derive(Clone, Copy)]
struct States<'d> {
    stored: &'d RawDocument,
    before: &'d RawDocument,
    after: &'d RawDocument,
    /// The enums in `after`.
    variants: &'d Variants,
}

impl Difference {
    /// What leads from `before` to `after`, both written by the model, in a document that is stored as `stored`.
    ///
    /// Documents inside are compared field by field, so that what the model does not know in them stays. An enum that has
    /// become another variant is written as a whole: nothing of one variant stays in another.
    pub(super) fn of(
        stored: &RawDocument,
        before: &RawDocument,
        after: &RawDocument,
        variants: &Variants,
    ) -> Self {
        let mut difference = Self::default();
        let states = States {
            stored,
            before,
            after,
            variants,
        };
        let [whole, now] = [before, after].map(RawBsonRef::Document);
        if becomes_another(variants.at(""), whole, now) {
            difference.another(states);
            return difference;
        }
        difference.document("", states);
        if let Some(Some(tag)) = variants.at("")
            && !difference.is_empty()
        {
            difference.same_variant("", tag, stored);
        }
        difference
    }

    /// The document itself has become another variant of its enum: beside the `_id` and the framework's bookkeeping nothing
    /// of the one stays in the other.
    ///
    /// It relies on every field of both, as what another write has put there would be read as the other variant's.
    fn another(&mut self, states: States<'_>) {
        self.is_another = true;
        let is_kept = |name: &str| name == "_id" || name == "_odm" || refuse_key(name).is_err();
        for (name, stored) in fields(states.stored).filter(|(name, _)| !is_kept(name)) {
            self.guards
                .push((name.to_owned(), Guard::Equal(stored.into())));
            match value(states.after, name) {
                None => self.unset.push(name.to_owned()),
                Some(after) if same(stored, after) => {}
                Some(after) => self.set.push((name.to_owned(), after.into())),
            }
        }
        let written = fields(states.after).map(|(name, _)| name);
        let known = states.variants.all_known().iter().copied();
        for name in known.chain(written).filter(|name| !is_kept(name)) {
            let is_guarded = self.guards.iter().any(|(path, _)| path == name);
            if !is_guarded {
                self.guards.push((name.to_owned(), Guard::Missing));
                if let Some(after) = value(states.after, name) {
                    self.set.push((name.to_owned(), after.into()));
                }
            }
        }
    }

    /// The paths that are written.
    pub(super) fn paths(&self) -> Vec<String> {
        let set = self.set.iter().map(|(path, _)| path);
        let pushed = self.push.iter().map(|(path, _)| path);
        set.chain(pushed).cloned().collect()
    }

    /// Whether the document becomes another variant.
    pub(super) fn is_another(&self) -> bool {
        self.is_another
    }

    pub(super) fn is_empty(&self) -> bool {
        self.guards.is_empty()
    }

    /// The first path that is written and that is not as it was read.
    pub(super) fn first_changed(&self, read: &RawDocument, stored: &RawDocument) -> Option<&str> {
        let changed = |(path, guard): &&(String, Guard)| match (at(read, path), at(stored, path)) {
            (Some(a), Some(b)) => !matches!(guard, Guard::Present) && !same(a, b),
            (a, b) => a.is_some() != b.is_some(),
        };
        self.guards
            .iter()
            .find(changed)
            .map(|(path, _)| path.as_str())
    }

    /// The update document.
    pub(super) fn update(&self) -> Result<RawDocumentBuf> {
        let mut update = RawDocumentBuf::new();
        let set = self
            .set
            .iter()
            .map(|(path, value)| Ok((path, value.clone())));
        operator(&mut update, "$set", set)?;
        let unset = self
            .unset
            .iter()
            .map(|path| Ok((path, RawBson::from(true))));
        operator(&mut update, "$unset", unset)?;
        let push = self
            .push
            .iter()
            .map(|(path, values)| Ok((path, document("$each", values.clone())?.into())));
        operator(&mut update, "$push", push)?;
        Ok(update)
    }

    /// What is stored once the update has happened.
    pub(super) fn applied(&self, stored: &RawDocument) -> RawDocumentBuf {
        let mut document = stored.to_owned();
        for (path, value) in &self.set {
            document = changed(&document, path, &|_| Some(value.clone()));
        }
        for path in &self.unset {
            document = changed(&document, path, &|_| None);
        }
        for (path, added) in &self.push {
            document = changed(&document, path, &|old| {
                let old = old.and_then(|old| old.as_array());
                let all = old.into_iter().flatten().flatten();
                Some(
                    all.chain(added.into_iter().flatten())
                        .collect::<RawArrayBuf>()
                        .into(),
                )
            });
        }
        document
    }

    /// The condition that nobody else has changed what is written.
    pub(super) fn untouched(&self) -> Node {
        let test = |(path, guard): &(String, Guard)| {
            let path = Path::ROOT.append(path);
            match guard {
                Guard::Missing => Node::Test(path, "$exists", false.into()),
                Guard::Present => Node::Test(path, "$exists", true.into()),
                // Null is what a missing field equals too.
                Guard::Equal(RawBson::Null) => Node::Test(path, "$type", 10.into()),
                Guard::Equal(value) => Node::Test(path, "$eq", value.clone()),
                Guard::Length(length) => Node::Test(
                    path,
                    "$size",
                    i64::try_from(*length).unwrap_or(i64::MAX).into(),
                ),
            }
        };
        self.guards.iter().map(test).fold(Node::All, Node::and)
    }

    fn document(&mut self, path: &str, states: States<'_>) {
        for (name, after) in fields(states.after) {
            let before = value(states.before, name);
            if before.is_some_and(|before| same(before, after)) {
                continue;
            }
            let path = below(path, name);
            let stored = value(states.stored, name);
            match (stored, before) {
                (Some(stored), Some(before)) => {
                    self.value(path, [stored, before, after], states.variants);
                }
                (stored, _) => self.set(path, stored, after.into()),
            }
        }
        for (name, _) in fields(states.before) {
            if value(states.after, name).is_none()
                && let Some(stored) = value(states.stored, name)
            {
                let path = below(path, name);
                self.guards
                    .push((path.clone(), Guard::Equal(stored.into())));
                self.unset.push(path);
            }
        }
    }

    fn value(&mut self, path: String, values: [RawBsonRef<'_>; 3], variants: &Variants) {
        let [stored, before, after] = values;
        if becomes_another(variants.at(&path), before, after) {
            return self.set(path, Some(stored), after.into());
        }
        let written = self.guards.len();
        match (stored, before, after) {
            (
                RawBsonRef::Document(stored),
                RawBsonRef::Document(before),
                RawBsonRef::Document(after),
            ) if have_paths(before) && have_paths(after) => {
                let states = States {
                    stored,
                    before,
                    after,
                    variants,
                };
                self.document(&path, states);
                if let Some(Some(tag)) = variants.at(&path)
                    && self.guards.len() > written
                {
                    self.same_variant(&path, tag, stored);
                }
            }
            (RawBsonRef::Array(stored), RawBsonRef::Array(before), RawBsonRef::Array(after)) => {
                self.array(path, [stored, before, after], variants);
            }
            (stored, _, after) => self.set(path, Some(stored), after.into()),
        }
    }

    /// What is written inside of a variant relies on the stored value being of it.
    fn same_variant(&mut self, path: &str, tag: Tag, stored: &RawDocument) {
        let (name, guard): (_, fn(RawBsonRef<'_>) -> Guard) = match tag {
            Tag::Text(_) => return,
            Tag::Key(name) => (name, |_| Guard::Present),
            Tag::Field(name, _) | Tag::Other(name, _) => (name, |tag| Guard::Equal(tag.into())),
        };
        if let Some(tag) = value(stored, name) {
            self.guards.push((below(path, name), guard(tag)));
        }
    }

    /// Elements that were only appended are pushed; otherwise the array is written as a whole, its elements as they are
    /// stored where they have not changed.
    fn array(&mut self, path: String, values: [&RawArray; 3], variants: &Variants) {
        let [stored, _, _] = values;
        let [stored_items, before, after] = values.map(items);
        if stored_items.len() != before.len() {
            let whole = after.into_iter().collect::<RawArrayBuf>();
            return self.set(path, Some(RawBsonRef::Array(stored)), whole.into());
        }
        let is_same = |(a, b): (&RawBsonRef<'_>, &RawBsonRef<'_>)| same(*a, *b);
        if after.len() > before.len() && before.iter().zip(&after).all(is_same) {
            let added = after.into_iter().skip(before.len()).collect();
            self.guards
                .push((path.clone(), Guard::Length(before.len())));
            self.push.push((path, added));
            return;
        }
        let is_in_place = after.len() == before.len();
        let mut left: Vec<_> = before.iter().copied().zip(stored_items).map(Some).collect();
        let mut whole = RawArrayBuf::new();
        for (at, item) in after.iter().enumerate() {
            let place = is_in_place.then(|| below(&path, &at.to_string()));
            whole.push(as_stored(*item, at, place.as_deref(), &mut left, variants));
        }
        self.set(path, Some(RawBsonRef::Array(stored)), whole.into());
    }

    fn set(&mut self, path: String, stored: Option<RawBsonRef<'_>>, value: RawBson) {
        let guard = stored.map_or(Guard::Missing, |stored| Guard::Equal(stored.into()));
        self.guards.push((path.clone(), guard));
        self.set.push((path, value));
    }
}

/// The document with a value at a path of names, or without it.
///
/// # Errors
///
/// [`Invalid`](crate::ErrorKind::Invalid) for a path that is not one of names alone.
pub(super) fn with(
    document: &RawDocument,
    path: &str,
    value: Option<&RawBson>,
) -> Result<RawDocumentBuf> {
    let mut parents = path
        .match_indices('.')
        .filter_map(|(dot, _)| path.get(..dot));
    let in_array =
        parents.any(|parent| at(document, parent).is_some_and(|value| value.as_array().is_some()));
    if in_array || path.contains('$') {
        let message = "a hook of a save sets fields, and arrays as a whole, but no element of one";
        return Err(crate::Error::new(crate::ErrorKind::Invalid, message).with_path(path));
    }
    Ok(changed(document, path, &|_| value.cloned()))
}

/// What is stored once the framework has filled its fields, as the update says.
pub(super) fn filled(mut stored: RawDocumentBuf, change: &Change, model: &Model) -> RawDocumentBuf {
    if let Some(version) = model.version {
        stored = changed(&stored, version, &|old| {
            Some((old.and_then(|old| old.as_i64()).unwrap_or(0) + 1).into())
        });
    }
    if let Some(updated) = model.updated
        && let Change::Operators { update, .. } = change
        && let Some(set) = value(update, "$set").and_then(|set| set.as_document())
        && let Some(now) = value(set, updated)
    {
        stored = changed(&stored, updated, &|_| Some(now.into()));
    }
    stored
}

/// An element of a changed array with the fields that the model does not know: those of the same element as it is
/// stored or, if no element has come or gone so that it has a `place`, of the one that was there.
fn as_stored(
    item: RawBsonRef<'_>,
    at: usize,
    place: Option<&str>,
    left: &mut [Option<(RawBsonRef<'_>, RawBsonRef<'_>)>],
    variants: &Variants,
) -> RawBson {
    let is_same =
        |old: &Option<(RawBsonRef<'_>, _)>| old.is_some_and(|(before, _)| same(before, item));
    let found = if left.get(at).is_some_and(is_same) {
        Some(at)
    } else {
        left.iter().position(is_same)
    };
    if let Some((_, stored)) = found.and_then(|found| left.get_mut(found)?.take()) {
        return stored.into();
    }
    match (place, left.get(at).copied().flatten()) {
        (Some(place), Some((before, stored))) => merged(stored, before, item, place, variants),
        _ => item.into(),
    }
}

/// The stored value with what has changed from `before` to `after`.
fn merged(
    stored: RawBsonRef<'_>,
    before: RawBsonRef<'_>,
    after: RawBsonRef<'_>,
    path: &str,
    variants: &Variants,
) -> RawBson {
    let (RawBsonRef::Document(stored), RawBsonRef::Document(old), RawBsonRef::Document(new)) =
        (stored, before, after)
    else {
        return after.into();
    };
    if becomes_another(variants.at(path), before, after) {
        return after.into();
    }
    let mut document = RawDocumentBuf::new();
    for (name, kept) in fields(stored) {
        let value = match (value(old, name), value(new, name)) {
            (Some(_), None) => continue,
            (None, _) => kept.into(),
            (Some(before), Some(after)) if same(before, after) => kept.into(),
            (Some(before), Some(after)) => {
                merged(kept, before, after, &below(path, name), variants)
            }
        };
        put(&mut document, name, value);
    }
    for (name, added) in fields(new) {
        if value(stored, name).is_none() {
            put(&mut document, name, added.into());
        }
    }
    document.into()
}

/// Whether an enum is of another variant than before, or is one that is written as a whole.
fn becomes_another(
    place: Option<Option<Tag>>,
    before: RawBsonRef<'_>,
    after: RawBsonRef<'_>,
) -> bool {
    let Some(tag) = place else {
        return false;
    };
    let (Some(tag), Some(before), Some(after)) = (tag, before.as_document(), after.as_document())
    else {
        return true;
    };
    match tag {
        Tag::Text(_) => true,
        Tag::Key(name) => value(before, name).is_none(),
        Tag::Field(name, _) | Tag::Other(name, _) => {
            match (value(before, name), value(after, name)) {
                (Some(before), Some(after)) => !same(before, after),
                _ => true,
            }
        }
    }
}

/// Whether each field has a path that an update can name.
fn have_paths(document: &RawDocument) -> bool {
    fields(document).all(|(name, _)| refuse_key(name).is_ok())
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

fn fields(document: &RawDocument) -> impl Iterator<Item = (&str, RawBsonRef<'_>)> {
    document
        .iter()
        .flatten()
        .map(|(name, value)| (name.as_str(), value))
}

fn items(array: &RawArray) -> Vec<RawBsonRef<'_>> {
    array.into_iter().flatten().collect()
}

fn value<'d>(document: &'d RawDocument, name: &str) -> Option<RawBsonRef<'d>> {
    document.get(name).ok().flatten()
}

fn at<'d>(document: &'d RawDocument, path: &str) -> Option<RawBsonRef<'d>> {
    match path.split_once('.') {
        None => value(document, path),
        Some((first, rest)) => at(value(document, first)?.as_document()?, rest),
    }
}

/// The document with another value at a path, or none. Documents on the way are made where they are missing.
fn changed(
    document: &RawDocument,
    path: &str,
    change: &dyn Fn(Option<RawBsonRef<'_>>) -> Option<RawBson>,
) -> RawDocumentBuf {
    let (first, rest) = path
        .split_once('.')
        .map_or((path, None), |(first, rest)| (first, Some(rest)));
    let new = |old: Option<RawBsonRef<'_>>| match rest {
        None => change(old),
        Some(rest) => {
            let inner = old
                .and_then(|old| old.as_document())
                .map(RawDocument::to_owned);
            Some(changed(&inner.unwrap_or_default(), rest, change).into())
        }
    };
    let others = fields(document).map(|(name, value)| {
        let value = if name == first {
            new(Some(value))
        } else {
            Some(value.into())
        };
        (name, value)
    });
    let added = value(document, first).is_none().then(|| (first, new(None)));
    let mut document = RawDocumentBuf::new();
    for (name, value) in others.chain(added) {
        if let Some(value) = value {
            put(&mut document, name, value);
        }
    }
    document
}

/// Appends a field whose name comes from a document, so that it has no null byte.
fn put(document: &mut RawDocumentBuf, name: &str, value: RawBson) {
    let put = append(document, name, value);
    debug_assert!(put.is_ok(), "a name without a null byte");
}

fn operator<'p>(
    update: &mut RawDocumentBuf,
    name: &str,
    changes: impl Iterator<Item = Result<(&'p String, RawBson)>>,
) -> Result<()> {
    let mut fields = RawDocumentBuf::new();
    for change in changes {
        let (path, value) = change?;
        append(&mut fields, path, value)?;
    }
    if fields.iter().next().is_some() {
        append(update, name, fields)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc, rawdoc};

    use super::*;

    fn update(stored: RawDocumentBuf, before: RawDocumentBuf, after: RawDocumentBuf) -> Document {
        let difference = Difference::of(&stored, &before, &after, &Variants::default());
        difference.update().unwrap().try_into().unwrap()
    }

    fn guards(stored: RawDocumentBuf, before: RawDocumentBuf, after: RawDocumentBuf) -> Document {
        let difference = Difference::of(&stored, &before, &after, &Variants::default());
        let filter = crate::query::Filter::<()>::from_node(difference.untouched());
        filter.to_raw().unwrap().try_into().unwrap()
    }

    #[test]
    fn only_what_changed_is_written() {
        let stored =
            || rawdoc! { "_id": 1, "a": 1, "b": { "c": 2, "d": 3, "unknown": 4 }, "more": 5 };
        let before = || rawdoc! { "_id": 1, "a": 1, "b": { "c": 2, "d": 3 } };
        assert!(Difference::of(&stored(), &before(), &before(), &Variants::default()).is_empty());
        let after = || rawdoc! { "_id": 1, "a": 1, "b": { "c": 2, "d": 7 } };
        assert_eq!(
            update(stored(), before(), after()),
            doc! { "$set": { "b.d": 7 } }
        );
        assert_eq!(
            guards(stored(), before(), after()),
            doc! { "b.d": { "$eq": 3 } }
        );
        let without = rawdoc! { "_id": 1, "b": { "c": 2, "d": 3 } };
        assert_eq!(
            update(stored(), before(), without),
            doc! { "$unset": { "a": true } }
        );
    }

    #[test]
    fn what_is_not_stored_is_written_as_a_whole() {
        let (before, after) = (
            rawdoc! { "b": { "c": 0, "d": 0 } },
            rawdoc! { "b": { "c": 0, "d": 1 } },
        );
        let set = doc! { "$set": { "b": { "c": 0, "d": 1 } } };
        assert_eq!(update(rawdoc! {}, before.clone(), after.clone()), set);
        assert_eq!(
            guards(rawdoc! {}, before, after),
            doc! { "b": { "$exists": false } }
        );
    }

    #[test]
    fn what_is_appended_is_pushed() {
        let stored = rawdoc! { "a": [1, 2] };
        let after = rawdoc! { "a": [1, 2, 3] };
        assert_eq!(
            update(stored.clone(), stored.clone(), after.clone()),
            doc! { "$push": { "a": { "$each": [3] } } }
        );
        assert_eq!(
            guards(stored.clone(), stored, after),
            doc! { "a": { "$size": 2_i64 } }
        );
    }

    #[test]
    fn elements_keep_what_the_model_does_not_know() {
        let stored = rawdoc! { "a": [{ "x": 1, "u": 7 }, { "x": 2, "u": 8 }] };
        let before = rawdoc! { "a": [{ "x": 1 }, { "x": 2 }] };
        let set = |after| {
            let update = update(stored.clone(), before.clone(), after);
            update
                .get_document("$set")
                .unwrap()
                .get_array("a")
                .unwrap()
                .clone()
        };
        assert_eq!(
            set(rawdoc! { "a": [{ "x": 2 }] }),
            [doc! { "x": 2, "u": 8 }.into()]
        );
        assert_eq!(
            set(rawdoc! { "a": [{ "x": 1 }, { "x": 3 }] }),
            [
                doc! { "x": 1, "u": 7 }.into(),
                doc! { "x": 3, "u": 8 }.into()
            ]
        );
    }

    #[test]
    fn a_key_that_is_no_path_is_written_with_what_it_is_in() {
        let (before, after) = (rawdoc! { "m": { "a.b": 1 } }, rawdoc! { "m": {} });
        assert_eq!(
            update(before.clone(), before, after),
            doc! { "$set": { "m": {} } }
        );
    }

    #[test]
    fn null_is_told_from_missing() {
        let (before, after) = (rawdoc! { "a": RawBson::Null }, rawdoc! { "a": 1 });
        assert_eq!(
            guards(before.clone(), before, after),
            doc! { "a": { "$type": 10 } }
        );
    }
}
