//! Pending work of all kinds: reporting the work, waiting for the work, and a worker that runs the work.

pub(crate) mod background;
pub(crate) mod blocked;
pub(crate) mod expired;
pub(crate) mod lease;
pub(crate) mod record;
mod worker;

use std::{
    fmt,
    marker::PhantomData,
    pin::{Pin, pin},
    time::{Duration, SystemTime},
};

use bson::{DateTime, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};
use tokio::time::Instant;

pub use blocked::Rejection;
pub use worker::{Progress, Worker};

use crate::{
    Error, ErrorKind, Result,
    backend::operation::{CountOperation, FindOperation, Stage},
    error,
    language::query::{IntoKey, Key, append_field, field_present, single_field_document},
    metadata::pending::{SINCE, UPDATED},
    model::document::Document,
    pending::{
        blocked::{blocked_filter, blocked_record, release_blocked},
        expired::RecoveryReport,
        record::PendingKind,
    },
    schema::{Model, Schema},
    session::{
        access::{Access, ModelAccess, add_condition, find_matching},
        task,
    },
    write,
};

/// Waits until no work is pending; made by [`Database::wait_for_pending`](crate::Database::wait_for_pending).
///
/// Runs abandoned work, and waits for work that another task or process is running.
#[must_use = "the wait starts when this value is awaited"]
#[derive(Debug)]
pub struct WaitForPending<S> {
    access: Access,
    timeout: Option<Duration>,
    /// The document to wait for; `None` waits for all documents.
    target: Option<Result<(&'static Model, RawDocumentBuf)>>,
    of: PhantomData<fn() -> S>,
}

impl<S: Schema> WaitForPending<S> {
    pub(crate) fn new(access: Access) -> Self {
        Self {
            access,
            timeout: None,
            target: None,
            of: PhantomData,
        }
    }

    /// Limits the wait. After this time the wait returns an error of kind [`StillPending`](ErrorKind::StillPending).
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Waits for one document only: for the copies in the document, and for the copies in the dependents.
    pub fn of<T: Document>(mut self, id: impl IntoKey<T>) -> Self {
        let key: Key<T> = id.into_key();
        self.target = Some(key.to_raw().map(|filter| (&T::MODEL, filter)));
        self
    }

    async fn wait_until_done(self) -> Result<()> {
        let deadline = self.timeout.map(|limit| Instant::now() + limit);
        let target = self.target.transpose()?;
        let started_at = Instant::now();
        let mut was_released = false;
        loop {
            // Listen before the read: work that ends during the read would be missed.
            let background = self.access.shared_state().background_tasks();
            let mut next_end = pin!(background.next_end());
            next_end.as_mut().enable();
            let pending = read_pending_work(&self.access, S::MODELS, target.as_ref()).await?;
            if pending.is_empty() {
                return Ok(());
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                let message = format!("timed out waiting for pending work: {pending}");
                return Err(Error::new(ErrorKind::StillPending, message));
            }
            if pending.is_blocked() {
                if was_released {
                    let message = format!(
                        "documents reject follow-up writes, and no other work is pending: {pending}; change these documents, then call `db.run_pending()`"
                    );
                    return Err(Error::new(ErrorKind::StillPending, message));
                }
                was_released = true;
                for model in S::MODELS {
                    release_blocked(self.access.to(model)).await?;
                }
                continue;
            }
            for model in S::MODELS {
                // Until the lease expires, the work belongs to the writer.
                let mut models = pending.models.iter();
                if models.any(|entry| entry.model == model.name && entry.is_overdue) {
                    // A failure leaves the work pending, and the loop sees the work again.
                    let mut report = RecoveryReport::default();
                    write::recover_abandoned(self.access.to(model), &mut report).await?;
                }
            }
            // Work of this process notifies at the end. Work of other processes does not: poll with a pause in proportion to the
            // time waited so far, so that the wait ends without a long delay.
            let pause = match background.has_running() {
                true => MAX_NOTIFIED_PAUSE,
                false => (started_at.elapsed() / 8).clamp(MIN_POLL_PAUSE, MAX_POLL_PAUSE),
            };
            // A notification ends the pause early.
            let _ = task::timeout(pause, next_end).await;
        }
    }
}

/// The minimum and maximum pause between two polls.
const MIN_POLL_PAUSE: Duration = Duration::from_millis(1);
const MAX_POLL_PAUSE: Duration = Duration::from_millis(200);

/// The maximum pause while this process is running work, which notifies at the end.
const MAX_NOTIFIED_PAUSE: Duration = Duration::from_secs(1);

impl<S: Schema> IntoFuture for WaitForPending<S> {
    type Output = Result<()>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.wait_until_done())
    }
}

/// The pending work of a database; made by [`Database::pending`](crate::Database::pending).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PendingWork {
    /// One entry for each model with pending work.
    pub models: Vec<ModelPendingWork>,
}

/// The pending work of one model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelPendingWork {
    /// The name of the model.
    pub model: &'static str,
    /// Documents with a pending fan-out: copies in dependents must be updated.
    pub fan_outs: u64,
    /// Dependents that running fan-outs have updated so far. A fan-out in batches reports the number about once a second.
    pub copied: u64,
    /// Documents with a pending revalidation: the copies of new references must be compared with the sources again.
    pub revalidations: u64,
    /// Documents with a pending rollup update: contributions must be applied to the parents.
    pub rollups: u64,
    /// Documents with a pending recompute: rollups must be computed from all children.
    pub recomputes: u64,
    /// Documents with unfinished writes of references and inverses.
    pub references: u64,
    /// Overflow arrays with unfinished changes, plus provisional chunk documents.
    pub arrays: u64,
    /// The age of the oldest pending work, by the clock of this process.
    pub age: Duration,
    /// Documents with blocked work: another document rejects the follow-up write. The next attempt comes after a
    /// growing pause of at most one hour, or at once by [`Database::run_pending`](crate::Database::run_pending).
    pub blocked: u64,
    /// The rejecting documents with the reasons: at most ten.
    pub rejections: Vec<Rejection>,
    /// Whether a lease has expired, so that any process can run the work.
    is_overdue: bool,
}

/// The maximum number of rejecting documents that a report names for a model.
const MAX_REPORTED_REJECTIONS: usize = 10;

impl PendingWork {
    /// Returns whether no work is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.models.is_empty()
    }

    /// Whether work is pending and all of the work is blocked.
    fn is_blocked(&self) -> bool {
        let mut models = self.models.iter();
        !self.is_empty() && models.all(|entry| entry.blocked == entry.pending_count())
    }
}

impl PendingWork {
    /// Returns the numbers of documents whose work was not pending before, without any detail.
    pub(crate) fn added_since(mut self, before: &Self) -> Self {
        for entry in &mut self.models {
            let earlier = before
                .models
                .iter()
                .find(|earlier| earlier.model == entry.model);
            let Some(earlier) = earlier else { continue };
            for (count, earlier) in [
                (&mut entry.fan_outs, earlier.fan_outs),
                (&mut entry.revalidations, earlier.revalidations),
                (&mut entry.rollups, earlier.rollups),
                (&mut entry.recomputes, earlier.recomputes),
                (&mut entry.references, earlier.references),
                (&mut entry.arrays, earlier.arrays),
            ] {
                *count = count.saturating_sub(earlier);
            }
        }
        for entry in &mut self.models {
            // The rest describes the earlier work too, which may belong to another scope.
            (entry.copied, entry.age, entry.blocked) = (0, Duration::ZERO, 0);
            entry.rejections.clear();
            entry.is_overdue = false;
        }
        self.models.retain(|entry| entry.pending_count() > 0);
        self
    }
}

impl ModelPendingWork {
    /// Returns the number of documents of each kind of pending work, in words, without the kinds that have no work.
    pub(crate) fn counts(&self) -> String {
        let counts = [
            (self.fan_outs, "pending fan-outs"),
            (self.revalidations, "documents to revalidate"),
            (self.rollups, "rollup updates"),
            (self.recomputes, "rollups to recompute"),
            (self.references, "unfinished reference writes"),
            (self.arrays, "unfinished array changes"),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let counts = counts.map(|(count, label)| format!("{count} {label}"));
        counts.collect::<Vec<_>>().join(", ")
    }

    /// Returns the number of documents and arrays with pending work. A document counts once for each kind of work.
    fn pending_count(&self) -> u64 {
        let follow_up = self.fan_outs + self.revalidations + self.rollups + self.recomputes;
        follow_up + self.references + self.arrays
    }
}

impl fmt::Display for PendingWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("nothing");
        }
        let lines = self.models.iter().map(|entry| {
            let mut line = format!("{}: {}", entry.model, entry.counts());
            if entry.copied > 0 {
                line.push_str(&format!(", {} dependents updated so far", entry.copied));
            }
            line.push_str(&format!("; oldest: {:?}", entry.age));
            if entry.blocked > 0 {
                let rejections: Vec<_> = entry.rejections.iter().map(ToString::to_string).collect();
                line.push_str(&format!(
                    "; {} blocked by documents that reject the write: {}",
                    entry.blocked,
                    rejections.join("; ")
                ));
            }
            line
        });
        f.write_str(&lines.collect::<Vec<_>>().join("; "))
    }
}

/// Reads the pending work of some models, or of one document.
pub(crate) async fn read_pending_work(
    access: &Access,
    models: &'static [&'static Model],
    target: Option<&(&'static Model, RawDocumentBuf)>,
) -> Result<PendingWork> {
    let mut pending = PendingWork::default();
    for model in models {
        if target.is_some_and(|(target, _)| target.collection != model.collection) {
            continue;
        }
        let filter = target.map(|(_, filter)| filter);
        let mut entry = ModelPendingWork::of_model(model);
        for (owner, kind) in write::pending_kinds(access.to(model)) {
            let owner = access.to(owner);
            let count = match (kind, filter) {
                (PendingKind::PROVISIONAL_CHUNK, Some(_)) => 0,
                (PendingKind::PROVISIONAL_CHUNK, None) => {
                    let unfinished = write::unfinished_chunks_filter()?;
                    entry.read_pending(owner, kind, Some(&unfinished)).await?
                }
                _ => entry.read_pending(owner, kind, filter).await?,
            };
            *entry.count_mut(kind) += count;
        }
        if entry.fan_outs > 0 {
            entry.add_fan_out_progress(access.to(model), filter).await?;
        }
        if entry.pending_count() > 0 {
            pending.models.push(entry);
        }
    }
    Ok(pending)
}

impl ModelPendingWork {
    fn of_model(model: &Model) -> Self {
        Self {
            model: model.name,
            fan_outs: 0,
            copied: 0,
            revalidations: 0,
            rollups: 0,
            recomputes: 0,
            references: 0,
            arrays: 0,
            age: Duration::ZERO,
            blocked: 0,
            rejections: Vec::new(),
            is_overdue: false,
        }
    }

    /// Returns the number of documents with pending work of a kind.
    fn count_mut(&mut self, kind: PendingKind) -> &mut u64 {
        match kind {
            PendingKind::FAN_OUT => &mut self.fan_outs,
            PendingKind::REVALIDATE => &mut self.revalidations,
            PendingKind::ROLLUP => &mut self.rollups,
            PendingKind::RECOMPUTE => &mut self.recomputes,
            PendingKind::REFERENCES => &mut self.references,
            // The changes of arrays, and the chunks.
            _ => &mut self.arrays,
        }
    }

    /// Counts the documents with pending work of a kind, and adds the earliest lease and the rejections.
    async fn read_pending(
        &mut self,
        access: ModelAccess<'_>,
        kind: PendingKind,
        target: Option<&RawDocumentBuf>,
    ) -> Result<u64> {
        let mut filter = target.cloned().unwrap_or_default();
        add_condition(&mut filter, &kind.lease_path(), field_present())?;
        let count = access.count(count_matching(access.model, &filter)).await?;
        if count == 0 {
            return Ok(0);
        }
        let mut projection = single_field_document(&kind.lease_path(), 1)?;
        for path in kind.token_paths() {
            append_field(&mut projection, &path, 1)?;
        }
        let find = access
            .find_matching(&filter)
            .with_origin(Stage::PENDING.step("read the earliest lease"))
            .with_projection(projection)
            .with_sort(single_field_document(&kind.lease_path(), 1)?)
            .with_limit(1);
        let documents = access.find_all(find).await?;
        let naming_model = error::naming_model(access.model);
        let first = documents.first();
        let lease_end = first.map(|raw| kind.lease_end(raw)).transpose();
        let lease_end = lease_end.map_err(&naming_model)?.flatten();
        self.is_overdue |= lease_end.is_none_or(|lease_end| lease_end <= DateTime::now());
        let start_time = first.map(|raw| kind.recorded_at(raw)).transpose();
        let start_time = start_time.map_err(naming_model)?.flatten();
        self.add_start(start_time);
        self.add_rejections(access, kind, target).await?;
        Ok(count)
    }

    /// Raises the age to the age of work with this start.
    fn add_start(&mut self, start: Option<DateTime>) {
        let start = start.map(DateTime::to_system_time);
        let age = start.and_then(|start| SystemTime::now().duration_since(start).ok());
        self.age = self.age.max(age.unwrap_or_default());
    }

    /// Adds the blocked work of a kind.
    async fn add_rejections(
        &mut self,
        access: ModelAccess<'_>,
        kind: PendingKind,
        target: Option<&RawDocumentBuf>,
    ) -> Result<()> {
        let mut filter = blocked_filter(kind)?;
        if let Some(target) = target {
            filter = and_filters(filter, target)?;
        }
        let find = FindOperation {
            projection: Some(single_field_document(kind.record_path(), 1)?),
            // The pause until the next attempt equals the age, so the last leases belong to the oldest work.
            sort: Some(single_field_document(&kind.lease_path(), -1)?),
            limit: Some(MAX_REPORTED_REJECTIONS as u64),
            options: Stage::PENDING.step("read the rejections").into(),
            ..find_matching(access.model.collection, &filter)
        };
        let documents = access.find_all(find).await?;
        self.blocked += match documents.len() {
            MAX_REPORTED_REJECTIONS.. => {
                access.count(count_matching(access.model, &filter)).await?
            }
            count => count as u64,
        };
        for raw in &documents {
            let record = blocked_record(raw, kind).map_err(error::naming_model(access.model))?;
            let Some(record) = record else {
                continue;
            };
            // The oldest work need not have the earliest lease: the lease of blocked work ends at the next attempt.
            self.add_start(Some(record.since));
            for rejection in record.rejections {
                if self.rejections.len() < MAX_REPORTED_REJECTIONS
                    && !self.rejections.contains(&rejection)
                {
                    self.rejections.push(rejection);
                }
            }
        }
        Ok(())
    }

    /// Adds the start of the oldest running fan-out, and the number of dependents that are updated so far.
    async fn add_fan_out_progress(
        &mut self,
        access: ModelAccess<'_>,
        target: Option<&RawDocumentBuf>,
    ) -> Result<()> {
        let kind = PendingKind::FAN_OUT;
        let mut filter = target.cloned().unwrap_or_default();
        for path in [kind.lease_path(), kind.field_path(SINCE)] {
            add_condition(&mut filter, &path, field_present())?;
        }
        let find = access
            .find_matching(&filter)
            .with_origin(Stage::PENDING.step("read the running fan-out"))
            .with_projection(single_field_document(kind.record_path(), 1)?);
        for raw in access.find_all(find).await? {
            let start_time = kind.pending_since(&raw);
            let start_time = start_time.map_err(error::naming_model(access.model))?;
            self.add_start(start_time);
            let updated = kind.record_field(&raw, UPDATED);
            let updated = updated.map_err(error::naming_model(access.model))?;
            let updated = updated.and_then(RawBsonRef::as_i64).unwrap_or_default();
            self.copied += u64::try_from(updated).unwrap_or_default();
        }
        Ok(())
    }
}

fn count_matching(model: &Model, filter: &RawDocument) -> CountOperation {
    CountOperation {
        collection: model.collection.into(),
        filter: filter.to_owned(),
        limit: None,
        options: Stage::PENDING.step("count the documents").into(),
    }
}

fn and_filters(filter: RawDocumentBuf, other: &RawDocumentBuf) -> Result<RawDocumentBuf> {
    let mut conditions = RawArrayBuf::new();
    conditions.push(filter);
    conditions.push(other.clone());
    single_field_document("$and", conditions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(model: &'static str, fan_outs: u64, arrays: u64) -> ModelPendingWork {
        ModelPendingWork {
            model,
            fan_outs,
            copied: 3,
            arrays,
            age: Duration::from_secs(9),
            blocked: 2,
            is_overdue: true,
            ..ModelPendingWork::of_model(&Model::UNKNOWN)
        }
    }

    #[test]
    fn added_work_has_no_detail_of_earlier_work() {
        let before = PendingWork {
            models: vec![entry("A", 2, 1), entry("B", 1, 0)],
        };
        let after = PendingWork {
            models: vec![entry("A", 3, 1), entry("B", 1, 0), entry("C", 0, 4)],
        };
        let only_counts = |entry: ModelPendingWork| ModelPendingWork {
            copied: 0,
            age: Duration::ZERO,
            blocked: 0,
            is_overdue: false,
            ..entry
        };
        let added = after.added_since(&before);
        let expected = [entry("A", 1, 0), entry("C", 0, 4)].map(only_counts);
        assert_eq!(added.models, expected);
    }
}
