//! What is written into owners.

use bson::{Bson, Document, RawDocumentBuf, doc};

use super::{
    FENCE,
    group::{Group, place_of},
    member::Moved,
    parent::Parent,
};
use crate::{
    Error, ErrorKind, Result,
    access::{Access, found_by},
    backend::operation::Find,
    error,
    maintain::{
        link::linked::{Id, by_id, read_upgraded},
        stored::{close, open, raw},
    },
    schema::{Keeps, Model, Tally},
};

/// The update of an owner, by which its counts, sums and latest become what these changes make of them.
///
/// `held` is the owner as it is; none if it has nothing of the members.
pub(super) async fn update(
    access: &Access,
    member: &'static Model,
    group: &Group,
    parent: &Parent,
    held: Option<&Document>,
    moved: &[Moved<'_>],
) -> Result<Document> {
    let (mut add, mut set, mut push) = (Document::new(), Document::new(), Document::new());
    for (position, tally) in group.tallies.iter().enumerate() {
        match tally.keeps {
            Keeps::Count | Keeps::Sum(_) => {
                let counted =
                    |counts: &Document| i128::from(counts.get_i64(tally.stored).unwrap_or(0));
                let changes = moved.iter().map(|moved| {
                    let now = moved.now.map_or(0, |now| counted(&now.counts));
                    now - counted(&moved.was)
                });
                let change: i128 = changes.sum();
                if change != 0 {
                    add.insert(tally.stored, in_range(group.owner, tally, change)?);
                }
            }
            Keeps::Latest { max, by, fields } => {
                let held = held.and_then(|held| held.get_array(tally.stored).ok());
                match latest(position, held, moved)? {
                    Latest::AsTheyAre => {}
                    Latest::With(new) => {
                        let by = by().to_string();
                        let by = place_of(&by, fields).to_owned();
                        let max = i64::try_from(max).unwrap_or(i64::MAX);
                        let all = doc! { "$each": new, "$sort": { by: -1, "_odm.id": -1 }, "$slice": max };
                        push.insert(tally.stored, all);
                    }
                    Latest::Others => {
                        set.insert(
                            tally.stored,
                            read_counted(access, member, group, position, parent).await?,
                        );
                    }
                }
            }
        }
    }
    add.insert(FENCE, 1_i64);
    let mut update = doc! { "$inc": add };
    for (operator, fields) in [("$set", set), ("$push", push)] {
        if !fields.is_empty() {
            update.insert(operator, fields);
        }
    }
    Ok(update)
}

/// A sum, or what is to be added to one.
pub(super) fn in_range(owner: &Model, tally: &Tally, sum: i128) -> Result<i64> {
    i64::try_from(sum).map_err(|_| {
        let message = format!(
            "the sum `{}` would be {sum}, which no `i64` is",
            tally.stored
        );
        error::of(owner)(Error::new(ErrorKind::Invalid, message))
    })
}

/// What becomes of the latest.
enum Latest {
    AsTheyAre,
    /// These come to them.
    With(Vec<Bson>),
    /// Some are not there any more, or not as they were.
    Others,
}

fn latest(position: usize, held: Option<&Vec<Bson>>, moved: &[Moved<'_>]) -> Result<Latest> {
    let mut new = Vec::new();
    for moved in moved {
        let excerpt = moved
            .now
            .and_then(|now| now.excerpts.get(position)?.as_ref());
        let held = match held {
            None => None,
            Some(held) => find(held, moved.id)?,
        };
        match (held, excerpt) {
            (None, None) => {}
            (None, Some(excerpt)) => new.push(Bson::Document(excerpt.clone())),
            (Some(held), Some(excerpt)) if held == excerpt => {}
            (Some(_), _) => return Ok(Latest::Others),
        }
    }
    Ok(match new.is_empty() {
        true => Latest::AsTheyAre,
        false => Latest::With(new),
    })
}

/// The excerpt of a document among others.
fn find<'h>(held: &'h [Bson], id: &Bson) -> Result<Option<&'h Document>> {
    let id = Id::of(&raw(id)?);
    for element in held.iter().filter_map(Bson::as_document) {
        if let Some(own) = super::own(element).and_then(|own| own.get("id"))
            && Id::of(&raw(own)?) == id
        {
            return Ok(Some(element));
        }
    }
    Ok(None)
}

/// The latest members of an owner, as it has them from now on.
///
/// Where members and their owner are not written in one, those alone that say that they are counted here: another may leave before it does,
/// and nobody would tell this owner.
pub(super) async fn read_counted(
    access: &Access,
    member: &'static Model,
    group: &Group,
    position: usize,
    parent: &Parent,
) -> Result<Vec<Bson>> {
    let mut filter = doc! {};
    if !access.has_transactions() {
        let id = parent.id.clone();
        filter.insert(format!("{}.at", group.place()), doc! { "$eq": id });
    }
    read_latest(access, member, group, (position, parent), filter).await
}

/// The latest members of an owner that meet a condition, as it has them.
pub(super) async fn read_latest(
    access: &Access,
    member: &'static Model,
    group: &Group,
    (position, parent): (usize, &Parent),
    mut filter: Document,
) -> Result<Vec<Bson>> {
    let Some(tally) = group.tallies.get(position) else {
        return Ok(Vec::new());
    };
    let Keeps::Latest { max, .. } = tally.keeps else {
        return Ok(Vec::new());
    };
    let (condition, sort) = group.latest_of(member, tally)?;
    filter.insert(&group.reference, doc! { "$eq": parent.id.clone() });
    filter.extend(parent.same_scope(group));
    filter.extend(condition);
    let find = Find {
        sort: Some(close(&sort)?),
        limit: Some(max as u64),
        ..found_by(&member.collection.into(), &close(&filter)?)
    };
    let mut all = Vec::new();
    for raw in read_upgraded(access, member, find).await? {
        let shares = group.shares(member, &open(&raw)?)?;
        let excerpt = shares.into_iter().find_map(|mut share| {
            let excerpt = share.excerpts.get_mut(position)?;
            excerpt.take()
        });
        all.extend(excerpt.map(Bson::Document));
    }
    Ok(all)
}

/// The fields of an owner that this group computes. None if there is no such document.
pub(super) async fn read(
    access: &Access,
    group: &Group,
    parent: &Parent,
) -> Result<Option<Document>> {
    read_found(access, group, parent.raw_filter(group)?).await
}

/// The same fields of the document with this `_id`, in any scope.
pub(super) async fn read_any(
    access: &Access,
    group: &Group,
    id: &Bson,
) -> Result<Option<Document>> {
    read_found(access, group, by_id(&raw(id)?)?).await
}

async fn read_found(
    access: &Access,
    group: &Group,
    filter: RawDocumentBuf,
) -> Result<Option<Document>> {
    let mut projection = doc! { "_odm": 1 };
    projection.extend(Parent::projection(group));
    for tally in &group.tallies {
        projection.insert(tally.stored, 1);
    }
    let find = Find {
        projection: Some(close(&projection)?),
        limit: Some(1),
        ..found_by(&group.owner.collection.into(), &filter)
    };
    let found = access.find_all(group.owner, find).await?;
    found.first().map(|raw| open(raw)).transpose()
}
