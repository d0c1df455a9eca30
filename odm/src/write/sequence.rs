//! Sequence numbers: `{#number}` in ids, and `#[sequence(per = …)]` in other fields.
//!
//! Each sequence has a counter document in the collection [`SEQUENCES`]. A number is reserved by a single atomic increment of the
//! counter, so no two documents get the same number. A number is never assigned twice, even after the document is deleted: an old
//! id or an old invoice number must not point to a new document.
//!
//! The counter is incremented outside of transactions, so concurrent inserts do not wait for each other. A failed or aborted
//! insert leaves a gap.

mod backfill;

use std::collections::HashMap;

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};

pub(crate) use backfill::{assign_missing_number, missing_numbers};

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
    metadata::collections::{LAST_NUMBER, SEQUENCES, field_sequence_id, id_sequence_id},
    model::{
        document::{Document, upper_bound},
        stored::format_document,
    },
    schema::{Model, SequenceField},
    session::{
        access::{Access, ModelAccess},
        retry,
    },
};

/// The maximum number of attempts to increment a counter that other processes may be creating.
const MAX_COUNTER_ATTEMPTS: u32 = 10;

/// A sequence of numbers: the counter, and the documents with these numbers.
#[derive(Debug, Clone, PartialEq)]
struct Sequence {
    /// The `_id` of the counter.
    counter_id: RawDocumentBuf,
    /// The stored name of the numbered field.
    field: &'static str,
    /// The condition on the documents of the sequence.
    documents: RawDocumentBuf,
}

impl Sequence {
    /// Returns the sequence of a number in ids with this prefix.
    fn of_id_prefix(model: &Model, field: &'static str, prefix: &str) -> Result<Self> {
        Ok(Self {
            counter_id: id_sequence_id(model.collection, prefix)?,
            field,
            documents: single_field_document("_id", prefix_range(prefix)?)?,
        })
    }

    /// Returns the sequence of a field. `key` is the value of the field that selects the sequence.
    fn of_field(
        model: &Model,
        sequence: &SequenceField,
        key: Option<RawBsonRef<'_>>,
    ) -> Result<Self> {
        let per = sequence.per.zip(key);
        let mut documents = RawDocumentBuf::new();
        if let Some((name, value)) = per {
            append_field(&mut documents, name, single_field_document("$eq", value)?)?;
        }
        Ok(Self {
            counter_id: field_sequence_id(model.collection, sequence.stored, per)?,
            field: sequence.stored,
            documents,
        })
    }

    /// Returns the sequences of all numbers of a document: first the number in the `_id`, then the numbered fields.
    fn all_of<T: Document>(document: &T) -> Result<Vec<Self>> {
        let mut sequences = Vec::new();
        if let Some(field) = T::MODEL.numbered_id_part {
            let prefix = document.id_before_number()?;
            sequences.push(Self::of_id_prefix(&T::MODEL, field, &prefix)?);
        }
        for (position, sequence) in T::MODEL.sequences.iter().enumerate() {
            let key = document.sequence_key(position)?;
            let key = key.as_ref().map(RawBson::as_raw_bson_ref);
            sequences.push(Self::of_field(&T::MODEL, sequence, key)?);
        }
        Ok(sequences)
    }
}

/// Returns the numbered fields of a model, each with a description of the sequence. Documents of an earlier declaration need numbers.
pub(super) fn declarations(model: &Model) -> impl Iterator<Item = (String, String)> {
    model.sequences.iter().map(|sequence| {
        let description = match sequence.per {
            None => "sequence".to_owned(),
            Some(per) => format!("sequence per {per}"),
        };
        (sequence.stored.to_owned(), description)
    })
}

/// Stores the number of a document at the given position of [`Sequence::all_of`].
fn store_number<T: Document>(document: &mut T, position: usize, number: i64) -> Result<()> {
    match (T::MODEL.numbered_id_part, position.checked_sub(1)) {
        (None, _) => document.set_sequence_number(position, number),
        (Some(_), None) => document.set_number(number),
        (Some(_), Some(position)) => document.set_sequence_number(position, number),
    }
}

/// The sequences of inserted documents at the time of the assignment, in order, each with the number.
#[derive(Debug, Default)]
pub(crate) struct SequenceNumbers(Vec<(Vec<Sequence>, Vec<i64>)>);

impl SequenceNumbers {
    /// Assigns numbers to documents, with one increment per sequence.
    ///
    /// Callers check `Model::is_numbered` first, so that models without numbers do not pay for this code.
    pub(crate) fn assign_numbers<'a, T: Document>(
        access: &'a Access,
        documents: &'a mut [T],
    ) -> BoxFuture<'a, Result<Self>> {
        Box::pin(Self::assign_each(access, documents))
    }

    /// Assigns the numbers.
    async fn assign_each<T: Document>(access: &Access, documents: &mut [T]) -> Result<Self> {
        let sequences = documents.iter().map(Sequence::all_of);
        let sequences: Vec<_> = sequences.collect::<Result<_>>()?;
        // The sequences in the order of their first documents, each with the number of documents.
        let mut counts: Vec<(&Sequence, i64)> = Vec::new();
        let mut positions: HashMap<&[u8], usize> = HashMap::new();
        for sequence in sequences.iter().flatten() {
            let new = counts.len();
            let position = *positions
                .entry(sequence.counter_id.as_bytes())
                .or_insert(new);
            match counts.get_mut(position) {
                Some((_, count)) => *count += 1,
                None => counts.push((sequence, 1)),
            }
        }
        let mut next = Vec::with_capacity(counts.len());
        for (sequence, count) in counts {
            next.push(reserve_numbers(access.to(&T::MODEL), sequence, count).await?);
        }
        let mut numbers = Vec::with_capacity(documents.len());
        for (document, sequences) in documents.iter_mut().zip(&sequences) {
            let mut assigned = Vec::with_capacity(sequences.len());
            for (place, sequence) in sequences.iter().enumerate() {
                let position = positions.get(sequence.counter_id.as_bytes());
                if let Some(number) = position.and_then(|position| next.get_mut(*position)) {
                    store_number(document, place, *number)?;
                    assigned.push(*number);
                    *number += 1;
                }
            }
            numbers.push(assigned);
        }
        Ok(Self(sequences.into_iter().zip(numbers).collect()))
    }

    /// Restores the assigned numbers of the document at `position`, after hooks ran. If a hook changed the id prefix or the field
    /// of `per`, the document gets a new number.
    pub(crate) async fn restore_numbers<T: Document>(
        &self,
        access: &Access,
        position: usize,
        document: &mut T,
    ) -> Result<()> {
        let Some((sequences, numbers)) = self.0.get(position) else {
            return Ok(());
        };
        let current = Sequence::all_of(document)?;
        let assigned = sequences.iter().zip(numbers);
        for (place, (current, (sequence, number))) in current.iter().zip(assigned).enumerate() {
            let number = match current == sequence {
                true => *number,
                false => reserve_numbers(access.to(&T::MODEL), current, 1).await?,
            };
            store_number(document, place, number)?;
        }
        Ok(())
    }
}

/// Reserves `count` consecutive numbers. Returns the first of them.
async fn reserve_numbers(access: ModelAccess<'_>, sequence: &Sequence, count: i64) -> Result<i64> {
    let first_number = reserve_from_counter(access, sequence, count).await;
    first_number.map_err(error::naming_model(access.model))
}

/// Increments the counter by `count`, and creates a missing counter. Returns the first reserved number.
async fn reserve_from_counter(
    access: ModelAccess<'_>,
    sequence: &Sequence,
    count: i64,
) -> Result<i64> {
    let mut attempt = 1;
    loop {
        let increment = FindAndModify {
            collection: SEQUENCES.into(),
            filter: rawdoc! { "_id": { "$eq": sequence.counter_id.clone() } },
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
                "the counter {} in `{SEQUENCES}` was deleted repeatedly during the insert: keep the counter, and retry",
                format_document(&sequence.counter_id)
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        if attempt > 1 {
            retry::pause_before_retry("the counter was deleted after its creation", attempt).await;
        }
        attempt += 1;
        create_counter(access, sequence).await?;
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
async fn create_counter(access: ModelAccess<'_>, sequence: &Sequence) -> Result<()> {
    let last = largest_number(access, sequence).await?;
    let upsert = UpdateOperation {
        collection: SEQUENCES.into(),
        filter: rawdoc! { "_id": { "$eq": sequence.counter_id.clone() } },
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

/// Returns the largest number of all documents of the sequence, in all scopes and including soft-deleted documents.
async fn largest_number(access: ModelAccess<'_>, sequence: &Sequence) -> Result<i64> {
    let number = sequence.field;
    let mut filter = sequence.documents.clone();
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
        "invalid counter in `{SEQUENCES}`: `{LAST_NUMBER}` must be an integer below the maximum of `i64`; repair the counter: {}",
        format_document(counter)
    );
    Error::new(ErrorKind::Decode, message)
}
