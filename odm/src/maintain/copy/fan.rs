//! What is owed behind a write: copies follow their source, and new ones are looked at again.

use bson::{Bson, Document, RawBson, RawDocumentBuf, doc};
use tokio::sync::Semaphore;

use super::{
    FAN, FEW, REVISION, VERIFY, close,
    group::Group,
    lease::{Fanning, Lease, fanning, read_fanning},
    open,
    source::Source,
    verify::{verify_said, verify_some},
};
use crate::{
    Result,
    access::{Access, found_by},
    backend::{
        BoxFuture,
        operation::{Count, Find},
    },
    decode, error,
    maintain::{
        Finished, Said, computed,
        link::linked::{Fate, array, one_of},
        stored::{change, overlap, touches},
        with,
    },
    query::{append, document},
    schema::{Follows, Model},
};

/// What a write owes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Owed {
    pub(super) fan: Option<(Said, Follows)>,
    pub(super) verify: Option<Said>,
}

impl Owed {
    /// Whether few dependents are to follow in the write's own transaction.
    pub(crate) fn is_together(&self) -> bool {
        self.fan
            .is_some_and(|(_, pace)| pace != Follows::Background)
    }

    /// Lets dependents follow in the transaction of the write: all, or a few. Those that it does not see follow behind it.
    pub(crate) async fn together(&self, access: &Access, model: &'static Model) -> Result<()> {
        let Some((said, pace)) = self.fan else {
            return Ok(());
        };
        let mut room = Room::of(pace);
        let all = access.to_everything();
        for source in fanning(&all, model, said).await? {
            fan_out(&all, model, &source, &mut room).await?;
        }
        Ok(())
    }

    /// Carries out what is owed, behind the write: before its answer, or in a task of its own.
    pub(crate) async fn carry_out(self, access: Access, model: &'static Model) {
        let all = access.to_everything();
        if let Some(said) = self.verify
            // When too much is under way, the next write waits.
            && let Ok(turn) = VERIFIERS.acquire().await
        {
            let all = all.clone();
            tokio::spawn(async move {
                tell(model, &verify_said(&all, model, said).await);
                drop(turn);
            });
        }
        if let Some((said, pace)) = self.fan {
            let mut room = Room::of(pace);
            tell(model, &fan_said(&all, model, said, &mut room).await);
        }
    }

    /// The same behind what this is part of, whose end nobody waits for here.
    pub(crate) fn carry_out_behind(self, access: &Access, model: &'static Model) {
        match access.unit() {
            _ if self.is_nothing() => {}
            Some(unit) => unit.then(Box::new(move |access| {
                Box::pin(async move {
                    self.carry_out(access, model).await;
                    Ok(())
                })
            })),
            None => drop(tokio::spawn(self.carry_out(access.clone(), model))),
        }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.fan.is_none() && self.verify.is_none()
    }
}

/// How many fan-outs of this process run beside each other behind their writes.
static WORKERS: Semaphore = Semaphore::const_new(4);

/// How many writes of this process are looked at again beside each other.
static VERIFIERS: Semaphore = Semaphore::const_new(64);

/// How many writes of this process may have fan-outs that wait behind them. The next one waits for its answer.
static WAITING: Semaphore = Semaphore::const_new(64);

/// How many documents follow by one write. More of them follow in batches, so that others come in between.
const WHOLE: usize = 20_000;

/// How many documents are in such a batch.
pub(super) const BATCH: usize = 1_000;

/// What could not be carried out is still said in the document, and will be.
fn tell(model: &Model, done: &Result<()>) {
    if let Err(error) = done {
        tracing::debug!(target: "odm", model = model.name, %error, "copies are left to be settled");
    }
}

/// How many dependents may still follow now; any number if it does not say.
pub(super) struct Room(Option<usize>);

impl Room {
    pub(super) fn any() -> Self {
        Self(None)
    }

    fn of(pace: Follows) -> Self {
        Self(match pace {
            Follows::Background => Some(0),
            Follows::Bounded => Some(FEW),
            Follows::Sync | Follows::Never => None,
        })
    }

    fn take(&mut self, count: usize) {
        if let Some(room) = &mut self.0 {
            *room = room.saturating_sub(count);
        }
    }
}

/// Says in an update that copies are to follow, if it writes what others copy.
pub(super) fn say(
    model: &Model,
    dependents: &[(&'static Model, Group)],
    update: &mut RawDocumentBuf,
) -> Result<Option<(Said, Follows)>> {
    let touched = touched(model, dependents, update);
    if touched.is_empty() {
        return Ok(None);
    }
    let said = Said::now();
    *update = with(update, "$inc", REVISION, 1_i64.into())?;
    *update = with(update, "$set", FAN.0, said.to_raw()?)?;
    Ok(Some((said, pace(&touched))))
}

/// How fast copies follow of which some want to be fast.
fn pace(touched: &[Follows]) -> Follows {
    for pace in [Follows::Sync, Follows::Bounded] {
        if touched.contains(&pace) {
            return pace;
        }
    }
    Follows::Background
}

/// The dependents whose source an update writes where it is copied: how they follow.
fn touched(
    model: &Model,
    dependents: &[(&'static Model, Group)],
    update: &RawDocumentBuf,
) -> Vec<Follows> {
    let mut found = Vec::new();
    let computed = computed::changed(model, update);
    let fields = dependents.iter().flat_map(|(_, group)| group.following());
    for taken in fields {
        let mut computed = computed.iter();
        if touches(update, &taken.from) || computed.any(|field| overlap(field, &taken.from)) {
            found.push(taken.follows);
        }
    }
    found
}

/// Lets the dependents follow of all documents that a write was about: as many as there is room for, and the rest in a task of its own.
async fn fan_said(
    access: &Access,
    model: &'static Model,
    said: Said,
    room: &mut Room,
) -> Result<()> {
    let mut is_whole = true;
    for fanning in fanning(access, model, said).await? {
        is_whole &= follow(access, model, &fanning, room).await?;
    }
    if !is_whole && let Ok(place) = WAITING.acquire().await {
        let rest = rest(access.clone(), model, said);
        tokio::spawn(async move {
            rest.await;
            drop(place);
        });
    }
    Ok(())
}

/// Lets those follow for which there was no room.
fn rest(access: Access, model: &'static Model, said: Said) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        if let Ok(_turn) = WORKERS.acquire().await {
            let done = fan_said(&access, model, said, &mut Room::any()).await;
            tell(model, &done);
        }
    })
}

/// Lets the dependents of one document follow, and takes back that they are to; tells whether all did.
async fn follow(
    access: &Access,
    model: &'static Model,
    fanning: &Fanning,
    room: &mut Room,
) -> Result<bool> {
    if !fan_out(access, model, fanning, room).await? {
        return Ok(false);
    }
    // Not if it has been changed since it was read.
    let done = doc! { "$unset": { FAN.0: "" } };
    change(access, model, fanning.as_read()?, &done, &[]).await?;
    Ok(true)
}

/// Brings the dependents of a document up to its revision; tells whether there was room for all.
fn fan_out<'a>(
    access: &'a Access,
    model: &'static Model,
    fanning: &'a Fanning,
    room: &'a mut Room,
) -> BoxFuture<'a, Result<bool>> {
    // What is copied may be copied further.
    Box::pin(async move {
        let mut lease = Lease::of(model, fanning);
        let id = Bson::try_from(fanning.id.clone()).map_err(error::encode)?;
        for (owner, group) in super::dependents(access.models(), model) {
            let refers = source_condition(&group, &id);
            let all = close(&group.of_structs(refers.clone()))?;
            let most = room.0.unwrap_or(WHOLE);
            let count = Count {
                collection: owner.collection.into(),
                filter: all,
                limit: Some(most as u64 + 1),
            };
            let count = usize::try_from(access.count(owner, count).await?).unwrap_or(usize::MAX);
            if count == 0 {
                continue;
            }
            if count <= most {
                room.take(count);
                let all = RawDocumentBuf::new();
                bring(access, owner, &group, &refers, &fanning.source, all, room).await?;
                continue;
            }
            if room.0.is_some() {
                return Ok(false);
            }
            let stale = group.of_structs(is_stale(&group, &refers, fanning.source.revision));
            let find = Find {
                projection: Some(document("_id", 1)?),
                ..found_by(&owner.collection.into(), &close(&stale)?)
            };
            // Whoever comes to refer to the document behind this is looked at again.
            let mut cursor = access.find(owner, find).await?;
            loop {
                let found = cursor.next_batch().await.map_err(error::of(owner))?;
                if found.is_empty() {
                    break;
                }
                let ids: Vec<_> = found.iter().filter_map(|raw| decode::id(raw)).collect();
                let ids: Vec<_> = ids.into_iter().map(RawBson::from).collect();
                for some in ids.chunks(BATCH) {
                    let those = document("_id", one_of(some)?)?;
                    bring(access, owner, &group, &refers, &fanning.source, those, room).await?;
                    if !lease.renew(access, some.len()).await? {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(true)
    })
}

/// The condition that a struct refers to a document.
pub(super) fn source_condition(group: &Group, id: &Bson) -> Document {
    doc! { group.reference: { "$eq": id.clone() } }
}

/// The condition that a struct refers as asked for, and that its copies are of an older revision than this.
fn is_stale(group: &Group, refers: &Document, revision: i64) -> Document {
    let mut condition = refers.clone();
    condition.insert(group.from(), doc! { "$not": { "$gte": revision } });
    condition
}

/// Writes what is copied from a document into some of those that refer to it, where that is newer than what they have.
pub(super) async fn bring(
    access: &Access,
    owner: &'static Model,
    group: &Group,
    refers: &Document,
    source: &Source,
    those: RawDocumentBuf,
    room: &mut Room,
) -> Result<()> {
    let is_stale = is_stale(group, refers, source.revision);
    let mut filter = open(&those)?;
    filter.extend(group.of_structs(is_stale.clone()));
    let place = group.elements(&is_stale);
    let before = &place.before;
    let mut set = Document::new();
    let is_gone = source.fate == Fate::Goes;
    for taken in group.following().filter(|taken| taken.clears || !is_gone) {
        set.insert(
            format!("{before}{}", taken.stored),
            source.value(&taken.from),
        );
    }
    set.insert(format!("{before}{}", group.from()), source.revision);
    let mut update = doc! { "$set": set };
    // What is copied here may be copied further; what is in an array cannot.
    let mut further = Vec::new();
    for (_, other) in super::dependents(access.models(), owner).filter(|_| !group.is_in_array()) {
        let copies = |place: &str| {
            let mut own = group.following();
            own.any(|taken| overlap(&group.path(taken.stored), place))
        };
        let touched = other.following().filter(|taken| copies(&taken.from));
        further.extend(touched.map(|taken| taken.follows));
    }
    let said = (!further.is_empty()).then(Said::now);
    if let Some(said) = said {
        update.insert("$inc", doc! { REVISION: 1_i64 });
        if let Ok(set) = update.get_document_mut("$set") {
            set.insert(FAN.0, said.to_document());
        }
    }
    change(access, owner, close(&filter)?, &update, &place.filters).await?;
    let Some(said) = said else {
        return Ok(());
    };
    if access.unit().is_none() {
        return Box::pin(fan_said(access, owner, said, room)).await;
    }
    for fanning in fanning(access, owner, said).await? {
        fan_out(access, owner, &fanning, room).await?;
    }
    // As with the write itself: those that it does not see follow behind it.
    let owed = Owed {
        fan: Some((said, pace(&further))),
        verify: None,
    };
    owed.carry_out_behind(access, owner);
    Ok(())
}

/// Makes null what is copied of documents that are deleted, where that is to be so. What comes to refer to them behind this is looked
/// at again.
pub(in crate::maintain) async fn clear(
    access: &Access,
    model: &'static Model,
    deleted: impl Iterator<Item = &RawBson>,
) -> Result<()> {
    let clearing =
        super::dependents(access.models(), model).filter(|(_, group)| group.is_clearing());
    let clearing: Vec<_> = clearing.collect();
    if clearing.is_empty() {
        return Ok(());
    }
    let deleted = deleted.map(|id| Bson::try_from(id.clone()).map_err(error::encode));
    let deleted = deleted.collect::<Result<Vec<_>>>()?;
    let (gone, room) = (Source::gone(), &mut Room::any());
    for (owner, group) in clearing {
        for some in deleted.chunks(BATCH) {
            let refers = doc! { group.reference: { "$in": some } };
            let all = RawDocumentBuf::new();
            bring(access, owner, &group, &refers, &gone, all, room).await?;
        }
    }
    Ok(())
}

/// Carries out what others have left of a model's copies. What cannot be keeps none of the rest from it.
pub(crate) async fn settle(
    access: &Access,
    model: &'static Model,
    settled: &mut Finished,
) -> Result<()> {
    while super::is_dependent(model) {
        match verify_some(access, model, &VERIFY.overdue()?).await {
            Ok(some) => {
                settled.documents += some.documents;
                if !some.are_left {
                    break;
                }
            }
            Err(error) => {
                settled.fail(error)?;
                break;
            }
        }
    }
    let mut left = Vec::new();
    while super::is_source(access, model) {
        let mut filter = FAN.overdue()?;
        if !left.is_empty() {
            append(&mut filter, "_id", document("$nin", array(&left))?)?;
        }
        let some = read_fanning(access, model, filter, Some(BATCH as u64)).await?;
        if some.is_empty() {
            break;
        }
        for fanning in some {
            let done = match Lease::take(access, model, &fanning).await {
                Ok(false) => continue,
                Ok(true) => follow(access, model, &fanning, &mut Room::any()).await,
                Err(error) => Err(error),
            };
            match done {
                Ok(_) => settled.documents += 1,
                Err(error) => {
                    settled.fail(error)?;
                    left.push(fanning.id);
                }
            }
        }
    }
    Ok(())
}
