//! Test fixtures: an empty database on each backend.

use std::{fmt, sync::Arc};

use odm::{
    backend::{self, Backend, operation::FindOperation, read_to_end},
    bson::{Document, RawDocumentBuf, rawdoc},
};

#[cfg(feature = "mongodb")]
use crate::mongod::{self, Server};

/// An empty database on a single backend, for a single test.
pub struct Fixture {
    backend: Arc<dyn Backend>,
    url: String,
    /// Whether the server was running before the tests.
    #[cfg(feature = "mongodb")]
    foreign: bool,
    _files: Option<tempfile::TempDir>,
}

impl Fixture {
    /// Creates a database in the memory of this process.
    pub async fn engine_memory() -> Self {
        Self::open("memory:".to_owned(), None).await
    }

    /// Creates a database in a temporary directory.
    pub async fn engine_disk() -> Self {
        let files = tempfile::tempdir().expect("a temporary directory");
        let url = format!("odm:{}", files.path().join("test.odm").display());
        Self::open(url, Some(files)).await
    }

    /// Creates a database on a standalone MongoDB server.
    #[cfg(feature = "mongodb")]
    pub async fn mongodb_standalone() -> Self {
        Self::mongodb(mongod::standalone().await).await
    }

    /// Creates a database on a MongoDB replica set.
    #[cfg(feature = "mongodb")]
    pub async fn mongodb_replica_set() -> Self {
        Self::mongodb(mongod::replica_set().await).await
    }

    /// Returns the backend.
    #[must_use]
    pub fn backend(&self) -> Arc<dyn Backend> {
        Arc::clone(&self.backend)
    }

    /// Returns the stored documents of a collection in the order of their `_id`.
    pub async fn documents(&self, collection: &'static str) -> Vec<Document> {
        let find = FindOperation {
            collection: collection.into(),
            filter: RawDocumentBuf::new(),
            projection: None,
            sort: Some(rawdoc! { "_id": 1 }),
            limit: None,
            options: Default::default(),
        };
        let cursor = self.backend.find(find).await.expect("a cursor");
        let found = read_to_end(cursor).await.expect("the documents");
        let documents = found.iter().map(|raw| Document::try_from(&**raw));
        documents
            .collect::<Result<_, _>>()
            .expect("valid documents")
    }

    /// Returns the URL of the database.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns a future that drops the database on a foreign server. Await the future after the test.
    #[cfg(feature = "mongodb")]
    pub fn cleanup(&self) -> impl Future<Output = ()> + Send + use<> {
        let url = self.foreign.then(|| self.url.clone());
        async move {
            let Some(url) = url else { return };
            let client = mongodb::Client::with_uri_str(url)
                .await
                .expect("the URL was good before");
            let database = client.default_database().expect("the URL names a database");
            database.drop().await.expect("the database can be dropped");
        }
    }

    /// Returns a future that does nothing: the files of the embedded engine go with the fixture.
    #[cfg(not(feature = "mongodb"))]
    pub fn cleanup(&self) -> impl Future<Output = ()> + Send + use<> {
        std::future::ready(())
    }

    #[cfg(feature = "mongodb")]
    async fn mongodb(server: &Server) -> Self {
        Self {
            foreign: server.is_foreign(),
            ..Self::open(server.fresh_url(), None).await
        }
    }

    async fn open(url: String, files: Option<tempfile::TempDir>) -> Self {
        let backend = backend::open(&url).await.expect("the backend opens");
        Self {
            backend,
            url,
            #[cfg(feature = "mongodb")]
            foreign: false,
            _files: files,
        }
    }
}

impl fmt::Debug for Fixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fixture").field(&self.backend).finish()
    }
}
