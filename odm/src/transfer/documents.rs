//! Reads and writes of the documents of one collection.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};

use crate::{
    Error, ErrorKind, Result,
    backend::{
        Executor,
        operation::{
            CountOperation, DeleteOperation, Direction, DocumentChange, FindOperation,
            InsertOperation, OperationOrigin, ReadOptions, UpdateOperation,
        },
    },
    language::{
        field::Path,
        query::{Brackets, Sort, after_position, id_filter, single_field_document, to_raw},
    },
    model::decode,
};

/// The number of documents that are read and written together.
pub(super) const MAX_CHUNK_DOCUMENTS: usize = 1_000;

/// The size at which a chunk ends, with a document of at most 16 MiB after it.
const MAX_CHUNK_BYTES: usize = 8 * 1024 * 1024;

/// The types of ids that a sort orders, but that no condition can compare.
const UNORDERED_TYPES: [&str; 4] = ["dbPointer", "javascript", "javascriptWithScope", "regex"];

/// The bytes of an `_id` with its type. Ids of different number types have different bytes, also if the server treats them as equal.
pub(super) type IdBytes = Vec<u8>;

/// Ids without duplicates, sorted by their bytes.
pub(super) type Ids = BTreeMap<IdBytes, RawBson>;

/// Returns the `_id` of a document.
pub(super) fn id_of(document: &RawDocument) -> Result<RawBsonRef<'_>> {
    decode::stored_id(document)
        .ok_or_else(|| Error::new(ErrorKind::Decode, "a stored document has no `_id`"))
}

/// Returns the bytes of an `_id`, for comparisons.
pub(super) fn id_bytes(id: RawBsonRef<'_>) -> IdBytes {
    let mut document = RawDocumentBuf::new();
    document.append(bson::raw::cstr!(""), id);
    document.into_bytes()
}

/// Adds the id of a document.
pub(super) fn add_id(ids: &mut Ids, document: &RawDocument) -> Result<()> {
    let id = id_of(document)?;
    ids.insert(id_bytes(id), RawBson::from(id));
    Ok(())
}

/// Reads the next documents after an id, in the order of the ids: at most `limit`, and fewer if the documents are large.
pub(super) async fn read_after(
    executor: &dyn Executor,
    collection: &str,
    after: Option<&RawBson>,
    limit: usize,
) -> Result<Vec<RawDocumentBuf>> {
    let mut find = find(
        collection,
        after.map_or(Ok(RawDocumentBuf::new()), ids_after)?,
    );
    find.sort = Some(rawdoc! { "_id": 1 });
    find.limit = Some(limit as u64);
    let mut cursor = executor.find(find).await?;
    let (mut documents, mut bytes) = (Vec::new(), 0);
    while documents.len() < limit && bytes < MAX_CHUNK_BYTES {
        let batch = cursor.next_batch().await?;
        if batch.is_empty() {
            break;
        }
        bytes += batch
            .iter()
            .map(|document| document.as_bytes().len())
            .sum::<usize>();
        documents.extend(batch);
    }
    Ok(documents)
}

/// Returns the condition for the ids after an id, across all types.
fn ids_after(id: &RawBson) -> Result<RawDocumentBuf> {
    let sort: Sort<()> = Sort::new(
        Path::ROOT.subfield("_id"),
        Direction::Ascending,
        Brackets::ANY,
    );
    let condition = after_position(std::slice::from_ref(id), &[sort], false);
    to_raw(&condition.ok_or_else(unordered_ids)?)
}

/// Checks that all ids of a collection have an order.
pub(super) async fn ensure_ordered_ids(executor: &dyn Executor, collection: &str) -> Result<()> {
    let types: RawArrayBuf = UNORDERED_TYPES.into_iter().collect();
    let filter = rawdoc! { "_id": { "$type": types } };
    match count_matching(executor, collection, filter).await? {
        0 => Ok(()),
        _ => Err(unordered_ids().with_collection(collection)),
    }
}

fn unordered_ids() -> Error {
    let message = "ids that are code, regular expressions or database pointers cannot be copied";
    Error::new(ErrorKind::Unsupported, message)
}

/// Counts the documents of a collection.
pub(super) async fn count(executor: &dyn Executor, collection: &str) -> Result<u64> {
    count_matching(executor, collection, RawDocumentBuf::new()).await
}

async fn count_matching(
    executor: &dyn Executor,
    collection: &str,
    filter: RawDocumentBuf,
) -> Result<u64> {
    let count = CountOperation {
        collection: collection.to_owned().into(),
        filter,
        limit: None,
        options: ReadOptions::default(),
    };
    executor.count(count).await
}

/// Returns a query for whole documents.
pub(super) fn find(collection: &str, filter: RawDocumentBuf) -> FindOperation {
    FindOperation {
        collection: collection.to_owned().into(),
        filter,
        projection: None,
        sort: None,
        limit: None,
        options: ReadOptions::default(),
    }
}

/// Returns the condition for documents with these ids.
pub(super) fn ids_filter<'i>(ids: impl IntoIterator<Item = &'i RawBson>) -> Result<RawDocumentBuf> {
    let mut list = RawArrayBuf::new();
    for id in ids {
        list.push(id.clone());
    }
    single_field_document("_id", single_field_document("$in", list)?)
}

/// The number of attempts to replace documents, which a write of an earlier process may disturb. The process has died, but the server
/// may still execute its last write.
const MAX_REFRESH_ATTEMPTS: usize = 5;

/// Replaces the documents with these ids by the current documents of the source. Deletes documents that the source does not have.
///
/// A delete and an insert also change the number type of an `_id`, which a replacement keeps.
pub(super) async fn refresh(
    source: &dyn Executor,
    target: &dyn Executor,
    collection: &str,
    ids: &Ids,
) -> Result<()> {
    let mut ids = Cow::Borrowed(ids);
    for _ in 0..MAX_REFRESH_ATTEMPTS {
        ids = Cow::Owned(refresh_once(source, target, collection, &ids).await?);
        if ids.is_empty() {
            return Ok(());
        }
    }
    let message = "documents that the copy has deleted came back: stop all writers of the target, and copy again";
    Err(Error::new(ErrorKind::Conflict, message).with_collection(collection))
}

/// Replaces documents. Returns the ids of the documents that came back between the delete and the insert.
async fn refresh_once(
    source: &dyn Executor,
    target: &dyn Executor,
    collection: &str,
    ids: &Ids,
) -> Result<Ids> {
    let mut existing = Ids::new();
    let ids: Vec<_> = ids.values().collect();
    for ids in ids.chunks(MAX_CHUNK_DOCUMENTS) {
        let filter = ids_filter(ids.iter().copied())?;
        // Open the query before the delete: a failed query leaves the target unchanged.
        let mut documents = source.find(find(collection, filter.clone())).await?;
        let delete = DeleteOperation {
            collection: collection.to_owned().into(),
            filter,
            multi: true,
            origin: OperationOrigin::default(),
        };
        target.delete(delete).await?;
        loop {
            let batch = documents.next_batch().await?;
            if batch.is_empty() {
                break;
            }
            existing.extend(insert(target, collection, batch).await?);
        }
    }
    Ok(existing)
}

/// Inserts documents, byte for byte. Returns the ids that exist in the target already, with other documents.
pub(super) async fn insert(
    target: &dyn Executor,
    collection: &str,
    documents: Vec<RawDocumentBuf>,
) -> Result<Ids> {
    let (with_empty_timestamp, documents): (Vec<_>, Vec<_>) = documents
        .into_iter()
        .partition(|document| has_empty_timestamp(document));
    let mut existing = Ids::new();
    for document in with_empty_timestamp {
        match insert_with_empty_timestamp(target, collection, &document).await {
            Err(error) if error.is_duplicate_key() => add_id(&mut existing, &document)?,
            inserted => inserted?,
        }
    }
    if documents.is_empty() {
        return Ok(existing);
    }
    let ids = documents
        .iter()
        .map(|document| id_of(document).map(RawBson::from));
    let ids = ids.collect::<Result<Vec<_>>>()?;
    let insert = InsertOperation {
        collection: collection.to_owned().into(),
        documents,
        ordered: false,
        origin: OperationOrigin::default(),
    };
    let Err(error) = target.insert(insert).await else {
        return Ok(existing);
    };
    if error.failures().len() == 0 {
        return Err(error);
    }
    for (position, failure) in error.failures() {
        match ids.get(position) {
            Some(id) if failure.is_duplicate_key() => {
                existing.insert(id_bytes(id.as_raw_bson_ref()), id.clone());
            }
            _ => return Err(failure.clone()),
        }
    }
    Ok(existing)
}

/// Whether a document has the timestamp 0 at the top level. An insert into MongoDB replaces such a timestamp by the current time.
fn has_empty_timestamp(document: &RawDocument) -> bool {
    let mut values = document.iter().flatten();
    values.any(|(_, value)| {
        matches!(value, RawBsonRef::Timestamp(timestamp) if timestamp.time == 0 && timestamp.increment == 0)
    })
}

/// Inserts a document by an expression, in which MongoDB keeps the timestamp 0.
///
/// # Errors
///
/// [`DuplicateKey`](ErrorKind::DuplicateKey) if the target has the `_id` already.
async fn insert_with_empty_timestamp(
    target: &dyn Executor,
    collection: &str,
    document: &RawDocument,
) -> Result<()> {
    // No document matches the filter, so the upsert inserts, and never replaces an existing document.
    let mut filter = id_filter(&RawBson::from(id_of(document)?));
    let mut nothing = RawArrayBuf::new();
    nothing.push(RawDocumentBuf::new());
    filter.append(bson::raw::cstr!("$nor"), nothing);
    let literal = single_field_document("$literal", document.to_owned())?;
    let update = UpdateOperation {
        collection: collection.to_owned().into(),
        filter,
        change: DocumentChange::Pipeline(vec![single_field_document("$replaceWith", literal)?]),
        multi: false,
        upsert: true,
        origin: OperationOrigin::default(),
    };
    target.update(update).await.map(|_| ())
}

/// The number of documents that are compared together.
const MAX_COMPARED_DOCUMENTS: usize = 16;

/// Returns the ids of the documents that differ between the databases, or that only one of the databases has.
pub(super) async fn find_differences(
    source: &dyn Executor,
    target: &dyn Executor,
    collection: &str,
    ids: &Ids,
) -> Result<Ids> {
    let mut differences = Ids::new();
    let ids: Vec<_> = ids.iter().collect();
    for ids in ids.chunks(MAX_COMPARED_DOCUMENTS) {
        let filter = ids_filter(ids.iter().map(|(_, id)| *id))?;
        let expected = source.find_all(find(collection, filter.clone())).await?;
        let actual = target.find_all(find(collection, filter)).await?;
        differences.extend(compare(&expected, &actual)?);
    }
    Ok(differences)
}

/// Returns the ids of the documents that differ between two lists.
pub(super) fn compare(expected: &[RawDocumentBuf], actual: &[RawDocumentBuf]) -> Result<Ids> {
    let mut unmatched = HashMap::new();
    for document in actual {
        unmatched.insert(id_bytes(id_of(document)?), document);
    }
    let mut differences = Ids::new();
    for document in expected {
        match unmatched.remove(&id_bytes(id_of(document)?)) {
            Some(actual) if actual.as_bytes() == document.as_bytes() => {}
            _ => add_id(&mut differences, document)?,
        }
    }
    for document in unmatched.into_values() {
        add_id(&mut differences, document)?;
    }
    Ok(differences)
}

/// Returns the error for documents that differ after the copy.
pub(super) fn differs(collection: &str, differences: &Ids) -> Error {
    let count = differences.len();
    let message = format!(
        "{count} documents of the target differ from the source after the copy: was the target or the source written during the copy?"
    );
    let error = Error::new(ErrorKind::CopyDiffers, message).with_collection(collection);
    let first = differences.values().next().cloned();
    match first.map(bson::Bson::try_from) {
        Some(Ok(id)) => error.with_id(id),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use bson::{Timestamp, rawdoc};

    use super::*;

    #[test]
    fn only_empty_timestamps_at_the_top_need_an_expression() {
        let empty = Timestamp {
            time: 0,
            increment: 0,
        };
        let later = Timestamp {
            time: 0,
            increment: 1,
        };
        assert!(has_empty_timestamp(&rawdoc! { "_id": 1, "at": empty }));
        assert!(!has_empty_timestamp(&rawdoc! { "_id": 1, "at": later }));
        assert!(!has_empty_timestamp(
            &rawdoc! { "_id": 1, "nested": { "at": empty } }
        ));
    }

    #[test]
    fn differences_are_changed_missing_and_additional_documents() {
        let expected = [
            rawdoc! { "_id": 1 },
            rawdoc! { "_id": 2, "a": 1 },
            rawdoc! { "_id": 3 },
        ];
        let actual = [
            rawdoc! { "_id": 1 },
            rawdoc! { "_id": 2, "a": 1_i64 },
            rawdoc! { "_id": 4 },
        ];
        let found = compare(&expected, &actual).unwrap();
        let mut found: Vec<_> = found.into_values().collect();
        found.sort_by_key(|id| id.as_raw_bson_ref().as_i32());
        assert_eq!(
            found,
            [RawBson::Int32(2), RawBson::Int32(3), RawBson::Int32(4)]
        );
        assert_eq!(
            compare(&[rawdoc! { "_id": 1 }], &[rawdoc! { "_id": 1_i64 }])
                .unwrap()
                .len(),
            2
        );
    }
}
