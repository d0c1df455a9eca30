//! Members as they are read: what they are to be counted as, and what they remember.

use std::collections::BTreeMap;

use bson::{Bson, Document, RawDocument, doc, oid::ObjectId};

use super::{
    COUNT,
    group::{Group, Share},
    parent::{Parent, ParentKey},
};
use crate::{
    Result,
    access::{Access, found_by},
    batches::HasId,
    maintain::{
        Promise, Said,
        link::linked::{Id, read_upgraded},
        stored::{Amendment, change_all, close, open, raw},
    },
    schema::Model,
};

/// A document that is counted.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) id: Bson,
    /// By what it says that it is to be counted.
    pub(super) token: Option<ObjectId>,
    /// Where it is to be counted and as what, by group.
    pub(super) shares: Vec<Vec<Share>>,
    /// The same as it remembers it.
    pub(super) remembered: Vec<Vec<(Bson, Document)>>,
    /// A parent of each group, from which the others differ in the `_id` alone.
    parents: Vec<Parent>,
}

impl HasId for Member {
    fn id_bytes(&self) -> usize {
        self.id.id_bytes()
    }
}

/// A change of as what a member is counted at one owner.
#[derive(Debug)]
pub(super) struct Moved<'m> {
    pub(super) id: &'m Bson,
    pub(super) was: Document,
    /// None where it is not counted any more.
    pub(super) now: Option<&'m Share>,
    /// Whether the owner has nothing of it.
    pub(super) is_new: bool,
}

/// Changes at one owner.
#[derive(Debug)]
pub(super) struct AtOwner<'m> {
    pub(super) parent: Parent,
    pub(super) moved: Vec<Moved<'m>>,
}

impl Member {
    pub(super) fn of(model: &Model, groups: &[Group], raw: &RawDocument) -> Result<Self> {
        Self::of_open(model, groups, &open(raw)?)
    }

    pub(super) fn of_open(model: &Model, groups: &[Group], document: &Document) -> Result<Self> {
        let token = super::own(document).and_then(|own| own.get_document("count").ok());
        let shares = groups.iter().map(|group| group.shares(model, document));
        let remembered = groups.iter().map(|group| group.remembered(document));
        let parents = groups
            .iter()
            .map(|group| Parent::of_child(group, document, Bson::Null));
        Ok(Self {
            id: document.get("_id").cloned().unwrap_or(Bson::Null),
            token: token.and_then(|said| said.get_object_id("token").ok()),
            shares: shares.collect::<Result<_>>()?,
            remembered: remembered.collect(),
            parents: parents.collect(),
        })
    }

    /// Those that a filter finds.
    pub(super) async fn read(
        access: &Access,
        model: &Model,
        groups: &[Group],
        filter: &RawDocument,
    ) -> Result<Vec<Self>> {
        let find = found_by(&model.collection.into(), filter);
        let found = read_upgraded(access, model, find).await?;
        found
            .iter()
            .map(|raw| Self::of(model, groups, raw))
            .collect()
    }

    /// The condition that its fields are as they were read: what changes as what it is counted changes what it says.
    pub(super) fn as_read(&self) -> Document {
        let token = match self.token {
            Some(token) => doc! { "$eq": token },
            None => doc! { "$exists": false },
        };
        doc! { COUNT.token(): token }
    }

    /// It is counted nowhere from now on.
    pub(super) fn leave(&mut self) {
        self.shares.iter_mut().for_each(Vec::clear);
    }

    pub(super) fn key(&self) -> Result<Id> {
        Ok(Id::of(&raw(&self.id)?))
    }

    /// As what it remembers to be counted at an owner; none if it was never counted there.
    pub(super) fn was(&self, group: usize, at: &Id) -> Result<Option<&Document>> {
        for (other, counts) in self.remembered.get(group).into_iter().flatten() {
            if Id::of(&raw(other)?) == *at {
                return Ok(Some(counts));
            }
        }
        Ok(None)
    }

    /// As what it is to be counted at an owner.
    pub(super) fn share(&self, group: usize, at: &Id) -> Result<Option<&Share>> {
        for share in self.shares.get(group).into_iter().flatten() {
            if Id::of(&raw(&share.at)?) == *at {
                return Ok(Some(share));
            }
        }
        Ok(None)
    }

    /// The parent with this `_id`, by one of the groups; none if there is no such group.
    pub(super) fn parent(&self, group: usize, id: &Bson) -> Option<Parent> {
        let parent = self.parents.get(group)?;
        Some(parent.with_id(id.clone()))
    }

    /// Looks a parent up by its key.
    fn parent_key(&self, group: usize, id: &Bson) -> Result<Option<ParentKey>> {
        let parent = self.parent(group, id);
        parent.map(|parent| parent.key()).transpose()
    }

    /// The owners that have something of it, or are to have.
    fn owners(&self, group: usize) -> Result<BTreeMap<Id, Parent>> {
        let shares = self.shares.get(group).into_iter().flatten();
        let remembered = self.remembered.get(group).into_iter().flatten();
        let all = shares.map(|share| &share.at);
        let all = all.chain(remembered.map(|(at, _)| at));
        let all = all.filter_map(|at| self.parent(group, at));
        all.map(|parent| Ok((Id::of(&raw(&parent.id)?), parent)))
            .collect()
    }

    /// Whether it remembers what it is to be counted as. What is among the latest is no part of that.
    pub(super) fn is_counted(&self) -> bool {
        let mut both = self.shares.iter().zip(&self.remembered);
        both.all(|(shares, remembered)| {
            shares.len() == remembered.len()
                && shares.iter().all(|share| {
                    let mut remembered = remembered.iter();
                    remembered.any(|(at, counts)| *at == share.at && *counts == share.counts)
                })
        })
    }
}

/// The changes at each owner, in the order in which these are written.
pub(super) fn by_owner(
    members: &[Member],
    group: usize,
) -> Result<BTreeMap<ParentKey, AtOwner<'_>>> {
    let mut owners = BTreeMap::new();
    for member in members {
        for (key, parent) in member.owners(group)? {
            let was = member.was(group, &key)?;
            let moved = Moved {
                id: &member.id,
                was: was.cloned().unwrap_or_default(),
                now: member.share(group, &key)?,
                is_new: was.is_none(),
            };
            let owner = owners.entry(parent.key()?).or_insert_with(|| AtOwner {
                parent,
                moved: Vec::new(),
            });
            owner.moved.push(moved);
        }
    }
    Ok(owners)
}

pub(super) fn remembered_as(at: &Bson, counts: &Document) -> Bson {
    Bson::Document(doc! { "at": at.clone(), "as": counts.clone() })
}

/// Lets members remember as what they are counted, and takes back that they are to be: where their fields are still what they were when
/// they were read. Tells whether all did.
///
/// `is_there` says whether an owner is. What it would have of a member is not counted otherwise; or it stays as it was, with what the
/// member says, if the owner may be on its way. What is right stays in any case: an owner that has come meanwhile may have summed it,
/// and looks at none that remembers what it is to be counted as. With `verify` they say no more that their copies are to be looked at
/// again, where it was that which said so.
pub(super) async fn remember(
    access: &Access,
    model: &'static Model,
    groups: &[Group],
    members: &[&Member],
    is_there: impl Fn(usize, &ParentKey) -> bool,
    keeps_promise: bool,
    verify: Option<Said>,
) -> Result<bool> {
    // Those that remember the same are written at once.
    let mut alike: Vec<(Document, Document, Vec<Bson>)> = Vec::new();
    for member in members {
        let is_there = |group: usize, id: &Bson| -> Result<bool> {
            let key = member.parent_key(group, id)?;
            Ok(key.is_none_or(|key| is_there(group, &key)))
        };
        let (mut set, mut unset) = (Document::new(), Document::new());
        let mut all_there = true;
        for (position, group) in groups.iter().enumerate() {
            let mut record = Vec::new();
            for share in member.shares.get(position).into_iter().flatten() {
                let at = Id::of(&raw(&share.at)?);
                let there = is_there(position, &share.at)?;
                all_there &= there;
                record.push(match member.was(position, &at)? {
                    Some(was) if !there && (keeps_promise || *was == share.counts) => {
                        remembered_as(&share.at, was)
                    }
                    _ => Bson::Document(share.counted_as(there)),
                });
            }
            for (at, was) in member.remembered.get(position).into_iter().flatten() {
                let key = Id::of(&raw(at)?);
                if keeps_promise
                    && !is_there(position, at)?
                    && member.share(position, &key)?.is_none()
                {
                    all_there = false;
                    record.push(remembered_as(at, was));
                }
            }
            if !record.is_empty() {
                set.insert(group.place(), record);
            } else if !member.remembered.get(position).is_none_or(Vec::is_empty) {
                unset.insert(group.place(), "");
            }
        }
        if member.token.is_some() && (all_there || !keeps_promise) {
            unset.insert(COUNT.0, "");
        }
        if verify.is_some() {
            unset.insert(Promise::VERIFY.name(), "");
        }
        let mut update = Document::new();
        for (operator, fields) in [("$set", set), ("$unset", unset)] {
            if !fields.is_empty() {
                update.insert(operator, fields);
            }
        }
        if update.is_empty() {
            continue;
        }
        let mut as_read = member.as_read();
        as_read.extend(
            verify
                .iter()
                .flat_map(|said| doc! { Promise::VERIFY.token(): said.token }),
        );
        let same = alike
            .iter_mut()
            .find(|(condition, other, _)| *condition == as_read && *other == update);
        match same {
            Some((_, _, ids)) => ids.push(member.id.clone()),
            None => alike.push((as_read, update, vec![member.id.clone()])),
        }
    }
    let mut count = 0;
    let changes = alike.into_iter().map(|(condition, update, ids)| {
        count += ids.len() as u64;
        let mut filter = doc! { "_id": { "$in": ids } };
        filter.extend(condition);
        Ok(Amendment::new(close(&filter)?, update))
    });
    let changes = changes.collect::<Result<_>>()?;
    Ok(change_all(access, model, changes).await? == count)
}
