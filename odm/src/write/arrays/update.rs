//! Updates of overflow arrays.
//!
//! A change within a single document is a single operation: first an update for arrays without spilled elements, and after no
//! match, an update for arrays with spilled elements. The condition of each update includes the state and the capacity of the
//! array, so two concurrent updates cannot both take the last place. A change that also affects chunks records pending work in
//! the owner by the same operation. The chunks are changed afterwards.
//!
//! An update of several overflow arrays is nested: each operation on the first array is an update of the next array. The
//! innermost operation writes all arrays under the conditions of each. Chunks prepared for one array are reclaimed if the
//! conditions of a later array are not met.

mod add_to_set;
mod each_element;
mod growth;
mod ordered;
mod publish;
mod push;
mod replace;

use bson::{Bson, Document, RawArrayBuf, RawBson, RawDocument, RawDocumentBuf, doc};
use tracing::Instrument;

use super::{
    ArrayHandle,
    array_work::write_attempts,
    capacity::{nothing_spilled, version_unchanged},
    footprint::{ArrayChange, ArrayFootprint},
    manifest::{ArrayState, Manifest},
    order::{ArrayOrder, sort_if_ordered},
};
use crate::{
    Error, ErrorKind, Result,
    backend::{BoxFuture, operation::Stage},
    error,
    language::query::{append_field, equal_to},
    metadata::references::tombstone,
    schema::OverflowField,
    session::{access::Access, retry, task},
    write::{
        WriteOperation, WriteOutcome,
        maintainer::{ElementUpdate, MAINTAINERS, WriteContext, WriteFuture},
        metadata_update::{parse_document, to_raw_document},
        recovery,
    },
};

/// Runs an update that changes overflow arrays.
pub(super) async fn run_update(
    cx: WriteContext,
    mut write: WriteOperation,
) -> Result<WriteOutcome> {
    let Some(change) = write.change_mut() else {
        return cx.run_next(write).await;
    };
    let model = cx.model;
    let footprint = ArrayFootprint::parse_first(model, change)?;
    let affects_one = write.affects_at_most_one();
    if write
        .filter()
        .is_none_or(|filter| pinned_id(filter).is_some())
    {
        return ArrayUpdate::new(cx, write, footprint)
            .run_with_dependents()
            .await;
    }
    // Select the document before the update, so that its capacity does not decide which document is the first.
    for attempt in write_attempts() {
        let find = write.find_affected(model, None);
        let find = find.with_origin(Stage::ARRAYS.step("read the ids"));
        let ids = cx.access.to(cx.model).find_ids(find).await?;
        let is_unmatched = ids.is_empty();
        let mut sum = WriteOutcome::default();
        for id in ids {
            let mut write = write.clone();
            pin_filter(&mut write, Some(id), None)?;
            let update = ArrayUpdate::new(cx.clone(), write, footprint.clone());
            sum.add(update.run_with_dependents().await?);
        }
        if is_unmatched || !affects_one || sum.matched > 0 {
            return Ok(sum);
        }
        // The document no longer matches. Select the first document again.
        let reason = "the first matching document has changed since the read";
        retry::pause_before_retry(reason, attempt).await;
    }
    let message = "too much contention: other writes changed the first matching document during every attempt; retry";
    let error = Error::new(ErrorKind::Conflict, message);
    Err(error::naming_model(model)(error))
}

/// Adds a condition to the filter of a write. The `_id` stays at the top level, because every stage looks there.
fn pin_filter(
    write: &mut WriteOperation,
    id: Option<RawBson>,
    condition: Option<RawDocumentBuf>,
) -> Result<()> {
    let Some(filter) = write.filter_mut() else {
        return Ok(());
    };
    let mut conditions = RawArrayBuf::new();
    conditions.push(std::mem::take(filter));
    condition
        .into_iter()
        .for_each(|condition| conditions.push(condition));
    if let Some(id) = id {
        append_field(filter, "_id", equal_to(id))?;
    }
    append_field(filter, "$and", conditions)
}

/// Returns the id of the document if a filter names a single document.
fn pinned_id(filter: &RawDocument) -> Option<RawBson> {
    let id_condition = filter.get_document("_id").ok();
    let id_condition = id_condition.and_then(|id| id.get("$eq").ok().flatten());
    id_condition.map(Into::into).or_else(|| {
        let parts = filter.get_array("$and").ok()?;
        let mut parts = parts.into_iter().flatten();
        parts.find_map(|part| pinned_id(part.as_document()?))
    })
}

/// An update of overflow arrays in one document.
#[derive(Clone)]
struct ArrayUpdate {
    cx: WriteContext,
    /// An access to all documents: of every scope, and soft-deleted.
    unrestricted: Access,
    field: &'static OverflowField,
    write: WriteOperation,
    footprint: ArrayFootprint,
    /// The arrays that outer updates have handled: the operators for their elements are final.
    handled: Vec<&'static OverflowField>,
}

impl ArrayUpdate {
    fn new(cx: WriteContext, write: WriteOperation, footprint: ArrayFootprint) -> Self {
        Self {
            unrestricted: cx.access.with_full_visibility(),
            cx,
            field: footprint.field,
            write,
            footprint,
            handled: Vec::new(),
        }
    }

    /// Creates the update of the next array, when the operators for the `handled` arrays are final.
    fn for_next_array(
        cx: WriteContext,
        mut write: WriteOperation,
        handled: Vec<&'static OverflowField>,
    ) -> Result<Option<Self>> {
        let Some(change) = write.change_mut() else {
            return Ok(None);
        };
        let footprint = ArrayFootprint::parse_except(cx.model, change, &handled)?;
        let update = Self::new(cx, write, footprint);
        Ok(Some(Self { handled, ..update }))
    }

    /// Runs an operation on this array as an update of the next array.
    fn run_next_array(&self, write: WriteOperation) -> WriteFuture {
        let cx = self.cx.clone();
        let mut handled = self.handled.clone();
        handled.push(self.field);
        let next = async move {
            match Self::for_next_array(cx, write, handled)? {
                Some(next) => next.run_with_dependents().await,
                None => Ok(WriteOutcome::default()),
            }
        };
        // A task of its own bounds the stack depth for any number of arrays.
        let next = task::run_to_end(next.in_current_span());
        Box::pin(next)
    }

    /// Runs the update. A kind of derived data that depends on the elements runs the update together with its follow-up writes.
    async fn run_with_dependents(self) -> Result<WriteOutcome> {
        let elements = self.footprint.change.added_elements();
        let (model, array, adds) = (self.cx.model, self.field, !elements.is_empty());
        let mut kinds = MAINTAINERS.iter();
        // With an intent record, an outer update has handled the references of all arrays.
        let dependent =
            kinds.find(|kind| !self.cx.has_intent && kind.depends_on_elements(model, array, adds));
        let Some(dependent) = dependent else {
            return Box::pin(self.run_change()).await;
        };
        let Some(owner) = self.read_state().await? else {
            return Ok(WriteOutcome::default());
        };
        let run_change = |cx: WriteContext, write: WriteOperation| -> BoxFuture<'static, _> {
            let handled = self.handled.clone();
            Box::pin(async move {
                match Self::for_next_array(cx, write, handled)? {
                    Some(update) => update.run_change().await,
                    None => Ok(WriteOutcome::default()),
                }
            })
        };
        let update = ElementUpdate {
            cx: &self.cx,
            array,
            write: &self.write,
            id: &owner.id,
            added: elements,
            run: &run_change,
        };
        Ok(dependent.write_elements(update).await?.unwrap_or_default())
    }

    /// Runs the change of the array.
    async fn run_change(&self) -> Result<WriteOutcome> {
        let order = ArrayOrder::from_field(self.field);
        match &self.footprint.change {
            ArrayChange::Push(values) => match &order {
                Some(order) => Box::pin(self.push_in_order(order, values)).await,
                None => Box::pin(self.push_elements(values)).await,
            },
            ArrayChange::AddToSet(values) => {
                let values = add_to_set::distinct_values(values)?;
                match &order {
                    Some(order) => Box::pin(self.add_in_order(order, &values)).await,
                    None => Box::pin(self.add_to_set(&values)).await,
                }
            }
            ArrayChange::Replace(values) => {
                let mut values = values.clone();
                sort_if_ordered(self.field, &mut values);
                Box::pin(self.replace_elements(&values)).await
            }
            ArrayChange::Each {
                operators,
                changes_count,
                growth,
            } => Box::pin(self.change_each(operators, *changes_count, *growth)).await,
        }
    }

    /// Returns this update with `access`, the access of a transaction.
    fn with_access(&self, access: &Access) -> Self {
        Self {
            cx: self.cx.with_access(access),
            unrestricted: access.with_full_visibility(),
            ..self.clone()
        }
    }

    /// Returns a handle on the array of a document.
    fn array_handle<'a>(&'a self, id: &'a Bson) -> ArrayHandle<'a> {
        ArrayHandle::new(self.unrestricted.to(self.cx.model), self.field, id)
    }

    /// Reads the state of the array, if the document matches the filter of the write and is not finally deleted.
    async fn read_state(&self) -> Result<Option<ArrayState>> {
        let filter = parse_document(&self.write_filter())?;
        let filter = to_raw_document(&doc! { "$and": [filter, tombstone::not_final()] })?;
        ArrayState::read_matching(self.cx.access.to(self.cx.model), self.field, &filter).await
    }

    /// Reads the state of the array when no work is pending.
    async fn read_idle_state(&self) -> Result<Option<ArrayState>> {
        for attempt in write_attempts() {
            let Some(owner) = self.read_state().await? else {
                return Ok(None);
            };
            if owner.pending_work().is_none() {
                return Ok(Some(owner));
            }
            let id = owner.id.clone();
            self.array_handle(&id)
                .complete_or_wait(owner, attempt)
                .await?;
        }
        Err(self.contention_error())
    }

    /// Returns the filter of the write.
    fn write_filter(&self) -> RawDocumentBuf {
        self.write.filter().cloned().unwrap_or_default()
    }

    /// Tries the write with the operators. Returns `None` if the document does not meet the condition.
    fn try_write<'a>(
        &'a self,
        condition: Document,
        operators: &'a [&'a Document],
    ) -> BoxFuture<'a, Result<Option<WriteOutcome>>> {
        Box::pin(async move {
            let mut write = self.write.clone();
            let id = pinned_id(&self.write_filter());
            pin_filter(&mut write, id, Some(to_raw_document(&condition)?))?;
            if let Some(change) = write.change_mut() {
                *change = self.footprint.with_operators(operators)?;
            }
            let done = match self.footprint.changes_more_arrays() {
                true => self.run_next_array(write).await?,
                false => self.cx.clone().run_next(write).await?,
            };
            Ok((done.matched > 0).then_some(done))
        })
    }

    /// Returns the condition that no elements are spilled.
    fn nothing_spilled(&self) -> Document {
        nothing_spilled(self.field)
    }

    /// Returns the condition that the array has a manifest and no pending work.
    fn is_idle(&self) -> Document {
        doc! { self.field.manifest: { "$exists": true }, self.field.pending_change: { "$exists": false } }
    }

    /// Returns the condition that the array is unchanged since the read, except for pushes to the tail.
    fn unchanged_since_read(&self, manifest: Option<&Manifest>) -> Document {
        let Some(manifest) = manifest else {
            return self.nothing_spilled();
        };
        let mut condition = self.is_idle();
        condition.extend(version_unchanged(self.field, manifest));
        condition
    }

    /// Returns the id of the document.
    fn document_id(&self) -> Result<Bson> {
        match pinned_id(&self.write_filter()) {
            Some(id) => Bson::try_from(id).map_err(error::from_bson),
            None => Err(self.contention_error()),
        }
    }

    /// Runs a multi-step change: in a single transaction, if the backend has transactions.
    fn run_multi_step<'a>(
        &'a self,
        change: &'a MultiStepChange<'a>,
    ) -> BoxFuture<'a, Result<Option<WriteOutcome>>> {
        Box::pin(async move {
            let run = |access: Access| {
                let update = self.with_access(&access);
                async move {
                    let done = match change {
                        MultiStepChange::Push(values) => {
                            Box::pin(update.push_staged(values, false)).await
                        }
                        MultiStepChange::Add(values) => {
                            Box::pin(update.push_staged(values, true)).await
                        }
                        MultiStepChange::Replace(values, resident_count) => {
                            let done = update.replace_multi_step(values, *resident_count);
                            Box::pin(done).await.map(Some)
                        }
                        MultiStepChange::Each(operators, changes_count, growth) => {
                            let done =
                                update.change_each_multi_step(operators, *changes_count, *growth);
                            Box::pin(done).await.map(Some)
                        }
                    };
                    done.map_err(|error| access.fail_transaction(error))
                }
            };
            recovery::run_transactional(self.cx.access.to(self.cx.model), run).await
        })
    }

    /// The error after too many attempts on a contended array.
    fn contention_error(&self) -> Error {
        let id = self.pinned_document_id().unwrap_or(Bson::Null);
        self.array_handle(&id).contention_error()
    }

    fn pinned_document_id(&self) -> Option<Bson> {
        let filter = self.write_filter();
        Bson::try_from(pinned_id(&filter)?).ok()
    }
}

/// A change that takes several operations.
enum MultiStepChange<'v> {
    Push(&'v [Bson]),
    Add(&'v [Bson]),
    Replace(&'v [Bson], usize),
    Each(&'v Document, bool, usize),
}
