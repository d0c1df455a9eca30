//! A MongoDB database, with calls that block.

use std::collections::VecDeque;
use std::sync::Arc;

use bson::RawDocumentBuf;
use odm::backend::operation::{CollectionDefinition, CountOperation, FindOperation};
use odm::backend::{Backend, Cursor};
use tokio::runtime::Runtime;

use crate::failure::{Failure, Result};
use crate::place::open_server;
use crate::runtime::runtime;

pub(crate) struct Server {
    runtime: Arc<Runtime>,
    backend: Arc<dyn Backend>,
}

impl Server {
    pub(crate) fn connect(url: &str) -> Result<Server> {
        let runtime = Arc::new(runtime()?);
        let backend = runtime.block_on(open_server(url))?;
        Ok(Server { runtime, backend })
    }

    /// Returns the definitions of all collections and views.
    pub(crate) fn definitions(&self) -> Result<Vec<CollectionDefinition>> {
        Ok(self.runtime.block_on(self.backend.list_definitions())?)
    }

    /// Returns the definition of a collection. A missing collection is a failure, as for files.
    pub(crate) fn definition(&self, collection: &str) -> Result<CollectionDefinition> {
        let definitions = self.definitions()?;
        let mut definitions = definitions.into_iter();
        let found = definitions.find(|definition| definition.name == collection);
        found
            .ok_or_else(|| Failure::problem(format!("the database has no collection {collection}")))
    }

    /// Reads all documents of a collection.
    pub(crate) fn documents(
        &self,
        collection: &str,
        projection: Option<RawDocumentBuf>,
    ) -> Result<ServerDocuments> {
        let find = FindOperation {
            collection: collection.to_owned().into(),
            filter: RawDocumentBuf::new(),
            projection,
            sort: None,
            limit: None,
            options: Default::default(),
        };
        Ok(ServerDocuments {
            runtime: Arc::clone(&self.runtime),
            cursor: self.runtime.block_on(self.backend.find(find))?,
            ready: VecDeque::new(),
        })
    }

    pub(crate) fn count(&self, collection: &str, limit: Option<u64>) -> Result<u64> {
        let count = CountOperation {
            collection: collection.to_owned().into(),
            filter: RawDocumentBuf::new(),
            limit,
            options: Default::default(),
        };
        Ok(self.runtime.block_on(self.backend.count(count))?)
    }

    pub(crate) fn drop_collection(&self, collection: &str) -> Result<()> {
        Ok(self
            .runtime
            .block_on(self.backend.drop_collection(collection))?)
    }

    /// Creates a collection or a view, and the indexes.
    pub(crate) fn create(&self, definition: CollectionDefinition) -> Result<()> {
        Ok(self
            .runtime
            .block_on(self.backend.create_defined(definition))?)
    }

    /// Inserts documents, byte for byte.
    pub(crate) fn insert(&self, collection: &str, documents: Vec<RawDocumentBuf>) -> Result<()> {
        let inserted = odm::transfer::insert_verbatim(&self.backend, collection, documents);
        Ok(self.runtime.block_on(inserted)?)
    }
}

/// The documents of a collection, read in batches.
pub(crate) struct ServerDocuments {
    runtime: Arc<Runtime>,
    cursor: Box<dyn Cursor>,
    ready: VecDeque<RawDocumentBuf>,
}

impl Iterator for ServerDocuments {
    type Item = Result<RawDocumentBuf>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ready.is_empty() {
            match self.runtime.block_on(self.cursor.next_batch()) {
                Ok(batch) => self.ready.extend(batch),
                Err(error) => return Some(Err(error.into())),
            }
        }
        self.ready.pop_front().map(Ok)
    }
}
