//! Compares a document with its earlier state and makes the smallest update.

use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use crate::{
    Result,
    backend::operation::DocumentChange,
    language::{
        field::{Path, Tag, VariantMap, ensure_map_key},
        query::{FilterNode, append_field, same_bytes, single_field_document},
    },
    metadata,
    schema::Model,
    write::footprint::{Operator, path_changes},
};

/// The update from the stored document to the changed document, and the conditions of that update.
#[derive(Debug, Default)]
pub(super) struct SaveDifference {
    set: Vec<(String, RawBson)>,
    unset: Vec<String>,
    push: Vec<(String, RawArrayBuf)>,
    /// The guards of the written paths: each path must still hold the value that was read.
    guards: Vec<(String, PathGuard)>,
    /// The document becomes another enum variant, so that all fields are replaced.
    is_variant_change: bool,
}

#[derive(Debug)]
enum PathGuard {
    Missing,
    Equal(RawBson),
    /// The array still has this length. Guards an append.
    Length(usize),
    /// The field still exists. Guards an enum that uses the presence of a field as its tag.
    Present,
}

/// The three states of a document: stored, as encoded by the model after the read, and as encoded by the model now.
#[derive(Clone, Copy)]
struct DocumentStates<'d> {
    stored: &'d RawDocument,
    before: &'d RawDocument,
    after: &'d RawDocument,
    /// The enum values in `after`.
    variants: &'d VariantMap,
}

impl SaveDifference {
    /// Compares `before` with `after`, both encoded by the model, for a document that is stored as `stored`.
    ///
    /// Embedded documents are compared field by field, so that fields unknown to the model stay. An enum that changes its variant
    /// is written as a whole: no field of the old variant may stay.
    pub(super) fn from_states(
        stored: &RawDocument,
        before: &RawDocument,
        after: &RawDocument,
        variants: &VariantMap,
    ) -> Self {
        let mut difference = Self::default();
        let states = DocumentStates {
            stored,
            before,
            after,
            variants,
        };
        let [old_document, new_document] = [before, after].map(RawBsonRef::Document);
        if changes_variant(variants.enum_at(""), old_document, new_document) {
            difference.replace_variant(states);
            return difference;
        }
        difference.diff_document("", states);
        if let Some(Some(tag)) = variants.enum_at("")
            && !difference.is_empty()
        {
            difference.guard_variant("", tag, stored);
        }
        difference
    }

    /// Replaces the whole document, which becomes another variant of its enum. Only the `_id` and the metadata stay.
    ///
    /// The guards cover the fields of both variants: a value that another write stored in such a field would be read as part of
    /// the new variant.
    fn replace_variant(&mut self, states: DocumentStates<'_>) {
        self.is_variant_change = true;
        let is_kept =
            |name: &str| ["_id", metadata::FIELD].contains(&name) || ensure_map_key(name).is_err();
        for (name, stored) in iter_fields(states.stored).filter(|(name, _)| !is_kept(name)) {
            self.guards
                .push((name.to_owned(), PathGuard::Equal(stored.into())));
            match get_field(states.after, name) {
                None => self.unset.push(name.to_owned()),
                Some(after) if same_bytes(stored, after) => {}
                Some(after) => self.set.push((name.to_owned(), after.into())),
            }
        }
        let written = iter_fields(states.after).map(|(name, _)| name);
        let known = states.variants.known_names().iter().copied();
        for name in known.chain(written).filter(|name| !is_kept(name)) {
            let is_guarded = self.guards.iter().any(|(path, _)| path == name);
            if !is_guarded {
                self.guards.push((name.to_owned(), PathGuard::Missing));
                if let Some(after) = get_field(states.after, name) {
                    self.set.push((name.to_owned(), after.into()));
                }
            }
        }
    }

    /// Returns the paths that the update sets or pushes to.
    pub(super) fn written_paths(&self) -> Vec<String> {
        let set = self.set.iter().map(|(path, _)| path);
        let pushed = self.push.iter().map(|(path, _)| path);
        set.chain(pushed).cloned().collect()
    }

    /// Returns whether the document becomes another variant.
    pub(super) fn is_variant_change(&self) -> bool {
        self.is_variant_change
    }

    pub(super) fn is_empty(&self) -> bool {
        self.guards.is_empty()
    }

    /// Returns the first written path that differs between the document that was read and the stored document.
    pub(super) fn first_changed_path(
        &self,
        read: &RawDocument,
        stored: &RawDocument,
    ) -> Option<&str> {
        let changed = |(path, guard): &&(String, PathGuard)| match (
            get_path(read, path),
            get_path(stored, path),
        ) {
            (Some(a), Some(b)) => !matches!(guard, PathGuard::Present) && !same_bytes(a, b),
            (a, b) => a.is_some() != b.is_some(),
        };
        self.guards
            .iter()
            .find(changed)
            .map(|(path, _)| path.as_str())
    }

    /// Returns the update document.
    pub(super) fn to_update(&self) -> Result<RawDocumentBuf> {
        let mut update = RawDocumentBuf::new();
        let set = self
            .set
            .iter()
            .map(|(path, value)| Ok((path, value.clone())));
        append_operator(&mut update, "$set", set)?;
        let unset = self
            .unset
            .iter()
            .map(|path| Ok((path, RawBson::from(true))));
        append_operator(&mut update, "$unset", unset)?;
        let push = self.push.iter().map(|(path, values)| {
            Ok((path, single_field_document("$each", values.clone())?.into()))
        });
        append_operator(&mut update, "$push", push)?;
        Ok(update)
    }

    /// Applies the update to the stored document in memory.
    pub(super) fn apply_to(&self, stored: &RawDocument) -> RawDocumentBuf {
        let mut document = stored.to_owned();
        for (path, value) in &self.set {
            document = replace_at(&document, path, &|_| Some(value.clone()));
        }
        for path in &self.unset {
            document = replace_at(&document, path, &|_| None);
        }
        for (path, added) in &self.push {
            document = replace_at(&document, path, &|old| {
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

    /// Returns the condition that all written paths are unchanged since the read.
    pub(super) fn unchanged_since_read(&self) -> FilterNode {
        let test = |(path, guard): &(String, PathGuard)| {
            let path = Path::ROOT.append_name(path);
            match guard {
                PathGuard::Missing => FilterNode::Test(path, "$exists", false.into()),
                PathGuard::Present => FilterNode::Test(path, "$exists", true.into()),
                // `$eq: null` would match a missing field too.
                PathGuard::Equal(RawBson::Null) => FilterNode::Test(path, "$type", 10.into()),
                PathGuard::Equal(value) => FilterNode::Test(path, "$eq", value.clone()),
                PathGuard::Length(length) => FilterNode::Test(
                    path,
                    "$size",
                    i64::try_from(*length).unwrap_or(i64::MAX).into(),
                ),
            }
        };
        self.guards
            .iter()
            .map(test)
            .fold(FilterNode::All, FilterNode::and)
    }

    fn diff_document(&mut self, path: &str, states: DocumentStates<'_>) {
        for (name, after) in iter_fields(states.after) {
            let before = get_field(states.before, name);
            if before.is_some_and(|before| same_bytes(before, after)) {
                continue;
            }
            let path = join_path(path, name);
            let stored = get_field(states.stored, name);
            match (stored, before) {
                (Some(stored), Some(before)) => {
                    self.diff_value(path, [stored, before, after], states.variants);
                }
                (stored, _) => self.write_whole(path, stored, after.into()),
            }
        }
        for (name, _) in iter_fields(states.before) {
            if get_field(states.after, name).is_none()
                && let Some(stored) = get_field(states.stored, name)
            {
                let path = join_path(path, name);
                self.guards
                    .push((path.clone(), PathGuard::Equal(stored.into())));
                self.unset.push(path);
            }
        }
    }

    fn diff_value(&mut self, path: String, values: [RawBsonRef<'_>; 3], variants: &VariantMap) {
        let [stored, before, after] = values;
        if changes_variant(variants.enum_at(&path), before, after) {
            return self.write_whole(path, Some(stored), after.into());
        }
        let guards_before = self.guards.len();
        match (stored, before, after) {
            (
                RawBsonRef::Document(stored),
                RawBsonRef::Document(before),
                RawBsonRef::Document(after),
            ) if all_names_are_paths(before) && all_names_are_paths(after) => {
                let states = DocumentStates {
                    stored,
                    before,
                    after,
                    variants,
                };
                self.diff_document(&path, states);
                if let Some(Some(tag)) = variants.enum_at(&path)
                    && self.guards.len() > guards_before
                {
                    self.guard_variant(&path, tag, stored);
                }
            }
            (RawBsonRef::Array(stored), RawBsonRef::Array(before), RawBsonRef::Array(after)) => {
                self.diff_array(path, [stored, before, after], variants);
            }
            (stored, _, after) => self.write_whole(path, Some(stored), after.into()),
        }
    }

    /// Guards the tag: a path inside a variant is only valid while the stored value has that variant.
    fn guard_variant(&mut self, path: &str, tag: Tag, stored: &RawDocument) {
        let (name, guard): (_, fn(RawBsonRef<'_>) -> PathGuard) = match tag {
            Tag::Text(_) => return,
            Tag::Key(name) => (name, |_| PathGuard::Present),
            Tag::Field(name, _) | Tag::Other(name, _) => (name, |tag| PathGuard::Equal(tag.into())),
        };
        if let Some(tag) = get_field(stored, name) {
            self.guards.push((join_path(path, name), guard(tag)));
        }
    }

    /// Pushes the elements if elements were only appended. Otherwise writes the whole array, and keeps the stored form of
    /// unchanged elements.
    fn diff_array(&mut self, path: String, values: [&RawArray; 3], variants: &VariantMap) {
        let [stored, _, _] = values;
        let [stored_items, before, after] = values.map(array_items);
        if stored_items.len() != before.len() {
            let elements = after.into_iter().collect::<RawArrayBuf>();
            return self.write_whole(path, Some(RawBsonRef::Array(stored)), elements.into());
        }
        let is_same = |(a, b): (&RawBsonRef<'_>, &RawBsonRef<'_>)| same_bytes(*a, *b);
        if after.len() > before.len() && before.iter().zip(&after).all(is_same) {
            let added = after.into_iter().skip(before.len()).collect();
            self.guards
                .push((path.clone(), PathGuard::Length(before.len())));
            self.push.push((path, added));
            return;
        }
        let is_in_place = after.len() == before.len();
        let mut unmatched: Vec<_> = before.iter().copied().zip(stored_items).map(Some).collect();
        let mut elements = RawArrayBuf::new();
        for (index, item) in after.iter().enumerate() {
            let place = is_in_place.then(|| join_path(&path, &index.to_string()));
            elements.push(with_unknown_fields(
                *item,
                index,
                place.as_deref(),
                &mut unmatched,
                variants,
            ));
        }
        self.write_whole(path, Some(RawBsonRef::Array(stored)), elements.into());
    }

    fn write_whole(&mut self, path: String, stored: Option<RawBsonRef<'_>>, value: RawBson) {
        let guard = stored.map_or(PathGuard::Missing, |stored| PathGuard::Equal(stored.into()));
        self.guards.push((path.clone(), guard));
        self.set.push((path, value));
    }
}

/// Returns the document with the value at a path of field names, or without the path.
///
/// # Errors
///
/// [`Invalid`](crate::ErrorKind::Invalid) for a path that contains an array element.
pub(super) fn with_value_at(
    document: &RawDocument,
    path: &str,
    value: Option<&RawBson>,
) -> Result<RawDocumentBuf> {
    let mut parents = path
        .match_indices('.')
        .filter_map(|(dot, _)| path.get(..dot));
    let in_array = parents
        .any(|parent| get_path(document, parent).is_some_and(|value| value.as_array().is_some()));
    if in_array || path.contains('$') {
        let message = "a hook of a save cannot set an array element: set the whole array";
        return Err(crate::Error::new(crate::ErrorKind::Invalid, message).with_path(path));
    }
    Ok(replace_at(document, path, &|_| value.cloned()))
}

/// Adds the managed fields that the update sets to the stored document.
pub(super) fn with_managed_fields(
    mut stored: RawDocumentBuf,
    change: &DocumentChange,
    model: &Model,
) -> RawDocumentBuf {
    if let Some(version) = model.version {
        stored = replace_at(&stored, version, &|old| {
            Some((old.and_then(|old| old.as_i64()).unwrap_or(0) + 1).into())
        });
    }
    if let Some(updated) = model.updated
        && let DocumentChange::Operators { update, .. } = change
        && let Some(set) = path_changes(update)
            .find(|change| change.operator == Operator::Set && change.path == updated)
    {
        stored = replace_at(&stored, updated, &|_| Some(set.operand.into()));
    }
    stored
}

/// Returns an element of a changed array with the fields that the model does not know. The fields come from an equal stored
/// element. If the array kept its length, so that the element has a `place`, the fields can come from the stored element at the
/// same index.
fn with_unknown_fields(
    item: RawBsonRef<'_>,
    index: usize,
    place: Option<&str>,
    unmatched: &mut [Option<(RawBsonRef<'_>, RawBsonRef<'_>)>],
    variants: &VariantMap,
) -> RawBson {
    let is_same =
        |old: &Option<(RawBsonRef<'_>, _)>| old.is_some_and(|(before, _)| same_bytes(before, item));
    let matching_index = if unmatched.get(index).is_some_and(is_same) {
        Some(index)
    } else {
        unmatched.iter().position(is_same)
    };
    if let Some((_, stored)) =
        matching_index.and_then(|matching_index| unmatched.get_mut(matching_index)?.take())
    {
        return stored.into();
    }
    match (place, unmatched.get(index).copied().flatten()) {
        (Some(place), Some((before, stored))) => {
            merge_changes(stored, before, item, place, variants)
        }
        _ => item.into(),
    }
}

/// Applies the change from `before` to `after` to the stored value.
fn merge_changes(
    stored: RawBsonRef<'_>,
    before: RawBsonRef<'_>,
    after: RawBsonRef<'_>,
    path: &str,
    variants: &VariantMap,
) -> RawBson {
    let (RawBsonRef::Document(stored), RawBsonRef::Document(old), RawBsonRef::Document(new)) =
        (stored, before, after)
    else {
        return after.into();
    };
    if changes_variant(variants.enum_at(path), before, after) {
        return after.into();
    }
    let mut document = RawDocumentBuf::new();
    for (name, kept) in iter_fields(stored) {
        let value = match (get_field(old, name), get_field(new, name)) {
            (Some(_), None) => continue,
            (None, _) => kept.into(),
            (Some(before), Some(after)) if same_bytes(before, after) => kept.into(),
            (Some(before), Some(after)) => {
                merge_changes(kept, before, after, &join_path(path, name), variants)
            }
        };
        push_field(&mut document, name, value);
    }
    for (name, added) in iter_fields(new) {
        if get_field(stored, name).is_none() {
            push_field(&mut document, name, added.into());
        }
    }
    document.into()
}

/// Whether an enum value changes its variant, or a value is of a kind that is only written as a whole.
fn changes_variant(
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
        Tag::Key(name) => get_field(before, name).is_none(),
        Tag::Field(name, _) | Tag::Other(name, _) => {
            match (get_field(before, name), get_field(after, name)) {
                (Some(before), Some(after)) => !same_bytes(before, after),
                _ => true,
            }
        }
    }
}

/// Whether an update can name each field of the document by a path.
fn all_names_are_paths(document: &RawDocument) -> bool {
    iter_fields(document).all(|(name, _)| ensure_map_key(name).is_ok())
}

fn join_path(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

fn iter_fields(document: &RawDocument) -> impl Iterator<Item = (&str, RawBsonRef<'_>)> {
    document
        .iter()
        .flatten()
        .map(|(name, value)| (name.as_str(), value))
}

fn array_items(array: &RawArray) -> Vec<RawBsonRef<'_>> {
    array.into_iter().flatten().collect()
}

fn get_field<'d>(document: &'d RawDocument, name: &str) -> Option<RawBsonRef<'d>> {
    document.get(name).ok().flatten()
}

fn get_path<'d>(document: &'d RawDocument, path: &str) -> Option<RawBsonRef<'d>> {
    match path.split_once('.') {
        None => get_field(document, path),
        Some((first, rest)) => get_path(get_field(document, first)?.as_document()?, rest),
    }
}

/// Returns the document with the value at a path replaced or removed. Missing parent documents are created.
fn replace_at(
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
            Some(replace_at(&inner.unwrap_or_default(), rest, change).into())
        }
    };
    let kept_fields = iter_fields(document).map(|(name, value)| {
        let value = if name == first {
            new(Some(value))
        } else {
            Some(value.into())
        };
        (name, value)
    });
    let added = get_field(document, first)
        .is_none()
        .then(|| (first, new(None)));
    let mut document = RawDocumentBuf::new();
    for (name, value) in kept_fields.chain(added) {
        if let Some(value) = value {
            push_field(&mut document, name, value);
        }
    }
    document
}

/// Appends a field. The name comes from a document and so contains no null byte.
fn push_field(document: &mut RawDocumentBuf, name: &str, value: RawBson) {
    let result = append_field(document, name, value);
    debug_assert!(result.is_ok(), "a name without a null byte");
}

fn append_operator<'p>(
    update: &mut RawDocumentBuf,
    name: &str,
    changes: impl Iterator<Item = Result<(&'p String, RawBson)>>,
) -> Result<()> {
    let mut fields = RawDocumentBuf::new();
    for change in changes {
        let (path, value) = change?;
        append_field(&mut fields, path, value)?;
    }
    if fields.iter().next().is_some() {
        append_field(update, name, fields)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc, rawdoc};

    use super::*;

    fn update_between(
        stored: RawDocumentBuf,
        before: RawDocumentBuf,
        after: RawDocumentBuf,
    ) -> Document {
        let difference =
            SaveDifference::from_states(&stored, &before, &after, &VariantMap::default());
        difference.to_update().unwrap().try_into().unwrap()
    }

    fn guards_between(
        stored: RawDocumentBuf,
        before: RawDocumentBuf,
        after: RawDocumentBuf,
    ) -> Document {
        let difference =
            SaveDifference::from_states(&stored, &before, &after, &VariantMap::default());
        let filter =
            crate::language::query::Filter::<()>::from_node(difference.unchanged_since_read());
        filter.to_raw().unwrap().try_into().unwrap()
    }

    #[test]
    fn only_changed_fields_are_written() {
        let stored =
            || rawdoc! { "_id": 1, "a": 1, "b": { "c": 2, "d": 3, "unknown": 4 }, "more": 5 };
        let before = || rawdoc! { "_id": 1, "a": 1, "b": { "c": 2, "d": 3 } };
        assert!(
            SaveDifference::from_states(&stored(), &before(), &before(), &VariantMap::default())
                .is_empty()
        );
        let after = || rawdoc! { "_id": 1, "a": 1, "b": { "c": 2, "d": 7 } };
        assert_eq!(
            update_between(stored(), before(), after()),
            doc! { "$set": { "b.d": 7 } }
        );
        assert_eq!(
            guards_between(stored(), before(), after()),
            doc! { "b.d": { "$eq": 3 } }
        );
        let stored_without = rawdoc! { "_id": 1, "b": { "c": 2, "d": 3 } };
        assert_eq!(
            update_between(stored(), before(), stored_without),
            doc! { "$unset": { "a": true } }
        );
    }

    #[test]
    fn missing_stored_document_is_written_whole() {
        let (before, after) = (
            rawdoc! { "b": { "c": 0, "d": 0 } },
            rawdoc! { "b": { "c": 0, "d": 1 } },
        );
        let set = doc! { "$set": { "b": { "c": 0, "d": 1 } } };
        assert_eq!(
            update_between(rawdoc! {}, before.clone(), after.clone()),
            set
        );
        assert_eq!(
            guards_between(rawdoc! {}, before, after),
            doc! { "b": { "$exists": false } }
        );
    }

    #[test]
    fn appended_elements_are_pushed() {
        let stored = rawdoc! { "a": [1, 2] };
        let after = rawdoc! { "a": [1, 2, 3] };
        assert_eq!(
            update_between(stored.clone(), stored.clone(), after.clone()),
            doc! { "$push": { "a": { "$each": [3] } } }
        );
        assert_eq!(
            guards_between(stored.clone(), stored, after),
            doc! { "a": { "$size": 2_i64 } }
        );
    }

    #[test]
    fn elements_keep_unknown_fields() {
        let stored = rawdoc! { "a": [{ "x": 1, "u": 7 }, { "x": 2, "u": 8 }] };
        let before = rawdoc! { "a": [{ "x": 1 }, { "x": 2 }] };
        let set = |after| {
            let update = update_between(stored.clone(), before.clone(), after);
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
    fn map_key_with_a_dot_rewrites_the_map() {
        let (before, after) = (rawdoc! { "m": { "a.b": 1 } }, rawdoc! { "m": {} });
        assert_eq!(
            update_between(before.clone(), before, after),
            doc! { "$set": { "m": {} } }
        );
    }

    #[test]
    fn null_and_missing_are_distinct() {
        let (before, after) = (rawdoc! { "a": RawBson::Null }, rawdoc! { "a": 1 });
        assert_eq!(
            guards_between(before.clone(), before, after),
            doc! { "a": { "$type": 10 } }
        );
    }
}
