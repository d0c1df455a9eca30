//! Where typed operations run: a database, or one of its transactions.

use std::{fmt, marker::PhantomData, time::Duration};

use crate::{
    Result,
    access::Access,
    action::{
        AllMatching, Arrays, Bulk, Delete, Edit, Find, FindById, FirstMatching, Get, GetMany,
        InsertMany, InsertOne, Load, Loads, Modify, Save, Update,
    },
    check::Check,
    document::{Document, Insertable},
    edited::Edited,
    query::{Filter, IntoKey, IntoRouted},
    schema::{Contains, Schema, UpgradeAll},
    scope::{Reach, Unscoped},
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
///
/// `C` is for whom it works, if models belong to somebody: see [`scope`](Self::scope).
pub struct Session<S, C = Unscoped> {
    pub(crate) access: Access,
    of: PhantomData<fn() -> (S, C)>,
}

impl<S, C> Session<S, C> {
    pub(crate) fn new(access: Access) -> Self {
        Self {
            access,
            of: PhantomData,
        }
    }

    pub(crate) fn access(&self) -> &Access {
        &self.access
    }
}

impl<S: Schema, C: Reach> Session<S, C> {
    pub(crate) fn operation<T: Document>(&self, name: &'static str) -> Access {
        self.access.operation(name, Some(&T::MODEL))
    }

    /// The access of an operation whose documents go to the application and nowhere else.
    fn reading<T: Document>(&self, name: &'static str) -> Access {
        self.operation::<T>(name).reading_as_client()
    }

    /// The way for a write, which a time limit of the session does not cut off.
    pub(crate) fn writing<T: Document>(&self, name: &'static str) -> Access {
        self.operation::<T>(name).unlimited()
    }

    /// The document with this id.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) if there is none; [`find_by_id`](Self::find_by_id) gives an option.
    pub fn get<T: Document>(&self, id: impl IntoKey<T>) -> Get<T>
    where
        S: Contains<T, C>,
    {
        Get::new(self.reading::<T>("get"), id.into_key())
    }

    /// The document with this id, if there is one.
    ///
    /// # Errors
    ///
    /// Those of the backend, and of a document that does not fit the model.
    pub fn find_by_id<T: Document>(&self, id: impl IntoKey<T>) -> FindById<T>
    where
        S: Contains<T, C>,
    {
        FindById::new(self.reading::<T>("find_by_id"), id.into_key())
    }

    /// The documents with these ids, in one query: in the order of the ids, with what is missing told.
    pub fn get_many<T: Document>(&self, ids: impl IntoIterator<Item: IntoKey<T>>) -> GetMany<T>
    where
        S: Contains<T, C>,
    {
        GetMany::new(
            self.reading::<T>("get_many"),
            ids.into_iter().map(|id| id.into_key().into_id()).collect(),
        )
    }

    /// The documents with these ids, of several models, in one round trip: a tuple of references and of arrays of them gives
    /// a tuple of documents and of [`Links`](crate::relation::Links).
    ///
    /// A query by ids is always current and needs no index. Up to 10,000 ids go into one round trip; in a transaction on
    /// MongoDB, each part is one of its own.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) for a reference that leads nowhere; in an array that is told as `Missing`.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "users", id = "users/{name}")]
    /// # struct User { #[serde(rename = "_id")] id: String, name: String }
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "accounts", id = "{user}/account")]
    /// # struct Account { #[serde(rename = "_id")] id: String, #[reference] user: Ref<User>, balance: i64 }
    /// # #[derive(Schema)] #[schema(models(User, Account))] struct Bank;
    /// # async fn example(db: odm::Database<Bank>, friends: Vec<Ref<User>>) -> odm::Result<()> {
    /// let jane = Ref::<User>::new("users/jane");
    /// let (user, account, friends) = db.load((&jane, Account::id_for(&jane)?, friends)).await?;
    /// println!("{} has {} and {} friends", user.name, account.balance, friends.loaded().count());
    /// # Ok(())
    /// # }
    /// ```
    pub fn load<L: Loads<S, C>>(&self, ids: L) -> Load<L::Parts> {
        let access = self.access.operation("load", None).reading_as_client();
        Load::new(access, ids.into_parts())
    }

    /// A query over the documents of a model.
    pub fn find<T: Document>(&self) -> Find<S, T, T, (), C>
    where
        S: Contains<T, C>,
    {
        Find::new(self.reading::<T>("find"))
    }

    /// The arrays of a model that overflow: asks for documents by an element wherever it is, brings elements back, lets old documents
    /// overflow, tells how long they are.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "sales")]
    /// # struct Book {
    /// #     #[serde(rename = "_id")] id: i64,
    /// #     #[embed(overflow(after = 50, into = "extra_sales", owner = "book_id"))] customers: Overflow<String>,
    /// # }
    /// # #[derive(Schema)] #[schema(models(Book))] struct Shop;
    /// # async fn example(db: odm::Database<Shop>) -> odm::Result<()> {
    /// println!("{} arrays are whole again", db.arrays::<Book>().fold().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn arrays<T: Document>(&self) -> Arrays<T>
    where
        S: Contains<T, C>,
    {
        Arrays::new(self.operation::<T>("arrays"))
    }

    /// Inserts a document and gives it back as stored.
    pub fn insert<I: Insertable>(&self, document: I) -> InsertOne<I::Document>
    where
        S: Contains<I::Document, C::Inserts>,
    {
        let document = document.into_draft(self.access.scope());
        InsertOne::new(self.writing::<I::Document>("insert"), document)
    }

    /// Inserts documents in order and gives them back as stored.
    pub fn insert_many<I: Insertable>(
        &self,
        documents: impl IntoIterator<Item = I>,
    ) -> InsertMany<I::Document>
    where
        S: Contains<I::Document, C::Inserts>,
    {
        let scope = self.access.scope();
        let documents = documents
            .into_iter()
            .map(|document| document.into_draft(scope));
        InsertMany::new(
            self.writing::<I::Document>("insert_many"),
            documents.collect(),
        )
    }

    /// Reads the document with this id to change and [`save`](Self::save) it.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) if there is none.
    pub fn edit<T: Document>(&self, id: impl IntoKey<T>) -> Edit<T>
    where
        S: Contains<T, C>,
    {
        Edit::new(self.operation::<T>("edit"), id.into_key())
    }

    /// Saves what has changed in a document since it was read, down to nested fields, and touches nothing else: fields
    /// that others have changed meanwhile stay as they are, and so do those that the model does not know. If nothing has
    /// changed, nothing is written.
    ///
    /// It writes only over what was read: a field, or an array, that another write has changed meanwhile is a conflict.
    /// Of a model with a `version`, any other write is one. [`update`](Self::update) sets a field whatever it was.
    ///
    /// # Errors
    ///
    /// [`Conflict`](crate::ErrorKind::Conflict) if another write came first, with the path;
    /// [`NotFound`](crate::ErrorKind::NotFound) if the document has been deleted;
    /// [`Invalid`](crate::ErrorKind::Invalid) for another `_id`. Nothing has been written then.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "tasks")]
    /// # struct Task { #[serde(rename = "_id")] id: i64, description: String }
    /// # #[derive(Schema)] #[schema(models(Task))] struct Office;
    /// # async fn example(db: odm::Database<Office>) -> odm::Result<()> {
    /// let mut task = db.edit::<Task>(7).await?;
    /// task.description.push_str(" (urgent)");
    /// db.save(&mut task).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn save<'e, T: Document>(&self, edited: &'e mut Edited<T>) -> Save<'e, T>
    where
        S: Contains<T, C>,
    {
        Save::new(self.writing::<T>("save"), edited)
    }

    /// Reads the document with this id, changes it and saves it; after a conflict it does so again, a bounded number of
    /// times and with growing pauses. Gives the document as it was saved.
    ///
    /// No change of another write is lost: what `change` changes is what was stored at the moment of the write.
    ///
    /// # Errors
    ///
    /// As [`edit`](Self::edit) and [`save`](Self::save); a conflict only when the attempts are used up.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "tasks")]
    /// # struct Task { #[serde(rename = "_id")] id: i64, description: String }
    /// # #[derive(Schema)] #[schema(models(Task))] struct Office;
    /// # async fn example(db: odm::Database<Office>) -> odm::Result<()> {
    /// let task = db.modify::<Task>(7, |t| t.description.push('!')).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn modify<'c, T: Document>(
        &self,
        id: impl IntoKey<T>,
        mut change: impl FnMut(&mut T) + Send + 'c,
    ) -> Modify<'c, T>
    where
        S: Contains<T, C>,
    {
        self.try_modify(id, move |document: &mut T| {
            change(document);
            Ok(())
        })
    }

    /// As [`modify`](Self::modify), with a function that may refuse: its error ends it, and nothing is written.
    pub fn try_modify<'c, T: Document>(
        &self,
        id: impl IntoKey<T>,
        change: impl FnMut(&mut T) -> Result<()> + Send + 'c,
    ) -> Modify<'c, T>
    where
        S: Contains<T, C>,
    {
        Modify::new(self.writing::<T>("modify"), id.into_key(), change)
    }

    /// Changes the document with this id. Of a model with a `shard_key` an id alone is not enough: give the document,
    /// `&order`, or its key, `OrderKey { … }`.
    pub fn update<T: Document>(&self, id: impl IntoRouted<T, C>) -> Update<T>
    where
        S: Contains<T, C>,
    {
        Update::by_key(self.writing::<T>("update"), id.into_key())
    }

    /// Changes the first document that meets the condition, in the order that [`sort`](Update::sort) gives: what two
    /// callers take at the same time is never the same document, if the change is such that it does not meet the condition
    /// any more. A document whose arrays have no room for the change is passed over, unless there is no other.
    ///
    /// Of a model with a `shard_key` the condition asks for one value of each field of the key, or it is
    /// [`Invalid`](crate::ErrorKind::Invalid): nobody knows which is the first on several shards.
    ///
    /// Gives an [`Outcome`](crate::action::Outcome) with a reference to the document, or with the document itself by
    /// [`returning_after`](Update::returning_after).
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "jobs", index(state, -priority))]
    /// # struct Job { #[serde(rename = "_id")] id: i64, state: String, priority: i64 }
    /// # #[derive(Schema)] #[schema(models(Job))] struct Office;
    /// # async fn example(db: odm::Database<Office>) -> odm::Result<()> {
    /// while let Applied(job) = db
    ///     .update_first::<Job>(|j| j.state().eq("ready"))
    ///     .sort(|j| j.priority().desc())
    ///     .set(|j| j.state(), "running")
    ///     .returning_after()
    ///     .await?
    /// {
    ///     println!("working on {}", job.id);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn update_first<T: Document>(
        &self,
        condition: impl FnOnce(T::Fields) -> Filter<T>,
    ) -> Update<T, FirstMatching>
    where
        S: Contains<T, C>,
    {
        Update::by_condition(self.writing::<T>("update_first"), condition(T::fields()))
    }

    /// Changes all documents that meet the condition: [`Filter::all`] for every document.
    pub fn update_many<T: Document>(
        &self,
        condition: impl FnOnce(T::Fields) -> Filter<T>,
    ) -> Update<T, AllMatching>
    where
        S: Contains<T, C>,
    {
        Update::by_condition(self.writing::<T>("update_many"), condition(T::fields()))
    }

    /// Deletes the document with this id: for good, or by a mark if its model has a [soft delete](crate::SoftDelete). Of
    /// a model with a `shard_key` an id alone is not enough, as for [`update`](Self::update).
    pub fn delete<T: Document>(&self, id: impl IntoRouted<T, C>) -> Delete<T>
    where
        S: Contains<T, C>,
    {
        Delete::by_key(self.writing::<T>("delete"), id.into_key())
    }

    /// Deletes the first document that meets the condition, in the order that [`sort`](Delete::sort) gives.
    ///
    /// Gives an [`Outcome`](crate::action::Outcome) with a reference to what was deleted, or with the document itself by
    /// [`returning`](Delete::returning).
    pub fn delete_first<T: Document>(
        &self,
        condition: impl FnOnce(T::Fields) -> Filter<T>,
    ) -> Delete<T, FirstMatching>
    where
        S: Contains<T, C>,
    {
        Delete::by_condition(self.writing::<T>("delete_first"), condition(T::fields()))
    }

    /// Deletes all documents that meet the condition: [`Filter::all`] for every document.
    pub fn delete_many<T: Document>(
        &self,
        condition: impl FnOnce(T::Fields) -> Filter<T>,
    ) -> Delete<T, AllMatching>
    where
        S: Contains<T, C>,
    {
        Delete::by_condition(self.writing::<T>("delete_many"), condition(T::fields()))
    }

    /// Brings the outdated documents of a model up to date: those that were written with a smaller `schema_version`.
    ///
    /// Reads and writes do so with what they meet, so it need not be waited for; but conditions of a query ask what is stored, so
    /// until it is done they may miss outdated documents. It can run while the application writes, in several processes, and
    /// again after it was interrupted.
    ///
    /// # Errors
    ///
    /// Those of the backend. A document that cannot be upgraded is in the report, and the others are.
    ///
    /// ```
    /// use odm::{bson, prelude::*};
    ///
    /// #[derive(Debug, Serialize, Deserialize, Document)]
    /// #[document(collection = "users", schema_version = 2, upgrade = upgrade_user)]
    /// struct User { #[serde(rename = "_id")] id: i64, first: String, last: String }
    ///
    /// /// Version 1 had a `name`.
    /// fn upgrade_user(_from: u32, user: &mut bson::Document) -> odm::Result<()> {
    ///     let name = user.remove("name");
    ///     let name = name.as_ref().and_then(|name| name.as_str()).unwrap_or_default();
    ///     let (first, last) = name.split_once(' ').unwrap_or((name, ""));
    ///     user.extend(bson::doc! { "first": first, "last": last });
    ///     Ok(())
    /// }
    /// # #[derive(Schema)] #[schema(models(User))] struct Site;
    /// # async fn example(db: odm::Database<Site>) -> odm::Result<()> {
    /// let report = db.upgrade::<User>().await?;
    /// println!("{} upgraded", report.upgraded);
    /// for error in &report.failed {
    ///     eprintln!("{error}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn upgrade<T: Document>(&self) -> UpgradeAll<T>
    where
        S: Contains<T, C>,
    {
        UpgradeAll::new(self.writing::<T>("upgrade"))
    }

    /// Several writes in as few round trips as the backend has for them: none yet.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "posts")]
    /// # struct Post { #[serde(rename = "_id")] id: i64, votes: i64 }
    /// # #[derive(Schema)] #[schema(models(Post))] struct Blog;
    /// # async fn example(db: odm::Database<Blog>) -> odm::Result<()> {
    /// let up = [1, 4, 9].map(|id| db.update::<Post>(id).inc(|p| p.votes(), 1));
    /// let report = db.bulk().add_all(up).add(db.delete::<Post>(3)).await?.into_result()?;
    /// assert_eq!(report.matched, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn bulk(&self) -> Bulk {
        Bulk::new(self.access.operation("bulk", None).unlimited())
    }
}

impl<S, C> Session<S, C> {
    /// The same session with a time limit for each read: for all round trips of one `find`, `get`, `load` or `check`
    /// together, joins included. A limit of the read itself, [`Find::max_time`](crate::action::Find::max_time), goes before it.
    ///
    /// A read that takes longer is an error of kind [`Timeout`](crate::ErrorKind::Timeout), and ends on the server too. Writes
    /// are not limited, as the outcome of a write that was cut off would be unknown. Limit a transaction of writes with
    /// [`RunTransaction::timeout`](crate::RunTransaction::timeout).
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "posts")]
    /// # struct Post { #[serde(rename = "_id")] id: i64, title: String }
    /// # #[derive(Schema)] #[schema(models(Post))] struct Blog;
    /// use std::time::Duration;
    ///
    /// # async fn example(db: odm::Database<Blog>) -> odm::Result<()> {
    /// let web = db.max_time(Duration::from_secs(2));
    /// match web.find::<Post>().filter(|p| p.title().starts_with("odm")).all().await {
    ///     Err(error) if error.is_timeout() => println!("ask for less"),
    ///     found => println!("{} posts", found?.len()),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "the session itself has no limit: use the one that this gives"]
    pub fn max_time(&self, limit: Duration) -> Self {
        Self::new(self.access.clone().limited(limit))
    }
}

impl<S: Schema> Session<S> {
    /// Looks whether all that is stored is as the schema says: in a transaction, whether it was so at one moment.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "parts")]
    /// # struct Part { #[serde(rename = "_id")] id: i64, #[reference] like: Option<Ref<Part>> }
    /// # #[derive(Schema)] #[schema(models(Part))] struct Shop;
    /// # #[cfg(feature = "engine")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> odm::Result<()> {
    /// # let db = odm::Database::<Shop>::open("memory:").await?;
    /// db.insert(Part { id: 1, like: Some(Ref::new(2)) }).await?;
    ///
    /// let report = db.check().await?;
    /// assert!(!report.is_clean());
    /// assert_eq!(
    ///     report.to_string(),
    ///     "parts 1, `like`: refers to 2 of parts, which is not there\n1 documents, 1 references: 1 finding"
    /// );
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    pub fn check(&self) -> Check<S> {
        Check::new(&self.access)
    }
}

impl<S, C> Clone for Session<S, C> {
    fn clone(&self) -> Self {
        Self::new(self.access.clone())
    }
}

impl<S, C> fmt::Debug for Session<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Session").field(&self.access).finish()
    }
}
