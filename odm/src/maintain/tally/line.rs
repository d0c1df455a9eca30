//! Those who wait to be counted: whoever comes first counts all of them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use bson::{RawBson, RawDocumentBuf, doc};

use super::{BATCH, COUNT, Said, apart, together};
use crate::{
    Result,
    access::{Access, found_by},
    backend::{BoxFuture, operation::Find},
    decode,
    maintain::{link::linked::one_of, stored::close},
    query::document,
    schema::Model,
    unit,
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
    for some in ids.chunks(BATCH) {
        let those = document("_id", one_of(some)?)?;
        let work = |access: Access| {
            let those = those.clone();
            async move { together::count(&access, model, those, false).await }
        };
        all.together(unit::ATTEMPTS, work).await?;
    }
    Ok(())
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
        None => drop(tokio::spawn(work(access.in_background()))),
    }
}
