//! Parent documents: the update that applies contributions, and the reads that the update needs.

use std::cmp::Ordering;

use bson::{Bson, Document, RawDocumentBuf, doc};

use super::{
    child::ContributionDelta,
    contribution::{RollupGroup, sort_value_path},
    parent::ParentIdentity,
    sum::ContributionSum,
};
use crate::{
    Result,
    backend::operation::{Direction, Stage},
    language::query::id_filter,
    metadata::{
        self, ParsedMetadata,
        rollup::{ENTRY_ID, ROLLUP_VERSION},
    },
    model::ids::OrderedId,
    schema::{ChildList, upgrade::read_upgraded},
    session::access::{Access, ModelAccess, find_matching},
    write::metadata_update::{parse_document, to_raw_document, to_raw_value, value_at},
};

/// Returns the update that applies contribution changes to a parent. The update always increments the rollup version.
///
/// `current` is the stored parent. `None` if the parent has no contribution of the children.
pub(super) async fn build_update(
    access: ModelAccess<'_>,
    group: &RollupGroup,
    parent: &ParentIdentity,
    current: Option<&Document>,
    deltas: &[ContributionDelta<'_>],
) -> Result<Document> {
    let (mut increments, mut set, mut push) = (Document::new(), Document::new(), Document::new());
    for (position, rollup) in group.rollups.iter().enumerate() {
        let Some(list) = rollup.child_list() else {
            let change = ContributionSum::change_of(rollup, deltas);
            increments.extend(change.increments(group.parent_model, rollup)?);
            continue;
        };
        let path = rollup.state_path();
        let entries = current.and_then(|current| value_at(current, &path)?.as_array());
        match list_change(position, entries, deltas)? {
            ListChange::Unchanged => {}
            ListChange::Added(mut new) => {
                keep_first(&mut new, &list);
                let new: Vec<_> = new.into_iter().cloned().map(Bson::Document).collect();
                let sign = list.direction.sign();
                let sort = doc! { sort_value_path(&list): sign, ENTRY_ID: sign };
                let max = i64::try_from(list.max).unwrap_or(i64::MAX);
                push.insert(path, doc! { "$each": new, "$sort": sort, "$slice": max });
            }
            ListChange::ReadAgain => {
                let entries = read_recorded_list(access, group, position, parent);
                set.insert(path, entries.await?);
            }
        }
    }
    increments.insert(ROLLUP_VERSION, 1_i64);
    let mut update = doc! { "$inc": increments };
    for (operator, fields) in [("$set", set), ("$push", push)] {
        if !fields.is_empty() {
            update.insert(operator, fields);
        }
    }
    Ok(update)
}

/// The change of a list of children.
enum ListChange<'d> {
    /// Leaves the list unchanged.
    Unchanged,
    /// Adds entries.
    Added(Vec<&'d Document>),
    /// Reads the list again, because entries were removed or changed.
    ReadAgain,
}

fn list_change<'d>(
    position: usize,
    list: Option<&Vec<Bson>>,
    deltas: &[ContributionDelta<'d>],
) -> Result<ListChange<'d>> {
    let mut new = Vec::new();
    for delta in deltas {
        let excerpt = delta
            .new
            .and_then(|contribution| contribution.excerpts.get(position)?.as_ref());
        let entry = match list {
            None => None,
            Some(entries) => find_entry(entries, delta.child_id)?,
        };
        match (entry, excerpt) {
            (None, None) => {}
            (None, Some(excerpt)) => new.push(excerpt),
            (Some(entry), Some(excerpt)) if entry == excerpt => {}
            (Some(_), _) => return Ok(ListChange::ReadAgain),
        }
    }
    Ok(match new.is_empty() {
        true => ListChange::Unchanged,
        false => ListChange::Added(new),
    })
}

/// Removes new entries that have no place in a list, because enough other new entries come first. An insert of many children
/// sends only these few entries.
///
/// Keeps all entries if only the database knows the order of two sort values or ids.
fn keep_first(new: &mut Vec<&Document>, list: &ChildList) {
    let keys = new.iter().map(|entry| {
        let value = value_at(entry, sort_value_path(list))?;
        Some((value, ParsedMetadata::of(entry).entry_id()?))
    });
    let Some(keys) = keys.collect::<Option<Vec<_>>>() else {
        return;
    };
    let is_comparable = |(value, id): &(&Bson, &Bson)| {
        let first = keys.first();
        first.is_some_and(|(first_value, first_id)| {
            known_order(value, first_value).is_some() && known_order(id, first_id).is_some()
        })
    };
    if keys.len() <= list.max || !keys.iter().all(is_comparable) {
        return;
    }
    let mut positions: Vec<_> = (0..keys.len()).collect();
    positions.sort_by(|a, b| {
        let (Some((a_value, a_id)), Some((b_value, b_id))) = (keys.get(*a), keys.get(*b)) else {
            return Ordering::Equal;
        };
        let by_value = known_order(a_value, b_value).unwrap_or(Ordering::Equal);
        let order = by_value.then(known_order(a_id, b_id).unwrap_or(Ordering::Equal));
        match list.direction {
            Direction::Ascending => order,
            Direction::Descending => order.reverse(),
        }
    });
    positions.truncate(list.max);
    *new = positions
        .into_iter()
        .filter_map(|at| new.get(at).copied())
        .collect();
}

/// Returns the order of two values of the same type, as the database sorts them. `None` for types with a less simple order.
fn known_order(a: &Bson, b: &Bson) -> Option<Ordering> {
    match (a, b) {
        (Bson::DateTime(a), Bson::DateTime(b)) => Some(a.cmp(b)),
        (Bson::Int64(a), Bson::Int64(b)) => Some(a.cmp(b)),
        (Bson::Int32(a), Bson::Int32(b)) => Some(a.cmp(b)),
        (Bson::ObjectId(a), Bson::ObjectId(b)) => Some(a.cmp(b)),
        (Bson::String(a), Bson::String(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

/// Returns the entry of a child in a list.
fn find_entry<'h>(entries: &'h [Bson], id: &Bson) -> Result<Option<&'h Document>> {
    let id = OrderedId::from_bson(id)?;
    for entry in entries.iter().filter_map(Bson::as_document) {
        if let Some(entry_id) = ParsedMetadata::of(entry).entry_id()
            && OrderedId::from_bson(entry_id)? == id
        {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

/// Returns the list of a parent for an update.
///
/// On a standalone server, the list has only children that recorded this parent. A child without the record can leave the parent
/// without a notice to the parent.
pub(super) async fn read_recorded_list(
    access: ModelAccess<'_>,
    group: &RollupGroup,
    position: usize,
    parent: &ParentIdentity,
) -> Result<Vec<Bson>> {
    let mut filter = doc! {};
    if !access.has_transactions() {
        let id = parent.id.clone();
        filter.insert(group.recorded_parents_path(), doc! { "$eq": id });
    }
    read_list(access, group, (position, parent), filter).await
}

/// Returns the list of a parent, from the children that meet a condition.
pub(super) async fn read_list(
    access: ModelAccess<'_>,
    group: &RollupGroup,
    (position, parent): (usize, &ParentIdentity),
    mut filter: Document,
) -> Result<Vec<Bson>> {
    let rollup = group.rollups.get(position);
    let Some((rollup, list)) = rollup.and_then(|rollup| Some((rollup, rollup.child_list()?)))
    else {
        return Ok(Vec::new());
    };
    let (condition, sort) = group.list_query(rollup, &list)?;
    filter.insert(&group.reference, doc! { "$eq": parent.id.clone() });
    filter.extend(parent.scope_condition(group));
    filter.extend(condition);
    let find = access
        .find_matching(&to_raw_document(&filter)?)
        .with_origin(Stage::ROLLUPS.step("read the listed children"))
        .with_sort(to_raw_document(&sort)?)
        .with_limit(list.max as u64);
    let mut entries = Vec::new();
    for raw in read_upgraded(&access, access.model, find).await? {
        let contributions = group.contributions_of(&parse_document(&raw)?)?;
        let excerpt = contributions.into_iter().find_map(|mut contribution| {
            let excerpt = contribution.excerpts.get_mut(position)?;
            excerpt.take()
        });
        entries.extend(excerpt.map(Bson::Document));
    }
    Ok(entries)
}

/// Returns the rollup fields of a parent, or `None` if the parent does not exist.
pub(super) async fn read_parent(
    access: &Access,
    group: &RollupGroup,
    parent: &ParentIdentity,
) -> Result<Option<Document>> {
    let filter = to_raw_document(&parent.to_filter(group)?)?;
    read_parent_by_filter(access, group, filter).await
}

/// Returns the rollup fields of the document with this `_id`, in any scope.
pub(super) async fn read_parent_in_any_scope(
    access: &Access,
    group: &RollupGroup,
    id: &Bson,
) -> Result<Option<Document>> {
    read_parent_by_filter(access, group, id_filter(&to_raw_value(id)?)).await
}

async fn read_parent_by_filter(
    access: &Access,
    group: &RollupGroup,
    filter: RawDocumentBuf,
) -> Result<Option<Document>> {
    let mut projection = doc! { metadata::FIELD: 1 };
    projection.extend(ParentIdentity::identity_projection(group));
    for rollup in &group.rollups {
        projection.insert(rollup.stored, 1);
    }
    let find = find_matching(group.parent_model.collection, &filter)
        .with_origin(Stage::ROLLUPS.step("read the parent"))
        .with_projection(to_raw_document(&projection)?)
        .with_limit(1);
    let parents = access.find_all(group.parent_model, find).await?;
    parents.first().map(|raw| parse_document(raw)).transpose()
}

#[cfg(test)]
mod tests {
    use bson::oid::ObjectId;

    use super::*;
    use crate::model::stored::set_at;

    fn entry(id: impl Into<Bson>, at: impl Into<Bson>) -> Document {
        let mut entry = doc! { "at": at };
        set_at(&mut entry, ENTRY_ID, id.into());
        entry
    }

    fn kept(entries: &[Document], max: usize, direction: Direction) -> Vec<&Document> {
        let mut new = entries.iter().collect();
        let list = ChildList {
            max,
            by: "at".to_owned(),
            direction,
            fields: &[("at", "at")],
            needs_value: false,
        };
        keep_first(&mut new, &list);
        new
    }

    #[test]
    fn the_first_entries_are_kept_in_order() {
        let entries = [(1, 5), (2, 9), (3, 7), (4, 9)].map(|(id, at)| entry(id, at));
        let latest = kept(&entries, 3, Direction::Descending);
        assert_eq!(latest, [&entries[3], &entries[1], &entries[2]]);
        let smallest = kept(&entries, 3, Direction::Ascending);
        assert_eq!(smallest, [&entries[0], &entries[2], &entries[1]]);
        // Few entries stay as they are.
        let few = kept(&entries, 4, Direction::Descending);
        assert_eq!(few, entries.iter().collect::<Vec<_>>());
    }

    #[test]
    fn entries_without_a_known_order_are_all_kept() {
        let ids = [ObjectId::from_bytes([1; 12]), ObjectId::from_bytes([2; 12])];
        let mixed = [entry(1, 1), entry(2, 2_i64), entry(3, 3)];
        let doubles = [entry(1, 1.0), entry(2, 2.0), entry(3, 3.0)];
        let mixed_ids = [entry(ids[0], 1), entry(ids[1], 2), entry("text", 3)];
        let missing = [doc! { "at": 1 }, doc! { "at": 2 }, doc! { "at": 3 }];
        for entries in [mixed, doubles, mixed_ids, missing] {
            assert_eq!(
                kept(&entries, 1, Direction::Descending).len(),
                3,
                "{entries:?}"
            );
        }
    }
}
