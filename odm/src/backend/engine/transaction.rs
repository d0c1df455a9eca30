//! Transactions of the engine.

use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use odm_engine::Session;

use super::{Engine, error, work};
use crate::{
    Error, ErrorKind, Result,
    backend::{BoxFuture, Transaction},
};

/// A transaction that may be committed once: the engine takes a second commit for a repetition of the first.
///
/// Dropping it aborts it, once no operation has it any more.
#[derive(Debug)]
pub struct Open {
    transaction: odm_engine::Transaction,
    committed: AtomicBool,
}

impl Open {
    pub(super) fn shared(transaction: odm_engine::Transaction) -> Arc<dyn Transaction> {
        Arc::new(Engine {
            target: Arc::new(Self {
                transaction,
                committed: AtomicBool::new(false),
            }),
        })
    }
}

impl Deref for Open {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.transaction
    }
}

impl Engine<Open> {
    /// Ends it by one of the two ways in which it can be committed.
    async fn commit_by(
        &self,
        commit: fn(&odm_engine::Transaction) -> odm_engine::Result<()>,
    ) -> Result<()> {
        if self.target.committed.swap(true, Ordering::Relaxed) {
            return Err(Error::new(
                ErrorKind::TransactionOver,
                "the transaction is over: it was committed before",
            ));
        }
        let open = Arc::clone(&self.target);
        work::blocking(move || commit(&open.transaction).map_err(error::from_engine)).await
    }
}

impl Transaction for Engine<Open> {
    fn commit(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.commit_by(odm_engine::Transaction::commit))
    }

    fn commit_behind_others(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.commit_by(odm_engine::Transaction::commit_behind_others))
    }

    fn abort(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // It fails if the transaction was committed before, which stays.
            let _over = self.target.transaction.abort();
        })
    }
}
