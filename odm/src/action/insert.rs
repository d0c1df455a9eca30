//! Inserting documents.

use std::pin::Pin;

use bson::RawDocumentBuf;

use crate::{
    Result,
    access::Access,
    backend::{BoxFuture, operation::Insert},
    decode::encoded,
    document::{Document, Draft},
    hook::{self, Committed, RunHooks, Written},
    maintain::{self, Numbers, Plan, Sources, resolve},
    query::{encode_new_document, encode_unchecked},
    schema::Model,
    unit,
};

/// Inserts a document and gives it back as stored; made by [`Session::insert`](crate::Session::insert).
///
/// Fails with [`DuplicateKey`](crate::ErrorKind::DuplicateKey) if its `_id` or a value of a unique index is there
/// already, and with [`TooManyElements`](crate::ErrorKind::TooManyElements) if an array is longer than its `max`;
/// nothing is written then.
#[must_use = "an insert happens when it is awaited"]
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
///
/// Where one with elements outside of it was taken for left behind, as on a standalone server after five minutes, it is an error of kind
/// [`Conflict`](crate::ErrorKind::Conflict): `inserted` counts those before it, and those behind it may be stored too.
#[must_use = "an insert happens when it is awaited"]
pub struct InsertMany<T> {
    access: Access,
    documents: Result<Vec<Draft<T>>>,
}

impl<T: Document> InsertMany<T> {
    pub(crate) fn new(access: Access, documents: Result<Vec<Draft<T>>>) -> Self {
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

/// Inserts documents, with the hooks of their model.
pub(super) async fn insert<T: Document>(access: Access, given: Vec<Draft<T>>) -> Result<Vec<T>> {
    let (given, sources) = resolve(&access, given).await?;
    // Of what is encoded for a further attempt nobody knows it any more.
    let mut documents = given.iter();
    let whole = documents.try_for_each(Document::refuse_partial);
    whole.map_err(crate::error::of_model::<T>)?;
    if T::HAS_HOOKS && !given.is_empty() {
        return insert_with_hooks(access, given, sources).await;
    }
    insert_plainly(access, given, sources).await
}

/// An object, so that of a model without hooks nothing of it is compiled.
fn insert_with_hooks<T: Document>(
    access: Access,
    given: Vec<T>,
    sources: Sources,
) -> BoxFuture<'static, Result<Vec<T>>> {
    Box::pin(async move {
        match T::hooks() {
            Some(hooks) => insert_again_and_again(hooks, access, given, sources).await,
            None => insert_plainly(access, given, sources).await,
        }
    })
}

async fn insert_again_and_again<T: Document>(
    hooks: &'static dyn RunHooks<T>,
    access: Access,
    mut given: Vec<T>,
    sources: Sources,
) -> Result<Vec<T>> {
    let numbers = number(&access, &mut given).await;
    let numbers = &numbers.map_err(|error| access.fail(error))?;
    // Hooks change what they are given: a further attempt begins with what was given first.
    let originals: Result<Vec<_>> = given.iter().map(encode_unchecked).collect();
    let mut given = Some(given);
    let work = |access: Access| {
        let given = match (given.take(), &originals) {
            (Some(given), _) => Ok(given),
            (None, Ok(originals)) => {
                let again = originals.iter().map(|raw| encoded::<T>(raw));
                again.collect::<Result<Vec<T>>>()
            }
            (None, Err(error)) => Err(crate::error::of_model::<T>(error.clone())),
        };
        let sources = sources.clone();
        async move { insert_hooked(hooks, access, numbers, given?, sources).await }
    };
    let is_alone = access.unit().is_none() && access.has_transactions();
    let done = access.together(unit::ATTEMPTS, work).await;
    // What was stored before the failure has been taken back.
    done.map_err(|error| match error.inserted() {
        Some(_) if is_alone => error.with_inserted(0),
        _ => error,
    })
}

async fn insert_hooked<T: Document>(
    hooks: &'static dyn RunHooks<T>,
    access: Access,
    numbers: &Numbers,
    mut given: Vec<T>,
    sources: Sources,
) -> Result<Vec<T>> {
    let mut documents = Vec::with_capacity(given.len());
    for (position, document) in given.iter_mut().enumerate() {
        let fail = |error| access.fail(error);
        hooks.before_insert(document, &access).await.map_err(fail)?;
        hooks
            .before_validate(document, &access)
            .await
            .map_err(fail)?;
        let numbered = numbers.keep(&access, position, document).await;
        numbered.map_err(fail)?;
        documents.push(as_stored(document).map_err(fail)?);
        hooks
            .after_validate(document, &access)
            .await
            .map_err(fail)?;
    }
    let raws = documents.clone();
    let write = Insert {
        collection: T::COLLECTION.into(),
        documents,
        ordered: true,
    };
    let plan = Plan::new(&T::MODEL, write)?.with_sources(sources);
    let done = hook::written(access, hooks, move |access| async move {
        let refused = plan.run(access.clone()).await.err();
        let stored = match &refused {
            None => given.len(),
            // Outside of a transaction, those before it are there to stay.
            Some(error) if access.unit().is_none() => error.inserted().unwrap_or_default(),
            Some(_) => 0,
        };
        if let (Some(error), 0) = (&refused, stored) {
            return Err(error.clone());
        }
        keep_inside(&mut given, &kept_raws::<T>(&raws));
        let mut after = Ok(());
        for document in given.iter().take(stored) {
            after = after.and(hooks.after_insert(document, &access).await);
        }
        let events = raws.iter().take(stored);
        let events = events.map(|raw| {
            let mut document = encoded::<T>(raw)?;
            document.keep_inside(raw);
            Ok(Committed::Inserted(document))
        });
        let events = events.collect::<Result<_>>()?;
        let done = refused.map_or(Ok(given), Err);
        Ok(Written {
            done,
            after,
            events,
        })
    });
    done.await?
}

async fn insert_plainly<T: Document>(
    access: Access,
    mut given: Vec<T>,
    sources: Sources,
) -> Result<Vec<T>> {
    number(&access, &mut given).await?;
    let documents = given.iter_mut().map(as_stored);
    let documents = documents.collect::<Result<Vec<_>>>()?;
    if documents.is_empty() {
        return Ok(given);
    }
    let raws = kept_raws::<T>(&documents);
    store(access, &T::MODEL, documents, sources).await?;
    keep_inside(&mut given, &raws);
    Ok(given)
}

/// Stores them.
pub(super) fn store(
    access: Access,
    model: &'static Model,
    documents: Vec<RawDocumentBuf>,
    sources: Sources,
) -> BoxFuture<'static, Result<u64>> {
    Box::pin(async move {
        let write = Insert {
            collection: model.collection.into(),
            documents,
            ordered: true,
        };
        let plan = Plan::new(model, write)?.with_sources(sources);
        plan.run(access).await
    })
}

/// Numbers them, if their model says so.
async fn number<T: Document>(access: &Access, given: &mut [T]) -> Result<Numbers> {
    match T::MODEL.number {
        Some(_) => Numbers::give(access, given).await,
        None => Ok(Numbers::default()),
    }
}

/// The documents that tell what stays in them, if that may not be all.
fn kept_raws<T: Document>(documents: &[RawDocumentBuf]) -> Vec<RawDocumentBuf> {
    match T::MODEL.overflows.is_empty() {
        true => Vec::new(),
        false => documents.to_vec(),
    }
}

/// What has been inserted has the elements of its arrays that are in the documents.
fn keep_inside<T: Document>(given: &mut [T], raws: &[RawDocumentBuf]) {
    for (document, raw) in given.iter_mut().zip(raws) {
        document.keep_inside(raw);
    }
}

/// The document as it will be stored; the value becomes what that says.
pub(super) fn as_stored<T: Document>(document: &mut T) -> Result<RawDocumentBuf> {
    // A hook may have changed what it is made of.
    document.fill_id()?;
    let mut raw = encode_new_document(document).map_err(crate::error::of_model::<T>)?;
    maintain::compute(&T::MODEL, &mut raw)?;
    if T::MODEL.rounds || !T::MODEL.computed.is_empty() {
        *document = encoded(&raw)?;
    }
    Ok(raw)
}
