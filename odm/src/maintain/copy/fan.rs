//! What is owed behind a write: copies follow their source, and new ones are looked at again.

use std::collections::BTreeMap;

use bson::{Bson, Document, RawBson, RawDocumentBuf, doc, oid::ObjectId};
use tokio::sync::Semaphore;

use super::{
    FAN, FEW, REVISION, VERIFY, close,
    group::Group,
    open,
    source::{Source, Sources, projection},
};
use crate::{
    Result,
    access::{Access, found_by},
    backend::{BoxFuture, operation::Find},
    decode, error,
    maintain::{
        Finished, Said, computed,
        link::linked::{Id, array, by_id, one_of, read_upgraded},
        stored::{change, overlap, raw, touches},
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

/// How many documents one write changes at most.
const BATCH: usize = 1_000;

/// What could not be carried out is still said in the document, and will be.
fn tell(model: &Model, done: &Result<()>) {
    if let Err(error) = done {
        tracing::debug!(target: "odm", model = model.name, %error, "copies are left to be settled");
    }
}

/// How many dependents may still follow now.
struct Room(Option<usize>);

impl Room {
    fn any() -> Self {
        Self(None)
    }

    fn of(pace: Follows) -> Self {
        Self(match pace {
            Follows::Background => Some(0),
            Follows::Bounded => Some(FEW),
            Follows::Sync | Follows::Never => None,
        })
    }

    fn left(&self) -> usize {
        self.0.unwrap_or(BATCH).min(BATCH)
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

/// A source that says that its copies are to follow.
struct Fanning {
    id: RawBson,
    token: ObjectId,
    source: Source,
}

/// The documents that a write has made say that their copies are to follow.
async fn fanning(access: &Access, model: &'static Model, said: Said) -> Result<Vec<Fanning>> {
    read_fanning(access, model, said.filter(FAN)?, None).await
}

async fn read_fanning(
    access: &Access,
    model: &'static Model,
    filter: RawDocumentBuf,
    limit: Option<u64>,
) -> Result<Vec<Fanning>> {
    let groups: Vec<_> = super::dependents(access.models(), model).collect();
    let groups: Vec<_> = groups.into_iter().map(|(_, group)| group).collect();
    let find = Find {
        projection: projection(model, &groups)?,
        limit,
        ..found_by(&model.collection.into(), &filter)
    };
    let mut found = Vec::new();
    for raw in read_upgraded(access, model, find).await? {
        let token = raw.get_document("_odm").ok();
        let token = token.and_then(|own| own.get_document("fan").ok()?.get_object_id("token").ok());
        if let (Some(id), Some(token)) = (decode::id(&raw).map(RawBson::from), token) {
            let source = Source::of(&raw)?;
            found.push(Fanning { id, token, source });
        }
    }
    Ok(found)
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
    if !is_whole {
        tokio::spawn(rest(access.clone(), model, said));
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
    let mut filter = by_id(&fanning.id)?;
    append(&mut filter, &FAN.token(), document("$eq", fanning.token)?)?;
    change(
        access,
        model,
        filter,
        &doc! { "$unset": { FAN.0: "" } },
        &[],
    )
    .await?;
    Ok(true)
}

/// Brings the dependents of a document up to its revision, a batch at a time; tells whether that was all.
fn fan_out<'a>(
    access: &'a Access,
    model: &'static Model,
    fanning: &'a Fanning,
    room: &'a mut Room,
) -> BoxFuture<'a, Result<bool>> {
    // What is copied may be copied further.
    Box::pin(async move {
        for (owner, group) in super::dependents(access.models(), model) {
            let id = Bson::try_from(fanning.id.clone()).map_err(error::encode)?;
            loop {
                let is_stale = is_stale(&group, &id, fanning.source.revision);
                let stale = group.of_structs(is_stale);
                let limit = room.left();
                let find = Find {
                    projection: Some(document("_id", 1)?),
                    limit: Some(limit as u64 + 1),
                    ..found_by(&owner.collection.into(), &close(&stale)?)
                };
                let found = access.find_all(owner, find).await?;
                if found.is_empty() {
                    break;
                }
                let ids: Vec<_> = found.iter().filter_map(|raw| decode::id(raw)).collect();
                let ids: Vec<_> = ids.into_iter().map(RawBson::from).take(limit).collect();
                if ids.is_empty() {
                    return Ok(false);
                }
                room.take(ids.len());
                let those = document("_id", one_of(&ids)?)?;
                bring(access, owner, &group, &id, &fanning.source, those, room).await?;
                if found.len() <= limit {
                    break;
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

/// The condition that the copies of a document in a struct are of an older revision than this.
fn is_stale(group: &Group, id: &Bson, revision: i64) -> Document {
    let mut condition = source_condition(group, id);
    condition.insert(group.from(), doc! { "$not": { "$gte": revision } });
    condition
}

/// Writes what is copied from a document into some of its dependents, where that is newer than what they have.
async fn bring(
    access: &Access,
    owner: &'static Model,
    group: &Group,
    id: &Bson,
    source: &Source,
    those: RawDocumentBuf,
    room: &mut Room,
) -> Result<()> {
    let is_stale = is_stale(group, id, source.revision);
    let mut filter = open(&those)?;
    filter.extend(group.of_structs(is_stale.clone()));
    let place = group.elements(&is_stale);
    let before = &place.before;
    let mut set = Document::new();
    for taken in group.following() {
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

/// Looks again at the copies in the documents that a write was about.
pub(super) async fn verify_said(access: &Access, model: &'static Model, said: Said) -> Result<()> {
    let filter = said.filter(VERIFY)?;
    while verify_some(access, model, &filter).await?.are_left {}
    Ok(())
}

/// Some of the documents whose copies were to be looked at again.
struct Verified {
    /// How many they are of which nothing is owed any more.
    documents: u64,
    /// Whether there are others.
    are_left: bool,
}

/// Looks again at some of the documents that a filter finds.
async fn verify_some(
    access: &Access,
    model: &'static Model,
    filter: &RawDocumentBuf,
) -> Result<Verified> {
    let groups = super::groups(model);
    let mut paths = RawDocumentBuf::new();
    for field in ["_id", "_odm"] {
        append(&mut paths, field, 1)?;
    }
    let mut roots: Vec<_> = groups
        .iter()
        .map(|group| {
            group
                .steps
                .first()
                .map_or(group.reference, |step| step.stored)
        })
        .collect();
    roots.sort_unstable();
    roots.dedup();
    for root in roots {
        append(&mut paths, root, 1)?;
    }
    let find = Find {
        projection: Some(paths),
        limit: Some(BATCH as u64 + 1),
        ..found_by(&model.collection.into(), filter)
    };
    let mut found = access.find_all(model, find).await?;
    let are_left = found.len() > BATCH;
    found.truncate(BATCH);
    let mut wanted = Vec::new();
    let mut held = Vec::new();
    let mut tokens = BTreeMap::<ObjectId, Vec<RawBson>>::new();
    for raw in &found {
        let open = open(raw)?;
        let Some(id) = decode::id(raw).map(RawBson::from) else {
            continue;
        };
        for (position, group) in groups.iter().enumerate() {
            for (_, inside) in group.structs(&open) {
                if let (Some(reference), true) = (group.reference_in(inside), group.is_following())
                {
                    wanted.push(((group.model)(), reference.clone()));
                    let from = group.revision_in(inside);
                    held.push((position, reference.clone(), from, id.clone()));
                }
            }
        }
        let own = raw.get_document("_odm").ok();
        let own = own.and_then(|own| own.get_document("verify").ok());
        if let Some(token) = own.and_then(|own| own.get_object_id("token").ok()) {
            tokens.entry(token).or_default().push(id);
        }
    }
    let mut sources = Sources::default();
    sources.read(access, &groups, &wanted).await?;
    let mut older = BTreeMap::<(usize, Id), Vec<RawBson>>::new();
    for (position, reference, from, id) in held {
        let Some(group) = groups.get(position) else {
            continue;
        };
        // What is gone leaves its last value.
        if let Some(Some(source)) = sources.get((group.model)(), &reference)?
            && from.is_none_or(|from| from < source.revision)
        {
            let reference = Id::of(&raw(&reference)?);
            older.entry((position, reference)).or_default().push(id);
        }
    }
    for ((position, reference), ids) in older {
        let reference = Bson::try_from(reference.value()?).map_err(error::encode)?;
        if let Some(group) = groups.get(position)
            && let Some(Some(source)) = sources.get((group.model)(), &reference)?
        {
            let those = document("_id", one_of(&ids)?)?;
            let room = &mut Room::any();
            bring(access, model, group, &reference, source, those, room).await?;
        }
    }
    let mut documents = 0;
    for (token, ids) in tokens {
        let mut filter = document("_id", one_of(&ids)?)?;
        append(&mut filter, &VERIFY.token(), document("$eq", token)?)?;
        documents += change(
            access,
            model,
            filter,
            &doc! { "$unset": { VERIFY.0: "" } },
            &[],
        )
        .await?;
    }
    Ok(Verified {
        documents,
        // Where nothing could be taken back, nothing will be.
        are_left: are_left && documents > 0,
    })
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
            match follow(access, model, &fanning, &mut Room::any()).await {
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
