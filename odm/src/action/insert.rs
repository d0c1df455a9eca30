//! Inserting documents.

use std::pin::Pin;

use bson::RawDocumentBuf;

use crate::{
    Result, access::Access, backend::operation::Insert, document::Document, maintain::Plan,
    query::encode_document,
};

/// Inserts a document and gives it back as stored; made by [`Session::insert`](crate::Session::insert).
///
/// Fails with [`DuplicateKey`](crate::ErrorKind::DuplicateKey) if its `_id` or a value of a unique index is there
/// already, and with [`TooManyElements`](crate::ErrorKind::TooManyElements) if an array is longer than its `max`;
/// nothing is written then.
#[must_use = "an insert happens when it is awaited"]
pub struct InsertOne<T> {
    access: Access,
    document: Result<T>,
}

impl<T: Document> InsertOne<T> {
    pub(crate) fn new(access: Access, document: Result<T>) -> Self {
        Self { access, document }
    }

    pub(super) fn into_parts(self) -> (Access, Result<T>) {
        (self.access, self.document)
    }
}

impl<T: Document> IntoFuture for InsertOne<T> {
    type Output = Result<T>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let inserted = insert(self.access, vec![self.document?]).await;
            let mut inserted = inserted.map_err(crate::Error::without_inserted)?;
            Ok(inserted.swap_remove(0))
        })
    }
}

/// Inserts documents in order and gives them back as stored; made by
/// [`Session::insert_many`](crate::Session::insert_many).
///
/// All are encoded and checked before the first is written. Where one is refused by the backend, those before it are
/// stored, those behind it are not, and [`Error::inserted`](crate::Error::inserted) counts the former; in a transaction
/// all happen or none.
#[must_use = "an insert happens when it is awaited"]
pub struct InsertMany<T> {
    access: Access,
    documents: Result<Vec<T>>,
}

impl<T: Document> InsertMany<T> {
    pub(crate) fn new(access: Access, documents: Result<Vec<T>>) -> Self {
        Self { access, documents }
    }
}

impl<T: Document> IntoFuture for InsertMany<T> {
    type Output = Result<Vec<T>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { insert(self.access, self.documents?).await })
    }
}

async fn insert<T: Document>(access: Access, mut given: Vec<T>) -> Result<Vec<T>> {
    let mut documents = Vec::with_capacity(given.len());
    for document in &mut given {
        documents.push(as_stored(document)?);
    }
    if documents.is_empty() {
        return Ok(given);
    }
    let write = Insert {
        collection: T::COLLECTION.into(),
        documents,
        ordered: true,
    };
    Plan::new(&T::MODEL, write)?.run(access).await?;
    Ok(given)
}

/// The document as it will be stored; the value becomes what that says.
pub(super) fn as_stored<T: Document>(document: &mut T) -> Result<RawDocumentBuf> {
    let encoded = encode_document(document).map_err(crate::error::of_model::<T>)?;
    if T::MODEL.rounds {
        *document = T::from_stored(&encoded)?;
    }
    Ok(encoded)
}
