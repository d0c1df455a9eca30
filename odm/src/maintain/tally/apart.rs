//! Counting where there are no transactions: a write of a member, and one of each owner.

use std::collections::{BTreeMap, BTreeSet};

use bson::{Bson, Document, RawBson, RawDocumentBuf, doc, oid::ObjectId};

use super::{
    ATTEMPTS, BATCH, COUNT, FENCE, NOTES,
    group::Group,
    groups,
    member::{Member, Moved, by_owner, remember, remembered_as},
    owner,
    parent::{Parent, ParentKey},
};
use crate::{
    Error, ErrorKind, Result,
    access::Access,
    batches::id_batches,
    error,
    maintain::{
        Rejection,
        blocked::{self, is_rejection},
        link::linked::{Id, by_id, one_of},
        stored::{Amendment, change, change_all, close, raw},
    },
    query::document,
    retry,
    schema::Model,
};

/// Counts the members that a filter finds, some of them at a time.
pub(super) async fn count(
    access: &Access,
    model: &'static Model,
    filter: RawDocumentBuf,
) -> Result<()> {
    let groups = groups(access.models(), model);
    let members = Member::read(access, model, &groups, &filter).await?;
    let mut blocked = None;
    for some in id_batches(&members, BATCH) {
        match count_some(access, model, &groups, some.to_vec()).await {
            Err(error) if error.kind() == ErrorKind::Unsettled => {
                blocked.get_or_insert(error);
            }
            done => done?,
        }
    }
    blocked.map_or(Ok(()), Err)
}

async fn count_some(
    access: &Access,
    model: &'static Model,
    groups: &[Group],
    mut members: Vec<Member>,
) -> Result<()> {
    let ids: Vec<_> = members.iter().map(|member| member.id.clone()).collect();
    let those = doc! { "_id": { "$in": ids } };
    // Where they may be counted they say before they are: so nobody forgets an owner that has something of them.
    for _ in 0..ATTEMPTS {
        if announce(access, model, groups, &members).await? == 0 {
            break;
        }
        members = Member::read(access, model, groups, &close(&those)?).await?;
    }
    let mut there = BTreeMap::new();
    let (mut noted, mut others) = (Vec::new(), BTreeSet::new());
    let mut rejected = Rejected::default();
    for (position, group) in groups.iter().enumerate() {
        for (key, owner) in by_owner(&members, position)? {
            let ids: Vec<_> = owner.moved.iter().map(|moved| moved.id.clone()).collect();
            let counted = at_owner(access, model, groups, position, &owner.parent, &ids).await;
            let counted = match counted {
                // Count these members at other owners, and the remaining members.
                Err(error) if is_rejection(&error) => {
                    let rejection = Rejection::new(group.owner, owner.parent.id.clone(), &error);
                    for id in &ids {
                        let id = raw(id)?;
                        others.insert(Id::of(&id));
                        rejected.add(id, &rejection);
                    }
                    continue;
                }
                counted => counted?,
            };
            there.insert((position, key), counted.is_some());
            let Some((note, seen)) = counted else {
                continue;
            };
            for id in &ids {
                let key = Id::of(&raw(id)?);
                if !is_as_read(&members, &seen, &key)? {
                    others.insert(key);
                }
            }
            noted.push((group.owner, owner.parent.id, note));
        }
    }
    let mut steady = Vec::new();
    for member in &members {
        if !others.contains(&member.key()?) {
            steady.push(member);
        }
    }
    let is_there = |group, parent: &ParentKey| {
        let there = there.get(&(group, parent.clone()));
        there.copied().unwrap_or(true)
    };
    let remembered = remember(access, model, groups, &steady, is_there, false, None).await?;
    // Of the others it stays noted.
    if remembered && others.is_empty() {
        forget(access, noted).await?;
    }
    rejected.note(access, model).await
}

/// Members with an owner that rejects the count.
#[derive(Default)]
pub(super) struct Rejected(BTreeMap<Id, (RawBson, Vec<Rejection>)>);

impl Rejected {
    pub(super) fn add(&mut self, member: RawBson, rejection: &Rejection) {
        let own = self.0.entry(Id::of(&member));
        let (_, own) = own.or_insert((member, Vec::new()));
        own.push(rejection.clone());
    }

    /// Records the rejections in the members.
    ///
    /// # Errors
    ///
    /// [`Unsettled`](ErrorKind::Unsettled) if there are rejections.
    pub(super) async fn note(self, access: &Access, model: &'static Model) -> Result<()> {
        // Members of one owner share a record.
        let mut alike: Vec<(&[Rejection], Vec<RawBson>)> = Vec::new();
        for (id, by) in self.0.values() {
            match alike.iter_mut().find(|(other, _)| other == by) {
                Some((_, ids)) => ids.push(id.clone()),
                None => alike.push((by, vec![id.clone()])),
            }
        }
        for (by, ids) in &alike {
            let owing = document("_id", one_of(ids)?)?;
            blocked::note(access, model, COUNT, owing, by).await?;
        }
        let all = alike.iter().flat_map(|(by, _)| by.iter());
        match alike.is_empty() {
            true => Ok(()),
            false => Err(blocked::blocked(model, all)),
        }
    }
}

/// Takes what was noted out of owners, each by the write that noted it: the members remember it themselves.
pub(super) async fn forget(
    access: &Access,
    noted: Vec<(&'static Model, Bson, ObjectId)>,
) -> Result<()> {
    for (owner, at, note) in noted {
        let pull = doc! { "$pull": { NOTES: { "note": note } } };
        change(access, owner, Amendment::new(by_id(&raw(&at)?)?, pull)).await?;
    }
    Ok(())
}

/// Whether a member was at its owner what it was before.
fn is_as_read(members: &[Member], seen: &[Member], key: &Id) -> Result<bool> {
    let mut tokens = [None, None];
    for (all, token) in [members, seen].into_iter().zip(&mut tokens) {
        for member in all {
            if member.key()? == *key {
                *token = Some((member.token, member.shares.clone()));
            }
        }
    }
    let [before, now] = tokens;
    Ok(before.is_some() && before == now)
}

/// Lets members say where they are about to be counted; tells how many did not.
async fn announce(
    access: &Access,
    model: &'static Model,
    groups: &[Group],
    members: &[Member],
) -> Result<usize> {
    let mut changes = Vec::new();
    for member in members {
        let mut set = Document::new();
        for (position, group) in groups.iter().enumerate() {
            let Some(remembered) = member.remembered.get(position) else {
                continue;
            };
            let record = remembered.iter();
            let mut record: Vec<_> = record
                .map(|(at, counts)| remembered_as(at, counts))
                .collect();
            for share in member.shares.get(position).into_iter().flatten() {
                if member.was(position, &Id::of(&raw(&share.at)?))?.is_none() {
                    record.push(Bson::Document(share.counted_as(false)));
                }
            }
            if record.len() > remembered.len() {
                set.insert(group.place(), record);
            }
        }
        if set.is_empty() {
            continue;
        }
        let mut filter = doc! { "_id": { "$eq": member.id.clone() } };
        filter.extend(member.as_read());
        changes.push(Amendment::new(close(&filter)?, doc! { "$set": set }));
    }
    let count = changes.len();
    change_all(access, model, changes).await?;
    Ok(count)
}

/// As what a member is counted, where it does not remember that yet.
pub(super) struct Note {
    /// The write that noted it.
    note: ObjectId,
    /// Of which reference of which members it is.
    mark: String,
    of: Bson,
    counts: Document,
}

impl Note {
    fn all(owner: &Document) -> Vec<Self> {
        let notes = super::own(owner).and_then(|own| own.get_array("notes").ok());
        let notes = notes.into_iter().flatten().filter_map(|note| {
            let note = note.as_document()?;
            Some(Self {
                note: note.get_object_id("note").ok()?,
                mark: note.get_str("mark").ok()?.to_owned(),
                of: note.get("of")?.clone(),
                counts: note.get_document("as").cloned().unwrap_or_default(),
            })
        });
        notes.collect()
    }

    /// Notes as what new members are counted, in an update of their owner; tells whether it is as anything.
    pub(super) fn push(
        note: ObjectId,
        mark: &str,
        moved: &[Moved<'_>],
        update: &mut Document,
    ) -> bool {
        let now = moved
            .iter()
            .filter_map(|moved| Some((moved.id, moved.now?)));
        let counted = now.filter(|(_, now)| !now.counts.is_empty());
        let notes = counted.map(|(id, now)| {
            let (mark, of, counts) = (mark.to_owned(), id.clone(), now.counts.clone());
            Self {
                note,
                mark,
                of,
                counts,
            }
            .stored()
        });
        let notes: Vec<_> = notes.collect();
        let are_any = !notes.is_empty();
        if are_any {
            also(update, "$push", doc! { "$each": notes });
        }
        are_any
    }

    /// The condition that nothing is noted of any of these members, or of documents before them that had their ids.
    pub(super) fn of_none(mark: &str, moved: &[Moved<'_>]) -> Document {
        let ids: Vec<_> = moved.iter().map(|moved| moved.id.clone()).collect();
        let of_one = doc! { "mark": mark, "of": { "$in": ids } };
        doc! { NOTES: { "$not": { "$elemMatch": of_one } } }
    }

    fn stored(&self) -> Bson {
        let Self {
            note,
            mark,
            of,
            counts,
        } = self;
        Bson::Document(doc! { "note": note, "mark": mark, "of": of.clone(), "as": counts.clone() })
    }
}

/// As what members are counted at an owner that do not remember it yet.
pub(super) fn noted(
    owner: &Document,
    group: &Group,
    member: &Model,
) -> Result<BTreeMap<Id, Document>> {
    noted_as(&Note::all(owner), &group.mark(member))
}

/// The same by those of its notes that have this mark.
fn noted_as(notes: &[Note], mark: &str) -> Result<BTreeMap<Id, Document>> {
    let notes = notes.iter().filter(|note| note.mark == mark);
    notes
        .map(|note| Ok((Id::of(&raw(&note.of)?), note.counts.clone())))
        .collect()
}

/// Adds an operator on the notes to an update.
fn also(update: &mut Document, operator: &str, value: impl Into<Bson>) {
    match update.get_document_mut(operator) {
        Ok(paths) => drop(paths.insert(NOTES, value)),
        Err(_) => drop(update.insert(operator, doc! { NOTES: value })),
    }
}

/// The fence of an owner, as a condition.
pub(super) fn fence(owner: &Document) -> Document {
    with_fence(super::own(owner).and_then(|own| own.get("tally")))
}

/// The condition that an owner has this fence.
pub(super) fn with_fence(fence: Option<&Bson>) -> Document {
    match fence {
        Some(fence) => doc! { FENCE: { "$eq": fence.clone() } },
        None => doc! { FENCE: { "$exists": false } },
    }
}

/// Counts some members at one owner; gives by what it noted that, and the members as they were. None if there is no owner.
async fn at_owner(
    access: &Access,
    model: &'static Model,
    groups: &[Group],
    position: usize,
    parent: &Parent,
    ids: &[Bson],
) -> Result<Option<(ObjectId, Vec<Member>)>> {
    let Some(group) = groups.get(position) else {
        return Ok(None);
    };
    let (mark, key) = (group.mark(model), Id::of(&raw(&parent.id)?));
    let mut own = BTreeSet::new();
    for id in ids {
        own.insert(Id::of(&raw(id)?));
    }
    for attempt in 1..=ATTEMPTS {
        // Its fence first: what is read of the members behind it is true as long as that stays.
        let Some(held) = owner::read(access, group, parent).await? else {
            return Ok(None);
        };
        let notes = Note::all(&held);
        let before = noted_as(&notes, &mark)?;
        let all = notes
            .iter()
            .filter(|note| note.mark == mark)
            .map(|note| &note.of);
        let all: Vec<_> = all.chain(ids).cloned().collect();
        let filter = doc! { "_id": { "$in": all } };
        let seen = Member::read(access, model, groups, &close(&filter)?).await?;
        let note = ObjectId::new();
        let (mut moved, mut kept) = (Vec::new(), Vec::new());
        kept.extend(
            notes
                .iter()
                .filter(|note| note.mark != mark)
                .map(Note::stored),
        );
        for member in &seen {
            let id = member.key()?;
            let announced = member.was(position, &key)?;
            let remembered = announced.cloned().unwrap_or_default();
            let was = before.get(&id);
            if !own.contains(&id) {
                // What it remembers by now needs no note.
                let noted = notes
                    .iter()
                    .filter(|note| note.mark == mark && note.of == member.id);
                kept.extend(
                    noted
                        .filter(|note| note.counts != remembered)
                        .map(Note::stored),
                );
                continue;
            }
            // One that has become another meanwhile, and does not say yet that it is to be counted here, is not: who sums up what its
            // members remember would not know of it.
            let now = match announced {
                Some(_) => member.share(position, &key)?,
                None => None,
            };
            let counts = now.map(|now| now.counts.clone()).unwrap_or_default();
            moved.push(Moved {
                id: &member.id,
                was: was.cloned().unwrap_or_else(|| remembered.clone()),
                now,
                is_new: false,
            });
            if counts != remembered {
                let (mark, of) = (mark.clone(), member.id.clone());
                kept.push(
                    Note {
                        note,
                        mark,
                        of,
                        counts,
                    }
                    .stored(),
                );
            }
        }
        let mut update = owner::update(access, model, group, parent, Some(&held), &moved).await?;
        match (kept.is_empty(), notes.is_empty()) {
            (true, true) => {}
            (true, false) => also(&mut update, "$unset", ""),
            (false, _) => also(&mut update, "$set", kept),
        }
        let mut filter = parent.filter(group)?;
        filter.extend(fence(&held));
        let amendment = Amendment::new(close(&filter)?, update);
        if change(access, group.owner, amendment).await? > 0 {
            return Ok(Some((note, seen)));
        }
        retry::pause(attempt).await;
    }
    Err(busy(group.owner, &parent.id))
}

/// Others write to an owner again and again.
pub(super) fn busy(model: &Model, id: &Bson) -> Error {
    let message =
        format!("others write to {id} again and again: its counts are left to be settled");
    error::of(model)(Error::new(ErrorKind::Conflict, message))
}
