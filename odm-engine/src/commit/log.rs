//! The change log: committed events in order, for change streams.
//!
//! Event numbers have no gaps over the whole life of a database, even if the log was off for a while. So a position in the log is
//! a number. The events after a position are complete exactly if the next number has not been dropped.

use std::time::Duration;

use bson::oid::ObjectId;
use bson::{DateTime, RawDocument, RawDocumentBuf, Timestamp};

use crate::change::{ChangeEvent, EventTime, ResumeToken};
use crate::direction::Direction;
use crate::document::append_field;
use crate::error::{Error, Result};
use crate::key;
use crate::store::{Changes, KeyRange, Snapshot, StoreView};

/// How many old events a commit drops at least, in addition to twice the number of its new events. The limit spreads the cost of
/// dropping over many commits.
const MIN_DROPPED_EVENTS: u64 = 16;

/// The limits of the change log: how much history a database keeps for change streams.
///
/// A later write drops the oldest events beyond these limits. The last event always stays.
///
/// ```
/// use std::time::Duration;
/// use odm_engine::{ChangeLogLimits, Database};
///
/// let database = Database::memory();
/// let two_days = ChangeLogLimits { max_age: Some(Duration::from_secs(2 * 24 * 60 * 60)), ..ChangeLogLimits::default() };
/// database.set_change_log(Some(two_days))?;
/// assert_eq!(database.change_log(), Some(two_days));
/// # Ok::<(), odm_engine::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeLogLimits {
    /// The limit of the log's size, in bytes of events. The default is 32 MiB.
    pub max_bytes: u64,
    /// The limit of an event's age, in whole milliseconds. There is no limit by default.
    pub max_age: Option<Duration>,
}

impl Default for ChangeLogLimits {
    fn default() -> ChangeLogLimits {
        ChangeLogLimits {
            max_bytes: 32 << 20,
            max_age: None,
        }
    }
}

/// The change log in one state of the database.
#[derive(Clone)]
pub(crate) struct LogState {
    record: LogRecord,
    /// The number of the first retained event.
    first: u64,
    /// The number of the next event.
    next: u64,
    /// The total size of all events before the first retained event, in bytes.
    start: u64,
    /// The total size of all events ever logged, in bytes.
    end: u64,
    /// The cluster time of the last event, or of the beginning of the log.
    last_time: Timestamp,
}

/// The stored settings of the log.
#[derive(Clone)]
struct LogRecord {
    id: ObjectId,
    /// `None` while the log is off.
    keep: Option<ChangeLogLimits>,
    /// The number of the first event since the log was last switched on or off.
    begin: u64,
    /// When the log was last switched on or off.
    since: Timestamp,
}

/// The bytes before an event in a stored value of the log.
struct EventHeader {
    /// The total size of all earlier events, in bytes.
    start: u64,
    moment: EventTime,
}

impl LogState {
    pub(crate) fn load(view: &StoreView) -> Result<LogState> {
        let record = match view.get(&key::for_change_log())? {
            Some(bytes) => LogRecord::decode(&bytes)?,
            None => LogRecord::new(),
        };
        let mut log = LogState::empty(record);
        let events = KeyRange::with_prefix(&key::event_prefix());
        let edge = |direction| view.range(events.clone(), direction).next().transpose();
        if let Some((key, value)) = edge(Direction::Ascending)? {
            log.first = key::event_number(&key)?;
            log.start = EventHeader::split_value(&value)?.0.start;
        }
        if let Some((key, value)) = edge(Direction::Descending)? {
            let (header, _) = EventHeader::split_value(&value)?;
            log.next = key::event_number(&key)?.saturating_add(1);
            log.end = header.start.saturating_add(value_size(&value));
            log.last_time = header.moment.cluster_time;
        }
        Ok(log)
    }

    fn empty(record: LogRecord) -> LogState {
        LogState {
            first: record.begin,
            next: record.begin,
            start: 0,
            end: 0,
            last_time: record.since,
            record,
        }
    }

    /// The limits of the log; `None` while the log is off.
    pub(crate) fn settings(&self) -> Option<ChangeLogLimits> {
        self.record.keep
    }

    /// Returns a cluster time that is not before the last event, and not after the next event.
    pub(crate) fn cluster_time(&self, now: DateTime) -> Timestamp {
        let next = next_cluster_time(self.last_time, now);
        match next.time > self.last_time.time {
            true => next,
            false => self.last_time,
        }
    }

    /// The position after the last event.
    pub(crate) fn end_token(&self) -> ResumeToken {
        self.token_at(self.next.saturating_sub(1), self.last_time)
    }

    fn token_at(&self, event: u64, time: Timestamp) -> ResumeToken {
        ResumeToken {
            log: self.record.id,
            event,
            time,
        }
    }

    /// Checks that all events after a position are available, and that the position is in the history of this database.
    ///
    /// # Errors
    /// History lost; damaged.
    pub(crate) fn check_token(&self, view: &StoreView, place: &ResumeToken) -> Result<()> {
        if place.log != self.record.id {
            return Err(Error::history_unknown(
                "the token is from a different database",
            ));
        }
        if self.is_lost(place) {
            return Err(self.lost_error());
        }
        let after = place.event.saturating_add(1);
        let is_beginning = after == self.first && self.is_complete();
        let known = if is_beginning {
            Some(self.record.since)
        } else {
            let event = self.read_event(view, place.event)?;
            event.map(|(_, moment)| moment.cluster_time)
        };
        match known {
            Some(time) if time == place.time => Ok(()),
            None if after == self.first => Err(self.lost_error()),
            _ => {
                let reason = "the token is not in this database's history; the database may have been restored \
                           from a backup";
                Err(Error::history_unknown(reason))
            }
        }
    }

    /// Returns the position before the first event with cluster time `time` or later.
    ///
    /// # Errors
    /// History lost; damaged.
    pub(crate) fn token_before(&self, view: &StoreView, time: Timestamp) -> Result<ResumeToken> {
        let (mut low, mut high) = (self.first, self.next);
        let mut place = self.token_at(self.first.saturating_sub(1), self.record.since);
        while low < high {
            let middle = low + (high - low) / 2;
            let Some((_, moment)) = self.read_event(view, middle)? else {
                return Err(Error::damaged("an event of the change log is missing"));
            };
            if moment.cluster_time < time {
                place = self.token_at(middle, moment.cluster_time);
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let is_before_all = low == self.first;
        if is_before_all && !(self.is_complete() && time >= self.record.since) {
            return Err(self.lost_error());
        }
        Ok(place)
    }

    /// Whether [`event_after`](LogState::event_after) returns an event or an error for a position.
    pub(crate) fn has_next(&self, place: &ResumeToken) -> bool {
        self.is_lost(place) || place.event < self.next.saturating_sub(1)
    }

    /// Returns the event after a position, with the next position; `None` if the event is not committed yet. The position must
    /// have been [checked](LogState::check_token) in an earlier state.
    ///
    /// # Errors
    /// History lost; damaged.
    pub(crate) fn event_after(
        &self,
        view: &StoreView,
        place: &ResumeToken,
    ) -> Result<Option<(ChangeEvent, EventTime, ResumeToken)>> {
        if self.is_lost(place) {
            return Err(self.lost_error());
        }
        let number = place.event.saturating_add(1);
        let event = self.read_event(view, number)?;
        Ok(event.map(|(event, moment)| {
            let place = self.token_at(number, moment.cluster_time);
            (event, moment, place)
        }))
    }

    /// Whether events after a position were dropped or not logged.
    fn is_lost(&self, place: &ResumeToken) -> bool {
        let after = place.event.saturating_add(1);
        let is_of_former_log = after == self.record.begin && place.time < self.record.since;
        self.record.keep.is_none() || after < self.first || is_of_former_log
    }

    /// Returns the event with a number, and its commit time. `None` if the event was dropped or is not committed yet.
    fn read_event(
        &self,
        view: &StoreView,
        number: u64,
    ) -> Result<Option<(ChangeEvent, EventTime)>> {
        if number < self.first || number >= self.next {
            return Ok(None);
        }
        let Some(value) = view.get(&key::for_event(number))? else {
            return Err(Error::damaged("an event of the change log is missing"));
        };
        let (header, body) = EventHeader::split_value(&value)?;
        Ok(Some((ChangeEvent::from_bytes(body)?, header.moment)))
    }

    fn lost_error(&self) -> Error {
        Error::history_lost(self.record.keep.is_some())
    }

    /// Switches the log on, changes its limits, or switches it off. Switching off drops all events.
    pub(crate) fn configure(
        &mut self,
        view: &StoreView,
        limits: Option<ChangeLogLimits>,
    ) -> Result<Changes> {
        let mut changes = Changes::new();
        let switched = limits.is_some() != self.record.keep.is_some();
        self.record.keep = limits;
        if switched {
            self.record.begin = self.next;
            self.record.since = next_cluster_time(self.last_time, DateTime::now());
            *self = LogState::empty(self.record.clone());
        }
        if limits.is_none() {
            for entry in view.range(
                KeyRange::with_prefix(&key::event_prefix()),
                Direction::Ascending,
            ) {
                changes.insert(entry?.0.to_vec().into(), None);
            }
        }
        let record = self.record.encode();
        changes.insert(key::for_change_log().into(), Some(record.as_bytes().into()));
        Ok(changes)
    }

    /// Adds the events of one commit to its changes, and drops old events beyond the limits.
    pub(crate) fn add_events(
        &mut self,
        view: &StoreView,
        changes: &mut Changes,
        events: &[ChangeEvent],
    ) -> Result<()> {
        let Some(limits) = self.record.keep.filter(|_| !events.is_empty()) else {
            return Ok(());
        };
        let added = self.next;
        let wall_time = DateTime::now();
        let moment = EventTime {
            cluster_time: next_cluster_time(self.last_time, wall_time),
            wall_time,
        };
        for event in events {
            let header = EventHeader {
                start: self.end,
                moment,
            };
            let value = header.encode_with(event);
            self.end = self.end.saturating_add(value_size(&value));
            changes.insert(key::for_event(self.next).into(), Some(value.into()));
            self.next = self.next.saturating_add(1);
        }
        self.last_time = moment.cluster_time;
        self.drop_oldest(view, changes, limits, added, wall_time)
    }

    fn drop_oldest(
        &mut self,
        view: &StoreView,
        changes: &mut Changes,
        limits: ChangeLogLimits,
        added: u64,
        now: DateTime,
    ) -> Result<()> {
        let max_age = limits
            .max_age
            .and_then(|age| i64::try_from(age.as_millis()).ok());
        let oldest = max_age.map(|age| now.timestamp_millis().saturating_sub(age));
        let max_dropped =
            MIN_DROPPED_EVENTS.saturating_add(self.next.saturating_sub(added).saturating_mul(2));
        let end = added.min(self.first.saturating_add(max_dropped));
        while self.first < end {
            let exceeds_bytes = self.end.saturating_sub(self.start) > limits.max_bytes;
            if !exceeds_bytes && oldest.is_none() {
                break;
            }
            let key = key::for_event(self.first);
            let Some(value) = view.get(&key)? else {
                return Err(Error::damaged("an event of the change log is missing"));
            };
            let (header, _) = EventHeader::split_value(&value)?;
            let wall_time = header.moment.wall_time.timestamp_millis();
            if !exceeds_bytes && oldest.is_none_or(|oldest| wall_time >= oldest) {
                break;
            }
            changes.insert(key.into(), None);
            self.start = header
                .start
                .saturating_add(value_size(&value))
                .min(self.end);
            self.first += 1;
        }
        Ok(())
    }

    /// Whether no event was dropped since the log was switched on.
    fn is_complete(&self) -> bool {
        self.first == self.record.begin
    }
}

impl LogRecord {
    /// Returns the record of a database that has never kept a log.
    fn new() -> LogRecord {
        LogRecord {
            id: ObjectId::new(),
            keep: None,
            begin: 1,
            since: Timestamp {
                time: 0,
                increment: 0,
            },
        }
    }

    fn encode(&self) -> RawDocumentBuf {
        let mut document = RawDocumentBuf::new();
        append_field(&mut document, "id", self.id);
        append_field(&mut document, "begin", saturate_to_i64(self.begin));
        append_field(&mut document, "since", self.since);
        if let Some(limits) = self.keep {
            append_field(&mut document, "maxBytes", saturate_to_i64(limits.max_bytes));
            if let Some(age) = limits.max_age {
                let millis = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
                append_field(&mut document, "maxAgeMillis", saturate_to_i64(millis));
            }
        }
        document
    }

    fn decode(bytes: &[u8]) -> Result<LogRecord> {
        let damaged = |_| Error::damaged("the record of the change log cannot be read");
        let document = RawDocument::from_bytes(bytes).map_err(damaged)?;
        let number = |name| document.get_i64(name).map(i64::unsigned_abs);
        let limits = number("maxBytes").ok().map(|max_bytes| ChangeLogLimits {
            max_bytes,
            max_age: number("maxAgeMillis").ok().map(Duration::from_millis),
        });
        Ok(LogRecord {
            id: document.get_object_id("id").map_err(damaged)?,
            keep: limits,
            begin: number("begin").map_err(damaged)?,
            since: document.get_timestamp("since").map_err(damaged)?,
        })
    }
}

impl EventHeader {
    fn encode_with(&self, event: &ChangeEvent) -> Vec<u8> {
        let (moment, body) = (self.moment, event.as_bytes());
        let mut value = Vec::with_capacity(24 + body.len());
        value.extend_from_slice(&self.start.to_be_bytes());
        value.extend_from_slice(&moment.cluster_time.time.to_be_bytes());
        value.extend_from_slice(&moment.cluster_time.increment.to_be_bytes());
        value.extend_from_slice(&moment.wall_time.timestamp_millis().to_be_bytes());
        value.extend_from_slice(body);
        value
    }

    /// Splits a stored value into the header and the bytes of the event.
    fn split_value(value: &[u8]) -> Result<(EventHeader, &[u8])> {
        let read = || {
            let (start, rest) = value.split_first_chunk()?;
            let (time, rest) = rest.split_first_chunk()?;
            let (increment, rest) = rest.split_first_chunk()?;
            let (wall_time, rest) = rest.split_first_chunk()?;
            let cluster = Timestamp {
                time: u32::from_be_bytes(*time),
                increment: u32::from_be_bytes(*increment),
            };
            let wall_time = DateTime::from_millis(i64::from_be_bytes(*wall_time));
            let header = EventHeader {
                start: u64::from_be_bytes(*start),
                moment: EventTime {
                    cluster_time: cluster,
                    wall_time,
                },
            };
            Some((header, rest))
        };
        read().ok_or_else(|| Error::damaged("an event of the change log is too short"))
    }
}

/// Returns the first cluster time that is after `last` and not before `now`.
fn next_cluster_time(last: Timestamp, now: DateTime) -> Timestamp {
    let seconds = now.timestamp_millis().max(0) / 1000;
    let time = u32::try_from(seconds).unwrap_or(u32::MAX);
    if time > last.time {
        return Timestamp { time, increment: 1 };
    }
    match last.increment.checked_add(1) {
        Some(increment) => Timestamp {
            time: last.time,
            increment,
        },
        None => Timestamp {
            time: last.time.saturating_add(1),
            increment: 1,
        },
    }
}

/// The size of a stored value, as counted for the limit.
fn value_size(value: &[u8]) -> u64 {
    u64::try_from(value.len()).unwrap_or(u64::MAX)
}

fn saturate_to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cluster_time_is_between_the_events() {
        let at = |time, increment| Timestamp { time, increment };
        let mut log = LogState::empty(LogRecord::new());
        let now = DateTime::from_millis(5_400);
        log.last_time = at(5, 7);
        assert_eq!(log.cluster_time(now), at(5, 7));
        log.last_time = at(4, 7);
        assert_eq!(log.cluster_time(now), at(5, 1));
        assert_eq!(next_cluster_time(log.last_time, now), at(5, 1));
        log.last_time = at(4_000, u32::MAX);
        assert!(log.cluster_time(now) >= at(4_000, u32::MAX));
    }

    #[test]
    fn cluster_times_always_increase() {
        let at = |time, increment| Timestamp { time, increment };
        let now = |seconds: i64| DateTime::from_millis(seconds * 1000 + 999);
        assert_eq!(next_cluster_time(at(5, 7), now(6)), at(6, 1));
        assert_eq!(next_cluster_time(at(5, 7), now(5)), at(5, 8));
        assert_eq!(next_cluster_time(at(5, 7), now(-9)), at(5, 8));
        assert_eq!(next_cluster_time(at(5, u32::MAX), now(5)), at(6, 1));
    }
}
