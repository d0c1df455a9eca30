//! Counting in a transaction: members and their owners are written in one.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};

use bson::{Bson, RawBson, RawDocument, RawDocumentBuf};

use super::{
    Said,
    group::Group,
    left, line,
    member::{AtOwner, Member, by_owner, remember},
    owner,
    parent::ParentKey,
    recount::count_again,
};
use crate::{
    Error, ErrorKind, Result,
    access::{Access, also, found_by},
    backend::operation::Find,
    decode,
    maintain::{
        Write,
        link::linked::one_of,
        linked,
        stored::{Amendment, change, close, open, raw, set},
    },
    query::document,
    schema::Model,
};

/// Which owners are there, by group.
type There = BTreeMap<(usize, ParentKey), bool>;

/// Inserts members, behind what they change in their owners.
pub(super) async fn insert<W: Write>(
    access: &Access,
    model: &'static Model,
    groups: &[Group],
    mut write: W,
) -> Result<W::Done> {
    let all = access.to_everything();
    let documents = write.documents_to_insert().unwrap_or_default();
    let mut opened = documents
        .iter()
        .map(|raw| open(raw))
        .collect::<Result<Vec<_>>>()?;
    let members = opened
        .iter()
        .map(|document| Member::of_open(model, groups, document));
    let members = members.collect::<Result<Vec<_>>>()?;
    let there = change_owners(&all, model, groups, &members).await;
    let there = there.map_err(|error| access.fail(error))?;
    let said = Said::now();
    let mut are_all_there = true;
    for (document, member) in opened.iter_mut().zip(&members) {
        let mut is_whole = true;
        for (position, group) in groups.iter().enumerate() {
            let mut record = Vec::new();
            for share in member.shares.get(position).into_iter().flatten() {
                let parent = member.parent(position, &share.at);
                let key = parent.map(|parent| parent.key()).transpose()?;
                let is_there = key.is_none_or(|key| is_there(&there, position, &key));
                is_whole &= is_there;
                record.push(share.counted_as(is_there));
            }
            group.remember(document, record);
        }
        if !is_whole {
            set(document, super::COUNT.0, said.to_document());
            are_all_there = false;
        }
    }
    for (raw, document) in documents.iter_mut().zip(&opened) {
        *raw = close(document)?;
    }
    let done = linked(access.clone(), model, write).await;
    let done = done.map_err(|error| access.fail(error))?;
    if !are_all_there {
        // Their owners may be on their way.
        super::count_behind(access, model, said);
    }
    Ok(done)
}

/// Whether an owner was found. An owner that was not read counts as found.
fn is_there(there: &There, group: usize, parent: &ParentKey) -> bool {
    there.get(&(group, parent.clone())).copied().unwrap_or(true)
}

/// Counts the members that a filter finds; `is_first` says that this is part of the write to them.
pub(super) async fn count(
    access: &Access,
    model: &'static Model,
    filter: RawDocumentBuf,
    is_first: bool,
) -> Result<()> {
    let all = access.to_everything();
    let groups = super::groups(all.models(), model);
    let members = Member::read(&all, model, &groups, &filter).await?;
    let there = change_owners(&all, model, &groups, &members).await?;
    let are_all_there = there.values().all(|there| *there);
    let members: Vec<_> = members.iter().collect();
    // A missing owner may be in the middle of its insert: its members are counted again after this.
    let is_there = |group, parent: &ParentKey| is_there(&there, group, parent);
    remember(&all, model, &groups, &members, is_there, is_first, None).await?;
    if !are_all_there && is_first {
        let ids: Vec<_> = members
            .iter()
            .map(|member| raw(&member.id))
            .collect::<Result<_>>()?;
        let those = document("_id", one_of(&ids)?)?;
        line::behind(access, move |access| {
            line::count_later(access, model, those)
        });
    }
    Ok(())
}

/// Writes into the owners what changes there; gives which of them there are.
pub(super) async fn change_owners(
    access: &Access,
    model: &'static Model,
    groups: &[Group],
    members: &[Member],
) -> Result<There> {
    let mut there = There::new();
    for (position, group) in groups.iter().enumerate() {
        for (key, at_owner) in by_owner(members, position)? {
            if let Some(is_there) = change_owner(access, model, group, &at_owner).await? {
                there.insert((position, key), is_there);
            }
        }
    }
    Ok(there)
}

/// Tells whether the owner is there; none if nothing changes in it.
async fn change_owner(
    access: &Access,
    model: &'static Model,
    group: &Group,
    owner: &AtOwner<'_>,
) -> Result<Option<bool>> {
    let AtOwner { parent, moved } = owner;
    let is_new = moved.iter().all(|moved| moved.is_new);
    let may_be_latest = group.has_latest() && !is_new;
    let held = match may_be_latest {
        true => match owner::read(access, group, parent).await? {
            None => return Ok(Some(false)),
            held => held,
        },
        false => None,
    };
    let update = owner::update(access, model, group, parent, held.as_ref(), moved).await;
    let update = update.map_err(|error| error.with_id(parent.id.clone()))?;
    // The fence alone. Whoever is reading the latest again may take a member for one of them as it was: both meet in the owner.
    let is_nothing =
        update.len() == 1 && update.get_document("$inc").is_ok_and(|add| add.len() == 1);
    if is_nothing && !may_be_latest {
        return Ok(None);
    }
    let amendment = Amendment::new(parent.raw_filter(group)?, update);
    let changed = change(access, group.owner, amendment).await;
    let changed = changed.map_err(|error| error.with_id(parent.id.clone()))?;
    Ok(Some(changed > 0))
}

/// Deletes members, with what they change in their owners: as many as there is room for; tells whether that was all.
///
/// An owner that is not there may be on its way, and would count members that are deleted. Then nothing is, and that is told.
pub(super) async fn remove<W: Write>(
    access: &Access,
    model: &'static Model,
    mut write: W,
    room: Option<usize>,
    is_awaited: &AtomicBool,
) -> Result<(W::Done, bool)> {
    let is_of_one = write.is_of_one();
    let sort = write.order().map(RawDocument::to_owned);
    let limit = if is_of_one { Some(1) } else { room };
    let filter = write.filter().cloned().unwrap_or_default();
    let find = Find {
        projection: Some(document("_id", 1)?),
        sort,
        limit: limit.map(|limit| limit as u64),
        ..found_by(&model.collection.into(), &filter)
    };
    let found = access.find_all(model, find).await?;
    let ids: Vec<_> = found.iter().filter_map(|raw| decode::id(raw)).collect();
    let ids: Vec<_> = ids.into_iter().map(RawBson::from).collect();
    let is_all = is_of_one || room.is_none_or(|room| ids.len() < room);
    if let Some(filter) = write.filter() {
        also(filter, "_id", one_of(&ids)?)?;
    }
    let work = async {
        let all = access.to_everything();
        let leaving = super::leaving(&all, model, ids.iter()).await?;
        let done = linked(access.clone(), model, write).await?;
        if let Some(leaving) = leaving {
            let missing = left(&all, model, leaving).await?;
            // A transaction of the caller's cannot be left.
            if room.is_some() && !missing.0.is_empty() {
                is_awaited.store(true, Ordering::Relaxed);
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "an owner may be on its way",
                ));
            }
            missing.look_behind(access);
        }
        Ok((done, is_all))
    };
    work.await.map_err(|error| access.fail(error))
}

/// Owners that are not there, and that remember members.
#[derive(Debug, Default)]
pub(in crate::maintain) struct Missing(Vec<(&'static Model, Bson)>);

impl Missing {
    /// The owners that are not there at which members were counted.
    pub(super) fn of(there: &There, groups: &[Group], members: &[Member]) -> Result<Self> {
        let mut missing = Self::default();
        for (position, group) in groups.iter().enumerate() {
            for (key, owner) in by_owner(members, position)? {
                let mut moved = owner.moved.iter();
                if !is_there(there, position, &key) && moved.any(|moved| !moved.was.is_empty()) {
                    missing.0.push((group.owner, owner.parent.id));
                }
            }
        }
        Ok(missing)
    }

    /// Looks, behind the transaction, whether they are there by now: then they have counted members that are gone.
    pub(in crate::maintain) fn look_behind(self, access: &Access) {
        if self.0.is_empty() {
            return;
        }
        line::behind(access, async move |access| {
            for (owner, at) in &self.0 {
                count_again(&access, owner, at).await?;
            }
            Ok(())
        });
    }
}
