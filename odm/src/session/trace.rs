//! Tracing of operations: a span for each operation, and warnings about slow patterns.
//!
//! | target | level | content |
//! |---|---|---|
//! | `odm` | debug | a span `operation` for each typed operation, with `operation`, `model`, `collection`, and at the end `queries`, `writes` and `documents` |
//! | `odm::advice` | warn | N+1 queries: the same query many times in one task with different values; a stored array near its `max` |
//! | `odm::operation` | debug | an event for each operation of the backend, with its duration; a warning for a slow operation |
//! | `odm::retry` | debug | the reason of each retry, and of each change of the strategy of a write |
//! | `odm::indexes` | warn | a declared index that the database does not have |
//! | `odm::plan` | debug | the plan of each query and of each write with a condition; a warning for a scan; a push by id that leaves an array near its `max` |
//!
//! Only the target `odm::plan` sends additional requests to the database. Each query is evaluated twice, so use the target in
//! development: `RUST_LOG=odm::plan=debug`. The plan of a pipeline is the plan of the first `$match`. In a transaction, the plan
//! is computed for the documents outside of the transaction.

use std::{
    collections::HashMap,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bson::{RawBsonRef, RawDocument};
use tracing::{Level, Span, field::Empty};

use crate::{
    Error, ErrorKind,
    backend::operation::{Explain, FindOperation},
    schema::Model,
};

/// The metrics of one typed operation: numbers of queries, writes and documents.
pub(crate) struct OperationMetrics {
    name: &'static str,
    model: Option<&'static Model>,
    span: OnceLock<Span>,
    queries: AtomicU64,
    writes: AtomicU64,
    documents: AtomicU64,
}

impl OperationMetrics {
    /// Returns the model of the operation, or `None` for an operation on several models.
    pub(crate) fn model(&self) -> Option<&'static Model> {
        self.model
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn new(name: &'static str, model: Option<&'static Model>) -> Self {
        Self {
            name,
            model,
            span: OnceLock::new(),
            queries: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            documents: AtomicU64::new(0),
        }
    }

    /// Returns metrics for a new run of the same operation.
    pub(crate) fn fresh_copy(&self) -> Self {
        Self::new(self.name, self.model)
    }

    /// Returns the span. The span starts with the first request to the backend.
    pub(crate) fn tracing_span(&self) -> &Span {
        self.span.get_or_init(|| {
            let span = tracing::debug_span!(
                target: "odm", "operation",
                operation = self.name, model = Empty, collection = Empty, queries = Empty, writes = Empty,
                documents = Empty
            );
            if let Some(model) = self.model {
                span.record("model", model.name);
                span.record("collection", model.collection);
            }
            span
        })
    }

    pub(crate) fn add_query(&self) {
        self.queries.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_write(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_documents(&self, documents: u64) {
        self.documents.fetch_add(documents, Ordering::Relaxed);
    }
}

impl Drop for OperationMetrics {
    fn drop(&mut self) {
        if let Some(span) = self.span.get() {
            span.record("queries", *self.queries.get_mut());
            span.record("writes", *self.writes.get_mut());
            span.record("documents", *self.documents.get_mut());
        }
    }
}

impl fmt::Debug for OperationMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Returns whether the target `odm::plan` is enabled.
pub(crate) fn is_plan_logged() -> bool {
    tracing::enabled!(target: "odm::plan", Level::DEBUG)
}

/// Logs the plan of a query, with a warning for a scan.
pub(crate) fn log_plan(model: &Model, filter: &RawDocument, explain: &Explain) {
    let indexes = explain.indexes.join(", ");
    tracing::debug!(
        target: "odm::plan",
        model = model.name, filter = %without_values(filter), indexes, scan = explain.is_collection_scan,
        sorted_afterwards = explain.is_sorted_in_memory, keys_examined = explain.keys_examined,
        documents_examined = explain.documents_examined, returned = explain.returned,
        "plan"
    );
    // A query without a filter needs a scan anyway.
    if explain.is_collection_scan && filter.iter().next().is_some() {
        tracing::warn!(
            target: "odm::plan",
            model = model.name, filter = %without_values(filter), documents_examined = explain.documents_examined,
            returned = explain.returned,
            "collection scan: no index serves this filter; declare an index with `#[index]` or `index(…)`"
        );
    }
}

/// Warns that follow-up work failed after the write. The work stays recorded in the documents, and a later recovery runs it again.
/// A rejecting document has a warning of its own, and the end of the work after a `close` is no failure.
pub(crate) fn log_still_pending(work: &str, model: Option<&Model>, error: &Error) {
    let model = model.map_or(error.model(), |model| Some(model.name));
    if matches!(error.kind(), ErrorKind::Closed | ErrorKind::StillPending) {
        tracing::debug!(target: "odm", model, %error, "{work} ends and stays pending");
    } else {
        tracing::warn!(target: "odm", model, %error, "{work} failed and stays pending");
    }
}

/// Warns if a stored array has at least 90 % of its maximum number of elements.
pub(crate) fn warn_near_max(path: impl fmt::Display, length: usize, max: usize) {
    if length >= near_max(max) {
        tracing::warn!(
            target: "odm::advice",
            path = %path, elements = length, max,
            "the array is near its `max`; if it grows without bound, use an overflow array or a collection of its own"
        );
    }
}

/// Returns the number of elements from which an array is near its maximum. Small arrays are never near: a full small array is
/// normal.
pub(crate) fn near_max(max: usize) -> usize {
    match max {
        0..20 => usize::MAX,
        _ => max - max / 10,
    }
}

/// The number of queries with different values within [`REPETITION_WINDOW`] that makes an N+1 query.
const MIN_N_PLUS_ONE_QUERIES: u32 = 10;
/// The time window for counting queries.
const REPETITION_WINDOW: Duration = Duration::from_secs(1);
/// The maximum number of query shapes to remember.
const MAX_QUERY_SHAPES: usize = 1_024;

/// Detects N+1 queries: counts recent queries by shape, which is the query without its values.
#[derive(Default)]
pub(crate) struct NPlusOneDetector {
    counts: Mutex<HashMap<u64, ShapeCount>>,
    /// Whether an N+1 query is a panic, in a test database. Otherwise an N+1 query is a warning.
    panics: bool,
}

struct ShapeCount {
    first: Instant,
    times: u32,
    values: Option<u64>,
    is_reported: bool,
}

impl NPlusOneDetector {
    /// Creates a detector that panics at an N+1 query.
    pub(crate) fn panicking() -> Self {
        Self {
            panics: true,
            ..Self::default()
        }
    }

    /// Records a query, and logs a warning if many queries of the same shape should be one query.
    pub(crate) fn record_query(&self, model: &Model, find: &FindOperation) {
        if !self.panics && !tracing::enabled!(target: "odm::advice", Level::WARN) {
            return;
        }
        let (mut shape, mut values) = (DefaultHasher::new(), DefaultHasher::new());
        tokio::task::try_id().hash(&mut shape);
        model.name.hash(&mut shape);
        hash_filter(&find.filter, &mut shape, &mut values);
        let (shape, values) = (shape.finish(), values.finish());
        let mut seen = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= MAX_QUERY_SHAPES && !seen.contains_key(&shape) {
            seen.clear();
        }
        let now = Instant::now();
        let seen = seen.entry(shape).or_insert(ShapeCount {
            first: now,
            times: 0,
            values: None,
            is_reported: false,
        });
        if now.duration_since(seen.first) > REPETITION_WINDOW {
            (seen.first, seen.times) = (now, 0);
        }
        // A query with the same values is a retry or a poll, and does not count.
        if seen.values.replace(values) != Some(values) {
            seen.times += 1;
        }
        if seen.times >= MIN_N_PLUS_ONE_QUERIES && !seen.is_reported {
            seen.is_reported = true;
            assert!(
                !self.panics,
                "N+1 query: {} queries of {} by {} ran with different values; read all documents at once with `get_many` or \
                 `is_in`, or join with `with` and `with_children`",
                seen.times,
                model.name,
                without_values(&find.filter)
            );
            tracing::warn!(
                target: "odm::advice",
                model = model.name, filter = %without_values(&find.filter), times = seen.times,
                "N+1 query: the same query runs again and again with different values; read all documents at once with `get_many` or \
                 `is_in`, or join with `with` and `with_children`"
            );
        }
    }
}

impl fmt::Debug for NPlusOneDetector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Repetition")
    }
}

/// Hashes the shape of a filter and its values separately.
fn hash_filter(filter: &RawDocument, shape: &mut DefaultHasher, values: &mut DefaultHasher) {
    for (name, value) in filter.iter().flatten() {
        name.as_str().hash(shape);
        match value {
            RawBsonRef::Document(inner) => hash_filter(inner, shape, values),
            // The branches of an `$or`, or a list of values: such a query reads many documents already.
            RawBsonRef::Array(array) => {
                array.as_bytes().hash(shape);
            }
            other => bytes_of(other).hash(values),
        }
    }
}

fn bytes_of(value: RawBsonRef<'_>) -> Vec<u8> {
    let mut bytes = bson::RawDocumentBuf::new();
    bytes.append(bson::raw::cstr!(""), value);
    bytes.into_bytes()
}

/// Formats a filter without its values, as values may be confidential.
fn without_values(filter: &RawDocument) -> String {
    fn write_shape(filter: &RawDocument, text: &mut String) {
        text.push('{');
        for (position, (name, value)) in filter.iter().flatten().enumerate() {
            let comma = if position > 0 { ", " } else { "" };
            text.push_str(&format!("{comma}{name}: "));
            match value {
                RawBsonRef::Document(inner) => write_shape(inner, text),
                RawBsonRef::Array(array) => {
                    text.push('[');
                    for (position, value) in array.into_iter().flatten().take(8).enumerate() {
                        text.push_str(if position > 0 { ", " } else { "" });
                        match value {
                            RawBsonRef::Document(inner) => write_shape(inner, text),
                            _ => text.push('?'),
                        }
                    }
                    text.push(']');
                }
                _ => text.push('?'),
            }
        }
        text.push('}');
    }
    let mut text = String::new();
    write_shape(filter, &mut text);
    text
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn a_filter_is_shown_without_values() {
        let filter = rawdoc! { "a": { "$eq": "secret" }, "$or": [{ "b": { "$gt": 5 } }, { "c": { "$in": [1, 2] } }] };
        let text = without_values(&filter);
        assert_eq!(
            text,
            "{a: {$eq: ?}, $or: [{b: {$gt: ?}}, {c: {$in: [?, ?]}}]}"
        );
    }

    #[test]
    fn small_arrays_are_never_near_their_maximum() {
        assert!(near_max(19) > 19);
        assert_eq!(
            (near_max(20), near_max(100), near_max(1_000)),
            (18, 90, 900)
        );
    }
}
