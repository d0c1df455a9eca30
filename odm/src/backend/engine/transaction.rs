//! Transactions of the engine.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use odm_engine as engine;

use super::{Engine, error, work};
use crate::{
    Error, ErrorKind, Result,
    backend::{BoxFuture, Transaction},
};

/// Dropping it aborts it, once no operation has it any more.
pub struct OpenTransaction {
    handle: engine::Transaction,
    /// The engine takes a second commit for a repetition of the first.
    committed: AtomicBool,
}

impl OpenTransaction {
    pub(super) fn new(handle: engine::Transaction) -> Self {
        Self {
            handle,
            committed: AtomicBool::new(false),
        }
    }

    pub(super) fn handle(&self) -> &engine::Transaction {
        &self.handle
    }

    fn commit(&self) -> Result<()> {
        if self.committed.swap(true, Ordering::Relaxed) {
            return Err(Error::new(
                ErrorKind::TransactionOver,
                "the transaction is over: it was committed before",
            ));
        }
        self.handle.commit().map_err(error::from_engine)
    }
}

impl Transaction for Engine<OpenTransaction> {
    fn commit(&self) -> BoxFuture<'_, Result<()>> {
        let transaction = Arc::clone(&self.0);
        Box::pin(work::blocking(move || transaction.commit()))
    }

    fn abort(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // Nothing to wait for: the writes were in memory. It fails if the transaction was committed, which stays.
            let _committed = self.0.handle.abort();
        })
    }
}
