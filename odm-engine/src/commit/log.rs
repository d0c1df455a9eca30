//! The change log: what was committed, in order, for those who watch it.
//!
//! Events are numbered without gaps, and this counts for the whole life of a database, also while no log is kept. So a
//! place in the log is a number, and what is behind it is there exactly if its successor has not been dropped.

use std::time::Duration;

use bson::oid::ObjectId;
use bson::{DateTime, RawDocument, RawDocumentBuf, Timestamp};

use crate::change::{Event, Moment, Token};
use crate::direction::Direction;
use crate::document::append;
use crate::error::{Error, Result};
use crate::key;
use crate::store::{Changes, KeyRange, Snapshot, View};

/// How many old events one commit drops beside as many as twice those that it adds: no commit pays for all.
const MIN_DROPPED: u64 = 16;

/// How much of the past a database keeps for those who watch it.
///
/// The oldest events go when a later write finds more than this. The last event always stays.
///
/// ```
/// use std::time::Duration;
/// use odm_engine::{ChangeLog, Database};
///
/// let database = Database::memory();
/// let two_days = ChangeLog { max_age: Some(Duration::from_secs(2 * 24 * 60 * 60)), ..ChangeLog::default() };
/// database.set_change_log(Some(two_days))?;
/// assert_eq!(database.change_log(), Some(two_days));
/// # Ok::<(), odm_engine::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeLog {
    /// How many bytes of events to keep; 32 MiB by default.
    pub max_bytes: u64,
    /// How old events may get, to the millisecond; as old as they do by default.
    pub max_age: Option<Duration>,
}

impl Default for ChangeLog {
    fn default() -> ChangeLog {
        ChangeLog {
            max_bytes: 32 << 20,
            max_age: None,
        }
    }
}

/// The log in one state of the database.
#[derive(Clone)]
pub(crate) struct Log {
    record: Record,
    /// The numbers of the first event that is there, and of the next one to come.
    first: u64,
    next: u64,
    /// The sizes of all events before the first, and of all.
    start: u64,
    end: u64,
    /// The time of the last event, or of the beginning of the log.
    last_time: Timestamp,
}

/// What the store holds about the log as a whole.
#[derive(Clone)]
struct Record {
    id: ObjectId,
    /// `None` while no log is kept.
    keep: Option<ChangeLog>,
    /// The number of the first event since the log was last switched on or off, and when that was.
    begin: u64,
    since: Timestamp,
}

/// What precedes the event in a value of the log.
struct Header {
    /// The sizes of all events before it.
    start: u64,
    moment: Moment,
}

impl Log {
    pub(crate) fn load(view: &View) -> Result<Log> {
        let record = match view.get(&key::change_log())? {
            Some(bytes) => Record::decode(&bytes)?,
            None => Record::new(),
        };
        let mut log = Log::empty(record);
        let events = KeyRange::prefix(&key::events());
        let edge = |direction| view.range(events.clone(), direction).next().transpose();
        if let Some((key, value)) = edge(Direction::Ascending)? {
            log.first = key::event_number(&key)?;
            log.start = Header::split(&value)?.0.start;
        }
        if let Some((key, value)) = edge(Direction::Descending)? {
            let (header, _) = Header::split(&value)?;
            log.next = key::event_number(&key)?.saturating_add(1);
            log.end = header.start.saturating_add(size(&value));
            log.last_time = header.moment.cluster;
        }
        Ok(log)
    }

    fn empty(record: Record) -> Log {
        Log {
            first: record.begin,
            next: record.begin,
            start: 0,
            end: 0,
            last_time: record.since,
            record,
        }
    }

    /// How much is kept; `None` while no log is.
    pub(crate) fn settings(&self) -> Option<ChangeLog> {
        self.record.keep
    }

    /// The place behind the last event.
    pub(crate) fn end(&self) -> Token {
        self.token(self.next.saturating_sub(1), self.last_time)
    }

    fn token(&self, event: u64, time: Timestamp) -> Token {
        Token {
            log: self.record.id,
            event,
            time,
        }
    }

    /// Refuses a place that events behind which are not there any more, or never were.
    ///
    /// # Errors
    /// History lost; damaged.
    pub(crate) fn check(&self, view: &View, place: &Token) -> Result<()> {
        if place.log != self.record.id {
            return Err(Error::history_unknown("it is of another database"));
        }
        if self.is_lost(place) {
            return Err(self.lost());
        }
        let after = place.event.saturating_add(1);
        let is_beginning = after == self.first && self.is_whole();
        let known = if is_beginning {
            Some(self.record.since)
        } else {
            let event = self.event(view, place.event)?;
            event.map(|(_, moment)| moment.cluster)
        };
        match known {
            Some(time) if time == place.time => Ok(()),
            None if after == self.first => Err(self.lost()),
            _ => {
                let why = "it is not of this database as it is now, which may have been restored \
                           from a backup";
                Err(Error::history_unknown(why))
            }
        }
    }

    /// The place before the first event of `time` or later.
    ///
    /// # Errors
    /// History lost; damaged.
    pub(crate) fn before(&self, view: &View, time: Timestamp) -> Result<Token> {
        let (mut low, mut high) = (self.first, self.next);
        let mut place = self.token(self.first.saturating_sub(1), self.record.since);
        while low < high {
            let middle = low + (high - low) / 2;
            let Some((_, moment)) = self.event(view, middle)? else {
                return Err(Error::damaged("an event of the change log is missing"));
            };
            if moment.cluster < time {
                place = self.token(middle, moment.cluster);
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let is_before_all = low == self.first;
        if is_before_all && !(self.is_whole() && time >= self.record.since) {
            return Err(self.lost());
        }
        Ok(place)
    }

    /// Whether [`after`](Log::after) has something to say about a place.
    pub(crate) fn goes_on(&self, place: &Token) -> bool {
        self.is_lost(place) || place.event < self.next.saturating_sub(1)
    }

    /// The event behind a place that has been [checked](Log::check) in an earlier state, and the place behind it; `None`
    /// if it is not there yet.
    ///
    /// # Errors
    /// History lost; damaged.
    pub(crate) fn after(
        &self,
        view: &View,
        place: &Token,
    ) -> Result<Option<(Event, Moment, Token)>> {
        if self.is_lost(place) {
            return Err(self.lost());
        }
        let number = place.event.saturating_add(1);
        let event = self.event(view, number)?;
        Ok(event.map(|(event, moment)| {
            let place = self.token(number, moment.cluster);
            (event, moment, place)
        }))
    }

    /// Whether events behind a place have been dropped, or not been logged.
    fn is_lost(&self, place: &Token) -> bool {
        let after = place.event.saturating_add(1);
        let is_of_former_log = after == self.record.begin && place.time < self.record.since;
        self.record.keep.is_none() || after < self.first || is_of_former_log
    }

    /// The event with a number, and when it was committed. `None` if it has been dropped or is not there yet.
    fn event(&self, view: &View, number: u64) -> Result<Option<(Event, Moment)>> {
        if number < self.first || number >= self.next {
            return Ok(None);
        }
        let Some(value) = view.get(&key::event(number))? else {
            return Err(Error::damaged("an event of the change log is missing"));
        };
        let (header, body) = Header::split(&value)?;
        Ok(Some((Event::from_bytes(body)?, header.moment)))
    }

    fn lost(&self) -> Error {
        Error::history_lost(self.record.keep.is_some())
    }

    /// Switches the log on, changes what it keeps, or switches it off, which drops all events.
    pub(crate) fn configure(&mut self, view: &View, keep: Option<ChangeLog>) -> Result<Changes> {
        let mut changes = Changes::new();
        let switched = keep.is_some() != self.record.keep.is_some();
        self.record.keep = keep;
        if switched {
            self.record.begin = self.next;
            self.record.since = following(self.last_time, DateTime::now());
            *self = Log::empty(self.record.clone());
        }
        if keep.is_none() {
            for entry in view.range(KeyRange::prefix(&key::events()), Direction::Ascending) {
                changes.insert(entry?.0.to_vec().into(), None);
            }
        }
        let record = self.record.encode();
        changes.insert(key::change_log().into(), Some(record.as_bytes().into()));
        Ok(changes)
    }

    /// Adds the events of one commit to its changes, and drops old ones that are too many.
    pub(crate) fn add(
        &mut self,
        view: &View,
        changes: &mut Changes,
        events: &[Event],
    ) -> Result<()> {
        let Some(keep) = self.record.keep.filter(|_| !events.is_empty()) else {
            return Ok(());
        };
        let added = self.next;
        let wall = DateTime::now();
        let moment = Moment {
            cluster: following(self.last_time, wall),
            wall,
        };
        for event in events {
            let header = Header {
                start: self.end,
                moment,
            };
            let value = header.join(event);
            self.end = self.end.saturating_add(size(&value));
            changes.insert(key::event(self.next).into(), Some(value.into()));
            self.next = self.next.saturating_add(1);
        }
        self.last_time = moment.cluster;
        self.drop_oldest(view, changes, keep, added, wall)
    }

    fn drop_oldest(
        &mut self,
        view: &View,
        changes: &mut Changes,
        keep: ChangeLog,
        added: u64,
        now: DateTime,
    ) -> Result<()> {
        let max_age = keep
            .max_age
            .and_then(|age| i64::try_from(age.as_millis()).ok());
        let oldest = max_age.map(|age| now.timestamp_millis().saturating_sub(age));
        let most = MIN_DROPPED.saturating_add(self.next.saturating_sub(added).saturating_mul(2));
        let end = added.min(self.first.saturating_add(most));
        while self.first < end {
            let is_too_much = self.end.saturating_sub(self.start) > keep.max_bytes;
            if !is_too_much && oldest.is_none() {
                break;
            }
            let key = key::event(self.first);
            let Some(value) = view.get(&key)? else {
                return Err(Error::damaged("an event of the change log is missing"));
            };
            let (header, _) = Header::split(&value)?;
            let wall = header.moment.wall.timestamp_millis();
            if !is_too_much && oldest.is_none_or(|oldest| wall >= oldest) {
                break;
            }
            changes.insert(key.into(), None);
            self.start = header.start.saturating_add(size(&value)).min(self.end);
            self.first += 1;
        }
        Ok(())
    }

    /// Whether no event has been dropped since the log was switched on.
    fn is_whole(&self) -> bool {
        self.first == self.record.begin
    }
}

impl Record {
    /// Of a database that has never kept a log.
    fn new() -> Record {
        Record {
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
        append(&mut document, "id", self.id);
        append(&mut document, "begin", saturating(self.begin));
        append(&mut document, "since", self.since);
        if let Some(keep) = self.keep {
            append(&mut document, "maxBytes", saturating(keep.max_bytes));
            if let Some(age) = keep.max_age {
                let millis = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
                append(&mut document, "maxAgeMillis", saturating(millis));
            }
        }
        document
    }

    fn decode(bytes: &[u8]) -> Result<Record> {
        let damaged = |_| Error::damaged("the record of the change log cannot be read");
        let document = RawDocument::from_bytes(bytes).map_err(damaged)?;
        let number = |name| document.get_i64(name).map(i64::unsigned_abs);
        let keep = number("maxBytes").ok().map(|max_bytes| ChangeLog {
            max_bytes,
            max_age: number("maxAgeMillis").ok().map(Duration::from_millis),
        });
        Ok(Record {
            id: document.get_object_id("id").map_err(damaged)?,
            keep,
            begin: number("begin").map_err(damaged)?,
            since: document.get_timestamp("since").map_err(damaged)?,
        })
    }
}

impl Header {
    fn join(&self, event: &Event) -> Vec<u8> {
        let (moment, body) = (self.moment, event.as_bytes());
        let mut value = Vec::with_capacity(24 + body.len());
        value.extend_from_slice(&self.start.to_be_bytes());
        value.extend_from_slice(&moment.cluster.time.to_be_bytes());
        value.extend_from_slice(&moment.cluster.increment.to_be_bytes());
        value.extend_from_slice(&moment.wall.timestamp_millis().to_be_bytes());
        value.extend_from_slice(body);
        value
    }

    /// The header and the bytes of the event.
    fn split(value: &[u8]) -> Result<(Header, &[u8])> {
        let read = || {
            let (start, rest) = value.split_first_chunk()?;
            let (time, rest) = rest.split_first_chunk()?;
            let (increment, rest) = rest.split_first_chunk()?;
            let (wall, rest) = rest.split_first_chunk()?;
            let cluster = Timestamp {
                time: u32::from_be_bytes(*time),
                increment: u32::from_be_bytes(*increment),
            };
            let wall = DateTime::from_millis(i64::from_be_bytes(*wall));
            let header = Header {
                start: u64::from_be_bytes(*start),
                moment: Moment { cluster, wall },
            };
            Some((header, rest))
        };
        read().ok_or_else(|| Error::damaged("an event of the change log is too short"))
    }
}

/// The first time after `last` that is not before `now`.
fn following(last: Timestamp, now: DateTime) -> Timestamp {
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

/// What a value of the log counts for.
fn size(value: &[u8]) -> u64 {
    u64::try_from(value.len()).unwrap_or(u64::MAX)
}

fn saturating(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_only_grow() {
        let at = |time, increment| Timestamp { time, increment };
        let now = |seconds: i64| DateTime::from_millis(seconds * 1000 + 999);
        assert_eq!(following(at(5, 7), now(6)), at(6, 1));
        assert_eq!(following(at(5, 7), now(5)), at(5, 8));
        assert_eq!(following(at(5, 7), now(-9)), at(5, 8));
        assert_eq!(following(at(5, u32::MAX), now(5)), at(6, 1));
    }
}
