//! Those who wait to be counted: whoever comes first counts all of them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use bson::{Bson, RawBson, RawDocumentBuf, doc};

use super::{
    BATCH, COUNT, Said,
    apart::{self, Rejected},
    groups, owner,
    parent::Parent,
    together,
};
use crate::{
    Result,
    access::{Access, found_by},
    backend::{BoxFuture, operation::Find},
    batches::id_batches,
    decode,
    maintain::{
        Rejection,
        blocked::is_rejection,
        link::linked::one_of,
        stored::{close, open},
    },
    query::document,
    schema::Model,
    task, unit,
};

/// The writes of this process whose documents are to be counted, by collection.
#[derive(Debug, Default)]
pub(crate) struct Counting(Mutex<HashMap<&'static str, Arc<Line>>>);

#[derive(Debug, Default)]
struct Line {
    turn: tokio::sync::Mutex<()>,
    waiting: Mutex<Vec<Said>>,
}

impl Counting {
    fn line(&self, model: &Model) -> Arc<Line> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(lines.entry(model.collection).or_default())
    }
}

/// Whether documents of a model are being counted together: who comes now goes along with those that wait.
pub(super) fn is_moving(access: &Access, model: &Model) -> bool {
    access
        .shared()
        .counting
        .line(model)
        .turn
        .try_lock()
        .is_err()
}

impl Line {
    fn waiting<R>(&self, change: impl FnOnce(&mut Vec<Said>) -> R) -> R {
        change(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Counts the documents that said so, with all others that wait. What cannot be counted now is left to be settled.
pub(super) async fn count(access: &Access, model: &'static Model, said: Said) {
    let line = access.shared().counting.line(model);
    line.waiting(|waiting| waiting.push(said));
    let _turn = line.turn.lock().await;
    let all = line.waiting(std::mem::take);
    // Somebody else may have taken it along.
    if all.is_empty() {
        return;
    }
    let done = async {
        let (dues, tokens): (Vec<_>, Vec<_>) =
            all.iter().map(|said| (said.due, said.token)).unzip();
        let said = doc! { COUNT.due(): { "$in": dues }, COUNT.token(): { "$in": tokens } };
        count_those(access, model, close(&said)?).await
    };
    if let Err(error) = done.await {
        tracing::debug!(target: "odm", model = model.name, %error, "counts are left to be settled");
    }
}

/// Counts the documents that a filter finds.
pub(super) async fn count_those(
    access: &Access,
    model: &'static Model,
    filter: RawDocumentBuf,
) -> Result<()> {
    let all = access.to_everything();
    if !all.has_transactions() {
        return apart::count(&all, model, filter).await;
    }
    let find = Find {
        projection: Some(document("_id", 1)?),
        ..found_by(&model.collection.into(), &filter)
    };
    let found = all.find_all(model, find).await?;
    let ids: Vec<_> = found.iter().filter_map(|raw| decode::id(raw)).collect();
    let ids: Vec<_> = ids.into_iter().map(RawBson::from).collect();
    let mut rejected = Rejected::default();
    for some in id_batches(&ids, BATCH) {
        Box::pin(count_some(&all, model, some, &mut rejected)).await?;
    }
    rejected.note(&all, model).await
}

/// Counts documents in a transaction. Members of a rejecting owner are excluded and stay pending.
async fn count_some(
    all: &Access,
    model: &'static Model,
    ids: &[RawBson],
    rejected: &mut Rejected,
) -> Result<()> {
    let mut those = open(&document("_id", one_of(ids)?)?)?;
    let mut left_out = Vec::new();
    loop {
        let filter = close(&those)?;
        let work = |access: Access| {
            let filter = filter.clone();
            async move { together::count(&access, model, filter, false).await }
        };
        let error = match all.together(unit::ATTEMPTS, work).await {
            Err(error) if all.unit().is_none() && is_rejection(&error) => error,
            done => return done,
        };
        let mut theirs = Vec::new();
        if let (Some(collection), Some(id)) = (error.collection(), error.id()) {
            for group in groups(all.models(), model) {
                if group.owner.collection == collection {
                    let mut concerned = group.concerned(&doc! { "$eq": id.clone() });
                    // A child of another scope with the same reference is not a member.
                    if let Some(held) = owner::read_any(all, &group, id).await? {
                        concerned.extend(Parent::of_document(&group, &held).same_scope(&group));
                    }
                    theirs.push(Bson::Document(concerned));
                }
            }
        }
        let find = Find {
            projection: Some(document("_id", 1)?),
            ..found_by(
                &model.collection.into(),
                &close(&doc! { "$and": [those.clone(), { "$or": theirs.clone() }] })?,
            )
        };
        let found = match theirs.is_empty() {
            true => Vec::new(),
            false => all.find_all(model, find).await?,
        };
        // Not an owner of these members: the transaction would fail again.
        let Some(id) = error.id().filter(|_| !found.is_empty()) else {
            return Err(error);
        };
        let rejection = Rejection::all_of(&error, model, id);
        for member in found.iter().filter_map(|raw| decode::id(raw)) {
            for rejection in &rejection {
                rejected.add(member.into(), rejection);
            }
        }
        left_out.extend(theirs);
        those.insert("$nor", left_out.clone());
    }
}

/// The same, as a function that says what it gives: it may lead to itself.
pub(super) fn count_later(
    access: Access,
    model: &'static Model,
    filter: RawDocumentBuf,
) -> BoxFuture<'static, Result<()>> {
    Box::pin(async move { count_those(&access, model, filter).await })
}

/// Does something behind the transaction that this is in, or in a task of its own.
pub(super) fn behind<F>(access: &Access, work: impl FnOnce(Access) -> F + Send + 'static)
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let work = |access: Access| async move {
        let _under_way = access.shared().behind.begin();
        if let Err(error) = work(access.to_everything()).await {
            tracing::debug!(target: "odm", %error, "counts are left to be settled");
        }
    };
    match access.unit() {
        Some(unit) => unit.then(Box::new(move |access| {
            Box::pin(async move {
                work(access).await;
                Ok(())
            })
        })),
        None => drop(task::spawn(work(access.in_background()))),
    }
}
