use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem;
use std::ops::Bound;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::key;
use crate::overlay::OverlayOutcome;
use crate::store::{Changes, KeyRange};

/// How many recorded keys the table forgets at most for each changed key, of writes that every open transaction sees. To forget all of
/// them at the end of a transaction would take long under a lock.
const FORGOTTEN_KEYS: usize = 2;

/// The number of a transaction.
pub(crate) type TransactionId = u64;

/// The contended keys of many changes. To record the keys one by one would take long under a lock.
pub(super) type KeySet = Arc<BTreeSet<Arc<[u8]>>>;

/// Returns the contended keys of changes.
pub(super) fn contended_keys(changes: &Changes) -> KeySet {
    let keys = changes.keys().filter(|key| key::is_contended(key));
    Arc::new(keys.cloned().collect())
}

/// The open transactions, and the keys that they must not change.
///
/// The first writer of a key wins: the first of several transactions to claim the key, or the first to commit in a race with a
/// plain write. Without open transactions the table is empty.
#[derive(Default)]
pub(super) struct ConflictTable {
    last_id: TransactionId,
    open: BTreeMap<TransactionId, OpenTransaction>,
    claims: HashMap<Arc<[u8]>, TransactionId>,
    /// The claims of writes with many keys.
    large_claims: Vec<(TransactionId, KeySet)>,
    /// The last write of each key, for writes that some open transaction does not see. Can contain earlier writes.
    changed: BTreeMap<Arc<[u8]>, HistoryPosition>,
    /// The keys of `changed` in the order of their last writes.
    history: BTreeMap<HistoryPosition, Arc<[u8]>>,
    /// The number of the last entry of the history.
    last_entry: u64,
    /// Like `changed`, for large commits.
    large_changed: Vec<(u64, KeySet)>,
    /// The keys of a large write that concurrent writes must wait for.
    large_claim: Option<LargeClaim>,
}

/// The position of a changed key in the history of the writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct HistoryPosition {
    write: u64,
    entry: u64,
}

impl HistoryPosition {
    /// The position of the first key of the writes after `write`.
    fn after_write(write: u64) -> HistoryPosition {
        HistoryPosition {
            write: write + 1,
            entry: 0,
        }
    }
}

struct OpenTransaction {
    /// The number of the last write that the transaction sees.
    last_seen_write: u64,
    claimed: Vec<Arc<[u8]>>,
}

/// The data of the table that an ended transaction has needed.
#[derive(Default)]
pub(super) struct EndedTransaction {
    changed: BTreeMap<Arc<[u8]>, HistoryPosition>,
    history: BTreeMap<HistoryPosition, Arc<[u8]>>,
    large: Vec<KeySet>,
}

/// The keys of a large write that is being committed, or repeated after a conflict.
pub(super) struct LargeClaim {
    /// The transaction that may write the keys.
    owner: Option<TransactionId>,
    keys: ClaimedKeys,
}

/// The keys that a large write claims.
#[derive(Clone)]
pub(super) enum ClaimedKeys {
    Of {
        changes: Changes,
        /// The collections with definitions that the changes rely on.
        written: BTreeSet<String>,
    },
    All,
}

impl ClaimedKeys {
    pub(super) fn of(outcome: &OverlayOutcome) -> ClaimedKeys {
        ClaimedKeys::Of {
            changes: outcome.changes.clone(),
            written: outcome.written.clone(),
        }
    }

    /// Adds the keys of another attempt of the same write.
    pub(super) fn and(self, outcome: &OverlayOutcome) -> ClaimedKeys {
        match self {
            ClaimedKeys::All => ClaimedKeys::All,
            ClaimedKeys::Of { changes, written } => ClaimedKeys::Of {
                changes: changes.union(outcome.changes.clone()),
                written: &written | &outcome.written,
            },
        }
    }

    fn contains(&self, key: &[u8]) -> bool {
        match self {
            ClaimedKeys::All => true,
            ClaimedKeys::Of { changes, written } => {
                changes.contains_key(key)
                    || key == key::for_change_log()
                    || written.iter().any(|name| key == key::for_catalog(name))
            }
        }
    }

    /// Whether a different write with this outcome conflicts.
    fn conflicts_with(&self, outcome: &OverlayOutcome) -> bool {
        match self {
            ClaimedKeys::All => !outcome.changes.is_empty(),
            ClaimedKeys::Of { changes, .. } => {
                let mut relied_on = outcome.written.iter().map(|name| key::for_catalog(name));
                overlap(changes, &outcome.changes)
                    || relied_on.any(|key| changes.contains_key(key.as_slice()))
                    || self.has_definition_in(&outcome.changes)
            }
        }
    }

    /// Whether the changes have a definition that the claim relies on.
    fn has_definition_in(&self, changes: &Changes) -> bool {
        let definitions = KeyRange::with_prefix(&key::catalog_prefix());
        let mut definitions = changes.range::<_, [u8]>(definitions.as_bounds());
        definitions.any(|(key, _)| self.contains(key))
            || changes.contains_key(key::for_change_log().as_slice())
    }
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
            self.forget_seen(FORGOTTEN_KEYS * changes.len());
        }
    }

    /// Forgets at most `max_keys` keys of writes that every open transaction sees.
    fn forget_seen(&mut self, max_keys: usize) {
        let oldest = self.open.values().map(|open| open.last_seen_write).min();
        let oldest = oldest.unwrap_or(u64::MAX);
        for _ in 0..max_keys {
            match self.history.first_entry() {
                Some(first) if first.key().write <= oldest => {
                    self.changed.remove(&first.remove());
                }
                _ => return,
            }
        }
    }

    /// Returns at most `max_keys` keys of writes that a transaction does not see, from a position in the history, and the position of
    /// the last of these keys.
    pub(super) fn unseen_keys(
        &self,
        id: TransactionId,
        after: Option<HistoryPosition>,
        max_keys: usize,
    ) -> (Vec<Arc<[u8]>>, Option<HistoryPosition>) {
        let last_seen = self.open.get(&id).map_or(0, |open| open.last_seen_write);
        let first = HistoryPosition::after_write(last_seen);
        let start = match after {
            Some(after) if after >= first => Bound::Excluded(after),
            _ => Bound::Included(first),
        };
        let unseen = self.history.range((start, Bound::Unbounded)).take(max_keys);
        let mut last = after;
        let keys = unseen.map(|(position, key)| {
            last = Some(*position);
            Arc::clone(key)
        });
        (keys.collect(), last)
    }

    /// Whether a transaction is open besides `id`.
    pub(super) fn has_others(&self, id: Option<TransactionId>) -> bool {
        self.open.keys().any(|open| Some(*open) != id)
    }

    /// Records the keys of a large commit.
    pub(super) fn record_large(&mut self, keys: KeySet, write: u64) {
        self.large_changed.push((write, keys));
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

    /// Like [`claim_keys`](Self::claim_keys), for many changes. `keys` has their contended keys.
    pub(super) fn claim_many_keys(
        &mut self,
        id: TransactionId,
        changes: &Changes,
        keys: KeySet,
    ) -> Result<()> {
        let mut claims = self.claims.iter();
        let mut large_claims = self.large_claims.iter();
        let is_claimed = claims.any(|(key, owner)| *owner != id && keys.contains(key))
            || large_claims.any(|(owner, claimed)| *owner != id && share_key(claimed, &keys))
            || self.is_changed_since_begin(id, changes)
            || self.are_claimed_by_large(id, changes);
        if is_claimed {
            return Err(Error::write_conflict());
        }
        self.large_claims.push((id, keys));
        Ok(())
    }

    /// Checks that a transaction may change a key: the key is unchanged since the transaction began, and no other writer has
    /// claimed it.
    pub(super) fn check_key(&self, id: TransactionId, key: &[u8]) -> Result<()> {
        let is_free = self.open.get(&id).is_some_and(|open| {
            let claim_owner = self.claims.get(key);
            !self.is_key_changed_since(open.last_seen_write, key)
                && claim_owner.is_none_or(|claim_owner| *claim_owner == id)
                && !self
                    .large_claims
                    .iter()
                    .any(|(owner, claimed)| *owner != id && claimed.contains(key))
                && !self.is_key_claimed_by_large(id, key)
        });
        is_free.then_some(()).ok_or_else(Error::write_conflict)
    }

    /// Checks at the commit that all keys of a transaction are unchanged, as well as the definitions of its collections, the documents of
    /// the collections that it empties, and the settings of the change log.
    pub(super) fn check_outcome(&self, id: TransactionId, outcome: &OverlayOutcome) -> Result<()> {
        match self.is_changed_since_begin(id, &outcome.changes) {
            true => Err(Error::write_conflict()),
            false => self.check_outcome_without_keys(id, outcome),
        }
    }

    /// As [`check_outcome`](Self::check_outcome), for an outcome that was already compared with the [unseen keys](Self::unseen_keys)
    /// up to a position.
    pub(super) fn check_outcome_from(
        &self,
        id: TransactionId,
        outcome: &OverlayOutcome,
        compared: Option<HistoryPosition>,
    ) -> Result<()> {
        let (keys, _) = self.unseen_keys(id, compared, usize::MAX);
        let is_changed = keys.iter().any(|key| outcome.changes.contains_key(key));
        match is_changed || self.is_changed_by_large(id, &outcome.changes) {
            true => Err(Error::write_conflict()),
            false => self.check_outcome_without_keys(id, outcome),
        }
    }

    fn check_outcome_without_keys(
        &self,
        id: TransactionId,
        outcome: &OverlayOutcome,
    ) -> Result<()> {
        let Some(open) = self.open.get(&id) else {
            return Err(Error::write_conflict());
        };
        let definitions = outcome.written.iter().map(|name| key::for_catalog(name));
        let mut definitions = definitions.chain([key::for_change_log()]);
        let conflicts = definitions
            .any(|key| self.is_key_changed_since(open.last_seen_write, &key))
            || outcome
                .emptied
                .iter()
                .any(|documents| !self.changed_since_begin(id, documents).is_empty())
            || self.is_outcome_claimed_by_large(id, outcome);
        match conflicts {
            true => Err(Error::write_conflict()),
            false => Ok(()),
        }
    }

    /// Makes concurrent writes of these keys wait, or fail if they belong to a transaction, until [`end_large`](Self::end_large). The
    /// transaction `owner` may write the keys.
    pub(super) fn claim_large(&mut self, owner: Option<TransactionId>, keys: ClaimedKeys) {
        self.large_claim = Some(LargeClaim { owner, keys });
    }

    /// Lets a transaction write the claimed keys.
    pub(super) fn set_claim_owner(&mut self, owner: TransactionId) {
        if let Some(claim) = &mut self.large_claim {
            claim.owner = Some(owner);
        }
    }

    /// Ends the claim of a large write. The caller drops the claim without a lock.
    #[must_use]
    pub(super) fn end_large(&mut self) -> Option<LargeClaim> {
        self.large_claim.take()
    }

    /// Whether a plain write with this outcome must wait for a large write.
    pub(super) fn must_wait_for_large(&self, outcome: &OverlayOutcome) -> bool {
        let claim = self.large_claim.as_ref();
        claim.is_some_and(|claim| claim.keys.conflicts_with(outcome))
    }

    /// Whether a large write has claimed the key, and `id` is a different transaction.
    pub(super) fn is_key_claimed_by_large(&self, id: TransactionId, key: &[u8]) -> bool {
        self.is_claimed_by_large(id, |claim| claim.contains(key))
    }

    /// Whether a large write has claimed a key of `changes`, and `id` is a different transaction.
    pub(super) fn are_claimed_by_large(&self, id: TransactionId, changes: &Changes) -> bool {
        self.is_claimed_by_large(id, |claim| match claim {
            ClaimedKeys::All => true,
            ClaimedKeys::Of {
                changes: claimed, ..
            } => overlap(claimed, changes),
        })
    }

    /// Whether a transaction with this outcome conflicts with the claim of a large write.
    pub(super) fn is_outcome_claimed_by_large(
        &self,
        id: TransactionId,
        outcome: &OverlayOutcome,
    ) -> bool {
        self.is_claimed_by_large(id, |claim| claim.conflicts_with(outcome))
    }

    /// Whether there is a claim of a large write.
    pub(super) fn has_large_claim(&self) -> bool {
        self.large_claim.is_some()
    }

    /// Returns the keys with this prefix that were changed since a transaction began.
    pub(super) fn changed_since_begin(
        &self,
        id: TransactionId,
        prefix: &[u8],
    ) -> BTreeSet<Arc<[u8]>> {
        let Some(open) = self.open.get(&id) else {
            return BTreeSet::new();
        };
        let is_later = |write: u64| write > open.last_seen_write;
        let range = KeyRange::with_prefix(prefix);
        let changed = self.changed.range::<[u8], _>(range.as_bounds());
        let changed = changed.filter(|(_, position)| is_later(position.write));
        let mut keys: BTreeSet<_> = changed.map(|(key, _)| Arc::clone(key)).collect();
        for (_, changed) in self
            .large_changed
            .iter()
            .filter(|(write, _)| is_later(*write))
        {
            keys.extend(changed.range::<[u8], _>(range.as_bounds()).cloned());
        }
        keys
    }

    /// Ends a transaction. Returns what the table no longer needs: to drop many changes takes long, so the caller does it without a
    /// lock.
    #[must_use]
    pub(super) fn end_transaction(&mut self, id: TransactionId) -> EndedTransaction {
        let Some(transaction) = self.open.remove(&id) else {
            return EndedTransaction::default();
        };
        for key in transaction.claimed {
            self.claims.remove(&key);
        }
        let mut ended = EndedTransaction::default();
        let large_claims = self.large_claims.extract_if(.., |(owner, _)| *owner == id);
        ended.large.extend(large_claims.map(|(_, keys)| keys));
        match self.open.values().map(|open| open.last_seen_write).min() {
            None => {
                ended.changed = mem::take(&mut self.changed);
                ended.history = mem::take(&mut self.history);
                let large_changed = mem::take(&mut self.large_changed);
                ended
                    .large
                    .extend(large_changed.into_iter().map(|(_, keys)| keys));
            }
            // Only the end of the oldest transaction makes recorded writes superfluous. Later writes forget the small ones.
            Some(oldest) if oldest > transaction.last_seen_write => {
                let seen = self
                    .large_changed
                    .extract_if(.., |(write, _)| *write <= oldest);
                ended.large.extend(seen.map(|(_, keys)| keys));
            }
            Some(_) => {}
        }
        ended
    }

    fn set_last_writer(&mut self, changes: &Changes, write: u64) {
        for key in changes.keys().filter(|key| key::is_contended(key)) {
            self.last_entry += 1;
            let position = HistoryPosition {
                write,
                entry: self.last_entry,
            };
            if let Some(earlier) = self.changed.insert(Arc::clone(key), position) {
                self.history.remove(&earlier);
            }
            self.history.insert(position, Arc::clone(key));
        }
    }

    fn is_key_changed_since(&self, last_seen_write: u64, key: &[u8]) -> bool {
        let changed = self.changed.get(key);
        changed.is_some_and(|position| position.write > last_seen_write)
            || self
                .large_changed
                .iter()
                .any(|(write, changed)| *write > last_seen_write && changed.contains(key))
    }

    /// Whether a contended key of `changes` was changed since a transaction began.
    fn is_changed_since_begin(&self, id: TransactionId, changes: &Changes) -> bool {
        let Some(open) = self.open.get(&id) else {
            return true;
        };
        let last_seen = open.last_seen_write;
        let in_small = match self.changed.len() < changes.len() {
            true => self
                .history
                .range(HistoryPosition::after_write(last_seen)..)
                .any(|(_, key)| changes.contains_key(key)),
            false => changes.keys().any(|key| {
                let position = self.changed.get(key);
                position.is_some_and(|position| position.write > last_seen)
            }),
        };
        in_small || self.is_changed_by_large(id, changes)
    }

    /// Whether a large commit has changed a contended key of `changes` since a transaction began.
    fn is_changed_by_large(&self, id: TransactionId, changes: &Changes) -> bool {
        let Some(open) = self.open.get(&id) else {
            return true;
        };
        self.large_changed.iter().any(|(write, changed)| {
            *write > open.last_seen_write
                && match changed.len() < changes.len() {
                    true => changed.iter().any(|key| changes.contains_key(key)),
                    false => changes.keys().any(|key| changed.contains(key)),
                }
        })
    }

    fn is_claimed_by_large(&self, id: TransactionId, test: impl Fn(&ClaimedKeys) -> bool) -> bool {
        let claim = self
            .large_claim
            .as_ref()
            .filter(|claim| claim.owner != Some(id));
        claim.is_some_and(|claim| test(&claim.keys))
    }
}

fn share_key(a: &KeySet, b: &KeySet) -> bool {
    let (fewer, more) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    fewer.iter().any(|key| more.contains(key))
}

/// Whether two sets of changes have a contended key in common.
fn overlap(a: &Changes, b: &Changes) -> bool {
    let (fewer, more) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let mut contended = fewer.keys().filter(|key| key::is_contended(key));
    contended.any(|key| more.contains_key(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_key(table: &mut ConflictTable, number: u64) {
        write_key_at(table, number, number);
    }

    fn write_key_at(table: &mut ConflictTable, key: u64, write: u64) {
        let key = [key::record_prefix(1), key.to_be_bytes().to_vec()].concat();
        let mut changes = Changes::new();
        changes.insert(key.into(), None);
        table.record_write(&changes, write);
    }

    /// Transactions that overlap for ever, as under a steady load.
    #[test]
    fn the_table_forgets_writes_that_all_transactions_see() {
        let mut table = ConflictTable::default();
        let mut last = table.begin(0, 0, &Changes::new());
        for number in 1..=10_000 {
            write_key(&mut table, number);
            if number % 10 == 0 {
                let next = table.begin(number, number, &Changes::new());
                drop(table.end_transaction(last));
                last = next;
            }
        }
        let recorded = (table.changed.len(), table.history.len());
        assert!(recorded.0 < 100 && recorded.1 < 100, "{recorded:?}");
        // A write that the open transaction does not see stays.
        write_key(&mut table, 10_001);
        for number in 10_002..10_100 {
            write_key(&mut table, number);
        }
        let prefix = key::record_prefix(1);
        assert_eq!(table.changed_since_begin(last, &prefix).len(), 99);
        assert_eq!(table.unseen_keys(last, None, usize::MAX).0.len(), 99);
    }

    /// The history has each key once, at its last write.
    #[test]
    fn unseen_keys_are_read_in_parts() {
        let mut table = ConflictTable::default();
        let first = table.begin(0, 0, &Changes::new());
        for number in 1..=10 {
            write_key(&mut table, number);
            write_key_at(&mut table, 1, number);
        }
        // This transaction does not see the last two writes.
        let second = table.begin(8, 10, &Changes::new());
        let count = |table: &ConflictTable, id, after, max_keys| {
            let (keys, last) = table.unseen_keys(id, after, max_keys);
            (keys.len(), last)
        };
        let (keys, last) = count(&table, first, None, 4);
        assert_eq!(keys, 4);
        let (keys, last) = count(&table, first, last, 100);
        assert_eq!(keys, 6);
        assert_eq!(count(&table, first, last, 100), (0, last));
        // The keys 1, 9 and 10.
        let (keys, last) = count(&table, second, None, 100);
        assert_eq!(keys, 3);
        // The end of the first transaction makes its part of the history superfluous.
        drop(table.end_transaction(first));
        write_key(&mut table, 11);
        assert_eq!(count(&table, second, last, 100).0, 1);
        assert_eq!(count(&table, second, None, 100).0, 4);
    }
}
