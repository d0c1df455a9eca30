//! Transactions of the engine.

use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use odm_engine::Session;

use super::{Engine, blocking::Call, error};
use crate::{
    Error, ErrorKind, Result,
    backend::{BackendTransaction, BoxFuture},
};

/// A transaction of the engine that can be committed once.
///
/// The engine treats a second commit as a repetition of the first and returns `Ok`. The contract of a backend requires an error,
/// so this type remembers the commit. The transaction is aborted when the last operation has dropped the handle.
#[derive(Debug)]
pub struct OpenTransaction {
    transaction: odm_engine::Transaction,
    committed: AtomicBool,
}

impl OpenTransaction {
    pub(super) fn new_shared(transaction: odm_engine::Transaction) -> Arc<dyn BackendTransaction> {
        Arc::new(Engine {
            target: Arc::new(Self {
                transaction,
                committed: AtomicBool::new(false),
            }),
        })
    }
}

impl Deref for OpenTransaction {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.transaction
    }
}

impl Engine<OpenTransaction> {
    /// Ends the transaction by one of the engine's two commit functions.
    async fn commit_by(
        &self,
        commit: fn(&odm_engine::Transaction) -> odm_engine::Result<()>,
    ) -> Result<()> {
        if self.target.committed.swap(true, Ordering::Relaxed) {
            return Err(Error::new(
                ErrorKind::TransactionOver,
                "the transaction is over: it was already committed",
            ));
        }
        let open = Arc::clone(&self.target);
        let call = Call::new(move || commit(&open.transaction));
        call.run(error::from_engine).await
    }
}

impl BackendTransaction for Engine<OpenTransaction> {
    fn commit(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.commit_by(odm_engine::Transaction::commit))
    }

    fn commit_low_priority(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.commit_by(odm_engine::Transaction::commit_low_priority))
    }

    fn abort(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // The abort fails after a commit. The commit stays.
            let _after_commit = self.target.transaction.abort();
        })
    }
}
