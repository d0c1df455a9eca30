//! The numbers of documents among those whose `_id` begins alike: `{#number}`.
//!
//! They come from a counter for each beginning, a document of the collection `_odm.numbers`. Adding to that is one atomic
//! write, so no two documents get the same number, whoever inserts them; and one that was given is never given again, not
//! even when its document is deleted, so that no id that somebody has kept ever leads to another document. The counter is no
//! part of a transaction: those that number at the same time do not wait for each other, and one that is taken back leaves
//! a gap, as does an insert that fails.

use std::collections::HashMap;

use bson::{RawBson, RawDocument, RawDocumentBuf, rawdoc};

use crate::{
    Error, ErrorKind, Result,
    access::Access,
    backend::{
        BoxFuture, drain,
        operation::{Change, Find, FindAndModify, Modification, Update},
    },
    document::{Document, behind},
    error,
    query::{append, document},
    retry,
    schema::Model,
};

/// Where the counters are.
const COUNTERS: &str = "_odm.numbers";

/// How often a counter is looked for that others may be making at the same time.
const ATTEMPTS: u32 = 10;

/// The numbers that were given to documents, in their order, each with what its `_id` began with then.
#[derive(Debug, Default)]
pub(crate) struct Numbers(Vec<(String, i64)>);

impl Numbers {
    /// Numbers the documents of a model that says so; one write for each beginning of their ids.
    ///
    /// A model that does not say so is not to ask for it, so that nothing of it is compiled.
    pub(crate) fn give<'a, T: Document>(
        access: &'a Access,
        documents: &'a mut [T],
    ) -> BoxFuture<'a, Result<Self>> {
        Box::pin(Self::give_each(access, documents))
    }

    async fn give_each<T: Document>(access: &Access, documents: &mut [T]) -> Result<Self> {
        let before = documents.iter().map(T::id_before_number);
        let before = before.collect::<Result<Vec<_>>>()?;
        let mut counts: HashMap<&str, i64> = HashMap::new();
        for before in &before {
            *counts.entry(before).or_default() += 1;
        }
        let mut next = HashMap::new();
        for (before, count) in counts {
            next.insert(before, take(access, &T::MODEL, before, count).await?);
        }
        let mut numbers = Vec::with_capacity(before.len());
        for (document, before) in documents.iter_mut().zip(&before) {
            if let Some(number) = next.get_mut(before.as_str()) {
                document.set_number(*number)?;
                numbers.push((before.clone(), *number));
                *number += 1;
            }
        }
        Ok(Self(numbers))
    }

    /// The document at a position keeps its number, whatever a hook has made of it; with another beginning of its `_id` it gets
    /// another one.
    pub(crate) async fn keep<T: Document>(
        &self,
        access: &Access,
        position: usize,
        document: &mut T,
    ) -> Result<()> {
        let Some((before, number)) = self.0.get(position) else {
            return Ok(());
        };
        let now = document.id_before_number()?;
        let number = match now == *before {
            true => *number,
            false => take(access, &T::MODEL, &now, 1).await?,
        };
        document.set_number(number)
    }
}

/// Takes so many numbers, and gives the first of them.
async fn take(access: &Access, model: &Model, before: &str, count: i64) -> Result<i64> {
    let taken = take_from(access, model, before, count).await;
    taken.map_err(error::of(model))
}

async fn take_from(access: &Access, model: &Model, before: &str, count: i64) -> Result<i64> {
    let counter = rawdoc! { "collection": model.collection, "before": before };
    let mut attempt = 1;
    loop {
        let add = FindAndModify {
            collection: COUNTERS.into(),
            filter: rawdoc! { "_id": { "$eq": counter.clone() } },
            sort: None,
            projection: None,
            modification: Modification::Update {
                change: Change::operators(rawdoc! { "$inc": { "last": count } }),
                upsert: false,
                return_new: true,
            },
        };
        access.told().writes();
        let added = access.backend().find_and_modify(add).await?;
        if let Some(counter) = added {
            let last = counter.get_i64("last").map_err(|_| broken(&counter))?;
            return last
                .checked_sub(count)
                .and_then(|last| last.checked_add(1))
                .ok_or_else(|| broken(&counter));
        }
        if attempt > ATTEMPTS {
            let message =
                format!("the counter of `{before}` in `{COUNTERS}` is gone as often as it is made");
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        if attempt > 1 {
            retry::pause(attempt).await;
        }
        attempt += 1;
        begin(access, model, before, counter.clone()).await?;
    }
}

/// Makes a counter that goes on behind what there is: documents may be older than it, or restored without it.
///
/// It is only ever raised, so it does no harm if several do so at once, or if others have numbered since the look.
async fn begin(
    access: &Access,
    model: &Model,
    before: &str,
    counter: RawDocumentBuf,
) -> Result<()> {
    let last = largest(access, model, before).await?;
    let make = Update {
        collection: COUNTERS.into(),
        filter: rawdoc! { "_id": { "$eq": counter } },
        change: Change::operators(rawdoc! { "$max": { "last": last } }),
        multi: false,
        upsert: true,
    };
    access.told().writes();
    match access.backend().update(make).await {
        // Somebody else has made it.
        Err(error) if error.is_duplicate_key() => Ok(()),
        made => made.map(drop),
    }
}

/// The largest number among all documents whose `_id` begins so, whoever may see them.
async fn largest(access: &Access, model: &Model, before: &str) -> Result<i64> {
    let Some(number) = model.number else {
        return Ok(0);
    };
    let mut filter = document("_id", beginning(before)?)?;
    append(&mut filter, number, rawdoc! { "$gte": i64::MIN })?;
    let find = Find {
        collection: model.collection.into(),
        filter,
        projection: None,
        sort: Some(document(number, -1)?),
        limit: Some(1),
        max_time: None,
    };
    access.told().asks();
    let found = drain(access.backend().find(find).await?).await?;
    let largest = found.first().and_then(|found| found.get(number).ok()?);
    let largest = largest.and_then(|largest| match RawBson::from(largest) {
        RawBson::Int32(largest) => Some(largest.into()),
        RawBson::Int64(largest) => Some(largest),
        _ => None,
    });
    Ok(largest.unwrap_or(0).max(0))
}

/// The ids that begin so: a range of the index on `_id`.
fn beginning(before: &str) -> Result<RawDocumentBuf> {
    let mut range = document("$gte", before)?;
    if let Some(end) = behind(before) {
        append(&mut range, "$lt", end)?;
    }
    Ok(range)
}

fn broken(counter: &RawDocument) -> Error {
    let message = format!(
        "a counter in `{COUNTERS}` has no room for the next number, or is none: {counter:?}"
    );
    Error::new(ErrorKind::Decode, message)
}
