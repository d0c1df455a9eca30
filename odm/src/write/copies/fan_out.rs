//! The fan-out: writing a changed source value into its dependents.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use bson::{Bson, Document, RawBson, RawDocumentBuf, doc};

use super::{
    MAX_BOUNDED_DEPENDENTS,
    layout::{CopyField, CopyGroup},
    lease::{FanOutLease, FanOutSource, PendingFanOut},
    parse_document,
    pending::{run_next_fan_outs, slowest_mode},
    source::SourceState,
    to_raw_document,
};
use crate::{
    Result,
    backend::{
        Cursor,
        operation::{CountOperation, FindOperation, Stage},
    },
    error,
    language::query::{id_filter, single_field_document},
    metadata::{copy::SOURCE_VERSION, references::TombstoneState},
    model::{
        decode,
        ids::{OrderedId, id_batches, ids_filter, one_of},
    },
    pending::{
        blocked::{self, RejectionList, is_rejection},
        record::{PendingKind, PendingToken},
    },
    schema::{CopyMode, Model},
    session::{
        access::{Access, ModelAccess},
        retry, transaction_scope,
    },
    write::{
        footprint::put_operator,
        maintainer::DeletedDocument,
        metadata_update::{MetadataUpdate, apply_each, apply_updates, paths_overlap},
    },
};

/// The maximum number of dependents that one write updates. A larger fan-out runs in batches, so that other writes come in
/// between.
const MAX_DEPENDENTS_PER_UPDATE: usize = 20_000;

/// The maximum number of documents in a batch.
pub(super) const MAX_COPY_BATCH_DOCUMENTS: usize = 1_000;

/// The minimum number of documents in a batch on a backend with serial writes: each write has a fixed cost.
const MIN_BATCH_DOCUMENTS: usize = 100;

/// The maximum number of documents that one query reads on a backend with serial writes.
const MAX_READ_DOCUMENTS: u64 = 250_000;

/// The target duration of a batch on a backend with serial writes: all other writes wait during the batch.
const TARGET_BATCH_DURATION: Duration = Duration::from_millis(2);

/// The budget of a fan-out: how many dependents it may update now.
#[derive(Debug, Clone, Copy)]
pub(super) enum FanOutBudget {
    /// At most this number.
    UpTo(usize),
    /// All dependents, counted first, so that many dependents are updated in batches.
    Unlimited,
    /// All dependents, without a count: only few are expected.
    UnlimitedUncounted,
}

impl FanOutBudget {
    pub(super) fn for_mode(mode: CopyMode) -> Self {
        match mode {
            CopyMode::Background => Self::UpTo(0),
            CopyMode::Bounded => Self::UpTo(MAX_BOUNDED_DEPENDENTS),
            CopyMode::Sync | CopyMode::Snapshot => Self::Unlimited,
        }
    }

    /// Returns the maximum number of dependents that one write may update.
    fn max_documents(self) -> usize {
        match self {
            Self::UpTo(remaining) => remaining,
            Self::Unlimited | Self::UnlimitedUncounted => MAX_DEPENDENTS_PER_UPDATE,
        }
    }

    fn consume_budget(&mut self, count: usize) {
        if let Self::UpTo(remaining) = self {
            *remaining = remaining.saturating_sub(count);
        }
    }
}

/// A fan-out that follows from a fan-out: of dependents that the first one has changed, and that other documents copy.
#[derive(Debug, Clone, Copy)]
pub(super) struct NextFanOut {
    pub(super) model: &'static Model,
    pub(super) token: PendingToken,
    pub(super) mode: CopyMode,
}

/// What a fan-out leaves to do.
#[derive(Debug, Default)]
pub(super) struct FanOutRemainder {
    /// The dependents that reject their copies.
    pub(super) rejected: RejectionList,
    /// The fan-outs that follow. Each is recorded in its sources, so a process that ends here loses none.
    pub(super) next: Vec<NextFanOut>,
}

/// Completes a pending fan-out: updates the dependents and removes the pending records. Returns whether the budget was large
/// enough for all dependents; if not, the fan-out stays pending. Adds the fan-outs that follow to `next`.
///
/// # Errors
///
/// [`StillPending`](crate::ErrorKind::StillPending) if dependents reject copies. The fan-out has updated all other dependents by
/// then. The sources of the rejected copies stay pending, with a record of the rejections.
pub(super) async fn complete_fan_out(
    access: ModelAccess<'_>,
    fan_out: &PendingFanOut,
    budget: &mut FanOutBudget,
    next: &mut Vec<NextFanOut>,
) -> Result<bool> {
    let mut remainder = FanOutRemainder::default();
    let is_complete = update_dependents(access, fan_out, budget, &mut remainder).await;
    let FanOutRemainder {
        rejected,
        next: new,
    } = remainder;
    next.extend(new);
    if !is_complete? {
        return Ok(false);
    }
    let blocked = rejected.by_source();
    fan_out.complete_except(access, &blocked).await?;
    for (source, rejections) in &blocked {
        let filter = fan_out.unchanged_source(source)?;
        blocked::record_rejections(access, PendingKind::FAN_OUT, filter, rejections).await?;
    }
    let rejections = rejected.iter_rejections();
    match rejected.is_empty() {
        true => Ok(true),
        false => Err(blocked::blocked_error(access.model, rejections)),
    }
}

/// Updates the dependents of some sources to the current source versions. Returns whether the budget was large enough for all
/// dependents. Skips dependents that reject the update.
pub(super) async fn update_dependents(
    access: ModelAccess<'_>,
    fan_out: &PendingFanOut,
    budget: &mut FanOutBudget,
    remainder: &mut FanOutRemainder,
) -> Result<bool> {
    let mut lease = FanOutLease::new(access.model, fan_out);
    for group in super::dependent_groups(access.schema_models(), access.model) {
        // Halve a list of sources with too many dependents. A single source with too many dependents is updated in batches.
        let mut source_lists = vec![fan_out.sources.as_slice()];
        while let Some(sources) = source_lists.pop() {
            let limit = budget.max_documents();
            let count = match budget {
                FanOutBudget::UnlimitedUncounted => None,
                FanOutBudget::UpTo(_) | FanOutBudget::Unlimited => {
                    Some(count_dependents(&access, &group, sources, limit).await?)
                }
            };
            match (count, sources) {
                (Some(0), _) => {}
                (Some(count), _) if count > limit && matches!(budget, FanOutBudget::UpTo(_)) => {
                    return Ok(false);
                }
                (Some(count), [source]) if count > limit => {
                    let update = CopyUpdate::for_all_dependents(&group, source)?;
                    if !update_in_batches(&access, update, &mut lease, remainder).await? {
                        return Ok(true);
                    }
                }
                (Some(count), _) if count > limit => {
                    let (first, second) = sources.split_at(sources.len() / 2);
                    source_lists.extend([second, first]);
                }
                _ => {
                    let count = count.unwrap_or_default();
                    budget.consume_budget(count);
                    let updates = sources
                        .iter()
                        .map(|source| CopyUpdate::for_all_dependents(&group, source));
                    let updates = updates.collect::<Result<Vec<_>>>()?;
                    match count > MAX_BOUNDED_DEPENDENTS {
                        true => write_many_copies(&access, &group, updates, remainder).await?,
                        false => write_copies(&access, &group, updates, remainder).await?,
                    }
                    // A fan-out with a limit is short, and a task that continues the fan-out finds it by the end of the lease.
                    let is_limited = matches!(budget, FanOutBudget::UpTo(_));
                    if !is_limited && !lease.renew_if_old(&access, count).await? {
                        return Ok(true);
                    }
                }
            }
        }
    }
    Ok(true)
}

/// Counts the dependents of some sources, up to one more than `limit`.
async fn count_dependents(
    access: &Access,
    group: &CopyGroup,
    sources: &[FanOutSource],
    limit: usize,
) -> Result<usize> {
    let condition = one_of(sources.iter().map(|source| &source.id));
    let condition = parse_document(&single_field_document(group.reference, condition)?)?;
    let operation = CountOperation {
        collection: group.model.collection.into(),
        filter: to_raw_document(&group.struct_condition(condition))?,
        limit: Some(limit as u64 + 1),
        options: Stage::COPIES.step("count the dependents").into(),
    };
    let count = access.count(group.model, operation).await?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

/// Updates the dependents of one source in batches. Returns `false` if the pending fan-out was taken away: every source has a
/// newer write.
async fn update_in_batches(
    access: &Access,
    update: CopyUpdate<'_>,
    lease: &mut FanOutLease<'_>,
    remainder: &mut FanOutRemainder,
) -> Result<bool> {
    let group = update.group;
    let writes_are_serial = access.writes_are_serial();
    let access = access.to(group.model);
    let find = access
        .find_matching(&to_raw_document(&update.stale_filter()?)?)
        .with_origin(Stage::COPIES.step("read a batch of dependents"))
        .with_projection(single_field_document("_id", 1)?)
        .with_limit(writes_are_serial.then_some(MAX_READ_DOCUMENTS));
    let mut stale = StaleDependents {
        access,
        find,
        progress: ReadProgress::NotStarted,
    };
    let mut size = if writes_are_serial {
        MIN_BATCH_DOCUMENTS
    } else {
        MAX_COPY_BATCH_DOCUMENTS
    };
    loop {
        let ids = stale.next_ids().await?;
        if ids.is_empty() {
            return Ok(true);
        }
        let rejections_before = remainder.rejected.len();
        let mut remaining = ids.as_slice();
        while !remaining.is_empty() {
            let batch;
            (batch, remaining) = remaining.split_at(size.min(remaining.len()));
            let update = CopyUpdate {
                documents: ids_filter(batch),
                ..update.clone()
            };
            let start = Instant::now();
            if writes_are_serial {
                write_many_copies(&access, group, vec![update], remainder).await?;
                size = next_batch_size(size, start.elapsed());
            } else {
                write_copies(&access, group, vec![update], remainder).await?;
            }
            if !lease.renew_if_old(&access, batch.len()).await? {
                return Ok(false);
            }
        }
        if remainder.rejected.len() - rejections_before == ids.len() {
            // All documents of the batch reject the update: the next read would return the same documents.
            return Ok(true);
        }
    }
}

/// The dependents of a source with an older copy, read in batches. A dependent that is added after the read has its own
/// revalidation.
struct StaleDependents<'a> {
    access: ModelAccess<'a>,
    find: FindOperation,
    progress: ReadProgress,
}

/// The progress of the read.
enum ReadProgress {
    NotStarted,
    Open(Box<dyn Cursor>),
    Finished,
}

impl StaleDependents<'_> {
    /// Returns the next ids, or an empty list at the end.
    ///
    /// With a limit, no cursor stays open while dependents are written. On an engine with snapshots, an open cursor would keep
    /// old versions of all documents that are written meanwhile.
    async fn next_ids(&mut self) -> Result<Vec<RawBson>> {
        if let (ReadProgress::NotStarted, None) = (&self.progress, self.find.limit) {
            self.progress = ReadProgress::Open(self.access.find(self.find.clone()).await?);
        }
        let documents = match &mut self.progress {
            ReadProgress::Finished => return Ok(Vec::new()),
            ReadProgress::NotStarted => {
                let documents = self.access.find_all(self.find.clone()).await?;
                if self
                    .find
                    .limit
                    .is_some_and(|limit| (documents.len() as u64) < limit)
                {
                    self.progress = ReadProgress::Finished;
                }
                documents
            }
            ReadProgress::Open(cursor) => {
                let batch = cursor.next_batch().await;
                batch.map_err(error::naming_model(self.access.model))?
            }
        };
        let ids = documents.iter().filter_map(|raw| decode::owned_id(raw));
        Ok(ids.collect())
    }
}

/// Returns the size of the next batch, from the duration of the last one.
fn next_batch_size(size: usize, duration: Duration) -> usize {
    match duration {
        long if long > TARGET_BATCH_DURATION => (size / 2).max(MIN_BATCH_DOCUMENTS),
        short if short < TARGET_BATCH_DURATION / 2 => (size * 2).min(MAX_COPY_BATCH_DOCUMENTS),
        _ => size,
    }
}

/// A source value with the dependents that the value is written to.
#[derive(Debug, Clone)]
pub(super) struct CopyUpdate<'s> {
    pub(super) group: &'s CopyGroup,
    /// The condition that a struct refers to the source.
    pub(super) reference_condition: Document,
    pub(super) source: &'s SourceState,
    /// The filter for the dependents; an empty filter matches all documents.
    pub(super) documents: RawDocumentBuf,
    /// The `_id` of the source, if the fan-out is pending there.
    pub(super) source_id: Option<&'s RawBson>,
    /// The condition that a dependent has the scope of the source. Empty without scopes, or if the scope was checked before.
    pub(super) scope_condition: Document,
}

impl<'s> CopyUpdate<'s> {
    /// Returns an update of all dependents of a source.
    fn for_all_dependents(group: &'s CopyGroup, pending: &'s FanOutSource) -> Result<Self> {
        let id = Bson::try_from(pending.id.clone()).map_err(error::from_bson)?;
        Ok(Self {
            group,
            reference_condition: source_condition(group, &id),
            source: &pending.source,
            documents: RawDocumentBuf::new(),
            source_id: Some(&pending.id),
            scope_condition: group.scope_condition(group.scope_of_source(&pending.source).as_ref()),
        })
    }

    /// Returns the condition that a struct has an older copy.
    fn stale_condition(&self) -> Document {
        let mut condition = self.reference_condition.clone();
        let not_newer = doc! { "$not": { "$gte": self.source.version } };
        condition.insert(self.group.version_path(), not_newer);
        condition
    }

    /// Returns the filter for the documents with an older copy.
    fn stale_filter(&self) -> Result<Document> {
        let mut filter = parse_document(&self.documents)?;
        filter.extend(self.scope_condition.clone());
        filter.extend(self.group.struct_condition(self.stale_condition()));
        let mut fields = self.group.fan_out_fields();
        if let Some(ancestors) = fields.find(|field| field.is_ancestors()) {
            // Without this condition, a fan-out in a circle of parents, which another program can store, would never end.
            let condition = doc! { "_id": { "$in": ancestors.value_of(self.source) } };
            filter.insert("$nor", vec![condition]);
        }
        Ok(filter)
    }

    /// Returns the copies that the update overwrites, with the new values.
    fn overwritten_fields(&self) -> impl Iterator<Item = (&CopyField, Bson)> {
        let is_deleted = self.source.tombstone == TombstoneState::Final;
        let fields = self.group.fan_out_fields();
        let fields = fields.filter(move |field| field.clears || !is_deleted);
        fields.map(|field| (field, field.value_of(self.source)))
    }

    /// Returns the update that overwrites older copies, of documents where the values of some fields stay the same.
    fn to_update_without_changes(&self, unchanged: &[&CopyField]) -> Result<MetadataUpdate> {
        let mut same_values = self.stale_condition();
        for (field, value) in self.overwritten_fields() {
            if unchanged.iter().any(|same| same.stored == field.stored) {
                same_values.insert(field.stored, doc! { "$eq": value });
            }
        }
        let mut filter = self.stale_filter()?;
        filter.extend(self.group.struct_condition(same_values));
        Ok(MetadataUpdate {
            filter: to_raw_document(&filter)?,
            ..self.to_metadata_update(&Document::new())?
        })
    }

    /// Returns the update that overwrites older copies. `additional_update` has changes for all updated documents.
    fn to_metadata_update(&self, additional_update: &Document) -> Result<MetadataUpdate> {
        let group = self.group;
        let elements = group.element_paths(&self.stale_condition());
        let prefix = &elements.prefix;
        let mut update = additional_update.clone();
        for (field, value) in self.overwritten_fields() {
            let path = format!("{prefix}{}", field.stored);
            set_or_unset(&mut update, path, field.stored_value(value));
        }
        let version_path = format!("{prefix}{}", group.version_path());
        set_or_unset(&mut update, version_path, Some(self.source.version.into()));
        Ok(MetadataUpdate {
            origin: Stage::COPIES.step("update the dependents"),
            filter: to_raw_document(&self.stale_filter()?)?,
            update,
            array_filters: elements.array_filters,
        })
    }
}

/// Adds `$set` of a value to an update, or `$unset` for no value.
pub(super) fn set_or_unset(update: &mut Document, path: String, value: Option<Bson>) {
    let (operator, operand) = match value {
        Some(value) => ("$set", value),
        None => ("$unset", "".into()),
    };
    put_operator(update, operator, &path, operand);
}

/// Returns the condition that a struct refers to a document.
pub(super) fn source_condition(group: &CopyGroup, id: &Bson) -> Document {
    doc! { group.reference: { "$eq": id.clone() } }
}

/// Returns the copies of `group` that fields in other models copy, each with the mode of such a field. A copy inside an array is never
/// copied further.
fn downstream_copies<'g>(access: &Access, group: &'g CopyGroup) -> Vec<(&'g CopyField, CopyMode)> {
    let mut copies = Vec::new();
    let groups = super::dependent_groups(access.schema_models(), group.model);
    for other in groups.filter(|_| !group.is_in_array()) {
        for field in group.fan_out_fields() {
            let path = group.field_path(field.stored);
            let copied = other
                .fan_out_fields()
                .filter(|copy| paths_overlap(&path, &copy.source_path));
            copies.extend(copied.map(|copy| (field, copy.mode)));
        }
    }
    copies
}

/// Whether other models copy the copies of `group`.
pub(super) fn is_copied_further(access: &Access, group: &CopyGroup) -> bool {
    !downstream_copies(access, group).is_empty()
}

/// Writes newer values over the older copies of all dependents. Skips documents that reject the write; in a transaction the first
/// rejection is the error. If other documents copy the changed dependents, their fan-out is recorded and follows.
pub(super) async fn write_copies(
    access: &Access,
    group: &CopyGroup,
    updates: Vec<CopyUpdate<'_>>,
    remainder: &mut FanOutRemainder,
) -> Result<()> {
    let (copied, modes): (Vec<_>, Vec<_>) = downstream_copies(access, group).into_iter().unzip();
    let access = access.to(group.model);
    let (mut additional_update, mut changes) = (Document::new(), Vec::new());
    if !modes.is_empty() {
        // A dependent needs no fan-out if the fields that other documents copy stay the same. The bulk writes these dependents
        // first. In another order they would only get a fan-out without changes.
        for update in &updates {
            changes.push(update.to_update_without_changes(&copied)?);
        }
        let token = PendingToken::with_new_lease(access.lease());
        let pending = doc! { PendingKind::FAN_OUT.record_path(): token.to_document() };
        additional_update = doc! { "$inc": { SOURCE_VERSION: 1_i64 }, "$set": pending };
        remainder.next.push(NextFanOut {
            model: group.model,
            token,
            mode: slowest_mode(&modes),
        });
    }
    for update in &updates {
        changes.push(update.to_metadata_update(&additional_update)?);
    }
    match apply_updates(access, changes).await {
        Err(error) if access.transaction_scope().is_none() && is_rejection(&error) => {
            for update in &updates {
                let rejected = &mut remainder.rejected;
                write_copies_individually(access, update, &additional_update, rejected).await?;
            }
            Ok(())
        }
        result => result.map(drop),
    }
}

/// Writes each stale copy separately, after a document has rejected the batch.
async fn write_copies_individually(
    access: ModelAccess<'_>,
    update: &CopyUpdate<'_>,
    additional_update: &Document,
    rejected: &mut RejectionList,
) -> Result<()> {
    let find = access
        .find_matching(&to_raw_document(&update.stale_filter()?)?)
        .with_origin(Stage::COPIES.step("read the dependents of a rejected batch"));
    let ids = access.find_ids(find).await?;
    for batch in ids.chunks(MAX_COPY_BATCH_DOCUMENTS) {
        let changes = batch.iter().map(|id| {
            let documents = id_filter(id);
            let single = CopyUpdate {
                documents,
                ..update.clone()
            };
            let change = single.to_metadata_update(additional_update)?;
            Ok((id.clone(), change))
        });
        let changes = changes.collect::<Result<_>>()?;
        for (id, error) in apply_each(access, changes).await? {
            rejected.add_rejection(update.source_id, access.model, id, error)?;
        }
    }
    Ok(())
}

/// Writes many copies as [`write_copies`], if possible in a transaction of their own.
///
/// One commit is faster than one commit for each document. The transaction gives way to every concurrent writer of these
/// documents. A dependent that is inserted meanwhile has its own revalidation. The fan-outs that follow run after the transaction,
/// which therefore has a bounded size.
async fn write_many_copies(
    access: &Access,
    group: &CopyGroup,
    updates: Vec<CopyUpdate<'_>>,
    remainder: &mut FanOutRemainder,
) -> Result<()> {
    // An open transaction already contains the write of the source. A dependent that is inserted meanwhile may not see that write
    // either, so the fan-out must not be committed separately.
    if access.transaction_scope().is_some() || !access.has_transactions() {
        return write_copies(access, group, updates, remainder).await;
    }
    let transaction = transaction_scope::run_low_priority(access, |access| {
        let updates = updates.clone();
        async move {
            let mut remainder = FanOutRemainder::default();
            write_copies(&access, group, updates, &mut remainder).await?;
            Ok(remainder.next)
        }
    });
    match transaction.await {
        Ok(next) => {
            remainder.next.extend(next);
            Ok(())
        }
        Err(error) => {
            retry::log_fallback(
                group.model,
                format_args!("a fan-out continues without a transaction: {error}"),
            );
            write_copies(access, group, updates, remainder).await
        }
    }
}

/// Sets the copies of deleted documents to null, for copies that a delete clears. A dependent that is added later has its own
/// revalidation.
///
/// # Errors
///
/// The error of the first rejecting document, after the copies of all other documents are null.
pub(super) async fn clear_copies(
    access: ModelAccess<'_>,
    deleted: &[DeletedDocument<'_>],
    version: i64,
) -> Result<()> {
    let clearing = super::dependent_groups(access.schema_models(), access.model)
        .filter(CopyGroup::is_clearing);
    let clearing: Vec<_> = clearing.collect();
    if clearing.is_empty() {
        return Ok(());
    }
    let mut by_scope = BTreeMap::<Option<OrderedId>, (Option<Bson>, Vec<Bson>)>::new();
    let deleted_source = &SourceState::deleted_at(version);
    for DeletedDocument { id, scope } in deleted {
        let id = Bson::try_from((*id).clone()).map_err(error::from_bson)?;
        let scope_value =
            scope.map(|scope| Bson::try_from(scope.clone()).map_err(error::from_bson));
        let scope_value = scope_value.transpose()?;
        let (_, ids) = by_scope
            .entry(scope.map(OrderedId::from_id))
            .or_insert((scope_value, Vec::new()));
        ids.push(id);
    }
    let mut remainder = FanOutRemainder::default();
    for group in &clearing {
        for (scope, deleted) in by_scope.values() {
            for batch in id_batches(deleted, MAX_COPY_BATCH_DOCUMENTS) {
                let update = CopyUpdate {
                    group,
                    reference_condition: doc! { group.reference: { "$in": batch } },
                    source: deleted_source,
                    documents: RawDocumentBuf::new(),
                    source_id: None,
                    scope_condition: group.scope_condition(scope.as_ref()),
                };
                write_copies(&access, group, vec![update], &mut remainder).await?;
            }
        }
    }
    run_next_fan_outs(&access, remainder.next, FanOutBudget::Unlimited).await?;
    remainder.rejected.into_error().map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_adapt_to_the_target_duration() {
        let long = TARGET_BATCH_DURATION + Duration::from_micros(1);
        let short = TARGET_BATCH_DURATION / 2 - Duration::from_micros(1);
        assert_eq!(next_batch_size(200, long), 100);
        assert_eq!(
            next_batch_size(MIN_BATCH_DOCUMENTS, long),
            MIN_BATCH_DOCUMENTS
        );
        assert_eq!(next_batch_size(200, TARGET_BATCH_DURATION), 200);
        assert_eq!(next_batch_size(200, TARGET_BATCH_DURATION / 2), 200);
        assert_eq!(next_batch_size(200, short), 400);
        assert_eq!(
            next_batch_size(MAX_COPY_BATCH_DOCUMENTS, short),
            MAX_COPY_BATCH_DOCUMENTS
        );
    }
}
