//! What is told of each operation to whoever listens by `tracing`: a span, and warnings of what will not stay fast.
//!
//! | target | level | what |
//! |---|---|---|
//! | `odm` | debug | a span `operation` for each operation of the typed language, with `operation`, `model`, `collection`, and, as it ends, `queries`, `writes` and `documents` |
//! | `odm::advice` | warn | the same query with ever other values, again and again in one task: N+1; an array near its `max` in a document that is stored |
//! | `odm::plan` | debug | the plan of each query and write with a condition, and a warning for a scan; whether a push by an id has brought an array near its `max` |
//!
//! Nothing but the last asks the database for anything more. As it carries out what it looks at twice, it is for development:
//! `RUST_LOG=odm::plan=debug`. Of a pipeline it tells the plan of its first `$match`; in a transaction, how the documents
//! outside of it would be found.

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
    backend::operation::{Explain, Find},
    schema::Model,
};

/// One operation of the typed language, whatever it takes.
pub(crate) struct Operation {
    name: &'static str,
    model: Option<&'static Model>,
    span: OnceLock<Span>,
    queries: AtomicU64,
    writes: AtomicU64,
    documents: AtomicU64,
}

impl Operation {
    /// What it is about; none for what is about several models.
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

    /// The same, from its beginning.
    pub(crate) fn again(&self) -> Self {
        Self::new(self.name, self.model)
    }

    /// The span, which begins when the operation first asks the backend.
    pub(crate) fn span(&self) -> &Span {
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

    pub(crate) fn asks(&self) {
        self.queries.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn writes(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn had(&self, documents: u64) {
        self.documents.fetch_add(documents, Ordering::Relaxed);
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if let Some(span) = self.span.get() {
            span.record("queries", *self.queries.get_mut());
            span.record("writes", *self.writes.get_mut());
            span.record("documents", *self.documents.get_mut());
        }
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Whether somebody wants to know of plans.
pub(crate) fn looks_at_plans() -> bool {
    tracing::enabled!(target: "odm::plan", Level::DEBUG)
}

/// Tells how documents are found.
pub(crate) fn plan(model: &Model, filter: &RawDocument, explain: &Explain) {
    let indexes = explain.indexes.join(", ");
    tracing::debug!(
        target: "odm::plan",
        model = model.name, filter = %shown(filter), indexes, scan = explain.is_scan,
        sorted_afterwards = explain.is_sorted_afterwards, keys_examined = explain.keys_examined,
        documents_examined = explain.documents_examined, returned = explain.returned,
        "plan"
    );
    // Whoever wants all documents wants a scan.
    if explain.is_scan && filter.iter().next().is_some() {
        tracing::warn!(
            target: "odm::plan",
            model = model.name, filter = %shown(filter), documents_examined = explain.documents_examined,
            returned = explain.returned,
            "no index serves this: all documents of the collection are examined; declare one by `#[index]` or `index(…)`"
        );
    }
}

/// An array that is stored with 90 of 100 elements that it may have.
pub(crate) fn length(path: impl fmt::Display, found: usize, max: usize) {
    if found >= near(max) {
        tracing::warn!(
            target: "odm::advice",
            path = %path, elements = found, max,
            "the array is near its `max`: what grows without end is better a collection of its own"
        );
    }
}

/// How many elements are near the most that there may be. Of a few, all may well be there.
pub(crate) fn near(max: usize) -> usize {
    match max {
        0..20 => usize::MAX,
        _ => max - max / 10,
    }
}

/// How often a query may come with other values.
const TIMES: u32 = 10;
/// In which time.
const WINDOW: Duration = Duration::from_secs(1);
/// How many queries are remembered at most.
const MAX_SHAPES: usize = 1_024;

/// The queries that came lately, by what they ask for except for values.
#[derive(Default)]
pub(crate) struct Repetition(Mutex<HashMap<u64, Seen>>);

struct Seen {
    first: Instant,
    times: u32,
    values: Option<u64>,
    is_told: bool,
}

impl Repetition {
    /// Notes a query, and warns where it is one of many that should be one.
    pub(crate) fn note(&self, model: &Model, find: &Find) {
        if !tracing::enabled!(target: "odm::advice", Level::WARN) {
            return;
        }
        let (mut shape, mut values) = (DefaultHasher::new(), DefaultHasher::new());
        tokio::task::try_id().hash(&mut shape);
        model.name.hash(&mut shape);
        walk(&find.filter, &mut shape, &mut values);
        let (shape, values) = (shape.finish(), values.finish());
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= MAX_SHAPES && !seen.contains_key(&shape) {
            seen.clear();
        }
        let now = Instant::now();
        let seen = seen.entry(shape).or_insert(Seen {
            first: now,
            times: 0,
            values: None,
            is_told: false,
        });
        if now.duration_since(seen.first) > WINDOW {
            (seen.first, seen.times) = (now, 0);
        }
        // The same document again is a retry or somebody who waits for it.
        if seen.values.replace(values) != Some(values) {
            seen.times += 1;
        }
        if seen.times >= TIMES && !seen.is_told {
            seen.is_told = true;
            tracing::warn!(
                target: "odm::advice",
                model = model.name, filter = %shown(&find.filter), times = seen.times,
                "the same query with ever other values, one after the other: read them by one, by `get_many` or a condition \
                 with `is_in`, or join them by `with` and `with_children`"
            );
        }
    }
}

impl fmt::Debug for Repetition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Repetition")
    }
}

/// What a filter asks for goes to one hash, the values that it compares with to the other.
fn walk(filter: &RawDocument, shape: &mut DefaultHasher, values: &mut DefaultHasher) {
    for (name, value) in filter.iter().flatten() {
        name.as_str().hash(shape);
        match value {
            RawBsonRef::Document(inner) => walk(inner, shape, values),
            // The branches of an `$or`, or a list of values: that is one query for many already.
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

/// A filter without its values, which are nobody's business in a log.
fn shown(filter: &RawDocument) -> String {
    fn show(filter: &RawDocument, text: &mut String) {
        text.push('{');
        for (position, (name, value)) in filter.iter().flatten().enumerate() {
            let comma = if position > 0 { ", " } else { "" };
            text.push_str(&format!("{comma}{name}: "));
            match value {
                RawBsonRef::Document(inner) => show(inner, text),
                RawBsonRef::Array(array) => {
                    text.push('[');
                    for (position, value) in array.into_iter().flatten().take(8).enumerate() {
                        text.push_str(if position > 0 { ", " } else { "" });
                        match value {
                            RawBsonRef::Document(inner) => show(inner, text),
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
    show(filter, &mut text);
    text
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn a_filter_is_shown_without_values() {
        let filter = rawdoc! { "a": { "$eq": "secret" }, "$or": [{ "b": { "$gt": 5 } }, { "c": { "$in": [1, 2] } }] };
        let text = shown(&filter);
        assert_eq!(
            text,
            "{a: {$eq: ?}, $or: [{b: {$gt: ?}}, {c: {$in: [?, ?]}}]}"
        );
    }

    #[test]
    fn few_elements_are_never_near_their_bound() {
        assert!(near(19) > 19);
        assert_eq!((near(20), near(100), near(1_000)), (18, 90, 900));
    }
}
