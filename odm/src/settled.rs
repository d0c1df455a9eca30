//! Pending work of all kinds: how much there is, and waiting until it is done.

mod worker;

use std::{
    fmt,
    marker::PhantomData,
    pin::{Pin, pin},
    time::{Duration, SystemTime},
};

pub use crate::maintain::Rejection;
pub use worker::{Progress, Worker};

use bson::{DateTime, RawArrayBuf, RawBsonRef, RawDocumentBuf};
use tokio::time::Instant;

use crate::{
    Error, ErrorKind, Result,
    access::{Access, also, found_by},
    backend::operation::{Count, Find},
    document::Document,
    error,
    maintain::{self, Promise, rejections},
    query::{IntoKey, Key, document},
    schema::{Model, Schema},
    task,
};

/// Waits until nothing is owed any more; made by [`Database::settled`](crate::Database::settled).
///
/// What is due it carries out itself; what another task or process is at it waits for.
#[must_use = "nothing is waited for until this is awaited"]
#[derive(Debug)]
pub struct Settled<S> {
    access: Access,
    limit: Option<Duration>,
    /// The one document that it is about, if it is about one.
    one: Option<Result<(&'static Model, RawDocumentBuf)>>,
    of: PhantomData<fn() -> S>,
}

impl<S: Schema> Settled<S> {
    pub(crate) fn new(access: Access) -> Self {
        Self {
            access,
            limit: None,
            one: None,
            of: PhantomData,
        }
    }

    /// At most so long: then it is an error of kind [`Unsettled`](ErrorKind::Unsettled).
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Only of one document: of its own copies, and of those that others have of it.
    pub fn of<T: Document>(mut self, id: impl IntoKey<T>) -> Self {
        let key: Key<T> = id.into_key();
        self.one = Some(key.to_raw().map(|filter| (&T::MODEL, filter)));
        self
    }

    async fn run(self) -> Result<()> {
        let deadline = self.limit.map(|limit| Instant::now() + limit);
        let one = self.one.transpose()?;
        let begun = Instant::now();
        let mut is_tried = false;
        loop {
            // From now on: what is carried out while it looks is not missed.
            let behind = self.access.shared().behind();
            let mut next_end = pin!(behind.next_end());
            next_end.as_mut().enable();
            let owed = owed(&self.access, S::MODELS, one.as_ref()).await?;
            if owed.is_empty() {
                return Ok(());
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                let message =
                    format!("not all was carried out in time; there is owed still: {owed}");
                return Err(Error::new(ErrorKind::Unsettled, message));
            }
            if owed.is_blocked() {
                if is_tried {
                    let message = format!(
                        "documents reject follow-up writes, and nothing else is pending: {owed}; let them accept these, then run `db.settle()`"
                    );
                    return Err(Error::new(ErrorKind::Unsettled, message));
                }
                is_tried = true;
                for model in S::MODELS {
                    maintain::unblock(&self.access, model).await?;
                }
                continue;
            }
            for model in S::MODELS {
                // Before that it is left to whoever said it.
                let mut owing = owed.models.iter();
                if owing.any(|of| of.model == model.name && of.is_overdue) {
                    // What cannot be finished is owed still.
                    let mut finished = maintain::Finished::default();
                    maintain::settle(&self.access, model, &mut finished).await?;
                }
            }
            // What this process is at tells when it ends. Of others nobody hears: the pause is in proportion to what it waited already,
            // so that it is never late by much.
            let pause = match behind.is_under_way() {
                true => AT_WORK,
                false => (begun.elapsed() / 8).clamp(SHORTEST, LONGEST),
            };
            // Whichever comes first.
            let _ = task::timeout(pause, next_end).await;
        }
    }
}

/// How long it waits before it looks again: at least, and at most.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(200);

/// The same while this process is at something, of whose end it hears.
const AT_WORK: Duration = Duration::from_secs(1);

impl<S: Schema> IntoFuture for Settled<S> {
    type Output = Result<()>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// What writes owe that is not carried out yet; made by [`Database::owed`](crate::Database::owed).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owed {
    /// Of each model of which something is owed.
    pub models: Vec<OwedOf>,
}

/// What is owed of the documents of one model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwedOf {
    /// The name of the model.
    pub model: &'static str,
    /// Of how many documents copies are to follow that others have.
    pub sources: u64,
    /// How many documents have followed these so far, in batches; it is said every second or so.
    pub followed: u64,
    /// In how many documents copies are to be looked at again, because the references to their sources are new.
    pub dependents: u64,
    /// How many documents are to be counted at those that they refer to.
    pub members: u64,
    /// At how many documents those that refer to them are to be counted.
    pub owners: u64,
    /// In how many documents references and their other sides are being written.
    pub links: u64,
    /// How many arrays that overflow are being written, and how many documents with their elements may be none of theirs.
    pub arrays: u64,
    /// How long the oldest of it has been owed, by the clock of this process.
    pub age: Duration,
    /// How many of these documents wait because documents reject the follow-up writes. The next attempt comes after a growing pause of an
    /// hour at most, or at once by [`Database::settle`](crate::Database::settle).
    pub blocked: u64,
    /// The rejecting documents with the reasons: ten at most.
    pub rejections: Vec<Rejection>,
    /// Whether some of it is for anybody to carry out.
    is_overdue: bool,
}

/// How many rejecting documents a report names for a model.
const MAX_NAMED: usize = 10;

impl Owed {
    /// Whether nothing is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.models.is_empty()
    }

    /// Whether work is pending and all of the work is rejected.
    fn is_blocked(&self) -> bool {
        let is_blocked = |of: &OwedOf| {
            let OwedOf {
                sources,
                dependents,
                members,
                owners,
                links,
                arrays,
                ..
            } = of;
            of.blocked == sources + dependents + members + owners + links + arrays
        };
        !self.is_empty() && self.models.iter().all(is_blocked)
    }
}

impl fmt::Display for Owed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("nothing");
        }
        let lines = self.models.iter().map(|of| {
            let mut parts = Vec::new();
            for (count, what) in [
                (of.sources, "whose copies are to follow"),
                (of.dependents, "whose copies are to be looked at again"),
                (of.members, "that are to be counted"),
                (of.owners, "whose members are to be counted"),
                (of.links, "whose links are being written"),
                (of.arrays, "whose arrays are being written"),
            ] {
                if count > 0 {
                    parts.push(format!("{count} {what}"));
                }
            }
            if of.followed > 0 {
                parts.push(format!("{} have followed so far", of.followed));
            }
            let mut line = format!("{}: {}, for {:?}", of.model, parts.join(", "), of.age);
            if of.blocked > 0 {
                let by: Vec<_> = of.rejections.iter().map(ToString::to_string).collect();
                line.push_str(&format!(
                    "; {} of these are blocked by documents that reject the write: {}",
                    of.blocked,
                    by.join("; ")
                ));
            }
            line
        });
        f.write_str(&lines.collect::<Vec<_>>().join("; "))
    }
}

/// What is owed, of all documents of these models or of one.
pub(crate) async fn owed(
    access: &Access,
    models: &'static [&'static Model],
    one: Option<&(&'static Model, RawDocumentBuf)>,
) -> Result<Owed> {
    let mut owed = Owed::default();
    for model in models {
        if one.is_some_and(|(of, _)| of.collection != model.collection) {
            continue;
        }
        let (mut dues, mut since, mut followed) = (Vec::new(), None, 0);
        let mut blocked = Blocked::default();
        let filter = one.map(|(_, filter)| filter);
        let [
            mut sources,
            mut dependents,
            mut members,
            mut owners,
            mut links,
            mut arrays,
        ] = [0; 6];
        for field in model.overflows {
            let promise = Promise::of_array(field);
            arrays += owed_by(access, model, promise, filter, &mut dues, &mut blocked).await?;
        }
        if one.is_none() {
            for (extras, promise) in maintain::owed_outside(model) {
                let owing = Some(maintain::owing_outside()?);
                arrays += owed_by(
                    access,
                    extras,
                    promise,
                    owing.as_ref(),
                    &mut dues,
                    &mut blocked,
                )
                .await?;
            }
        }
        for (promise, count) in [
            (Promise::FAN, &mut sources),
            (Promise::VERIFY, &mut dependents),
            (Promise::COUNT, &mut members),
            (Promise::RECOUNT, &mut owners),
            (Promise::LINK, &mut links),
        ] {
            if !promise.is_of(access, model) {
                continue;
            }
            *count = owed_by(access, model, promise, filter, &mut dues, &mut blocked).await?;
            if promise == Promise::FAN && *count > 0 {
                (since, followed) = under_way(access, model, one).await?;
            }
        }
        let now = DateTime::now();
        let is_overdue = dues.iter().any(|due| due.is_none_or(|due| due <= now));
        let oldest = dues.into_iter().flatten().map(said).chain(since).min();
        if sources + dependents + members + owners + links + arrays > 0 {
            owed.models.push(OwedOf {
                model: model.name,
                sources,
                followed,
                dependents,
                members,
                owners,
                links,
                arrays,
                age: age(oldest),
                blocked: blocked.count,
                rejections: blocked.by,
                is_overdue,
            });
        }
    }
    Ok(owed)
}

/// How many documents say something; adds when the first of them is due, if there are any.
async fn owed_by(
    access: &Access,
    model: &'static Model,
    promise: Promise,
    one: Option<&RawDocumentBuf>,
    dues: &mut Vec<Option<DateTime>>,
    blocked: &mut Blocked,
) -> Result<u64> {
    let mut filter = one.cloned().unwrap_or_default();
    also(&mut filter, &promise.due(), document("$exists", true)?)?;
    let found = Count {
        collection: model.collection.into(),
        filter: filter.clone(),
        limit: None,
        max_time: None,
    };
    let count = access.count(model, found).await?;
    if count == 0 {
        return Ok(0);
    }
    let first = Find {
        collection: model.collection.into(),
        filter,
        projection: Some(document(&promise.due(), 1)?),
        sort: Some(document(&promise.due(), 1)?),
        limit: Some(1),
        max_time: None,
    };
    let found = access.find_all(model, first).await?;
    let due = found.first().map(|raw| promise.due_of(raw)).transpose();
    dues.push(due.map_err(error::of(model))?.flatten());
    blocked.add(access, model, promise, one).await?;
    Ok(count)
}

/// The rejected part of the pending work of a model.
#[derive(Default)]
struct Blocked {
    count: u64,
    by: Vec<Rejection>,
}

impl Blocked {
    async fn add(
        &mut self,
        access: &Access,
        model: &'static Model,
        promise: Promise,
        one: Option<&RawDocumentBuf>,
    ) -> Result<()> {
        let mut filter = maintain::recorded(promise)?;
        if let Some(one) = one {
            filter = both(filter, one)?;
        }
        let some = Find {
            projection: Some(document(promise.name(), 1)?),
            limit: Some(MAX_NAMED as u64),
            ..found_by(&model.collection.into(), &filter)
        };
        let found = access.find_all(model, some).await?;
        self.count += match found.len() {
            many if many >= MAX_NAMED => {
                let count = Count {
                    collection: model.collection.into(),
                    filter,
                    limit: None,
                    max_time: None,
                };
                access.count(model, count).await?
            }
            few => few as u64,
        };
        for raw in &found {
            for rejection in rejections(raw, promise).map_err(error::of(model))? {
                if self.by.len() < MAX_NAMED && !self.by.contains(&rejection) {
                    self.by.push(rejection);
                }
            }
        }
        Ok(())
    }
}

fn both(filter: RawDocumentBuf, other: &RawDocumentBuf) -> Result<RawDocumentBuf> {
    let mut all = RawArrayBuf::new();
    all.push(filter);
    all.push(other.clone());
    document("$and", all)
}

/// Since when fan-outs are owed that go on in batches, and how many documents have followed.
async fn under_way(
    access: &Access,
    model: &'static Model,
    one: Option<&(&'static Model, RawDocumentBuf)>,
) -> Result<(Option<SystemTime>, u64)> {
    let fan = Promise::FAN;
    let mut filter = one.map(|(_, filter)| filter.clone()).unwrap_or_default();
    also(&mut filter, &fan.due(), document("$exists", true)?)?;
    also(&mut filter, &fan.field("since"), document("$exists", true)?)?;
    let find = Find {
        projection: Some(document(fan.name(), 1)?),
        ..found_by(&model.collection.into(), &filter)
    };
    let (mut oldest, mut followed) = (None, 0);
    for raw in access.find_all(model, find).await? {
        let since = fan.since(&raw).map_err(error::of(model))?;
        let since = since.map(DateTime::to_system_time);
        oldest = oldest.into_iter().chain(since).min();
        let so_far = fan.said_in(&raw, "followed").map_err(error::of(model))?;
        let so_far = so_far.and_then(RawBsonRef::as_i64).unwrap_or_default();
        followed += u64::try_from(so_far).unwrap_or_default();
    }
    Ok((oldest, followed))
}

/// When something was said that others may carry out from then on.
fn said(due: DateTime) -> SystemTime {
    due.to_system_time() - maintain::LEASE
}

/// How long ago that was.
fn age(said: Option<SystemTime>) -> Duration {
    let age = said.and_then(|said| SystemTime::now().duration_since(said).ok());
    age.unwrap_or_default()
}
