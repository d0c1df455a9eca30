//! A test database, budgets of operations, and fixtures.
//!
//! With the feature `testing`. The book's page on testing has a complete test.
//!
//! ```
//! use odm::prelude::*;
//! use odm::testing::TestDb;
//!
//! # #[derive(Debug, Serialize, Deserialize, Document)]
//! # #[document(collection = "makers")]
//! # struct Maker { #[serde(rename = "_id")] id: i64, name: String }
//! # #[derive(Debug, Serialize, Deserialize, Document)]
//! # #[document(collection = "parts")]
//! # struct Part { #[serde(rename = "_id")] id: i64, #[reference] maker: Ref<Maker> }
//! # #[derive(Schema)] #[schema(models(Maker, Part))] struct Shop;
//! # #[cfg(feature = "engine")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> odm::Result<()> {
//! let db = TestDb::<Shop>::new().await;
//! db.load::<Maker>(r#"[{ "_id": 1, "name": "Acme" }]"#).await;
//! db.load::<Part>(r#"[{ "_id": 7, "maker": 1 }, { "_id": 8, "maker": 1 }]"#).await;
//!
//! let parts = odm::assert_queries!(db, 2, db.find::<Part>().with(|p| p.maker()).all().await?);
//! assert_eq!(parts.len(), 2);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "engine"))]
//! # fn main() {}
//! ```

mod budget;
mod fixture;

use std::{env, fmt, fs, ops::Deref, path::Path, process, sync::Arc, thread};

use bson::oid::ObjectId;
use serde::de::DeserializeOwned;

pub use crate::{assert_queries, assert_writes};
#[doc(hidden)]
pub use budget::Count;
pub use budget::Expected;

use crate::{
    Database, Result,
    backend::{self, Faults, Recorder},
    model::document::Insertable,
    schema::{Contains, Schema},
    session::scope::Unscoped,
};

/// The environment variable with the URL of a MongoDB server, or of a folder, for [`TestDb::new`].
const URL_VARIABLE: &str = "ODM_TEST_URL";

/// An empty database for one test.
///
/// The database is in memory, unless the environment variable `ODM_TEST_URL` has one of the following values. Each test database
/// then has a name of its own, and is dropped together with the value.
///
/// - The URL of a MongoDB server, without a database: `mongodb://localhost/?replicaSet=rs0`.
/// - The URL of an existing folder: `odm:target`. Each test database is a file in the folder.
///
/// A test database dereferences to [`Database`]. It records all operations, for [`assert_queries!`](crate::assert_queries) and
/// [`assert_writes!`](crate::assert_writes). An N+1 query panics: ten queries of the same form with different values in one task.
pub struct TestDb<S> {
    database: Database<S>,
    recorder: Recorder,
    faults: Faults,
    url: String,
    /// Dropped after the database.
    _named: Option<NamedDatabase>,
}

impl<S: Schema> TestDb<S> {
    /// Opens an empty database with the declared indexes.
    ///
    /// # Panics
    ///
    /// If the server or the folder of `ODM_TEST_URL` cannot be reached, or an index cannot be created.
    pub async fn new() -> Self {
        Self::open(env::var(URL_VARIABLE).ok().as_deref(), true).await
    }

    /// Opens an empty database in which an N+1 query is a warning in the log, as in every other database.
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new).
    pub async fn allowing_n_plus_one() -> Self {
        Self::open(env::var(URL_VARIABLE).ok().as_deref(), false).await
    }

    /// Opens an empty database on the MongoDB server of a URL without a database, `mongodb://localhost/?replicaSet=rs0`, or in a
    /// new file in a folder, `odm:target`.
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new).
    pub async fn on(server_url: &str) -> Self {
        Self::open(Some(server_url), true).await
    }

    async fn open(server_url: Option<&str>, panics_on_n_plus_one: bool) -> Self {
        let named = server_url.map(NamedDatabase::with_new_name);
        let url = named.as_ref().map_or("memory:", |named| &named.url);
        let url = url.to_owned();
        let backend = backend::open(&url).await;
        let backend =
            backend.unwrap_or_else(|error| panic!("cannot open a test database: {error}"));
        let faults = Faults::new(backend);
        let recorder = Recorder::new(Arc::new(faults.clone()));
        let options = Database::<S>::options().panic_on_n_plus_one(panics_on_n_plus_one);
        let database = options.with_backend(Arc::new(recorder.clone()));
        if let Err(error) = database.sync_indexes().await {
            panic!("cannot create the indexes of a test database: {error}");
        }
        recorder.clear();
        Self {
            database,
            recorder,
            faults,
            url,
            _named: named,
        }
    }

    /// Returns the URL of the database. A `memory:` URL opens another, empty database.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the record of all operations since the database was opened.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Returns the faults of the backend, to test an application that loses its connection.
    ///
    /// ```
    /// use odm::backend::{Fault, operation::Operation};
    /// # use odm::{prelude::*, testing::TestDb};
    /// # #[derive(Debug, Serialize, Deserialize, Document)]
    /// # #[document(collection = "parts")]
    /// # struct Part { #[serde(rename = "_id")] id: i64 }
    /// # #[derive(Schema)] #[schema(models(Part))] struct Shop;
    /// # #[cfg(feature = "engine")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let db = TestDb::<Shop>::new().await;
    /// db.faults().inject(1, Operation::is_write, Fault::lost_answer());
    /// assert_eq!(db.insert(Part { id: 1 }).await.unwrap_err().kind(), odm::ErrorKind::Connection);
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Inserts the documents of a JSON array, and returns the stored documents: copies, rollups and inverses included.
    ///
    /// `I` is a model, or the insert struct of a model with managed fields. The names are the stored names. A model with a scope
    /// is loaded through a scoped session: [`parse_fixture`] returns the documents.
    ///
    /// # Panics
    ///
    /// If the text is no JSON array of `I`, or has a field that `I` does not have. The message contains the path. If the insert
    /// fails.
    pub async fn load<I>(&self, json: &str) -> Vec<I::Document>
    where
        I: Insertable + DeserializeOwned,
        S: Contains<I::Document, Unscoped>,
    {
        let documents = parse_fixture::<I>(json);
        match self.database.insert_many(documents).await {
            Ok(stored) => stored,
            Err(error) => panic!("cannot insert the fixture: {error}"),
        }
    }
}

/// Reads the documents of a JSON array, for an insert into a test database.
///
/// # Panics
///
/// If the text is no JSON array of `I`, or has a field that `I` does not have. The message contains the path.
pub fn parse_fixture<I: DeserializeOwned>(json: &str) -> Vec<I> {
    match fixture::parse(json) {
        Ok(documents) => documents,
        Err(message) => panic!("invalid fixture: {message}"),
    }
}

impl<S> Deref for TestDb<S> {
    type Target = Database<S>;
    fn deref(&self) -> &Database<S> {
        &self.database
    }
}

impl<S> fmt::Debug for TestDb<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TestDb").field(&self.database).finish()
    }
}

/// A database on a server or in a folder, which the end of the test drops.
struct NamedDatabase {
    url: String,
}

/// The scheme of the URL of a folder, and of the file of a database.
const FILE_SCHEME: &str = "odm:";

impl NamedDatabase {
    /// Returns a database with an unused name on the server, or in the folder, of a URL.
    fn with_new_name(server_url: &str) -> Self {
        let name = format!("odm_test_{}_{}", process::id(), ObjectId::new());
        if let Some(folder) = server_url.strip_prefix(FILE_SCHEME) {
            let file = Path::new(folder).join(name).with_extension("odm");
            return Self {
                url: format!("{FILE_SCHEME}{}", file.display()),
            };
        }
        let (server, options) = server_url.split_once('?').unwrap_or((server_url, ""));
        Self {
            url: format!("{}/{name}?{options}", server.trim_end_matches('/')),
        }
    }
}

impl Drop for NamedDatabase {
    /// Drops the database. The runtime of the test may be about to end, so a thread with a runtime and a connection of its own
    /// does the work.
    fn drop(&mut self) {
        if let Some(file) = self.url.strip_prefix(FILE_SCHEME) {
            if let Err(error) = fs::remove_file(file) {
                tracing::warn!(target: "odm", %error, "cannot remove the file of a test database");
            }
            return;
        }
        let url = self.url.clone();
        let dropping = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|error| error.to_string())?;
            let dropped = runtime.block_on(drop_all_collections(&url));
            dropped.map_err(|error| error.to_string())
        });
        if let Ok(Err(error)) = dropping.join() {
            tracing::warn!(target: "odm", error, "cannot drop a test database");
        }
    }
}

async fn drop_all_collections(url: &str) -> Result<()> {
    let backend = backend::open(url).await?;
    for collection in backend.list_collections().await? {
        backend.drop_collection(&collection).await?;
    }
    backend.close().await
}
