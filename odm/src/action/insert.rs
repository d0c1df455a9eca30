//! `insert` and `insert_many`.

use crate::model::hook::{self, Committed, HookedWrite, RunHooks};
use std::pin::Pin;

use bson::RawDocumentBuf;

use super::{bulk::insert_each, explain::ExplainWrite};
use crate::{
    Error, ErrorKind, Result,
    backend::{
        BoxFuture,
        operation::{InsertOperation, OperationOrigin},
    },
    language::query::{encode_new_document, encode_unchecked},
    model::{
        decode::decode_new,
        document::{Document, Draft},
    },
    schema::{Model, computed::evaluate::compute_fields},
    session::access::Access,
    write::{SequenceNumbers, SourceCache, WriteRequest, resolve_drafts},
};

/// Inserts a document and returns the stored document; made by [`Session::insert`](crate::Session::insert).
///
/// # Errors
///
/// On an error, nothing was written. The awaited insert fails with
///
/// - [`DuplicateKey`](crate::ErrorKind::DuplicateKey) if a document with the `_id` or with the value of a unique index exists,
/// - [`TooManyElements`](crate::ErrorKind::TooManyElements) if an array is longer than its `max`,
/// - [`Dangling`](crate::ErrorKind::Dangling) if the target of a reference with a delete rule, or the source of a copy, does not
///   exist,
/// - [`Validation`](crate::ErrorKind::Validation) if a value breaks a rule of the model.
#[must_use = "an insert runs when awaited"]
pub struct InsertOne<T> {
    access: Access,
    document: Result<Draft<T>>,
}

impl<T: Document> InsertOne<T> {
    pub(crate) fn new(access: Access, document: Result<Draft<T>>) -> Self {
        Self { access, document }
    }

    pub(super) fn into_parts(self) -> (Access, Result<Draft<T>>) {
        (self.access, self.document)
    }

    /// Returns the plan of the insert, without inserting anything: see [`ExplainWrite`].
    ///
    /// A sequence number is reserved in the trial: other inserts with the same prefix wait or conflict until `explain` returns.
    pub fn explain(self) -> ExplainWrite<'static> {
        explain_insert(self.access, self.document.map(|document| vec![document]))
    }
}

impl<T: Document> IntoFuture for InsertOne<T> {
    type Output = Result<T>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let inserted = insert_documents(self.access, vec![self.document?]).await;
            let mut inserted = inserted.map_err(Error::without_inserted)?;
            Ok(inserted.swap_remove(0))
        })
    }
}

/// Inserts documents in order and returns the stored documents; made by [`Session::insert_many`](crate::Session::insert_many).
///
/// All documents are encoded and validated before the first write. In a transaction, all documents are inserted or none.
///
/// # Errors
///
/// The errors of [`InsertOne`]. If the backend refuses a document, the earlier documents stay stored and the later documents are
/// not written. [`Error::inserted`](crate::Error::inserted) counts the stored documents.
///
/// On a standalone server, an insert of a document with spilled elements counts as abandoned after five minutes. The insert then
/// fails with [`Conflict`](crate::ErrorKind::Conflict): `inserted` counts the documents before the abandoned document, and later
/// documents may be stored too. An insert of documents with references counts as abandoned after five seconds. The insert then
/// fails with `Conflict` if a document was rolled back or deleted meanwhile, and documents after a refused document may be stored
/// too.
#[must_use = "an insert runs when awaited"]
pub struct InsertMany<T> {
    access: Access,
    documents: Result<Vec<Draft<T>>>,
}

impl<T: Document> InsertMany<T> {
    pub(crate) fn new(access: Access, documents: Result<Vec<Draft<T>>>) -> Self {
        Self { access, documents }
    }

    /// Skips documents with an existing `_id`, or with an existing value in a unique index. An earlier document of the same insert
    /// counts, too. All other documents are inserted, in any order.
    ///
    /// The insert is a single operation. Documents with references with rules, copies, rollups, overflow arrays, hooks or sequence
    /// numbers are inserted one by one.
    ///
    /// # Errors
    ///
    /// The error of the first document that fails for another reason. [`Error::failures`](crate::Error::failures) lists all
    /// failures, and [`Error::inserted`](crate::Error::inserted) counts the stored documents.
    /// [`Unsupported`](crate::ErrorKind::Unsupported) in a transaction.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Debug, PartialEq, Serialize, Deserialize, Document)]
    /// # #[document(collection = "words")]
    /// # struct Word { #[serde(rename = "_id")] id: String, language: String }
    /// # #[derive(Schema)] #[schema(models(Word))] struct Site;
    /// # #[cfg(feature = "engine")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> odm::Result<()> {
    /// # let db = odm::Database::<Site>::open("memory:").await?;
    /// let word = |id: &str| Word { id: id.into(), language: "en".into() };
    /// db.insert(word("saw")).await?;
    /// let new = db.insert_many([word("hammer"), word("saw"), word("nail")]).skip_duplicates().await?;
    /// assert_eq!(new.inserted, [word("hammer"), word("nail")]);
    /// assert_eq!(new.skipped, [1]);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    pub fn skip_duplicates(self) -> InsertNew<T> {
        InsertNew {
            access: self.access,
            documents: self.documents,
        }
    }

    /// Returns the plan of the insert, without inserting anything: see [`ExplainWrite`].
    ///
    /// Sequence numbers are reserved in the trial: other inserts with the same prefix wait or conflict until `explain` returns.
    pub fn explain(self) -> ExplainWrite<'static> {
        explain_insert(self.access, self.documents)
    }
}

/// Inserts the documents without a duplicate; made by [`InsertMany::skip_duplicates`].
#[must_use = "an insert runs when awaited"]
pub struct InsertNew<T> {
    access: Access,
    documents: Result<Vec<Draft<T>>>,
}

/// The result of an [`InsertNew`].
#[must_use = "some of the documents may have been skipped"]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InsertedNew<T> {
    /// The stored documents, in order.
    pub inserted: Vec<T>,
    /// The positions of the skipped documents, counted from 0.
    pub skipped: Vec<usize>,
}

impl<T: Document> IntoFuture for InsertNew<T> {
    type Output = Result<InsertedNew<T>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            if self.access.transaction_scope().is_some() {
                let message = "a duplicate ends a transaction, so a transaction cannot skip duplicates: insert outside of the transaction, or \
                               use `upsert_by`, or find the existing documents first";
                let error = Error::new(ErrorKind::Unsupported, message);
                return Err(crate::error::of_model::<T>(error));
            }
            insert_new(self.access, self.documents?).await
        })
    }
}

/// Inserts each document independently of the others, in a single bulk if the model allows a bulk.
async fn insert_new<T: Document>(access: Access, drafts: Vec<Draft<T>>) -> Result<InsertedNew<T>> {
    let (mut documents, _) = resolve_complete(&access, drafts).await?;
    let mut results = Vec::with_capacity(documents.len());
    if T::HAS_HOOKS || T::MODEL.is_numbered() {
        for document in documents {
            let document = Draft::of(document);
            let inserted = insert_documents(access.clone(), vec![document]).await;
            results.push(
                inserted
                    .map_err(Error::without_inserted)
                    .map(|mut one| one.swap_remove(0)),
            );
        }
    } else {
        let mut raws = Vec::with_capacity(documents.len());
        for document in &mut documents {
            raws.push(encode_for_insert(document)?);
        }
        let outcomes = insert_each::<T>(&access, &raws).await?;
        for ((mut document, raw), outcome) in documents.into_iter().zip(raws).zip(outcomes) {
            document.keep_resident(&raw);
            results.push(outcome.map_or(Ok(document), Err));
        }
    }
    let mut new = InsertedNew {
        inserted: Vec::with_capacity(results.len()),
        skipped: Vec::new(),
    };
    let mut failures = Vec::new();
    for (position, result) in results.into_iter().enumerate() {
        match result {
            Ok(document) => new.inserted.push(document),
            Err(error) if error.is_duplicate_key() => new.skipped.push(position),
            Err(error) => failures.push((position, error)),
        }
    }
    match failures.first() {
        None => Ok(new),
        Some((_, first)) => {
            let error = first.clone().with_inserted(new.inserted.len());
            Err(error.with_failures(failures))
        }
    }
}

/// Explains an insert without hooks.
fn explain_insert<T: Document>(
    access: Access,
    documents: Result<Vec<Draft<T>>>,
) -> ExplainWrite<'static> {
    ExplainWrite::new::<T, _>(access, |access| async move {
        let (inserted, sources) = resolve_complete(&access, documents?).await?;
        let inserted = insert_without_hooks(access, inserted, sources).await;
        inserted.map(drop)
    })
}

impl<T: Document> IntoFuture for InsertMany<T> {
    type Output = Result<Vec<T>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { insert_documents(self.access, self.documents?).await })
    }
}

/// Inserts documents and runs the hooks of the model.
pub(super) async fn insert_documents<T: Document>(
    access: Access,
    inserted: Vec<Draft<T>>,
) -> Result<Vec<T>> {
    let (inserted, sources) = resolve_complete(&access, inserted).await?;
    if T::HAS_HOOKS && !inserted.is_empty() {
        return insert_with_hooks(access, inserted, sources).await;
    }
    insert_without_hooks(access, inserted, sources).await
}

/// Turns drafts into documents, with the sources of their copies.
///
/// # Errors
///
/// An error for a document with an array that was not read completely. Checked before encoding for a retry: the encoded document
/// no longer shows that elements are missing.
async fn resolve_complete<T: Document>(
    access: &Access,
    drafts: Vec<Draft<T>>,
) -> Result<(Vec<T>, SourceCache)> {
    let (documents, sources) = resolve_drafts(access, drafts).await?;
    let complete = documents.iter().try_for_each(Document::ensure_complete);
    complete.map_err(crate::error::of_model::<T>)?;
    Ok((documents, sources))
}

/// Boxed as a trait object, so that models without hooks do not compile this code.
fn insert_with_hooks<T: Document>(
    access: Access,
    inserted: Vec<T>,
    sources: SourceCache,
) -> BoxFuture<'static, Result<Vec<T>>> {
    Box::pin(async move {
        match T::hooks() {
            Some(hooks) => insert_with_retries(hooks, access, inserted, sources).await,
            None => insert_without_hooks(access, inserted, sources).await,
        }
    })
}

async fn insert_with_retries<T: Document>(
    hooks: &'static dyn RunHooks<T>,
    access: Access,
    mut inserted: Vec<T>,
    sources: SourceCache,
) -> Result<Vec<T>> {
    let numbers = assign_numbers(&access, &mut inserted).await;
    let numbers = &numbers.map_err(|error| access.fail_transaction(error))?;
    // Hooks change the documents, so each retry starts from the original encoding.
    let originals: Result<Vec<_>> = inserted.iter().map(encode_unchecked).collect();
    let mut inserted = Some(inserted);
    let work = |access: Access| {
        let inserted = match (inserted.take(), &originals) {
            (Some(inserted), _) => Ok(inserted),
            (None, Ok(originals)) => {
                let decoded = originals.iter().map(|raw| decode_new::<T>(raw));
                decoded.collect::<Result<Vec<T>>>()
            }
            (None, Err(error)) => Err(crate::error::of_model::<T>(error.clone())),
        };
        let sources = sources.clone();
        async move { insert_and_run_hooks(hooks, access, numbers, inserted?, sources).await }
    };
    let owns_transaction = access.transaction_scope().is_none() && access.has_transactions();
    let result = access.run_transactional(work).await;
    // The transaction was rolled back, so that no document of this insert is stored.
    result.map_err(|error| match error.inserted() {
        Some(_) if owns_transaction => error.with_inserted(0),
        _ => error,
    })
}

async fn insert_and_run_hooks<T: Document>(
    hooks: &'static dyn RunHooks<T>,
    access: Access,
    numbers: &SequenceNumbers,
    mut inserted: Vec<T>,
    sources: SourceCache,
) -> Result<Vec<T>> {
    let mut documents = Vec::with_capacity(inserted.len());
    for (position, document) in inserted.iter_mut().enumerate() {
        let fail = |error| access.fail_transaction(error);
        hooks.before_insert(document, &access).await.map_err(fail)?;
        hooks
            .before_validate(document, &access)
            .await
            .map_err(fail)?;
        let numbered = numbers.restore_numbers(&access, position, document).await;
        numbered.map_err(fail)?;
        documents.push(encode_for_insert(document).map_err(fail)?);
        hooks
            .after_validate(document, &access)
            .await
            .map_err(fail)?;
    }
    let raws = documents.clone();
    let write = InsertOperation {
        collection: T::COLLECTION.into(),
        documents,
        ordered: true,
        origin: OperationOrigin::default(),
    };
    let plan = WriteRequest::new(&T::MODEL, write)?.with_sources(sources);
    let result = hook::run_with_after_hooks(access, hooks, move |access| async move {
        let failure = plan.run(access.clone()).await.err();
        let stored = match &failure {
            None => inserted.len(),
            // Without a transaction, the documents before the failed document stay stored.
            Some(error) if access.transaction_scope().is_none() => {
                error.inserted().unwrap_or_default()
            }
            Some(_) => 0,
        };
        if let (Some(error), 0) = (&failure, stored) {
            return Err(error.clone());
        }
        keep_resident(&mut inserted, &overflow_raws::<T>(&raws));
        let mut after = Ok(());
        for document in inserted.iter().take(stored) {
            after = after.and(hooks.after_insert(document, &access).await);
        }
        let events = raws.iter().take(stored);
        let events = events.map(|raw| {
            let mut document = decode_new::<T>(raw)?;
            document.keep_resident(raw);
            Ok(Committed::Inserted(document))
        });
        let events = events.collect::<Result<_>>()?;
        let result = failure.map_or(Ok(inserted), Err);
        Ok(HookedWrite {
            done: result,
            after_hooks: after,
            events,
        })
    });
    result.await?
}

async fn insert_without_hooks<T: Document>(
    access: Access,
    mut inserted: Vec<T>,
    sources: SourceCache,
) -> Result<Vec<T>> {
    assign_numbers(&access, &mut inserted).await?;
    let mut documents = Vec::with_capacity(inserted.len());
    for document in &mut inserted {
        documents.push(encode_for_insert(document)?);
    }
    if documents.is_empty() {
        return Ok(inserted);
    }
    let raws = overflow_raws::<T>(&documents);
    store_documents(access, &T::MODEL, documents, sources).await?;
    keep_resident(&mut inserted, &raws);
    Ok(inserted)
}

/// Inserts encoded documents in order, without hooks.
pub(super) fn store_documents(
    access: Access,
    model: &'static Model,
    documents: Vec<RawDocumentBuf>,
    sources: SourceCache,
) -> BoxFuture<'static, Result<u64>> {
    Box::pin(async move {
        let write = InsertOperation {
            collection: model.collection.into(),
            documents,
            ordered: true,
            origin: OperationOrigin::default(),
        };
        let plan = WriteRequest::new(model, write)?.with_sources(sources);
        Ok(plan.run(access).await?.matched)
    })
}

/// Assigns sequence numbers if the model has a number.
async fn assign_numbers<T: Document>(
    access: &Access,
    inserted: &mut [T],
) -> Result<SequenceNumbers> {
    match T::MODEL.is_numbered() {
        true => SequenceNumbers::assign_numbers(access, inserted).await,
        false => Ok(SequenceNumbers::default()),
    }
}

/// Returns the encoded documents if the model has overflow arrays, otherwise an empty list.
fn overflow_raws<T: Document>(documents: &[RawDocumentBuf]) -> Vec<RawDocumentBuf> {
    match T::MODEL.overflows.is_empty() {
        true => Vec::new(),
        false => documents.to_vec(),
    }
}

/// Removes the spilled elements from the overflow arrays of inserted documents.
fn keep_resident<T: Document>(documents: &mut [T], raws: &[RawDocumentBuf]) {
    for (document, raw) in documents.iter_mut().zip(raws) {
        document.keep_resident(raw);
    }
}

/// Encodes a document for the insert, with id and computed fields. Decodes the document again if encoding changes values.
pub(super) fn encode_for_insert<T: Document>(document: &mut T) -> Result<RawDocumentBuf> {
    // A hook may have changed a field of the id.
    document.compose_id()?;
    let mut raw = encode_new_document(document).map_err(crate::error::of_model::<T>)?;
    compute_fields(&T::MODEL, &mut raw)?;
    if T::MODEL.rounds_values || !T::MODEL.computed.is_empty() {
        *document = decode_new(&raw)?;
    }
    Ok(raw)
}
