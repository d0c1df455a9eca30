//! Where typed operations run: a database, or one of its transactions.

use std::{fmt, marker::PhantomData, sync::Arc};

use crate::{
    action::{Delete, Find, FindById, Get, GetMany, InsertMany, InsertOne, Update},
    backend::Executor,
    document::Document,
    query::{Filter, IntoKey},
    schema::{Contains, Schema},
};

/// The typed operations on the models of a schema, in a [`Database`](crate::Database) or in a
/// [`Transaction`](crate::Transaction): both lead here by deref, so a function that takes a `&Session` takes either.
///
/// ```
/// use odm::{Session, prelude::*};
/// # #[derive(Serialize, Deserialize, Document)]
/// # #[document(collection = "accounts")]
/// # struct Account { #[serde(rename = "_id")] id: String, credits: i64 }
/// # #[derive(Schema)] #[schema(models(Account))] struct Bank;
///
/// async fn give(bank: &Session<Bank>, to: &str, credits: i64) -> odm::Result<()> {
///     bank.update::<Account>(to).inc(|a| a.credits(), credits).await?;
///     Ok(())
/// }
///
/// # async fn example(db: odm::Database<Bank>) -> odm::Result<()> {
/// give(&db, "jane", 5).await?;
/// db.transaction(|tx| async move { give(&tx, "jane", 5).await }).await
/// # }
/// ```
pub struct Session<S> {
    executor: Arc<dyn Executor>,
    of: PhantomData<fn() -> S>,
}

impl<S> Session<S> {
    pub(crate) fn new(executor: Arc<dyn Executor>) -> Self {
        Self {
            executor,
            of: PhantomData,
        }
    }
}

impl<S: Schema> Session<S> {
    /// The document with this id.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) if there is none; [`find_by_id`](Self::find_by_id) gives an option.
    pub fn get<T: Document>(&self, id: impl IntoKey<T>) -> Get<T>
    where
        S: Contains<T>,
    {
        Get::new(self.executor.clone(), id.into_key())
    }

    /// The document with this id, if there is one.
    ///
    /// # Errors
    ///
    /// Those of the backend, and of a document that does not fit the model.
    pub fn find_by_id<T: Document>(&self, id: impl IntoKey<T>) -> FindById<T>
    where
        S: Contains<T>,
    {
        FindById::new(self.executor.clone(), id.into_key())
    }

    /// The documents with these ids, in one query: in the order of the ids, with what is missing told.
    pub fn get_many<T: Document>(&self, ids: impl IntoIterator<Item: IntoKey<T>>) -> GetMany<T>
    where
        S: Contains<T>,
    {
        GetMany::new(
            self.executor.clone(),
            ids.into_iter().map(IntoKey::into_key).collect(),
        )
    }

    /// A query over the documents of a model.
    pub fn find<T: Document>(&self) -> Find<S, T>
    where
        S: Contains<T>,
    {
        Find::new(self.executor.clone())
    }

    /// Inserts a document and gives it back as stored.
    pub fn insert<T: Document>(&self, document: T) -> InsertOne<T>
    where
        S: Contains<T>,
    {
        InsertOne::new(self.executor.clone(), document)
    }

    /// Inserts documents in order and gives them back as stored.
    pub fn insert_many<T: Document>(&self, documents: impl IntoIterator<Item = T>) -> InsertMany<T>
    where
        S: Contains<T>,
    {
        InsertMany::new(self.executor.clone(), documents.into_iter().collect())
    }

    /// Changes the document with this id.
    pub fn update<T: Document>(&self, id: impl IntoKey<T>) -> Update<T>
    where
        S: Contains<T>,
    {
        Update::one(self.executor.clone(), id.into_key())
    }

    /// Changes all documents that meet the condition: [`Filter::all`] for every document.
    pub fn update_many<T: Document>(
        &self,
        condition: impl FnOnce(T::Fields) -> Filter<T>,
    ) -> Update<T>
    where
        S: Contains<T>,
    {
        Update::many(self.executor.clone(), condition(T::fields()))
    }

    /// Deletes the document with this id.
    pub fn delete<T: Document>(&self, id: impl IntoKey<T>) -> Delete<T>
    where
        S: Contains<T>,
    {
        Delete::one(self.executor.clone(), id.into_key())
    }

    /// Deletes all documents that meet the condition: [`Filter::all`] for every document.
    pub fn delete_many<T: Document>(
        &self,
        condition: impl FnOnce(T::Fields) -> Filter<T>,
    ) -> Delete<T>
    where
        S: Contains<T>,
    {
        Delete::many(self.executor.clone(), condition(T::fields()))
    }
}

impl<S> Clone for Session<S> {
    fn clone(&self) -> Self {
        Self::new(self.executor.clone())
    }
}

impl<S> fmt::Debug for Session<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Session").field(&self.executor).finish()
    }
}
