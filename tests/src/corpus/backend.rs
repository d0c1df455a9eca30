//! What carries out operations: the engine itself, or a real MongoDB by the raw commands of the driver.

mod engine;
mod mongodb;

use bson::{Document, RawDocumentBuf};

use super::operation::{NotOffered, Operation};

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// The engine, on disk.
    Engine,
    /// The engine, in memory.
    Memory,
    /// A real MongoDB, which checks the runner.
    Mongodb,
}

/// A database that operations are carried out on.
pub(crate) trait Backend {
    /// Makes the database empty, and ends the transactions.
    ///
    /// # Errors
    ///
    /// The database cannot be used any longer.
    fn reset(&mut self) -> Result<(), String>;

    /// Carries out an operation. The answer has the fields that the corpus records of it; an error is a field of
    /// it, `error`, too.
    ///
    /// Besides those of the corpus, there are `create` and `drop` for a collection, `listCollections`, whose answer has
    /// `names`, and `listIndexes`.
    ///
    /// # Errors
    ///
    /// The backend has no such operation or argument, or says itself that it does not support it.
    fn run(&mut self, operation: &Operation<'_>) -> Result<Document, NotOffered>;

    /// Inserts a document and reads it again; none if it is refused.
    ///
    /// # Errors
    ///
    /// The backend does not take bytes.
    fn store(&mut self, document: RawDocumentBuf) -> Result<Option<RawDocumentBuf>, NotOffered>;
}

pub(crate) fn open(kind: Kind) -> Result<Box<dyn Backend>, String> {
    Ok(match kind {
        Kind::Engine => Box::new(engine::Engine::on_disk()?),
        Kind::Memory => Box::new(engine::Engine::in_memory()),
        Kind::Mongodb => Box::new(mongodb::Mongodb::connect()?),
    })
}

/// A real MongoDB that is started for this, and that nobody else asks: a transaction there sees all that was written
/// before, while other clients' writes can keep back what the last ones wrote.
pub(crate) fn start_mongodb() -> Result<Box<dyn Backend>, String> {
    Ok(Box::new(mongodb::Mongodb::start()?))
}
