//! Sequence numbers in ids: `{#number}` numbers the documents whose `_id` begins with the same prefix.
//!
//! Each prefix has a counter document in the collection [`SEQUENCES`]. A number is reserved by a single atomic increment of the
//! counter, so no two documents get the same number. A number is never assigned twice, even after the document is deleted: an old
//! id must not point to a new document.
//!
//! The counter is incremented outside of transactions, so concurrent inserts do not wait for each other. A failed or aborted
//! insert leaves a gap.

use std::collections::HashMap;

use bson::{RawBson, RawDocument, RawDocumentBuf, rawdoc};

use crate::{
    Error, ErrorKind, Result,
    backend::{
        BoxFuture,
        operation::{
            DocumentChange, FindAndModify, FindAndModifyKind, FindOperation, Stage, UpdateOperation,
        },
        read_to_end,
    },
    error,
    language::query::{append_field, single_field_document},
    metadata::collections::{LAST_NUMBER, SEQUENCES, sequence_id},
    model::document::{Document, upper_bound},
    session::{
        access::{Access, ModelAccess},
        retry,
    },
};

/// The maximum number of attempts to increment a counter that other processes may be creating.
const MAX_COUNTER_ATTEMPTS: u32 = 10;

/// The numbers of inserted documents, in order, each with the id prefix at the time of assignment.
#[derive(Debug, Default)]
pub(crate) struct SequenceNumbers(Vec<(String, i64)>);

impl SequenceNumbers {
    /// Assigns numbers to documents, with one increment per id prefix.
    ///
    /// Callers check `Model::number` first, so that models without numbers do not pay for this code.
    pub(crate) fn assign_numbers<'a, T: Document>(
        access: &'a Access,
        documents: &'a mut [T],
    ) -> BoxFuture<'a, Result<Self>> {
        Box::pin(Self::assign_each(access, documents))
    }

    /// Assigns the numbers.
    async fn assign_each<T: Document>(access: &Access, documents: &mut [T]) -> Result<Self> {
        let prefixes = documents.iter().map(T::id_before_number);
        let prefixes = prefixes.collect::<Result<Vec<_>>>()?;
        let mut counts: HashMap<&str, i64> = HashMap::new();
        for prefix in &prefixes {
            *counts.entry(prefix).or_default() += 1;
        }
        let mut next = HashMap::new();
        for (prefix, count) in counts {
            let first = reserve_numbers(access.to(&T::MODEL), prefix, count).await?;
            next.insert(prefix, first);
        }
        let mut numbers = Vec::with_capacity(prefixes.len());
        for (document, prefix) in documents.iter_mut().zip(&prefixes) {
            if let Some(number) = next.get_mut(prefix.as_str()) {
                document.set_number(*number)?;
                numbers.push((prefix.clone(), *number));
                *number += 1;
            }
        }
        Ok(Self(numbers))
    }

    /// Restores the assigned number of the document at `position`, after hooks ran. If a hook changed the id prefix, the document
    /// gets a new number.
    pub(crate) async fn restore_number<T: Document>(
        &self,
        access: &Access,
        position: usize,
        document: &mut T,
    ) -> Result<()> {
        let Some((prefix, number)) = self.0.get(position) else {
            return Ok(());
        };
        let current_prefix = document.id_before_number()?;
        let number = match current_prefix == *prefix {
            true => *number,
            false => reserve_numbers(access.to(&T::MODEL), &current_prefix, 1).await?,
        };
        document.set_number(number)
    }
}

/// Reserves `count` consecutive numbers. Returns the first of them.
async fn reserve_numbers(access: ModelAccess<'_>, prefix: &str, count: i64) -> Result<i64> {
    let first_number = reserve_from_counter(access, prefix, count).await;
    first_number.map_err(error::naming_model(access.model))
}

/// Increments the counter by `count`, and creates a missing counter. Returns the first reserved number.
async fn reserve_from_counter(access: ModelAccess<'_>, prefix: &str, count: i64) -> Result<i64> {
    let id = sequence_id(access.model.collection, prefix)?;
    let mut attempt = 1;
    loop {
        let increment = FindAndModify {
            collection: SEQUENCES.into(),
            filter: rawdoc! { "_id": { "$eq": id.clone() } },
            sort: None,
            projection: None,
            modification: FindAndModifyKind::Update {
                change: counter_change("$inc", count)?,
                upsert: false,
                return_new: true,
            },
            origin: access.origin(Stage::SEQUENCES.step("reserve numbers")),
        };
        access.operation_metrics().add_write();
        let incremented = access.backend().find_and_modify(increment).await?;
        if let Some(counter) = incremented {
            let last = counter
                .get_i64(LAST_NUMBER)
                .map_err(|_| invalid_counter(&counter))?;
            return last
                .checked_sub(count)
                .and_then(|last| last.checked_add(1))
                .ok_or_else(|| invalid_counter(&counter));
        }
        if attempt > MAX_COUNTER_ATTEMPTS {
            let message = format!(
                "the counter of `{prefix}` in `{SEQUENCES}` was deleted repeatedly during the insert: keep the counter, and retry"
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        if attempt > 1 {
            retry::pause_before_retry("the counter was deleted after its creation", attempt).await;
        }
        attempt += 1;
        create_counter(access, prefix, id.clone()).await?;
    }
}

/// Returns the update of a counter by one operator.
fn counter_change(operator: &str, number: i64) -> Result<DocumentChange> {
    let change = single_field_document(operator, single_field_document(LAST_NUMBER, number)?)?;
    Ok(DocumentChange::operators(change))
}

/// Creates a counter that continues after the largest existing number. Documents may be older than the counter, or restored from
/// a backup without the counter.
///
/// `$max` only raises the counter, so concurrent creation and concurrent increments are safe.
async fn create_counter(access: ModelAccess<'_>, prefix: &str, id: RawDocumentBuf) -> Result<()> {
    let last = largest_number(access, prefix).await?;
    let upsert = UpdateOperation {
        collection: SEQUENCES.into(),
        filter: rawdoc! { "_id": { "$eq": id } },
        change: counter_change("$max", last)?,
        multi: false,
        upsert: true,
        origin: access.origin(Stage::SEQUENCES.step("create the counter")),
    };
    access.operation_metrics().add_write();
    match access.backend().update(upsert).await {
        // A concurrent insert created the counter.
        Err(error) if error.is_duplicate_key() => Ok(()),
        result => result.map(drop),
    }
}

/// Returns the largest number of all documents with the id prefix, in all scopes and including soft-deleted documents.
async fn largest_number(access: ModelAccess<'_>, prefix: &str) -> Result<i64> {
    let Some(number) = access.model.numbered_id_part else {
        return Ok(0);
    };
    let mut filter = single_field_document("_id", prefix_range(prefix)?)?;
    append_field(&mut filter, number, rawdoc! { "$gte": i64::MIN })?;
    let find = FindOperation {
        collection: access.model.collection.into(),
        filter,
        projection: None,
        sort: Some(single_field_document(number, -1)?),
        limit: Some(1),
        options: access
            .origin(Stage::SEQUENCES.step("read the largest number"))
            .into(),
    };
    access.operation_metrics().add_query();
    let documents = read_to_end(access.backend().find(find).await?).await?;
    let largest = documents
        .first()
        .and_then(|document| document.get(number).ok()?);
    let largest = largest.and_then(|largest| match RawBson::from(largest) {
        RawBson::Int32(largest) => Some(largest.into()),
        RawBson::Int64(largest) => Some(largest),
        _ => None,
    });
    Ok(largest.unwrap_or(0).max(0))
}

/// Returns the condition on ids with a prefix: a range of the index on `_id`.
fn prefix_range(prefix: &str) -> Result<RawDocumentBuf> {
    let mut range = single_field_document("$gte", prefix)?;
    if let Some(end) = upper_bound(prefix) {
        append_field(&mut range, "$lt", end)?;
    }
    Ok(range)
}

/// The error of a counter without a usable number.
fn invalid_counter(counter: &RawDocument) -> Error {
    let message = format!(
        "invalid counter in `{SEQUENCES}`: `{LAST_NUMBER}` must be an integer below the maximum of `i64`; repair the counter: {counter:?}"
    );
    Error::new(ErrorKind::Decode, message)
}
