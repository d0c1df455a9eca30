use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::key;
use crate::overlay::OverlayOutcome;
use crate::store::Changes;

/// The number of a transaction.
pub(super) type TransactionId = u64;

/// The open transactions, and the keys that they must not change.
///
/// The first writer of a key wins: the first of several transactions to claim the key, or the first to commit in a race with a
/// plain write. Without open transactions the table is empty.
#[derive(Default)]
pub(super) struct ConflictTable {
    last_id: TransactionId,
    open: BTreeMap<TransactionId, OpenTransaction>,
    claims: HashMap<Arc<[u8]>, TransactionId>,
    /// The last write of each key, for writes that some open transaction does not see.
    changed: HashMap<Arc<[u8]>, u64>,
}

struct OpenTransaction {
    /// The number of the last write that the transaction sees.
    last_seen_write: u64,
    claimed: Vec<Arc<[u8]>>,
}

impl ConflictTable {
    /// Opens a transaction that sees the writes up to `last_seen_write`. `pending` has the changes of the later writes up to
    /// `added`, which the transaction does not see.
    pub(super) fn begin(
        &mut self,
        last_seen_write: u64,
        added: u64,
        pending: &Changes,
    ) -> TransactionId {
        if self.open.is_empty() {
            self.set_last_writer(pending, added);
        }
        self.last_id += 1;
        let open = OpenTransaction {
            last_seen_write,
            claimed: Vec::new(),
        };
        self.open.insert(self.last_id, open);
        self.last_id
    }

    /// Records the changes of a write, if a transaction is open.
    pub(super) fn record_write(&mut self, changes: &Changes, write: u64) {
        if !self.open.is_empty() {
            self.set_last_writer(changes, write);
        }
    }

    pub(super) fn claim_keys(&mut self, id: TransactionId, changes: &Changes) -> Result<()> {
        for key in changes.keys().filter(|key| key::is_contended(key)) {
            self.check_key(id, key)?;
            if let Some(open) = self.open.get_mut(&id)
                && !self.claims.contains_key(key)
            {
                self.claims.insert(Arc::clone(key), id);
                open.claimed.push(Arc::clone(key));
            }
        }
        Ok(())
    }

    /// Checks that a transaction may change a key: the key is unchanged since the transaction began, and no other transaction has
    /// claimed it.
    pub(super) fn check_key(&self, id: TransactionId, key: &[u8]) -> Result<()> {
        let is_free = self.open.get(&id).is_some_and(|open| {
            let changed = self.changed.get(key);
            let claim_owner = self.claims.get(key);
            changed.is_none_or(|write| *write <= open.last_seen_write)
                && claim_owner.is_none_or(|claim_owner| *claim_owner == id)
        });
        is_free.then_some(()).ok_or_else(Error::write_conflict)
    }

    /// Checks at the commit that all keys of a transaction are unchanged, as well as the definitions of its collections and the
    /// settings of the change log.
    pub(super) fn check_outcome(&self, id: TransactionId, outcome: &OverlayOutcome) -> Result<()> {
        let Some(open) = self.open.get(&id) else {
            return Err(Error::write_conflict());
        };
        let changed_since = |key: &[u8]| {
            self.changed
                .get(key)
                .is_some_and(|write| *write > open.last_seen_write)
        };
        let definitions = outcome.written.iter().map(|name| key::for_catalog(name));
        let mut definitions = definitions.chain([key::for_change_log()]);
        let mut keys = outcome.changes.keys();
        if keys.any(|key| changed_since(key)) || definitions.any(|key| changed_since(&key)) {
            return Err(Error::write_conflict());
        }
        Ok(())
    }

    pub(super) fn end_transaction(&mut self, id: TransactionId) {
        let Some(transaction) = self.open.remove(&id) else {
            return;
        };
        for key in transaction.claimed {
            self.claims.remove(&key);
        }
        match self.open.values().map(|open| open.last_seen_write).min() {
            None => self.changed = HashMap::new(),
            // Only the end of the oldest transaction makes recorded writes superfluous.
            Some(oldest) if oldest > transaction.last_seen_write => {
                self.changed.retain(|_, write| *write > oldest)
            }
            Some(_) => {}
        }
    }

    fn set_last_writer(&mut self, changes: &Changes, write: u64) {
        for key in changes.keys().filter(|key| key::is_contended(key)) {
            self.changed.insert(Arc::clone(key), write);
        }
    }
}
