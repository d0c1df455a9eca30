//! Backends that run operations: the engine, or a real MongoDB with raw commands of the driver.

mod engine;
#[cfg(feature = "mongodb")]
mod mongodb;

use bson::{Document, RawDocumentBuf};

use super::operation::{NotOffered, Operation};

/// The kind of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum BackendKind {
    /// The engine on disk.
    Engine,
    /// The engine in memory.
    Memory,
    /// A real MongoDB, which verifies the test runner.
    #[cfg(feature = "mongodb")]
    Mongodb,
}

/// A database that runs operations.
pub(crate) trait Backend {
    /// Empties the database, and ends the transactions.
    ///
    /// # Errors
    ///
    /// Returns an error if the database is no longer usable.
    fn reset(&mut self) -> Result<(), String>;

    /// Runs an operation. The answer has the fields that the corpus records; an error is the field `error` of the answer.
    ///
    /// In addition to the corpus operations, a backend runs `create` and `drop` for a collection, `listCollections`, which
    /// answers with `names`, and `listIndexes`.
    ///
    /// # Errors
    ///
    /// Returns an error if the backend has no such operation or argument, or reports the operation as unsupported.
    fn run(&mut self, operation: &Operation<'_>) -> Result<Document, NotOffered>;

    /// Inserts a document and reads the document back. Returns `None` if the backend refuses the document.
    ///
    /// # Errors
    ///
    /// Returns an error if the backend does not accept raw bytes.
    fn insert_and_read(
        &mut self,
        document: RawDocumentBuf,
    ) -> Result<Option<RawDocumentBuf>, NotOffered>;
}

pub(crate) fn open(kind: BackendKind) -> Result<Box<dyn Backend>, String> {
    Ok(match kind {
        BackendKind::Engine => Box::new(engine::Engine::on_disk()?),
        BackendKind::Memory => Box::new(engine::Engine::in_memory()),
        #[cfg(feature = "mongodb")]
        BackendKind::Mongodb => Box::new(mongodb::Mongodb::connect()?),
    })
}

/// Starts a real MongoDB for this backend alone. A transaction there sees all earlier writes. On a shared server, writes of
/// concurrent clients can delay the visibility of the last writes.
#[cfg(feature = "mongodb")]
pub(crate) fn start_mongodb() -> Result<Box<dyn Backend>, String> {
    Ok(Box::new(mongodb::Mongodb::start()?))
}
