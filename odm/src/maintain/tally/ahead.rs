//! New members where there are no transactions: the fences of their owners are read before they are inserted, and nothing behind that.
//!
//! An owner whose fence has stayed since then has nothing of these members, and nobody is making anything of it by what was so before
//! they were there. Whoever changes or deletes one of them meanwhile says in it that it is to be counted again, and finds what is noted:
//! of these members alone, as what is noted of one of the same `_id` that was deleted before keeps the owner from being written so.

use std::collections::{BTreeMap, BTreeSet};

use bson::{Document, oid::ObjectId};

use super::{
    BATCH, FENCE,
    apart::{Note, fence, forget, with_fence},
    group::Group,
    member::{Member, by_owner, remember},
    owner,
    parent::{Parent, ParentKey},
};
use crate::{
    Result,
    access::{Access, found_by},
    backend::operation::Find,
    maintain::{
        Said, copy,
        link::linked::{Id, one_of},
        stored::{Amendment, change_all, close, open, raw},
    },
    query::document,
    schema::Model,
};

/// The owners of members that are about to be inserted.
pub(super) struct Ahead {
    /// The condition that each is as it was read, by group.
    as_read: Vec<BTreeMap<ParentKey, Document>>,
    /// By what the members say that their copies are to be looked at again: there is no need to, if all owners are as they were read.
    verify: Option<Said>,
}

impl Ahead {
    /// Reads the owners that were not read as sources: one query for each reference. None if one is not there, or the members are too
    /// many for one write.
    pub(super) async fn read(
        access: &Access,
        groups: &[Group],
        members: &[Member],
        owed: &copy::Owed,
    ) -> Result<Option<Self>> {
        if members.len() > BATCH {
            return Ok(None);
        }
        let mut sources = BTreeMap::new();
        for taken in owed.taken() {
            sources.insert((taken.model.collection, Id::of(&raw(&taken.id)?)), taken);
        }
        let (mut as_read, mut seen) = (Vec::new(), BTreeSet::new());
        for (position, group) in groups.iter().enumerate() {
            let owners = by_owner(members, position)?;
            for key in owners.keys() {
                // By the one reference it is not as it was for the other.
                if !seen.insert((group.owner.collection, key.clone())) {
                    return Ok(None);
                }
            }
            let (mut known, mut unknown) = (BTreeMap::new(), Vec::new());
            for (key, owner) in &owners {
                let id = Id::of(&raw(&owner.parent.id)?);
                let taken = sources.get(&(group.owner.collection, id));
                match taken.and_then(|taken| Some((taken.as_read()?, taken.fence.as_ref()))) {
                    Some((mut condition, fence)) => {
                        condition.extend(with_fence(fence));
                        known.insert(key.clone(), condition);
                    }
                    None => unknown.push(raw(&owner.parent.id)?),
                }
            }
            if !unknown.is_empty() {
                let those = document("_id", one_of(&unknown)?)?;
                let mut projection = Parent::projection(group);
                projection.insert(FENCE, 1);
                let find = Find {
                    projection: Some(close(&projection)?),
                    ..found_by(&group.owner.collection.into(), &those)
                };
                for found in access.find_all(group.owner, find).await? {
                    let owner = open(&found)?;
                    let key = Parent::of_document(group, &owner).key()?;
                    if owners.contains_key(&key) {
                        known.insert(key, fence(&owner));
                    }
                }
            }
            if known.len() < owners.len() {
                return Ok(None);
            }
            as_read.push(known);
        }
        // A source that is no owner, or was not there, is not looked at.
        let are_seen = sources.iter().all(|((collection, id), taken)| {
            let mut all = groups.iter().zip(&as_read);
            let is_owner = all.any(|(group, known)| {
                group.owner.collection == *collection && known.keys().any(|key| key.has_id(id))
            });
            is_owner && taken.as_read().is_some()
        });
        let verify = owed.verify().filter(|_| are_seen);
        Ok(Some(Self { as_read, verify }))
    }

    /// Counts the members, which are there now; and tells of the copies in them that they need not be looked at again. False if
    /// somebody else has written to one of all these documents: then some of it may be done.
    pub(super) async fn count(
        self,
        access: &Access,
        model: &'static Model,
        groups: &[Group],
        members: &[Member],
        owed: &mut copy::Owed,
    ) -> Result<bool> {
        let note = ObjectId::new();
        let mut noted = Vec::new();
        for (position, (group, as_read)) in groups.iter().zip(&self.as_read).enumerate() {
            let mut changes = Vec::new();
            for (key, owner) in by_owner(members, position)? {
                let mut update =
                    owner::update(access, model, group, &owner.parent, None, &owner.moved).await?;
                if Note::push(note, &group.mark(model), &owner.moved, &mut update) {
                    noted.push((group.owner, owner.parent.id.clone(), note));
                }
                let mut filter = owner.parent.filter(group)?;
                let Some(as_read) = as_read.get(&key) else {
                    return Ok(false);
                };
                filter.extend(as_read.clone());
                filter.extend(Note::of_none(&group.mark(model), &owner.moved));
                changes.push(Amendment::new(close(&filter)?, update));
            }
            let count = changes.len() as u64;
            if change_all(access, group.owner, changes).await? < count {
                return Ok(false);
            }
        }
        let all: Vec<_> = members.iter().collect();
        if !remember(access, model, groups, &all, |_, _| true, false, self.verify).await? {
            return Ok(false);
        }
        if self.verify.is_some() {
            owed.is_verified();
        }
        forget(access, noted).await?;
        Ok(true)
    }
}
