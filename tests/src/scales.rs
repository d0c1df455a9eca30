//! How large documents become, at any moment.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use odm::{
    Result,
    backend::{
        Backend, BoxFuture, Executor, Transaction, Wrapper,
        operation::{Aggregate, Operation},
    },
    bson::rawdoc,
};

/// A backend around another one that looks behind each write how large the largest document of its collection is, in its transaction if it
/// is part of one: what is as large between two operations of a write, and not behind it, is seen too.
#[derive(Debug)]
pub struct Scales<T: ?Sized = dyn Backend> {
    inner: Arc<T>,
    /// The most bytes that there were in a document, by collection.
    seen: Arc<Mutex<BTreeMap<String, u64>>>,
    /// Of two writes the second waits until it is seen what the first has left. In a transaction it is seen anyway.
    turn: Option<tokio::sync::Mutex<()>>,
}

impl Scales {
    /// Scales around a backend.
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self {
            inner: backend,
            seen: Arc::default(),
            turn: Some(tokio::sync::Mutex::default()),
        }
    }

    /// The most bytes that there were in one document of a collection.
    #[must_use]
    pub fn most(&self, collection: &str) -> u64 {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(collection).copied().unwrap_or(0)
    }
}

impl<T: Executor + ?Sized> Scales<T> {
    async fn weigh(&self, collection: &str) -> Result<()> {
        let aggregate = Aggregate {
            collection: collection.to_owned().into(),
            pipeline: vec![
                rawdoc! { "$group": { "_id": null, "most": { "$max": { "$bsonSize": "$$ROOT" } } } },
            ],
            variables: rawdoc! {},
            max_time: None,
        };
        let found = self.inner.aggregate_all(aggregate).await?;
        let most = found.first().map_or(0, |found| {
            let most = found.get_i32("most").expect("the size of a document");
            u64::try_from(most).expect("no less than nothing")
        });
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let own = seen.entry(collection.to_owned()).or_default();
        *own = (*own).max(most);
        Ok(())
    }
}

impl<T: Executor + ?Sized> Wrapper for Scales<T> {
    type Inner = T;

    fn inner(&self) -> &T {
        &self.inner
    }

    fn perform<'a, R: Send + 'a>(
        &'a self,
        operation: Operation,
        run: BoxFuture<'a, Result<R>>,
    ) -> BoxFuture<'a, Result<R>> {
        let collections = match operation {
            Operation::Insert(insert) => vec![insert.collection],
            Operation::Update(update) => vec![update.collection],
            Operation::FindAndModify(modify) => vec![modify.collection],
            Operation::BulkWrite(bulk) => {
                let writes = bulk.writes.iter();
                let mut all: Vec<_> = writes.map(|item| item.write.collection().clone()).collect();
                all.dedup();
                all
            }
            _ => return run,
        };
        Box::pin(async move {
            let _turn = match &self.turn {
                Some(turn) => Some(turn.lock().await),
                None => None,
            };
            let done = run.await?;
            for collection in collections {
                self.weigh(&collection).await?;
            }
            Ok(done)
        })
    }

    fn around(&self, transaction: Arc<dyn Transaction>) -> Arc<dyn Transaction> {
        Arc::new(Scales {
            inner: transaction,
            seen: Arc::clone(&self.seen),
            turn: None,
        })
    }
}
