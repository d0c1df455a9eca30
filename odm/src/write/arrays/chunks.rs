//! Writes of chunk documents. The layout of a chunk is described in `crate::overflow`.

use bson::{Bson, DateTime, Document, RawBson, RawDocumentBuf, doc, oid::ObjectId};

pub(super) use crate::overflow::chunks::{
    Chunks, find_in_order, generation_filter, live_chunks_filter, split_bounded,
};

use super::{ArrayHandle, MAX_CHUNK_BYTES, manifest::element_bytes};
use crate::{
    ErrorKind, Result,
    backend::operation::{
        CountOperation, DeleteOperation, DocumentChange, InsertOperation, Stage, UpdateOperation,
    },
    language::query::{append_field, equal_to, single_field_document},
    metadata::{
        self,
        overflow::{ChunkMetadata, PROVISIONAL, PROVISIONAL_TOKEN, abandoned_insert_id, chunk_id},
    },
    pending::record::PendingKind,
    schema::OverflowField,
    write::metadata_update::{parse_document, to_raw_document},
};

/// The maximum number of elements in a chunk.
const MAX_CHUNK_ELEMENTS: usize = 500;

/// The maximum size in bytes of the chunks in one insert request.
const MAX_INSERT_BYTES: usize = 8 * 1024 * 1024;

/// The common data of the chunks that one write creates.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkBatch<'b> {
    pub(super) chunks: Chunks<'b>,
    pub(super) owner: &'b Bson,
    pub(super) generation: ObjectId,
    /// The token of the write.
    pub(super) token: ObjectId,
    /// The number of the first chunk.
    pub(super) first_seq: i64,
}

/// Splits elements into the contents of chunks.
pub(super) fn split_into_chunks(elements: &[Bson]) -> Result<Vec<Vec<Bson>>> {
    let parts = split_bounded(elements, element_bytes, MAX_CHUNK_ELEMENTS, MAX_CHUNK_BYTES)?;
    Ok(parts.into_iter().map(<[_]>::to_vec).collect())
}

/// Splits elements into groups that fit into one request each.
pub(super) fn split_for_requests(elements: &[Bson]) -> Result<Vec<&[Bson]>> {
    split_bounded(elements, element_bytes, usize::MAX, MAX_INSERT_BYTES)
}

impl ChunkBatch<'_> {
    /// Returns the chunk with number `n` of this batch. With the end of a lease, the chunk is provisional. With a token, the chunk
    /// is not read before the write with this token is published.
    fn chunk_document(
        &self,
        n: i64,
        elements: Vec<Bson>,
        lease_end: Option<DateTime>,
        token: Option<ObjectId>,
    ) -> Document {
        let field = self.chunks.field;
        let mut chunk = doc! {
            "_id": chunk_id(self.owner, self.generation, self.token, n),
            field.owner: self.owner.clone(),
            field.seq: self.first_seq + n,
            field.elements: elements,
        };
        let is_provisional_alone = lease_end.is_some() && token.is_none();
        let metadata = ChunkMetadata {
            generation: Some(self.generation),
            lease_end,
            token,
            instance: is_provisional_alone.then(ObjectId::new),
        };
        metadata.write_to(&mut chunk);
        chunk
    }

    /// Inserts the chunk of a frozen block, unless the chunk exists. Returns the instance if the chunk is provisional.
    pub(super) async fn insert_spilled(&self, elements: Vec<Bson>) -> Result<Option<ObjectId>> {
        let access = self.chunks.access;
        let is_standalone = access.transaction_scope().is_none();
        let lease_end = is_standalone.then(|| access.lease().new_end());
        let chunk = self.chunk_document(0, elements, lease_end, None);
        let instance = ChunkMetadata::of(&chunk).instance;
        match self.chunks.insert_once(chunk).await? {
            false => Ok(instance),
            true => self.read_instance().await,
        }
    }

    /// Returns the instance of the first chunk if the chunk is provisional.
    async fn read_instance(&self) -> Result<Option<ObjectId>> {
        let access = self.chunks.access;
        let id = chunk_id(self.owner, self.generation, self.token, 0);
        let find = access
            .find_matching(&to_raw_document(&doc! { "_id": { "$eq": id } })?)
            .with_origin(Stage::ARRAYS.step("read the provisional chunk"))
            .with_projection(single_field_document(metadata::FIELD, 1)?);
        let found = access.find_all(find).await?;
        let chunk = found.first().map(|raw| parse_document(raw)).transpose()?;
        Ok(chunk.and_then(|chunk| ChunkMetadata::of(&chunk).instance))
    }

    /// Inserts chunks that are not read before the token of the write is published. A transaction commits the chunks together
    /// with the publication.
    pub(super) async fn insert_staged(
        &self,
        parts: &[Vec<Bson>],
        array: Option<&ArrayHandle<'_>>,
    ) -> Result<()> {
        let access = self.chunks.access;
        let (mut documents, mut bytes) = (Vec::new(), 0);
        for (n, part) in (0..).zip(parts) {
            // Other writes wait for pending work of an existing document. No write waits for an insert, so its lease is longer.
            let lease_end = match (access.transaction_scope(), array) {
                (Some(_), _) => None,
                (None, Some(_)) => Some(access.lease().new_end()),
                (None, None) => Some(access.lease().new_insert_end()),
            };
            let token = lease_end.map(|_| self.token);
            let chunk = self.chunk_document(n, part.clone(), lease_end, token);
            let chunk = to_raw_document(&chunk)?;
            bytes += chunk.as_bytes().len();
            documents.push(chunk);
            if bytes > MAX_INSERT_BYTES {
                self.chunks.insert(std::mem::take(&mut documents)).await?;
                bytes = 0;
                if let Some(array) = array
                    && !array.renew_lease(self.token).await?
                {
                    return Err(array.contention_error());
                }
            }
        }
        match documents.is_empty() {
            true => Ok(()),
            false => self.chunks.insert(documents).await,
        }
    }

    /// Inserts the missing chunks of a document that was inserted. The chunks are provisional: if the document is deleted
    /// meanwhile, only recovery finds the chunks.
    pub(super) async fn insert_missing(&self, parts: &[Vec<Bson>]) -> Result<()> {
        for (n, part) in (0..).zip(parts) {
            let lease_end = Some(self.chunks.access.lease().new_end());
            let chunk = self.chunk_document(n, part.clone(), lease_end, None);
            self.chunks.insert_once(chunk).await?;
        }
        Ok(())
    }
}

impl Chunks<'_> {
    /// Records for a while that recovery abandoned the insert of a document. The inserting process checks this record if the
    /// process continues.
    pub(super) async fn record_abandoned_insert(self, owner: &Bson, token: ObjectId) -> Result<()> {
        let mut record = doc! { "_id": abandoned_insert_id(owner, token) };
        let metadata = ChunkMetadata {
            lease_end: Some(self.access.lease().new_insert_end()),
            ..ChunkMetadata::default()
        };
        metadata.write_to(&mut record);
        self.insert_once(record).await.map(drop)
    }

    /// Returns whether recovery has abandoned the insert.
    pub(super) async fn is_insert_abandoned(self, owner: &Bson, token: ObjectId) -> Result<bool> {
        let filter = doc! { "_id": { "$eq": abandoned_insert_id(owner, token) } };
        let find = self
            .access
            .find_matching(&to_raw_document(&filter)?)
            .with_origin(Stage::ARRAYS.step("look for an abandoned insert"));
        Ok(!self.access.find_all(find).await?.is_empty())
    }

    /// Inserts a document unless its `_id` exists. Returns whether the `_id` existed.
    async fn insert_once(self, mut document: Document) -> Result<bool> {
        let id = document.remove("_id").unwrap_or(Bson::Null);
        let update = UpdateOperation {
            collection: self.access.model.collection.into(),
            filter: to_raw_document(&doc! { "_id": { "$eq": id } })?,
            change: DocumentChange::operators(to_raw_document(&doc! { "$setOnInsert": document })?),
            multi: false,
            upsert: true,
            origin: Stage::ARRAYS.step("insert a chunk"),
        };
        match self.access.update(update).await {
            Err(error)
                if error.kind() == ErrorKind::DuplicateKey
                    && self.access.transaction_scope().is_none() =>
            {
                Ok(true)
            }
            done => Ok(done?.matched > 0),
        }
    }

    /// Inserts chunks by one request.
    async fn insert(self, documents: Vec<RawDocumentBuf>) -> Result<()> {
        let insert = InsertOperation {
            collection: self.access.model.collection.into(),
            documents,
            ordered: true,
            origin: Stage::ARRAYS.step("insert the chunks"),
        };
        self.access.insert(insert).await
    }

    /// Updates the chunks that match the filter.
    pub(super) async fn update(
        self,
        filter: &Document,
        update: &Document,
        array_filters: &[Document],
    ) -> Result<()> {
        let array_filters = array_filters.iter().map(to_raw_document);
        let update = UpdateOperation {
            collection: self.access.model.collection.into(),
            filter: to_raw_document(filter)?,
            change: DocumentChange::Operators {
                update: to_raw_document(update)?,
                array_filters: array_filters.collect::<Result<_>>()?,
            },
            multi: true,
            upsert: false,
            origin: Stage::ARRAYS.step("update the chunks"),
        };
        self.access.update(update).await.map(drop)
    }

    /// Confirms the chunks that match the filter: removes the provisional mark.
    pub(super) async fn confirm(self, filter: &Document) -> Result<()> {
        let confirm = doc! { "$unset": { PROVISIONAL: "" } };
        self.update(filter, &confirm, &[]).await
    }

    /// Deletes the chunks that match the filter.
    pub(super) async fn delete(self, filter: &Document) -> Result<u64> {
        let delete = DeleteOperation {
            collection: self.access.model.collection.into(),
            filter: to_raw_document(filter)?,
            multi: true,
            origin: Stage::ARRAYS.step("delete the chunks"),
        };
        Ok(self.access.delete(delete).await?.deleted)
    }

    /// Counts the chunks that match the filter.
    pub(super) async fn count(self, filter: &Document) -> Result<i64> {
        let count = CountOperation {
            collection: self.access.model.collection.into(),
            filter: to_raw_document(filter)?,
            limit: None,
            options: Stage::ARRAYS.step("count the chunks").into(),
        };
        let count = self.access.count(count).await?;
        Ok(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// Returns the owner, the number and the metadata of a provisional chunk. `None` if the lease is renewed, or if the chunk is
    /// gone or confirmed.
    pub(super) async fn read_expired(self, id: &RawBson) -> Result<Option<Document>> {
        let field = self.field;
        let projection = doc! { "_id": 1, metadata::FIELD: 1, field.owner: 1, field.seq: 1 };
        let mut filter = PendingKind::PROVISIONAL_CHUNK.expired_filter()?;
        append_field(&mut filter, "_id", equal_to(id.clone()))?;
        let find = self
            .access
            .find_matching(&filter)
            .with_origin(Stage::ARRAYS.step("read the provisional chunk"))
            .with_projection(to_raw_document(&projection)?);
        let found = self.access.find_all(find).await?;
        found.first().map(|raw| parse_document(raw)).transpose()
    }
}

/// Returns the filter for the chunks of an owner that the write with this token has filled.
pub(super) fn staged_chunks_filter(
    field: &OverflowField,
    owner: &Bson,
    token: ObjectId,
) -> Document {
    doc! { field.owner: { "$eq": owner.clone() }, PROVISIONAL_TOKEN: { "$eq": token } }
}
