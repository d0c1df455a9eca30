//! Measurement of document sizes after each write.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use odm::{
    Result,
    backend::{
        Backend, BackendTransaction, BoxFuture, Executor, Wrapper,
        operation::{AggregateOperation, Operation},
    },
    bson::rawdoc,
};

/// A backend that measures the largest document of a collection after each insert, update, find-and-modify and bulk write. Within
/// a transaction, the measurement runs in the transaction. A document that is large only between two operations of a write is
/// therefore seen.
#[derive(Debug)]
pub struct DocumentSizeRecorder<T: ?Sized = dyn Backend> {
    inner: Arc<T>,
    /// The size of the largest document so far in bytes, by collection.
    seen: Arc<Mutex<BTreeMap<String, u64>>>,
    /// Serializes writes: a write waits until the result of the previous write is measured. A transaction sees the result without
    /// a lock.
    turn: Option<tokio::sync::Mutex<()>>,
}

impl DocumentSizeRecorder {
    /// Wraps a backend.
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self {
            inner: backend,
            seen: Arc::default(),
            turn: Some(tokio::sync::Mutex::default()),
        }
    }

    /// Returns the size of the largest document so far in a collection, in bytes.
    #[must_use]
    pub fn max_document_bytes(&self, collection: &str) -> u64 {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(collection).copied().unwrap_or(0)
    }
}

impl<T: Executor + ?Sized> DocumentSizeRecorder<T> {
    async fn measure_documents(&self, collection: &str) -> Result<()> {
        let aggregate = AggregateOperation {
            collection: collection.to_owned().into(),
            pipeline: vec![
                rawdoc! { "$group": { "_id": null, "most": { "$max": { "$bsonSize": "$$ROOT" } } } },
            ],
            variables: rawdoc! {},
            options: Default::default(),
        };
        let found = self.inner.aggregate_all(aggregate).await?;
        let most = found.first().map_or(0, |found| {
            let most = found.get_i32("most").expect("the size of a document");
            u64::try_from(most).expect("no less than nothing")
        });
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let maximum = seen.entry(collection.to_owned()).or_default();
        *maximum = (*maximum).max(most);
        Ok(())
    }
}

impl<T: Executor + ?Sized> Wrapper for DocumentSizeRecorder<T> {
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
                self.measure_documents(&collection).await?;
            }
            Ok(done)
        })
    }

    fn wrap_transaction(
        &self,
        transaction: Arc<dyn BackendTransaction>,
    ) -> Arc<dyn BackendTransaction> {
        Arc::new(DocumentSizeRecorder {
            inner: transaction,
            seen: Arc::clone(&self.seen),
            turn: None,
        })
    }
}
