//! Sessions: the typed operations of a database or a transaction.

pub(crate) mod access;
pub(crate) mod database;
pub(crate) mod lookup;
pub(crate) mod retry;
pub mod scope;
pub(crate) mod soft_delete;
pub(crate) mod task;
pub(crate) mod time_limit;
pub(crate) mod trace;
pub(crate) mod transaction;
pub(crate) mod transaction_scope;
pub mod watch;

use std::{fmt, marker::PhantomData, time::Duration};

use crate::{
    Result,
    action::{
        AllMatching, Arrays, Bulk, ByUniqueKey, Delete, Edit, Exists, Find, FindById,
        FirstMatching, Get, GetMany, InsertMany, InsertOne, Load, LoadTuple, Modify, Save, Subtree,
        Update, Upsert,
    },
    check::Check,
    language::query::{Filter, IntoKey, IntoRouted, UniqueKey},
    model::{
        document::{Document, Insertable, TreeDocument},
        edited::Edited,
    },
    schema::{Contains, Schema, UpgradeAll},
    session::{
        access::Access,
        scope::{SessionScope, Unscoped},
    },
};

/// The typed operations on the models of a schema. [`Database`](crate::Database) and [`Transaction`](crate::Transaction)
/// dereference to a session, so a function that takes a `&Session` accepts both.
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
/// db.transaction(async |tx| give(&tx, "jane", 5).await).await
/// # }
/// ```
///
/// `C` is the scope type of the session, for models with a scope: see [`scope`](Self::scope).
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

impl<S: Schema, C: SessionScope> Session<S, C> {
    pub(crate) fn operation_access<T: Document>(&self, name: &'static str) -> Access {
        self.access.for_operation(name, Some(&T::MODEL))
    }

    /// Returns the access of a read that returns documents to the application only.
    fn read_access<T: Document>(&self, name: &'static str) -> Access {
        self.operation_access::<T>(name).reading_as_client()
    }

    /// Returns the access of a write. A time limit of the session does not apply.
    pub(crate) fn write_access<T: Document>(&self, name: &'static str) -> Access {
        self.operation_access::<T>(name).without_time_limit()
    }

    /// Reads the document with this id.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) if no document has the id. [`find_by_id`](Self::find_by_id) returns an option
    /// instead.
    pub fn get<T: Document>(&self, id: impl IntoKey<T>) -> Get<S, T, T, (), C>
    where
        S: Contains<T, C>,
    {
        Get::new(self.read_access::<T>("get"), id.into_key())
    }

    /// Reads the document with this id, or returns `None`.
    ///
    /// # Errors
    ///
    /// Errors of the backend, and [`Decode`](crate::ErrorKind::Decode) for a document that does not fit the model.
    pub fn find_by_id<T: Document>(&self, id: impl IntoKey<T>) -> FindById<S, T, T, (), C>
    where
        S: Contains<T, C>,
    {
        FindById::new(self.read_access::<T>("find_by_id"), id.into_key())
    }

    /// Returns whether a document with this id exists. Reads no document.
    ///
    /// # Errors
    ///
    /// Errors of the backend.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "users")]
    /// # struct User { #[serde(rename = "_id")] id: String }
    /// # #[derive(Schema)] #[schema(models(User))] struct Site;
    /// # async fn example(db: odm::Database<Site>) -> odm::Result<()> {
    /// if db.exists::<User>("jane").await? {
    ///     println!("the name is taken");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn exists<T: Document>(&self, id: impl IntoKey<T>) -> Exists<S, T, C>
    where
        S: Contains<T, C>,
    {
        Exists::new(self.read_access::<T>("exists"), id.into_key())
    }

    /// Reads the documents with the given ids in a single query. The result has the order of the ids, and contains missing
    /// documents as [`Missing`](crate::relation::Linked::Missing).
    ///
    /// # Errors
    ///
    /// Errors of the backend, and [`Decode`](crate::ErrorKind::Decode) for a document that does not fit the model.
    pub fn get_many<T: Document>(
        &self,
        ids: impl IntoIterator<Item: IntoKey<T>>,
    ) -> GetMany<S, T, T, (), C>
    where
        S: Contains<T, C>,
    {
        GetMany::new(
            self.read_access::<T>("get_many"),
            ids.into_iter().map(|id| id.into_key().into_id()).collect(),
        )
    }

    /// Reads a document of a tree with all documents below, or with some levels: see [`Subtree`].
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Debug, Serialize, Deserialize, Document)]
    /// # #[document(collection = "folders")]
    /// # struct Folder {
    /// #     #[serde(rename = "_id")] id: i64,
    /// #     name: String,
    /// #     #[reference(on_delete = restrict)] parent: Option<Ref<Folder>>,
    /// #     #[tree(parent = parent)] ancestors: Vec<Ref<Folder>>,
    /// # }
    /// # #[derive(Schema)] #[schema(models(Folder))] struct Drive;
    /// # #[cfg(feature = "engine")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> odm::Result<()> {
    /// # let db = odm::Database::<Drive>::open("memory:").await?;
    /// # db.sync_indexes().await?;
    /// # for (id, parent) in [(1, None), (2, Some(1)), (3, Some(2)), (4, None)] {
    /// #     db.insert(NewFolder { id, name: format!("folder {id}"), parent: parent.map(Ref::new) }).await?;
    /// # }
    /// let one = db.subtree::<Folder>(1).sort(|f| f.name().asc()).depth(1).await?;
    /// assert_eq!(one.children[0].document.id, 2);
    /// assert!(one.children[0].children.is_empty()); // below level 1
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    pub fn subtree<T: TreeDocument>(&self, root: impl IntoKey<T>) -> Subtree<S, T, C>
    where
        S: Contains<T, C>,
    {
        Subtree::new(self.read_access::<T>("subtree"), root.into_key())
    }

    /// Reads documents of several models by id, in one round trip. A tuple of references and arrays of references returns a tuple
    /// of documents and [`Links`](crate::relation::Links).
    ///
    /// A query by ids is always current and needs no index. One round trip takes up to 10,000 ids. In a MongoDB transaction, each
    /// element of the tuple takes a round trip of its own.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) for a single reference without a document. In an array, such a reference is
    /// returned as `Missing`.
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
    pub fn load<L: LoadTuple<S, C>>(&self, ids: L) -> Load<L::Parts> {
        let access = self.access.for_operation("load", None).reading_as_client();
        Load::new(access, ids.into_parts())
    }

    /// Starts a query over the documents of a model.
    pub fn find<T: Document>(&self) -> Find<S, T, T, (), C>
    where
        S: Contains<T, C>,
    {
        Find::new(self.read_access::<T>("find"))
    }

    /// Returns the overflow arrays of a model: search by element, folding, spilling, and statistics of lengths.
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
    /// println!("{} arrays were folded", db.arrays::<Book>().fold().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn arrays<T: Document>(&self) -> Arrays<T>
    where
        S: Contains<T, C>,
    {
        Arrays::new(self.operation_access::<T>("arrays"))
    }

    /// Inserts a document, and returns the stored document.
    ///
    /// # Errors
    ///
    /// The errors of [`InsertOne`]. On an error, nothing was written.
    pub fn insert<I: Insertable>(&self, document: I) -> InsertOne<I::Document>
    where
        S: Contains<I::Document, C::InsertScope>,
    {
        let document = document.into_draft(self.access.scope());
        InsertOne::new(self.write_access::<I::Document>("insert"), document)
    }

    /// Inserts documents in order, and returns the stored documents.
    ///
    /// # Errors
    ///
    /// The errors of [`InsertMany`]. Outside a transaction, the documents before the failure stay stored.
    pub fn insert_many<I: Insertable>(
        &self,
        documents: impl IntoIterator<Item = I>,
    ) -> InsertMany<I::Document>
    where
        S: Contains<I::Document, C::InsertScope>,
    {
        let scope = self.access.scope();
        let documents = documents
            .into_iter()
            .map(|document| document.into_draft(scope));
        InsertMany::new(
            self.write_access::<I::Document>("insert_many"),
            documents.collect(),
        )
    }

    /// Inserts a document, or finds or updates the existing document with the same values in a unique index.
    ///
    /// `key` names the fields of the unique index: a field, or a tuple of up to four. In a model with a
    /// [scope](Self::scope), the index may have the scope field as well. The values come from the document. Under concurrency,
    /// exactly one writer inserts, and all others update: a duplicate key runs the update again.
    ///
    /// [`Upsert::update`] sets the changes of an existing document. Without changes, the existing document stays as it is, and
    /// [`returning_after`](Upsert::returning_after) returns the document: found or inserted.
    ///
    /// # Errors
    ///
    /// The errors of [`Upsert`].
    ///
    /// ```
    /// # use odm::prelude::*;
    /// #[derive(Debug, Serialize, Deserialize, Document)]
    /// #[document(collection = "users")]
    /// struct User {
    ///     #[serde(rename = "_id")] id: ObjectId,
    ///     #[index(unique)] mail: String,
    ///     name: String,
    ///     logins: i64,
    /// }
    /// # #[derive(Schema)] #[schema(models(User))] struct Site;
    /// # #[cfg(feature = "engine")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> odm::Result<()> {
    /// # let db = odm::Database::<Site>::open("memory:").await?;
    /// # db.sync_indexes().await?;
    /// let user = |name: &str| User { id: ObjectId::new(), mail: "jane@example.com".into(), name: name.into(), logins: 1 };
    ///
    /// let first = db.upsert_by(|u| u.mail(), user("Jane")).await?;
    /// assert!(first.is_inserted());
    ///
    /// let jane = db
    ///     .upsert_by(|u| u.mail(), user("Jane Doe"))
    ///     .update(|u| u.set(|u| u.name(), "Jane Doe").inc(|u| u.logins(), 1))
    ///     .returning_after()
    ///     .await?
    ///     .into_inner();
    /// assert_eq!((jane.name.as_str(), jane.logins), ("Jane Doe", 2));
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    pub fn upsert_by<I: Insertable, K: UniqueKey<I::Document>>(
        &self,
        key: impl FnOnce(<I::Document as Document>::Fields) -> K,
        document: I,
    ) -> Upsert<I::Document, ByUniqueKey>
    where
        S: Contains<I::Document, C::InsertScope>,
    {
        let document = document.into_draft(self.access.scope());
        let paths = key(I::Document::fields()).key_paths();
        let access = self.write_access::<I::Document>("upsert_by");
        Upsert::by_unique_key(access, paths, document)
    }

    /// Reads the document with this id, to change and [`save`](Self::save) the document.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) if no document has the id.
    pub fn edit<T: Document>(&self, id: impl IntoKey<T>) -> Edit<T>
    where
        S: Contains<T, C>,
    {
        Edit::new(self.operation_access::<T>("edit"), id.into_key())
    }

    /// Saves the changes since the document was read, down to nested fields. All other fields stay unchanged, including fields
    /// that the model does not know. Without changes, nothing is written.
    ///
    /// A save overwrites only the values that were read. If another write has changed the same field or array meanwhile, the save
    /// is a conflict. In a model with `version`, any other write causes a conflict. [`update`](Self::update) sets a field
    /// unconditionally.
    ///
    /// # Errors
    ///
    /// On an error, nothing was written.
    ///
    /// - [`Conflict`](crate::ErrorKind::Conflict) if another write came first. The error has the path.
    /// - [`NotFound`](crate::ErrorKind::NotFound) if the document was deleted.
    /// - [`Invalid`](crate::ErrorKind::Invalid) for a changed `_id`.
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
        Save::new(self.write_access::<T>("save"), edited)
    }

    /// Reads the document with this id, changes the document and saves the change. After a conflict, all steps run again, a
    /// limited number of times and with growing pauses. Returns the saved document.
    ///
    /// No concurrent change is lost: `change` always runs on the version that the save replaces.
    ///
    /// # Errors
    ///
    /// The errors of [`edit`](Self::edit) and [`save`](Self::save). A conflict is returned only after the last attempt.
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

    /// Reads the document with this id, changes the document by a fallible function and saves the change: see
    /// [`modify`](Self::modify).
    ///
    /// # Errors
    ///
    /// The error of the function, and the errors of [`modify`](Self::modify). On an error, nothing was written.
    pub fn try_modify<'c, T: Document>(
        &self,
        id: impl IntoKey<T>,
        change: impl FnMut(&mut T) -> Result<()> + Send + 'c,
    ) -> Modify<'c, T>
    where
        S: Contains<T, C>,
    {
        Modify::new(self.write_access::<T>("modify"), id.into_key(), change)
    }

    /// Updates the document with this id. A model with a `shard_key` needs the shard key too: pass the document, `&order`, or the
    /// key, `OrderKey { … }`.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) if no document has the id, and the errors of [`Update`].
    pub fn update<T: Document>(&self, id: impl IntoRouted<T, C>) -> Update<T>
    where
        S: Contains<T, C>,
    {
        Update::by_key(self.write_access::<T>("update"), id.into_key())
    }

    /// Updates the first document that meets the condition, in the order of [`sort`](Update::sort).
    ///
    /// If the change makes the condition false, two concurrent callers never take the same document. A document with a full array
    /// is skipped, unless no further document matches.
    ///
    /// For a model with a `shard_key`, the condition must fix the value of every shard key field. Otherwise the error has the
    /// kind [`Invalid`](crate::ErrorKind::Invalid), because several shards have no common first document.
    ///
    /// Returns an [`Outcome`](crate::action::Outcome) with a reference to the document, or with the document itself after
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
        Update::by_condition(
            self.write_access::<T>("update_first"),
            condition(T::fields()),
        )
    }

    /// Updates all documents that meet the condition. [`Filter::all`] updates every document.
    ///
    /// # Errors
    ///
    /// The errors of [`Update`]. Outside a transaction, an error may leave some documents updated.
    pub fn update_many<T: Document>(
        &self,
        condition: impl FnOnce(T::Fields) -> Filter<T>,
    ) -> Update<T, AllMatching>
    where
        S: Contains<T, C>,
    {
        Update::by_condition(
            self.write_access::<T>("update_many"),
            condition(T::fields()),
        )
    }

    /// Deletes the document with this id: for good, or as a [soft delete](crate::SoftDelete) if the model has soft delete. A
    /// model with a `shard_key` needs the shard key too, as for [`update`](Self::update).
    ///
    /// # Errors
    ///
    /// [`Restricted`](crate::ErrorKind::Restricted) if a referrer restricts the delete, and errors of the backend. A missing document
    /// is no error.
    pub fn delete<T: Document>(&self, id: impl IntoRouted<T, C>) -> Delete<T>
    where
        S: Contains<T, C>,
    {
        Delete::by_key(self.write_access::<T>("delete"), id.into_key())
    }

    /// Deletes the first document that meets the condition, in the order of [`sort`](Delete::sort).
    ///
    /// Returns an [`Outcome`](crate::action::Outcome) with a reference to the deleted document, or with the document itself after
    /// [`returning`](Delete::returning).
    pub fn delete_first<T: Document>(
        &self,
        condition: impl FnOnce(T::Fields) -> Filter<T>,
    ) -> Delete<T, FirstMatching>
    where
        S: Contains<T, C>,
    {
        Delete::by_condition(
            self.write_access::<T>("delete_first"),
            condition(T::fields()),
        )
    }

    /// Deletes all documents that meet the condition. [`Filter::all`] deletes every document.
    ///
    /// # Errors
    ///
    /// The errors of [`delete`](Self::delete). Outside a transaction, an error may leave some documents deleted.
    pub fn delete_many<T: Document>(
        &self,
        condition: impl FnOnce(T::Fields) -> Filter<T>,
    ) -> Delete<T, AllMatching>
    where
        S: Contains<T, C>,
    {
        Delete::by_condition(
            self.write_access::<T>("delete_many"),
            condition(T::fields()),
        )
    }

    /// Upgrades the outdated documents of a model: documents that were written with a smaller `schema_version`.
    ///
    /// Reads and writes upgrade each document that they meet, so an application can run before the upgrade is complete. But query
    /// conditions test the stored fields, and may miss outdated documents until then. The upgrade can run while the application
    /// writes, in several processes, and again after an interruption.
    ///
    /// # Errors
    ///
    /// Errors of the backend. The report lists the documents that could not be upgraded, and all others are upgraded.
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
        UpgradeAll::new(self.write_access::<T>("upgrade"))
    }

    /// Starts a bulk: several writes in as few round trips as the backend allows. The bulk starts empty.
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
        Bulk::new(self.access.for_operation("bulk", None).without_time_limit())
    }
}

impl<S, C> Session<S, C> {
    /// Returns this session with a time limit for each read: for all round trips of one `find`, `get`, `load` or `check`
    /// together, joins included. A limit of the read itself, [`Find::max_time`](crate::action::Find::max_time), takes precedence.
    ///
    /// A read that takes longer is cancelled, on the server too, with an error of kind [`Timeout`](crate::ErrorKind::Timeout).
    /// Writes are not limited, because the outcome of an interrupted write would be unknown. To limit a transaction with writes,
    /// use [`RunTransaction::timeout`](crate::RunTransaction::timeout).
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
    #[must_use = "the limit applies to the returned session only"]
    pub fn max_time(&self, limit: Duration) -> Self {
        Self::new(self.access.clone().with_time_limit(limit))
    }
}

impl<S: Schema> Session<S> {
    /// Checks all stored data against the schema. In a transaction, the check sees a single snapshot.
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
    ///     "parts 1, `like`: refers to 2 in parts, which does not exist\n1 documents, 1 references: 1 finding"
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
