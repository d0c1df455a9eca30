//! Whether owners are what their members make of them.

use std::collections::{BTreeMap, BTreeSet};

use bson::{Bson, Document, RawDocumentBuf, doc};

use super::{
    COUNT, RECOUNT,
    group::{Group, groups_of},
    has, is_owner,
    owner::read_latest,
    parent::{Parent, ParentKey},
    recount::{Sums, add, each},
};
use crate::{
    Result,
    access::Access,
    maintain::{
        Promise,
        link::linked::Id,
        stored::{close, open, raw},
    },
    schema::{Keeps, Model, upgrade},
};

/// A field that is not what the members of its document make of it.
#[derive(Debug, Clone)]
pub(crate) struct Miscounted {
    /// Where the document is in its batch.
    pub(crate) document: usize,
    pub(crate) path: &'static str,
    /// The model of the members.
    pub(crate) of: &'static Model,
    pub(crate) holds: Bson,
    pub(crate) is: Bson,
}

/// The fields of some documents that are not what their members make of them, though nobody is to count these.
pub(crate) async fn miscounted(
    access: &Access,
    model: &'static Model,
    batch: &[RawDocumentBuf],
) -> Result<Vec<Miscounted>> {
    let mut found = Vec::new();
    if !is_owner(model) {
        return Ok(found);
    }
    let mut owners = BTreeMap::new();
    for (document, found) in batch.iter().enumerate() {
        let open = open(found)?;
        if let (Some(id), false) = (open.get("_id").cloned(), has(found, RECOUNT)?) {
            owners.insert(Id::of(&raw(&id)?), (document, id, open));
        }
    }
    for (member, group) in groups_of(access.models(), model) {
        let ids: Vec<_> = owners.values().map(|(_, id, _)| id.clone()).collect();
        let Counted { sums, pending } = count(access, member, &group, ids).await?;
        for (document, _, open) in owners.values() {
            let parent = Parent::of_document(&group, open);
            let key = &parent.key()?;
            if pending.contains(key) {
                continue;
            }
            for (position, tally) in group.tallies.iter().enumerate() {
                let holds = open.get(tally.stored).cloned().unwrap_or(Bson::Null);
                let is = match tally.keeps {
                    Keeps::Count | Keeps::Sum(_) => {
                        let sum = sums.get(key).and_then(|sums| sums.get(tally.stored));
                        // One that no `i64` is, is owed as long as that is so.
                        match i64::try_from(sum.copied().unwrap_or(0)) {
                            Ok(sum) => Bson::Int64(sum),
                            Err(_) => continue,
                        }
                    }
                    Keeps::Latest { .. } => {
                        let place = (position, &parent);
                        let latest = read_latest(access, member, &group, place, Document::new());
                        Bson::Array(latest.await?)
                    }
                };
                if holds != is {
                    found.push(Miscounted {
                        document: *document,
                        path: tally.stored,
                        of: member,
                        holds,
                        is,
                    });
                }
            }
        }
    }
    Ok(found)
}

/// What members make of their owners.
#[derive(Default)]
struct Counted {
    sums: BTreeMap<ParentKey, Sums>,
    /// The owners of which some member is to be counted yet.
    pending: BTreeSet<ParentKey>,
}

async fn count(
    access: &Access,
    member: &'static Model,
    group: &Group,
    owners: Vec<Bson>,
) -> Result<Counted> {
    let mut counted = Counted::default();
    let filter = group.concerned(&doc! { "$in": owners });
    each(access, member, &close(&filter)?, None, &mut |found| {
        let current = upgrade::current(member, found)?;
        let open = open(&current)?;
        let is_pending = has(found, COUNT)? || has(found, Promise::LINK)?;
        for share in group.shares(member, &open)? {
            let at = Parent::of_child(group, &open, share.at.clone()).key()?;
            add(counted.sums.entry(at.clone()).or_default(), &share.counts);
            if is_pending {
                counted.pending.insert(at);
            }
        }
        if is_pending {
            for (at, _) in group.remembered(&open) {
                counted
                    .pending
                    .insert(Parent::of_child(group, &open, at).key()?);
            }
        }
        Ok(())
    })
    .await?;
    Ok(counted)
}
