//! The queue of rollup updates: the next worker applies the contributions of all waiting writes together. This prevents conflicts
//! between concurrent writers of one parent.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use bson::{Bson, RawBson, RawDocumentBuf, doc};

use super::{
    MAX_CHILDREN_PER_BATCH, PendingToken,
    parent::ParentIdentity,
    parent_update, rollup_groups,
    standalone::{self, RejectedChildren},
    transactional,
};
use crate::{
    Result,
    backend::{BoxFuture, operation::Stage},
    model::ids::{id_batches, ids_filter},
    pending::{
        blocked::{Rejection, is_rejection},
        record::PendingKind,
    },
    schema::Model,
    session::{
        access::{Access, ModelAccess},
        task, trace,
    },
    write::metadata_update::{parse_document, to_raw_document},
};

/// The queues of this process, by collection: writes whose contributions must be applied.
#[derive(Debug, Default)]
pub(crate) struct RollupQueues(Mutex<HashMap<&'static str, Arc<RollupQueue>>>);

#[derive(Debug, Default)]
struct RollupQueue {
    turn: tokio::sync::Mutex<()>,
    waiting: Mutex<Vec<PendingToken>>,
}

impl RollupQueues {
    fn queue_for(&self, model: &Model) -> Arc<RollupQueue> {
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(queues.entry(model.collection).or_default())
    }
}

/// Whether a worker applies contributions of a model at the moment. New writes then join the queue.
pub(super) fn is_busy(access: ModelAccess<'_>) -> bool {
    access
        .shared_state()
        .waiting_rollups
        .queue_for(access.model)
        .turn
        .try_lock()
        .is_err()
}

impl RollupQueue {
    fn with_waiting<R>(&self, change: impl FnOnce(&mut Vec<PendingToken>) -> R) -> R {
        change(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Applies the contributions of a write together with all waiting writes. After a failure the work stays pending.
pub(super) async fn apply_queued(access: ModelAccess<'_>, token: PendingToken) {
    let queue = access
        .shared_state()
        .waiting_rollups
        .queue_for(access.model);
    queue.with_waiting(|waiting| waiting.push(token));
    let _turn = queue.turn.lock().await;
    let pending = queue.with_waiting(std::mem::take);
    // Another worker has taken this write from the queue.
    if pending.is_empty() {
        return;
    }
    let work = async {
        let (lease_ends, tokens): (Vec<_>, Vec<_>) = pending
            .iter()
            .map(|pending| (pending.lease_end, pending.token))
            .unzip();
        let filter = doc! {
            PendingKind::ROLLUP.lease_path(): { "$in": lease_ends },
            PendingKind::ROLLUP.token_path(): { "$in": tokens },
        };
        apply_matching(access, to_raw_document(&filter)?).await
    };
    if let Err(error) = work.await {
        trace::log_still_pending("rollup update", Some(access.model), &error);
    }
}

/// Applies the contributions of the documents that a filter matches.
pub(super) async fn apply_matching(access: ModelAccess<'_>, filter: RawDocumentBuf) -> Result<()> {
    let model = access.model;
    let full_access = access.with_full_visibility();
    if !full_access.has_transactions() {
        return standalone::apply_contributions(full_access.to(model), filter).await;
    }
    let find = access
        .find_matching(&filter)
        .with_origin(Stage::ROLLUPS.step("read the children"));
    let ids = full_access.to(model).find_ids(find).await?;
    let mut rejected = RejectedChildren::default();
    for batch in id_batches(&ids, MAX_CHILDREN_PER_BATCH) {
        Box::pin(apply_batch(full_access.to(model), batch, &mut rejected)).await?;
    }
    rejected.record_rejections(full_access.to(model)).await
}

/// Applies contributions in a transaction. Children of a rejecting parent are excluded and stay pending.
async fn apply_batch(
    full_access: ModelAccess<'_>,
    ids: &[RawBson],
    rejected: &mut RejectedChildren,
) -> Result<()> {
    let model = full_access.model;
    let mut remaining = parse_document(&ids_filter(ids))?;
    let mut excluded = Vec::new();
    loop {
        let filter = to_raw_document(&remaining)?;
        let work = |access: Access| {
            let filter = filter.clone();
            async move { transactional::apply_contributions(access.to(model), filter, false).await }
        };
        let error = match full_access.run_transactional(work).await {
            Err(error) if full_access.transaction_scope().is_none() && is_rejection(&error) => {
                error
            }
            result => return result,
        };
        let mut conditions = Vec::new();
        if let (Some(collection), Some(id)) = (error.collection(), error.id()) {
            for group in rollup_groups(full_access.schema_models(), model) {
                if group.parent_model.collection == collection {
                    let mut condition = group.children_condition(&doc! { "$eq": id.clone() });
                    // A child of another scope with the same reference does not belong to this parent.
                    let parent = parent_update::read_parent_in_any_scope(&full_access, &group, id);
                    if let Some(parent) = parent.await? {
                        let parent = ParentIdentity::of_document(&group, &parent);
                        condition.extend(parent.scope_condition(&group));
                    }
                    conditions.push(Bson::Document(condition));
                }
            }
        }
        let of_parents = doc! { "$and": [remaining.clone(), { "$or": conditions.clone() }] };
        let find = full_access
            .find_matching(&to_raw_document(&of_parents)?)
            .with_origin(Stage::ROLLUPS.step("read the children"));
        let children = match conditions.is_empty() {
            true => Vec::new(),
            false => full_access.find_ids(find).await?,
        };
        // The error does not come from a parent of these children, so the transaction would fail again.
        let Some(id) = error.id().filter(|_| !children.is_empty()) else {
            return Err(error);
        };
        let rejections = Rejection::from_error(&error, model, id);
        for child_id in children {
            for rejection in &rejections {
                rejected.add_rejection(child_id.clone(), rejection);
            }
        }
        excluded.extend(conditions);
        remaining.insert("$nor", excluded.clone());
    }
}

/// Applies contributions as a boxed future: the function can call itself through background work.
pub(super) fn apply_matching_boxed(
    access: Access,
    model: &'static Model,
    filter: RawDocumentBuf,
) -> BoxFuture<'static, Result<()>> {
    Box::pin(async move { apply_matching(access.to(model), filter).await })
}

/// Runs work after the surrounding transaction, or in a task of its own.
pub(super) fn run_in_background<F>(access: &Access, work: impl FnOnce(Access) -> F + Send + 'static)
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let work = |access: Access| async move {
        let _running_task = access.shared_state().background.start_task();
        if let Err(error) = work(access.with_full_visibility()).await {
            trace::log_still_pending("rollup update", None, &error);
        }
    };
    match access.transaction_scope() {
        Some(scope) => scope.add_post_commit(Box::new(move |access| {
            Box::pin(async move {
                work(access).await;
                Ok(())
            })
        })),
        None => drop(task::spawn(work(access.in_background()))),
    }
}
