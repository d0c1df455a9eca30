//! What a write owes to copies, and who carries it out.

use bson::RawDocumentBuf;
use tokio::sync::Semaphore;

use super::{
    FAN, REVISION, VERIFY,
    fan::{BATCH, Room, fan_out, follow},
    group::Group,
    lease::{Fanning, Lease, fanning},
    source::{Revisions, Taken},
    verify::{verify_said, verify_some},
};
use crate::{
    ErrorKind, Result,
    access::Access,
    backend::BoxFuture,
    maintain::{
        Finished, Said,
        blocked::Rejections,
        computed,
        link::linked::array,
        stored::{overlap, touches},
        with,
    },
    query::{append, document},
    schema::{Follows, Model},
    task,
};

/// What a write owes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Owed {
    pub(super) fan: Option<(Said, Follows)>,
    pub(super) verify: Option<Said>,
    /// What all copies are of in the documents that are to be looked at again, if they are all new.
    pub(super) taken: Option<Revisions>,
    followed: Followed,
}

/// Who has followed in the transaction of a write, of those that it sees.
#[derive(Debug, Clone, Default)]
pub(crate) enum Followed {
    /// Nobody was asked to.
    #[default]
    Nobody,
    /// Not all: they are too many.
    Some,
    /// All, of these.
    All(Vec<Fanning>),
}

impl Owed {
    pub(super) fn fan(said: Said, pace: Follows) -> Self {
        Self {
            fan: Some((said, pace)),
            ..Self::default()
        }
    }

    /// The same behind a transaction in which some have followed.
    pub(crate) fn behind(self, followed: Followed) -> Self {
        Self { followed, ..self }
    }

    /// By what new documents say that their copies are to be looked at again.
    pub(in crate::maintain) fn verify(&self) -> Option<Said> {
        self.taken.as_ref().and(self.verify)
    }

    /// The sources of new documents.
    pub(in crate::maintain) fn taken(&self) -> &[Taken] {
        self.taken.as_ref().map_or(&[], Revisions::all)
    }

    /// Nothing had become of any of these behind the insert, and the documents say no more that their copies are to be looked at.
    pub(in crate::maintain) fn is_verified(&mut self) {
        (self.verify, self.taken) = (None, None);
    }

    /// Whether few dependents are to follow in the write's own transaction.
    pub(crate) fn is_together(&self) -> bool {
        self.fan
            .is_some_and(|(_, pace)| pace != Follows::Background)
    }

    /// Lets dependents follow in the transaction of the write: all, or a few. Those that it does not see follow behind it.
    pub(crate) async fn together(
        &self,
        access: &Access,
        model: &'static Model,
    ) -> Result<Followed> {
        let Some((said, pace)) = self.fan else {
            return Ok(Followed::Nobody);
        };
        let mut room = Room::of(pace);
        let all = access.to_everything();
        let sources = fanning(&all, model, said.filter(FAN)?, None).await?;
        // In a transaction the first rejection is the error.
        let mut rejected = Rejections::default();
        for fanning in &sources {
            if !fan_out(&all, model, fanning, &mut room, &mut rejected).await? {
                return Ok(Followed::Some);
            }
        }
        Ok(Followed::All(sources))
    }

    /// Carries out what is owed, behind the write: before its answer, or in a task of its own.
    pub(crate) async fn carry_out(self, access: Access, model: &'static Model) {
        let all = access.to_everything();
        if let Some(said) = self.verify
            // When too much is under way, the next write waits.
            && let Ok(turn) = VERIFIERS.acquire().await
        {
            let (all, taken) = (all.in_background(), self.taken);
            task::spawn(async move {
                let _under_way = all.shared().behind.begin();
                let done = verify_said(&all, model, said, taken.as_ref()).await;
                tell(model, &done);
                drop(turn);
            });
        }
        let Some((said, pace)) = self.fan else {
            return;
        };
        match self.followed {
            Followed::Nobody => {
                let mut room = Room::of(pace);
                tell(model, &fan_said(&all, model, said, &mut room).await);
            }
            Followed::Some => fan_later(&all, model, said).await,
            // Only those are left that have come meanwhile.
            Followed::All(sources) => {
                for fanning in &sources {
                    let done = follow(&all, model, fanning, &mut Room::Few).await;
                    tell(model, &done.map(drop));
                }
            }
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
            None => drop(task::spawn(self.carry_out(access.in_background(), model))),
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

/// What could not be carried out is still said in the document, and will be.
fn tell(model: &Model, done: &Result<()>) {
    if let Err(error) = done {
        tracing::debug!(target: "odm", model = model.name, %error, "copies are left to be settled");
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
pub(super) fn pace(touched: &[Follows]) -> Follows {
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
/// A rejected copy does not stop other sources; the first rejection is the error.
pub(super) async fn fan_said(
    access: &Access,
    model: &'static Model,
    said: Said,
    room: &mut Room,
) -> Result<()> {
    let mut blocked = None;
    loop {
        let some = fanning(access, model, said.filter(FAN)?, Some(BATCH)).await?;
        let count: usize = some.iter().map(|fanning| fanning.sources.len()).sum();
        for fanning in some {
            match follow(access, model, &fanning, room).await {
                Ok(true) => {}
                Ok(false) => {
                    fan_later(access, model, said).await;
                    return Ok(());
                }
                // The blocked sources have another date now, so the next read does not return them.
                Err(error) if error.kind() == ErrorKind::Unsettled => {
                    blocked.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        if count < BATCH {
            return blocked.map_or(Ok(()), Err);
        }
    }
}

/// Lets those follow for which there was no room.
async fn fan_later(access: &Access, model: &'static Model, said: Said) {
    if let Ok(place) = WAITING.acquire().await {
        let rest = rest(access.in_background(), model, said);
        task::spawn(async move {
            rest.await;
            drop(place);
        });
    }
}

fn rest(access: Access, model: &'static Model, said: Said) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let _under_way = access.shared().behind.begin();
        if let Ok(_turn) = WORKERS.acquire().await {
            let done = fan_said(&access, model, said, &mut Room::All).await;
            tell(model, &done);
        }
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
                if let Some(error) = some.blocked {
                    settled.fail(error)?;
                }
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
        let some = fanning(access, model, filter, Some(BATCH)).await?;
        if some.is_empty() {
            break;
        }
        for fanning in some {
            let done = match Lease::take(access, model, &fanning).await {
                Ok(false) => continue,
                Ok(true) => follow(access, model, &fanning, &mut Room::All).await,
                Err(error) => Err(error),
            };
            match done {
                Ok(_) => settled.documents += fanning.sources.len() as u64,
                Err(error) => {
                    settled.fail(error)?;
                    left.extend(fanning.ids().cloned());
                }
            }
        }
    }
    Ok(())
}
