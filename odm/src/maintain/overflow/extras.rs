//! Writing the documents that have the elements outside of an owner: what stands in them is told in `crate::overflow`.

use bson::{Bson, DateTime, Document, RawBson, RawDocumentBuf, doc, oid::ObjectId};

use super::{
    At, MAX_PART,
    header::{size, size_of},
    room::SIZE_OF_AN_ARRAY,
};
use crate::{
    ErrorKind, Result,
    access::{Access, found_by},
    backend::operation::{Change, Delete, Find, Insert, Update},
    error,
    maintain::stored::{close, open},
    schema::OverflowField,
};

pub(super) use crate::overflow::extras::{
    GENERATION, OWN, bytes, count, in_order, of_generation, of_owner,
};

/// The last change of its elements, by the version of the owner.
pub(super) const DONE: &str = "_odm.done";

/// How many elements there are in one at most.
const MAX_ELEMENTS: usize = 500;

/// How many bytes are sent at once.
const MAX_SENT: usize = 8 * 1024 * 1024;

/// Where they are from, and what they say of themselves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Batch<'b> {
    pub(super) owner: &'b Bson,
    pub(super) generation: ObjectId,
    /// The write that makes them.
    pub(super) key: ObjectId,
    /// The number of the first.
    pub(super) first: i64,
}

/// The elements of each document that they fill.
pub(super) fn parts(elements: &[Bson]) -> Result<Vec<Vec<Bson>>> {
    let parts = split(elements, size, MAX_ELEMENTS, MAX_PART)?;
    Ok(parts.into_iter().map(<[_]>::to_vec).collect())
}

/// The elements that one request has room for, and those of the next ones.
pub(super) fn for_one_request(elements: &[Bson]) -> Result<Vec<&[Bson]>> {
    split(elements, size, usize::MAX, MAX_SENT)
}

/// How many elements one update takes away by what they are.
const MAX_PULLED: usize = 1_000;

/// The elements that one update can name to be pulled, and those of the next ones: they stand in the document until they are gone.
pub(in crate::maintain) fn for_one_pull<'e>(
    field: &OverflowField,
    elements: &'e [RawBson],
) -> Result<Vec<&'e [RawBson]>> {
    let size = |element: &RawBson| size_of(element.clone());
    split(elements, size, MAX_PULLED, field.part - SIZE_OF_AN_ARRAY)
}

/// Some elements after the other, so many and of so many bytes at most, but one at least.
fn split<E>(
    elements: &[E],
    size: impl Fn(&E) -> Result<usize>,
    most: usize,
    most_bytes: usize,
) -> Result<Vec<&[E]>> {
    let (mut parts, mut first, mut bytes) = (Vec::new(), 0, 0);
    for (position, element) in elements.iter().enumerate() {
        let own = size(element)?;
        let len = position - first;
        if len > 0 && (len >= most || bytes + own > most_bytes) {
            parts.extend(elements.get(first..position));
            (first, bytes) = (position, 0);
        }
        bytes += own;
    }
    parts.extend(elements.get(first..).filter(|rest| !rest.is_empty()));
    Ok(parts)
}

impl Batch<'_> {
    fn document(&self, field: &OverflowField, n: i64, elements: Vec<Bson>) -> Document {
        let Self {
            owner,
            generation,
            key,
            first,
        } = *self;
        doc! {
            "_id": { "owner": owner.clone(), "generation": generation, "key": key, "n": n },
            field.owner: owner.clone(),
            field.seq: first + n,
            field.elements: elements,
            "_odm": { "generation": generation },
        }
    }

    /// Inserts one that follows from what its owner says; tells whether it was there already.
    pub(super) async fn spill(
        &self,
        access: &Access,
        field: &OverflowField,
        elements: Vec<Bson>,
    ) -> Result<bool> {
        let mut document = self.document(field, 0, elements);
        if access.unit().is_none() {
            set_own(&mut document, doc! { "due": super::due() });
        }
        insert_once(access, field, document).await
    }

    /// Inserts some that nobody reads before their key is published; in a transaction they are there with it.
    pub(super) async fn stage(
        &self,
        access: &Access,
        field: &OverflowField,
        parts: &[Vec<Bson>],
        at: Option<&At<'_>>,
    ) -> Result<()> {
        let (mut documents, mut bytes) = (Vec::new(), 0);
        for (n, part) in (0..).zip(parts) {
            let mut document = self.document(field, n, part.clone());
            if access.unit().is_none() {
                // Others wait for what is being done to a document, and not for one that comes.
                let due = match at {
                    Some(_) => super::due(),
                    None => super::due_of_insert(),
                };
                set_own(&mut document, doc! { "due": due, "key": self.key });
            }
            let document = close(&document)?;
            bytes += document.as_bytes().len();
            documents.push(document);
            if bytes > MAX_SENT {
                insert(access, field, std::mem::take(&mut documents)).await?;
                bytes = 0;
                if let Some(at) = at
                    && !at.renew(self.key).await?
                {
                    return Err(at.busy());
                }
            }
        }
        match documents.is_empty() {
            true => Ok(()),
            false => insert(access, field, documents).await,
        }
    }

    /// Inserts those that are missing of some that are their owner's, if that is there still: nobody looks for those of one that is gone, so
    /// they say that they may be nobody's.
    pub(super) async fn fill(
        &self,
        access: &Access,
        field: &OverflowField,
        parts: &[Vec<Bson>],
    ) -> Result<()> {
        for (n, part) in (0..).zip(parts) {
            let mut document = self.document(field, n, part.clone());
            set_own(&mut document, doc! { "due": super::due() });
            insert_once(access, field, document).await?;
        }
        Ok(())
    }
}

/// Remembers for a while that the insert of a document was taken for one that nobody goes on with: who does go on with it is to know.
pub(super) async fn give_up(
    access: &Access,
    field: &OverflowField,
    owner: &Bson,
    key: ObjectId,
) -> Result<()> {
    let own = doc! { "due": super::due_of_insert() };
    let document = doc! { "_id": given_up(owner, key), "_odm": { "own": own } };
    insert_once(access, field, document).await.map(drop)
}

/// Whether it is remembered.
pub(super) async fn is_given_up(
    access: &Access,
    field: &OverflowField,
    owner: &Bson,
    key: ObjectId,
) -> Result<bool> {
    let filter = doc! { "_id": { "$eq": given_up(owner, key) } };
    let find = found_by(&field.extras.collection.into(), &close(&filter)?);
    let found = access.find_all(field.extras, find).await?;
    Ok(!found.is_empty())
}

/// Where it is said of which insert.
pub(super) const GIVEN_UP: &str = "_id.given_up";

fn given_up(owner: &Bson, key: ObjectId) -> Document {
    doc! { "owner": owner.clone(), "given_up": key }
}

/// Inserts a document if there is none with its `_id`; tells whether there was.
async fn insert_once(
    access: &Access,
    field: &OverflowField,
    mut document: Document,
) -> Result<bool> {
    let id = document.remove("_id").unwrap_or(Bson::Null);
    let update = Update {
        collection: field.extras.collection.into(),
        filter: close(&doc! { "_id": { "$eq": id } })?,
        change: Change::operators(close(&doc! { "$setOnInsert": document })?),
        multi: false,
        upsert: true,
    };
    access.told().writes();
    match access.executor().update(update).await {
        Err(error) if error.kind() == ErrorKind::DuplicateKey && access.unit().is_none() => {
            Ok(true)
        }
        done => Ok(done.map_err(error::of(field.extras))?.matched > 0),
    }
}

fn set_own(document: &mut Document, own: Document) {
    if let Ok(inside) = document.get_document_mut("_odm") {
        inside.insert("own", own);
    }
}

async fn insert(
    access: &Access,
    field: &OverflowField,
    documents: Vec<RawDocumentBuf>,
) -> Result<()> {
    let insert = Insert {
        collection: field.extras.collection.into(),
        documents,
        ordered: true,
    };
    access.told().writes();
    let done = access.executor().insert(insert).await;
    done.map_err(error::of(field.extras))
}

/// Changes some of them.
pub(super) async fn change(
    access: &Access,
    field: &OverflowField,
    filter: &Document,
    update: &Document,
    array_filters: &[Document],
) -> Result<u64> {
    let array_filters = array_filters.iter().map(close).collect::<Result<_>>()?;
    let update = Update {
        collection: field.extras.collection.into(),
        filter: close(filter)?,
        change: Change::Operators {
            update: close(update)?,
            array_filters,
        },
        multi: true,
        upsert: false,
    };
    access.told().writes();
    let done = access.executor().update(update).await;
    Ok(done.map_err(error::of(field.extras))?.matched)
}

/// Deletes some of them.
pub(super) async fn delete(
    access: &Access,
    field: &OverflowField,
    filter: &Document,
) -> Result<u64> {
    let delete = Delete {
        collection: field.extras.collection.into(),
        filter: close(filter)?,
        multi: true,
    };
    access.told().writes();
    let done = access.executor().delete(delete).await;
    Ok(done.map_err(error::of(field.extras))?.deleted)
}

/// Some that may be no owner's, and that others may see to by now.
pub(super) async fn overdue(
    access: &Access,
    field: &OverflowField,
    but: &[Bson],
    limit: u64,
) -> Result<Vec<Document>> {
    let mut filter = doc! { "_odm.own.due": { "$lte": DateTime::now() } };
    if !but.is_empty() {
        filter.insert("_id", doc! { "$nin": but.to_vec() });
    }
    let find = Find {
        projection: Some(close(
            &doc! { "_id": 1, "_odm": 1, field.owner: 1, field.seq: 1 },
        )?),
        limit: Some(limit),
        ..found_by(&field.extras.collection.into(), &close(&filter)?)
    };
    let found = access.find_all(field.extras, find).await?;
    found.iter().map(|raw| open(raw)).collect()
}
