//! The fan-out: copies follow their source.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use bson::{Bson, Document, RawBson, RawDocumentBuf, doc};

use super::{
    FAN, FEW, REVISION, close,
    group::Group,
    lease::{Fanning, FanningSource, Lease, fanning},
    open,
    owed::{Owed, fan_said, pace},
    source::Source,
};
use crate::{
    ErrorKind, Result,
    access::{Access, found_by},
    backend::{
        BoxFuture, Cursor,
        operation::{Count, Find},
    },
    batches::id_batches,
    decode, error,
    maintain::{
        Said,
        blocked::{self, Rejections, is_rejection},
        link::linked::{Fate, Id, by_id, one_of},
        stored::{Amendment, change_all, change_each, overlap},
    },
    query::document,
    schema::{Follows, Model},
    unit,
};

/// How many documents follow by one write. More of them follow in batches, so that others come in between.
const WHOLE: usize = 20_000;

/// How many documents are in such a batch, at most.
pub(super) const BATCH: usize = 1_000;

/// How many it has at least where all other writes wait for it: each takes its time, however few there are.
const LEAST: usize = 100;

/// How many are read at once there.
const READ: u64 = 250_000;

/// How long it may take there.
const TURN: Duration = Duration::from_millis(2);

/// How many dependents may follow now.
#[derive(Debug, Clone, Copy)]
pub(super) enum Room {
    /// So many.
    Of(usize),
    /// All of them.
    All,
    /// All of them, and they are few: nobody has to count them first.
    Few,
}

impl Room {
    pub(super) fn of(pace: Follows) -> Self {
        match pace {
            Follows::Background => Self::Of(0),
            Follows::Bounded => Self::Of(FEW),
            Follows::Sync | Follows::Never => Self::All,
        }
    }

    /// How many may follow by one write.
    fn most(self) -> usize {
        match self {
            Self::Of(room) => room,
            Self::All | Self::Few => WHOLE,
        }
    }

    fn take(&mut self, count: usize) {
        if let Self::Of(room) = self {
            *room = room.saturating_sub(count);
        }
    }
}

/// Lets the dependents of some sources follow, and takes back that they are to; tells whether there was room for all.
///
/// # Errors
///
/// [`Unsettled`](crate::ErrorKind::Unsettled) if dependents reject copies. The fan-out has written all other dependents by then; the
/// sources of the rejected copies stay pending, with a record of the rejections.
pub(super) async fn follow(
    access: &Access,
    model: &'static Model,
    fanning: &Fanning,
    room: &mut Room,
) -> Result<bool> {
    let mut rejected = Rejections::default();
    let have_followed = fan_out(access, model, fanning, room, &mut rejected).await?;
    if !have_followed {
        return Ok(false);
    }
    let blocked = rejected.by_source();
    fanning.unsay_but(access, model, &blocked).await?;
    for (source, by) in &blocked {
        let owing = fanning.of(source)?;
        blocked::note(access, model, FAN, owing, by).await?;
    }
    match rejected.is_empty() {
        true => Ok(true),
        false => Err(blocked::blocked(model, rejected.all())),
    }
}

/// Brings the dependents of some sources up to the current revisions. Returns whether there was room for all dependents. Rejecting
/// dependents are skipped.
pub(super) fn fan_out<'a>(
    access: &'a Access,
    model: &'static Model,
    fanning: &'a Fanning,
    room: &'a mut Room,
    rejected: &'a mut Rejections,
) -> BoxFuture<'a, Result<bool>> {
    // What is copied may be copied further.
    Box::pin(async move {
        let mut lease = Lease::of(model, fanning);
        for (owner, group) in super::dependents(access.models(), model) {
            // Of many sources with too many dependents the one half comes behind the other.
            let mut left = vec![fanning.sources.as_slice()];
            while let Some(sources) = left.pop() {
                let most = room.most();
                let count = match room {
                    Room::Few => None,
                    _ => Some(dependents_of(access, owner, &group, sources, most).await?),
                };
                match (count, sources) {
                    (Some(0), _) => {}
                    (Some(count), _) if count > most && matches!(room, Room::Of(_)) => {
                        return Ok(false);
                    }
                    (Some(count), [source]) if count > most => {
                        let pace = (&mut lease, &mut *room);
                        if !in_batches(access, owner, &group, source, pace, rejected).await? {
                            return Ok(true);
                        }
                    }
                    (Some(count), _) if count > most => {
                        let (first, second) = sources.split_at(sources.len() / 2);
                        left.extend([second, first]);
                    }
                    _ => {
                        room.take(count.unwrap_or_default());
                        let newer = sources.iter().map(|of| Newer::everywhere(&group, of));
                        let newer = newer.collect::<Result<Vec<_>>>()?;
                        let are_many = count.is_some_and(|count| count > FEW);
                        if !are_many || !at_once(access, owner, &group, &newer).await {
                            bring(access, owner, &group, newer, room, rejected).await?;
                        }
                    }
                }
            }
        }
        Ok(true)
    })
}

/// How many documents copy from these; nobody wants to know how much more than so many.
async fn dependents_of(
    access: &Access,
    owner: &'static Model,
    group: &Group,
    sources: &[FanningSource],
    most: usize,
) -> Result<usize> {
    let refers = one_of(sources.iter().map(|of| &of.id))?;
    let refers = open(&document(group.reference, refers)?)?;
    let count = Count {
        collection: owner.collection.into(),
        filter: close(&group.of_structs(refers))?,
        limit: Some(most as u64 + 1),
        max_time: None,
    };
    let count = access.count(owner, count).await?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

/// Brings the many dependents of a source up to its revision; false if that is not this process's to do any more.
async fn in_batches(
    access: &Access,
    owner: &'static Model,
    group: &Group,
    of: &FanningSource,
    (lease, room): (&mut Lease<'_>, &mut Room),
    rejected: &mut Rejections,
) -> Result<bool> {
    let newer = Newer::everywhere(group, of)?;
    let keeps_others_waiting = access.writes_are_serial();
    let find = Find {
        projection: Some(document("_id", 1)?),
        limit: keeps_others_waiting.then_some(READ),
        ..found_by(&owner.collection.into(), &close(&newer.filter(group)?)?)
    };
    let mut stale = Stale {
        access,
        owner,
        find,
        reading: Reading::NotBegun,
    };
    // All that copies from a batch in its turn would be in the same transaction, however much that is.
    let goes_along = keeps_others_waiting && further(access, owner, group).is_empty();
    let mut size = if keeps_others_waiting { LEAST } else { BATCH };
    loop {
        let ids = stale.next().await?;
        if ids.is_empty() {
            return Ok(true);
        }
        let before = rejected.len();
        let mut left = ids.as_slice();
        while !left.is_empty() {
            let some;
            (some, left) = left.split_at(size.min(left.len()));
            let newer = Newer {
                those: document("_id", one_of(some)?)?,
                ..newer.clone()
            };
            let begun = Instant::now();
            let newer = vec![newer];
            if !goes_along || !at_once(access, owner, group, &newer).await {
                bring(access, owner, group, newer, room, rejected).await?;
            }
            if keeps_others_waiting {
                size = next_size(size, begun.elapsed());
            }
            if !lease.renew(access, some.len()).await? {
                return Ok(false);
            }
        }
        if rejected.len() - before == ids.len() {
            // The next read would return the same documents.
            return Ok(true);
        }
    }
}

/// The dependents of a source that have an older copy, some at a time. Whoever comes to refer to it behind this is looked at again.
struct Stale<'a> {
    access: &'a Access,
    owner: &'static Model,
    find: Find,
    reading: Reading,
}

/// How far the reading of them is.
enum Reading {
    NotBegun,
    Open(Box<dyn Cursor>),
    Over,
}

impl Stale<'_> {
    /// The next of them; none if there are no more.
    ///
    /// With a limit nothing is read from while these follow: where a snapshot is kept, what is written meanwhile needs room of its own.
    async fn next(&mut self) -> Result<Vec<RawBson>> {
        let (access, owner) = (self.access, self.owner);
        let found = match (&mut self.reading, self.find.limit) {
            (Reading::Over, _) => return Ok(Vec::new()),
            (Reading::NotBegun, Some(limit)) => {
                let found = access.find_all(owner, self.find.clone()).await?;
                if (found.len() as u64) < limit {
                    self.reading = Reading::Over;
                }
                found
            }
            (Reading::NotBegun, None) => {
                let cursor = access.find(owner, self.find.clone()).await?;
                self.reading = Reading::Open(cursor);
                return Box::pin(self.next()).await;
            }
            (Reading::Open(cursor), _) => cursor.next_batch().await.map_err(error::of(owner))?,
        };
        let ids = found.iter().filter_map(|raw| decode::id(raw));
        Ok(ids.map(RawBson::from).collect())
    }
}

/// The size of the batch behind one that took so long.
fn next_size(size: usize, took: Duration) -> usize {
    match took {
        long if long > TURN => (size / 2).max(LEAST),
        short if short < TURN / 2 => (size * 2).min(BATCH),
        _ => size,
    }
}

/// What is newer than copies of it may be.
#[derive(Debug, Clone)]
pub(super) struct Newer<'s> {
    /// The condition that a struct refers to it.
    pub(super) refers: Document,
    pub(super) source: &'s Source,
    /// The documents that are meant; all of them if it is empty.
    pub(super) those: RawDocumentBuf,
    /// The `_id` of the source, if the fan-out is pending there.
    pub(super) id: Option<&'s RawBson>,
    /// The condition that they are of the source's scope; empty where nothing has a scope, or where that is known of them.
    pub(super) in_scope: Document,
}

impl<'s> Newer<'s> {
    /// A source, for all of its dependents.
    fn everywhere(group: &Group, of: &'s FanningSource) -> Result<Self> {
        let id = Bson::try_from(of.id.clone()).map_err(error::encode)?;
        Ok(Self {
            refers: source_condition(group, &id),
            source: &of.source,
            those: RawDocumentBuf::new(),
            id: Some(&of.id),
            in_scope: group.in_scope(group.scope_of_source(&of.source).as_ref()),
        })
    }

    /// The condition that a struct has an older copy.
    fn is_stale(&self, group: &Group) -> Document {
        let mut condition = self.refers.clone();
        let newer = doc! { "$not": { "$gte": self.source.revision } };
        condition.insert(group.from(), newer);
        condition
    }

    /// The documents that have such structs.
    fn filter(&self, group: &Group) -> Result<Document> {
        let mut filter = open(&self.those)?;
        filter.extend(self.in_scope.clone());
        filter.extend(group.of_structs(self.is_stale(group)));
        Ok(filter)
    }

    /// Writes it over the older copies.
    fn amendment(&self, group: &Group, more: &Document) -> Result<Amendment> {
        let place = group.elements(&self.is_stale(group));
        let (before, source) = (&place.before, self.source);
        let is_gone = source.fate == Fate::Goes;
        let mut update = more.clone();
        for taken in group.following().filter(|taken| taken.clears || !is_gone) {
            let value = source.value(&taken.from);
            write(
                &mut update,
                format!("{before}{}", taken.stored),
                taken.stored_value(value),
            );
        }
        let from = format!("{before}{}", group.from());
        write(&mut update, from, Some(source.revision.into()));
        Ok(Amendment {
            filter: close(&self.filter(group)?)?,
            update,
            array_filters: place.filters,
        })
    }
}

/// Writes a value, or removes the field where there is none, by an update.
pub(super) fn write(update: &mut Document, path: String, value: Option<Bson>) {
    let (operator, operand) = match value {
        Some(value) => ("$set", value),
        None => ("$unset", "".into()),
    };
    match update.get_document_mut(operator) {
        Ok(fields) => drop(fields.insert(path, operand)),
        Err(_) => drop(update.insert(operator, doc! { path: operand })),
    }
}

/// The condition that a struct refers to a document.
pub(super) fn source_condition(group: &Group, id: &Bson) -> Document {
    doc! { group.reference: { "$eq": id.clone() } }
}

/// How those follow that copy what these copies are of: what is in an array is copied no further.
fn further(access: &Access, owner: &'static Model, group: &Group) -> Vec<Follows> {
    let mut further = Vec::new();
    for (_, other) in super::dependents(access.models(), owner).filter(|_| !group.is_in_array()) {
        let copies = |place: &str| {
            let mut own = group.following();
            own.any(|taken| overlap(&group.path(taken.stored), place))
        };
        let touched = other.following().filter(|taken| copies(&taken.from));
        further.extend(touched.map(|taken| taken.follows));
    }
    further
}

/// Writes newer values over the older copies of all dependents, then starts the fan-out of the changed dependents. Rejecting documents
/// are skipped; in a transaction the first rejection is the error.
pub(super) async fn bring(
    access: &Access,
    owner: &'static Model,
    group: &Group,
    newer: Vec<Newer<'_>>,
    room: &mut Room,
    rejected: &mut Rejections,
) -> Result<()> {
    let further = further(access, owner, group);
    let said = (!further.is_empty()).then(Said::now);
    let more = match said {
        Some(said) => doc! { "$inc": { REVISION: 1_i64 }, "$set": { FAN.0: said.to_document() } },
        None => Document::new(),
    };
    let changes = newer.iter().map(|newer| newer.amendment(group, &more));
    match change_all(access, owner, changes.collect::<Result<_>>()?).await {
        Err(error) if access.unit().is_none() && is_rejection(&error) => {
            for newer in &newer {
                let each = bring_each(access, owner, group, newer, &more, rejected);
                Box::pin(each).await?;
            }
        }
        done => drop(done?),
    }
    let Some(said) = said else {
        return Ok(());
    };
    // Few may have many.
    let mut all = Room::All;
    let room = match room {
        Room::Few => &mut all,
        other => other,
    };
    if access.unit().is_none() {
        // A rejected copy of a copy is pending work of the document in between.
        return match Box::pin(fan_said(access, owner, said, room)).await {
            Err(error) if error.kind() == ErrorKind::Unsettled => Ok(()),
            done => done,
        };
    }
    for fanning in fanning(access, owner, said.filter(FAN)?, None).await? {
        fan_out(access, owner, &fanning, room, rejected).await?;
    }
    // As with the write itself: those that it does not see follow behind it.
    Owed::fan(said, pace(&further)).carry_out_behind(access, owner);
    Ok(())
}

/// Writes each stale copy by itself, after a document has rejected the write of all.
async fn bring_each(
    access: &Access,
    owner: &'static Model,
    group: &Group,
    newer: &Newer<'_>,
    more: &Document,
    rejected: &mut Rejections,
) -> Result<()> {
    let find = Find {
        projection: Some(document("_id", 1)?),
        ..found_by(&owner.collection.into(), &close(&newer.filter(group)?)?)
    };
    let found = access.find_all(owner, find).await?;
    let ids = found.iter().filter_map(|raw| decode::id(raw));
    let ids: Vec<_> = ids.map(RawBson::from).collect();
    for some in ids.chunks(BATCH) {
        let changes = some.iter().map(|id| {
            let one = Newer {
                those: by_id(id)?,
                ..newer.clone()
            };
            Ok((id.clone(), one.amendment(group, more)?))
        });
        let changes = changes.collect::<Result<_>>()?;
        for (id, error) in change_each(access, owner, changes).await? {
            rejected.push(newer.id, owner, id, error)?;
        }
    }
    Ok(())
}

/// Lets many follow in a transaction of their own, where there are such: what is committed together is written down once, and not for
/// each of them. It gives way to whoever else writes one of them; tells whether they have followed. Who comes meanwhile, and is not seen,
/// is looked at again.
async fn at_once(
    access: &Access,
    owner: &'static Model,
    group: &Group,
    newer: &[Newer<'_>],
) -> bool {
    // In one that is under way the write of the source is not to be seen yet: who comes meanwhile may not see it either.
    if access.unit().is_some() || !access.has_transactions() {
        return false;
    }
    let together = unit::run_behind_others(access, |access| async move {
        let mut rejected = Rejections::default();
        let newer = newer.to_vec();
        bring(&access, owner, group, newer, &mut Room::All, &mut rejected).await
    });
    let done = together.await;
    if let Err(error) = &done {
        tracing::debug!(target: "odm", model = owner.name, %error, "copies follow outside of a transaction");
    }
    done.is_ok()
}

/// Makes null what is copied of documents that are deleted, where that is to be so, as what is left of them. What comes to refer to them
/// behind this is looked at again.
///
/// # Errors
///
/// The error of the first rejecting document, after the copies of all other documents are null.
pub(in crate::maintain) async fn clear(
    access: &Access,
    model: &'static Model,
    deleted: impl Iterator<Item = Deleted<'_>>,
    gone: &Source,
) -> Result<()> {
    let clearing =
        super::dependents(access.models(), model).filter(|(_, group)| group.is_clearing());
    let clearing: Vec<_> = clearing.collect();
    if clearing.is_empty() {
        return Ok(());
    }
    let mut by_scope = BTreeMap::<Option<Id>, (Option<Bson>, Vec<Bson>)>::new();
    for Deleted { id, scope } in deleted {
        let id = Bson::try_from(id.clone()).map_err(error::encode)?;
        let value = scope.map(|scope| Bson::try_from(scope.clone()).map_err(error::encode));
        let value = value.transpose()?;
        let (_, ids) = by_scope
            .entry(scope.map(Id::of))
            .or_insert((value, Vec::new()));
        ids.push(id);
    }
    let mut rejected = Rejections::default();
    for (owner, group) in clearing {
        for (scope, deleted) in by_scope.values() {
            for some in id_batches(deleted, BATCH) {
                let newer = Newer {
                    refers: doc! { group.reference: { "$in": some } },
                    source: gone,
                    those: RawDocumentBuf::new(),
                    id: None,
                    in_scope: group.in_scope(scope.as_ref()),
                };
                let room = &mut Room::All;
                bring(access, owner, &group, vec![newer], room, &mut rejected).await?;
            }
        }
    }
    rejected.into_error().map_or(Ok(()), Err)
}

/// A document that is deleted.
#[derive(Debug, Clone, Copy)]
pub(in crate::maintain) struct Deleted<'d> {
    pub(in crate::maintain) id: &'d RawBson,
    /// The value of its scope field; none if its model has no scope.
    pub(in crate::maintain) scope: Option<&'d RawBson>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_as_large_as_take_a_turn() {
        let long = TURN + Duration::from_micros(1);
        let short = TURN / 2 - Duration::from_micros(1);
        assert_eq!(next_size(200, long), 100);
        assert_eq!(next_size(LEAST, long), LEAST);
        assert_eq!(next_size(200, TURN), 200);
        assert_eq!(next_size(200, TURN / 2), 200);
        assert_eq!(next_size(200, short), 400);
        assert_eq!(next_size(BATCH, short), BATCH);
    }
}
