use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::key;
use crate::overlay::Outcome;
use crate::store::Changes;

/// The number of a transaction.
pub(super) type TransactionId = u64;

/// Which transactions are open, and which keys they must not change any more.
///
/// The first to change a key wins: among transactions the one that claims it first, against plain
/// writes whoever commits first. Without open transactions nothing is kept.
#[derive(Default)]
pub(super) struct Conflicts {
    last_id: TransactionId,
    open: BTreeMap<TransactionId, Open>,
    claims: HashMap<Arc<[u8]>, TransactionId>,
    /// The last write that changed a key, for the writes that some open transaction does not see.
    changed: HashMap<Arc<[u8]>, u64>,
}

struct Open {
    /// The last write that the transaction sees.
    sees: u64,
    claimed: Vec<Arc<[u8]>>,
}

impl Conflicts {
    /// Opens a transaction that sees the writes up to `sees`, but not `pending`, the changes of
    /// those up to `added`.
    pub(super) fn begin(&mut self, sees: u64, added: u64, pending: &Changes) -> TransactionId {
        if self.open.is_empty() {
            self.note(pending, added);
        }
        self.last_id += 1;
        let open = Open {
            sees,
            claimed: Vec::new(),
        };
        self.open.insert(self.last_id, open);
        self.last_id
    }

    /// Notes the changes of a write.
    pub(super) fn record(&mut self, changes: &Changes, write: u64) {
        if !self.open.is_empty() {
            self.note(changes, write);
        }
    }

    pub(super) fn claim(&mut self, id: TransactionId, changes: &Changes) -> Result<()> {
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

    /// Checks that nobody has changed a key that a transaction is about to change, and no other
    /// transaction has claimed it.
    pub(super) fn check_key(&self, id: TransactionId, key: &[u8]) -> Result<()> {
        let is_free = self.open.get(&id).is_some_and(|open| {
            let changed = self.changed.get(key);
            let holder = self.claims.get(key);
            changed.is_none_or(|write| *write <= open.sees)
                && holder.is_none_or(|holder| *holder == id)
        });
        is_free.then_some(()).ok_or_else(Error::write_conflict)
    }

    /// Checks that nobody has changed what a transaction changes, nor the collections it wrote to, nor
    /// whether there is a log of what it does.
    pub(super) fn check(&self, id: TransactionId, outcome: &Outcome) -> Result<()> {
        let Some(open) = self.open.get(&id) else {
            return Err(Error::write_conflict());
        };
        let changed_since = |key: &[u8]| {
            self.changed
                .get(key)
                .is_some_and(|write| *write > open.sees)
        };
        let definitions = outcome.written.iter().map(|name| key::catalog(name));
        let mut definitions = definitions.chain([key::change_log()]);
        let mut keys = outcome.changes.keys();
        if keys.any(|key| changed_since(key)) || definitions.any(|key| changed_since(&key)) {
            return Err(Error::write_conflict());
        }
        Ok(())
    }

    pub(super) fn end(&mut self, id: TransactionId) {
        let Some(ended) = self.open.remove(&id) else {
            return;
        };
        for key in ended.claimed {
            self.claims.remove(&key);
        }
        match self.open.values().map(|open| open.sees).min() {
            None => self.changed = HashMap::new(),
            // Only the end of the oldest transaction makes something superfluous.
            Some(oldest) if oldest > ended.sees => self.changed.retain(|_, write| *write > oldest),
            Some(_) => {}
        }
    }

    fn note(&mut self, changes: &Changes, write: u64) {
        for key in changes.keys().filter(|key| key::is_contended(key)) {
            self.changed.insert(Arc::clone(key), write);
        }
    }
}
