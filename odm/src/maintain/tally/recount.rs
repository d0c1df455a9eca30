//! Counting all members of an owner: of one that is new, and to mend one.

use std::collections::BTreeMap;

use bson::{Bson, Document, RawBson, RawDocument, RawDocumentBuf, doc};

use super::{
    ATTEMPTS, BATCH, COUNT, FENCE, Member, RECOUNT, Said,
    apart::{busy, fence, noted},
    group::{Group, groups_of},
    groups, line, owner,
    parent::Parent,
    unsay,
};
use crate::{
    Error, ErrorKind, Result,
    access::{Access, found_by},
    backend::operation::Find,
    batches::id_batches,
    error,
    maintain::{
        Rejection,
        blocked::{self, is_rejection},
        link::linked::{Id, by_id},
        stored::{Amendment, change, close, open, raw},
    },
    query::document,
    retry,
    schema::{Keeps, Model, upgrade},
};

/// Looks for members of new owners, which say so, and began with this fence.
///
/// They may be those of a former owner with the same `_id`, which remember to be counted there: one that has left it meanwhile was
/// taken from this one, whose fence tells. Who is about to take one away has read the fence before, so where there are none it changes.
pub(super) async fn new_owners(
    access: &Access,
    model: &'static Model,
    said: Said,
    first: i64,
) -> Result<()> {
    let ids = owners(access, model, said.filter(RECOUNT)?).await?;
    let mut are_awaited = false;
    for (member, group) in groups_of(access.models(), model) {
        let filter = group.concerned(&doc! { "$in": ids.clone() });
        let find = Find {
            projection: Some(document("_id", 1)?),
            limit: Some(1),
            ..found_by(&member.collection.into(), &close(&filter)?)
        };
        are_awaited |= !access.find_all(member, find).await?.is_empty();
    }
    if !are_awaited {
        let mut untouched = open(&said.filter(RECOUNT)?)?;
        untouched.insert(FENCE, doc! { "$eq": first });
        let closed = doc! { "$unset": { RECOUNT.0: "" }, "$inc": { FENCE: 1_i64 } };
        let closed = change(access, model, Amendment::new(close(&untouched)?, closed)).await?;
        if closed == ids.len() as u64 {
            return Ok(());
        }
    }
    let mut blocked = None;
    for id in owners(access, model, said.filter(RECOUNT)?).await? {
        blocked = blocked.or(count_or_note(access, model, &id).await?);
    }
    // Blocked owners have another date now and keep the pending work.
    unsay(access, model, RECOUNT, said).await?;
    blocked.map_or(Ok(()), Err)
}

/// Counts the members of an owner again. Returns the error of a rejecting owner, which gets a record of the rejection.
async fn count_or_note(access: &Access, model: &'static Model, id: &Bson) -> Result<Option<Error>> {
    match count_again(access, model, id).await {
        Err(error) if is_rejection(&error) => {
            let by = Rejection::all_of(&error, model, id);
            blocked::note(access, model, RECOUNT, by_id(&raw(id)?)?, &by).await?;
            Ok(Some(blocked::blocked(model, &by)))
        }
        done => done.map(|_| None),
    }
}

/// Counts the members of abandoned owners. A failure does not stop the remaining owners.
pub(super) async fn overdue(access: &Access, model: &'static Model, ids: &[RawBson]) -> Result<()> {
    let mut failed = None;
    for id in ids {
        let find = Find {
            projection: Some(document(RECOUNT.0, 1)?),
            limit: Some(1),
            ..found_by(&model.collection.into(), &by_id(id)?)
        };
        let found = access.find_all(model, find).await?;
        let said = found
            .first()
            .map(|raw| Said::read(raw, RECOUNT))
            .transpose()?;
        let Some(said) = said.flatten() else {
            continue;
        };
        let id = Bson::try_from(id.clone()).map_err(error::encode)?;
        match count_or_note(access, model, &id).await {
            Ok(None) => drop(unsay(access, model, RECOUNT, said).await?),
            Err(error) if error.kind() == ErrorKind::Connection => return Err(error),
            Ok(Some(error)) | Err(error) => drop(failed.get_or_insert(error)),
        }
    }
    failed.map_or(Ok(()), Err)
}

/// The owners that a filter finds.
async fn owners(access: &Access, model: &Model, filter: RawDocumentBuf) -> Result<Vec<Bson>> {
    let find = Find {
        projection: Some(document("_id", 1)?),
        ..found_by(&model.collection.into(), &filter)
    };
    let found = access.find_all(model, find).await?;
    let ids = found
        .iter()
        .map(|raw| Ok(open(raw)?.get("_id").cloned().unwrap_or(Bson::Null)));
    ids.collect()
}

/// Counts the members of an owner again; tells whether that changed anything.
///
/// Its members are first counted as what they are, one by one, as after a write to them: those too that are leaving it, as whoever counts
/// them may have found no owner here, and would let them forget it without telling this one. Then what they remember is summed, and
/// written if nobody has written what the owner is made of meanwhile.
pub(crate) async fn count_again(access: &Access, model: &'static Model, id: &Bson) -> Result<bool> {
    let all = access.to_everything();
    let mut is_changed = false;
    for (member, group) in groups_of(all.models(), model) {
        // Without the parent, its scope is unknown: look at all members that name its `_id`.
        let parent = owner::read_any(&all, &group, id).await?;
        let parent = parent.map(|parent| Parent::of_document(&group, &parent));
        let same_scope = parent.map_or_else(Document::new, |parent| parent.same_scope(&group));
        let wrong = miscounted(&all, member, &group, id, same_scope).await?;
        for some in id_batches(&wrong, BATCH) {
            let those = doc! { "_id": { "$in": some } };
            // Who has said it of some already waits for what they say.
            let mut silent = those.clone();
            silent.insert(COUNT.due(), doc! { "$exists": false });
            let say = doc! { "$set": { COUNT.0: Said::now().to_document() } };
            change(&all, member, Amendment::new(close(&silent)?, say)).await?;
            match line::count_those(&all, member, close(&those)?).await {
                // Members with another rejecting owner stay pending.
                Err(error) if error.kind() == ErrorKind::Unsettled => {}
                done => done?,
            }
            is_changed = true;
        }
        is_changed |= sum_up(&all, member, &group, id).await?;
    }
    Ok(is_changed)
}

/// The members of an owner, and those that are leaving it, that do not remember what they are to be counted as.
async fn miscounted(
    access: &Access,
    member: &'static Model,
    group: &Group,
    id: &Bson,
    same_scope: Document,
) -> Result<Vec<Bson>> {
    let groups = groups(access.models(), member);
    let mut wrong = Vec::new();
    let mut filter = group.concerned(&doc! { "$eq": id.clone() });
    filter.extend(same_scope);
    let filter = close(&filter)?;
    each(access, member, &filter, None, &mut |raw| {
        let current = upgrade::current(member, raw)?;
        let found = Member::of(member, &groups, &current)?;
        if !found.is_counted() {
            wrong.push(found.id);
        }
        Ok(())
    })
    .await?;
    Ok(wrong)
}

/// Writes into an owner what its members remember.
async fn sum_up(access: &Access, member: &'static Model, group: &Group, id: &Bson) -> Result<bool> {
    let key = Id::of(&raw(id)?);
    for attempt in 1..=ATTEMPTS {
        let Some(held) = owner::read_any(access, group, id).await? else {
            return Ok(false);
        };
        let parent = Parent::of_document(group, &held);
        let mut filter = group.concerned(&doc! { "$eq": id.clone() });
        filter.extend(parent.same_scope(group));
        let filter = close(&filter)?;
        let notes = noted(&held, group, member)?;
        let mut sums = Sums::new();
        let paths = close(&doc! { "_odm.counted": 1 })?;
        each(access, member, &filter, Some(paths), &mut |found| {
            let open = open(found)?;
            let own = open.get("_id").map(raw).transpose()?;
            let noted = own.as_ref().and_then(|id| notes.get(&Id::of(id)));
            for (at, counts) in group.remembered(&open) {
                if Id::of(&raw(&at)?) == key {
                    add(&mut sums, noted.unwrap_or(&counts));
                }
            }
            Ok(())
        })
        .await?;
        let mut set = Document::new();
        for (position, tally) in group.tallies.iter().enumerate() {
            let is = match tally.keeps {
                Keeps::Count | Keeps::Sum(_) => {
                    let sum = sums.get(tally.stored).copied().unwrap_or(0);
                    let sum = owner::in_range(group.owner, tally, sum);
                    sum.map_err(|error| error.with_id(id.clone()))?.into()
                }
                Keeps::Latest { .. } => Bson::Array(
                    owner::read_counted(access, member, group, position, &parent).await?,
                ),
            };
            if held.get(tally.stored) != Some(&is) {
                set.insert(tally.stored, is);
            }
        }
        // Though nothing may be to be written: the owner may not be what it was when it was read.
        let is_changed = !set.is_empty();
        let mut filter = parent.filter(group)?;
        filter.extend(fence(&held));
        let mut update = doc! { "$inc": { FENCE: 1_i64 } };
        if is_changed {
            update.insert("$set", set);
        }
        let amendment = Amendment::new(close(&filter)?, update);
        let changed = change(access, group.owner, amendment).await;
        if changed.map_err(|error| error.with_id(id.clone()))? > 0 {
            return Ok(is_changed);
        }
        retry::pause(attempt).await;
    }
    Err(busy(group.owner, id))
}

/// What members make of an owner, by the names of its counts and sums.
pub(super) type Sums = BTreeMap<String, i128>;

/// Adds what a member is counted as.
pub(super) fn add(sums: &mut Sums, counts: &Document) {
    for (name, count) in counts {
        *sums.entry(name.clone()).or_default() += i128::from(count.as_i64().unwrap_or(0));
    }
}

/// Looks at each document that a filter finds, a batch at a time.
pub(super) async fn each(
    access: &Access,
    model: &'static Model,
    filter: &RawDocumentBuf,
    projection: Option<RawDocumentBuf>,
    look: &mut (impl FnMut(&RawDocument) -> Result<()> + Send),
) -> Result<()> {
    let find = Find {
        projection,
        ..found_by(&model.collection.into(), filter)
    };
    let mut cursor = access.find(model, find).await?;
    loop {
        let batch = cursor.next_batch().await.map_err(error::of(model))?;
        if batch.is_empty() {
            return Ok(());
        }
        batch.iter().try_for_each(|raw| look(raw))?;
    }
}
