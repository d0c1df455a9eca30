//! Parent documents: the update that applies contributions, and the reads that the update needs.

use std::cmp::Ordering;

use bson::{Bson, Document, RawDocumentBuf, doc};

use super::{
    child::ContributionDelta,
    contribution::{RollupGroup, sort_value_path},
    parent::ParentIdentity,
};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::Stage,
    error,
    language::query::id_filter,
    metadata::{
        self, ParsedMetadata,
        rollup::{ENTRY_ID, ROLLUP_VERSION},
    },
    model::ids::OrderedId,
    schema::{Model, Rollup, RollupKind, upgrade::read_upgraded},
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
        match rollup.kind {
            RollupKind::Count | RollupKind::Sum(_) => {
                let value_in =
                    |values: &Document| i128::from(values.get_i64(rollup.stored).unwrap_or(0));
                let changes = deltas.iter().map(|delta| {
                    let new_value = delta
                        .new
                        .map_or(0, |contribution| value_in(&contribution.values));
                    new_value - value_in(&delta.old_values)
                });
                let change: i128 = changes.sum();
                if change != 0 {
                    let change = checked_sum(group.parent_model, rollup, change)?;
                    increments.insert(rollup.stored, change);
                }
            }
            RollupKind::Latest { max, by, fields } => {
                let list = current.and_then(|current| current.get_array(rollup.stored).ok());
                match latest_change(position, list, deltas)? {
                    LatestChange::Unchanged => {}
                    LatestChange::Added(mut new) => {
                        let by = by().to_string();
                        let sort_path = sort_value_path(&by, fields);
                        keep_latest(&mut new, sort_path, max);
                        let new: Vec<_> = new.into_iter().cloned().map(Bson::Document).collect();
                        let sort = doc! { sort_path: -1, ENTRY_ID: -1 };
                        let max = i64::try_from(max).unwrap_or(i64::MAX);
                        let entries = doc! { "$each": new, "$sort": sort, "$slice": max };
                        push.insert(rollup.stored, entries);
                    }
                    LatestChange::ReadAgain => {
                        let entries = read_recorded_latest(access, group, position, parent);
                        set.insert(rollup.stored, entries.await?);
                    }
                }
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

/// Converts a sum, or the change of a sum, to `i64`.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) on overflow.
pub(super) fn checked_sum(parent_model: &Model, rollup: &Rollup, sum: i128) -> Result<i64> {
    i64::try_from(sum).map_err(|_| {
        let message = format!(
            "the sum `{}` would be {sum}, which does not fit into an `i64`: store smaller values in the children",
            rollup.stored
        );
        error::naming_model(parent_model)(Error::new(ErrorKind::Invalid, message))
    })
}

/// The change of a latest-N list.
enum LatestChange<'d> {
    /// Leaves the list unchanged.
    Unchanged,
    /// Adds entries.
    Added(Vec<&'d Document>),
    /// Reads the list again, because entries were removed or changed.
    ReadAgain,
}

fn latest_change<'d>(
    position: usize,
    list: Option<&Vec<Bson>>,
    deltas: &[ContributionDelta<'d>],
) -> Result<LatestChange<'d>> {
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
            (Some(_), _) => return Ok(LatestChange::ReadAgain),
        }
    }
    Ok(match new.is_empty() {
        true => LatestChange::Unchanged,
        false => LatestChange::Added(new),
    })
}

/// Removes new entries that have no place in a list of `max` entries, because enough other new entries come first. An insert of
/// many children sends only these few entries.
///
/// Keeps all entries if only the database knows the order of two sort values or ids.
fn keep_latest(new: &mut Vec<&Document>, sort_path: &str, max: usize) {
    let keys = new.iter().map(|entry| {
        let value = value_at(entry, sort_path)?;
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
    if keys.len() <= max || !keys.iter().all(is_comparable) {
        return;
    }
    let mut positions: Vec<_> = (0..keys.len()).collect();
    positions.sort_by(|a, b| {
        let (Some((a_value, a_id)), Some((b_value, b_id))) = (keys.get(*a), keys.get(*b)) else {
            return Ordering::Equal;
        };
        let by_value = known_order(b_value, a_value).unwrap_or(Ordering::Equal);
        by_value.then(known_order(b_id, a_id).unwrap_or(Ordering::Equal))
    });
    positions.truncate(max);
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

/// Returns the latest-N list of a parent for an update.
///
/// On a standalone server, the list has only children that recorded this parent. A child without the record can leave the parent
/// without a notice to the parent.
pub(super) async fn read_recorded_latest(
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
    read_latest(access, group, (position, parent), filter).await
}

/// Returns the latest-N list of a parent, from the children that meet a condition.
pub(super) async fn read_latest(
    access: ModelAccess<'_>,
    group: &RollupGroup,
    (position, parent): (usize, &ParentIdentity),
    mut filter: Document,
) -> Result<Vec<Bson>> {
    let Some(rollup) = group.rollups.get(position) else {
        return Ok(Vec::new());
    };
    let max = match rollup.kind {
        RollupKind::Count | RollupKind::Sum(_) => return Ok(Vec::new()),
        RollupKind::Latest { max, .. } => max,
    };
    let (condition, sort) = group.latest_query(rollup)?;
    filter.insert(&group.reference, doc! { "$eq": parent.id.clone() });
    filter.extend(parent.scope_condition(group));
    filter.extend(condition);
    let find = access
        .find_matching(&to_raw_document(&filter)?)
        .with_origin(Stage::ROLLUPS.step("read the latest children"))
        .with_sort(to_raw_document(&sort)?)
        .with_limit(max as u64);
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

    fn kept(entries: &[Document], max: usize) -> Vec<&Document> {
        let mut new = entries.iter().collect();
        keep_latest(&mut new, "at", max);
        new
    }

    #[test]
    fn the_latest_entries_are_kept_in_order() {
        let entries = [(1, 5), (2, 9), (3, 7), (4, 9)].map(|(id, at)| entry(id, at));
        assert_eq!(kept(&entries, 3), [&entries[3], &entries[1], &entries[2]]);
        // Few entries stay as they are.
        assert_eq!(kept(&entries, 4), entries.iter().collect::<Vec<_>>());
    }

    #[test]
    fn entries_without_a_known_order_are_all_kept() {
        let ids = [ObjectId::from_bytes([1; 12]), ObjectId::from_bytes([2; 12])];
        let mixed = [entry(1, 1), entry(2, 2_i64), entry(3, 3)];
        let doubles = [entry(1, 1.0), entry(2, 2.0), entry(3, 3.0)];
        let mixed_ids = [entry(ids[0], 1), entry(ids[1], 2), entry("text", 3)];
        let missing = [doc! { "at": 1 }, doc! { "at": 2 }, doc! { "at": 3 }];
        for entries in [mixed, doubles, mixed_ids, missing] {
            assert_eq!(kept(&entries, 1).len(), 3, "{entries:?}");
        }
    }
}
