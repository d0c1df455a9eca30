//! The end of a copy: the state of one moment, the indexes, and the removal of the records.

use std::time::{Duration, Instant};

use bson::{RawDocumentBuf, doc, oid::ObjectId};

use super::{
    CopiedCollection, CopyReport, CopyStage, Transfer, definitions,
    documents::{self, Ids},
};
use crate::{
    Error, ErrorKind, Result,
    backend::{
        Backend,
        operation::{DeleteOperation, OperationOrigin, WatchFrom},
    },
    metadata::transfer::{COPY, TRANSFERS},
    model::stored::to_raw_document,
};

/// The number of attempts to copy the changes before a transaction of the source expires.
const MAX_SNAPSHOT_ATTEMPTS: usize = 10;

/// The number of rounds before an attempt. Each round copies the changes of the round before.
const MAX_ROUNDS: usize = 20;

/// The duration of a round after which the rest of the changes is copied from a snapshot. MongoDB ends a transaction after a minute.
const SHORT_ROUND: Duration = Duration::from_secs(2);

impl Transfer<'_> {
    /// Brings the target to the state of the source at one moment.
    pub(super) async fn reach_snapshot(&mut self) -> Result<()> {
        let mut last_error = None;
        for _ in 0..MAX_SNAPSHOT_ATTEMPTS {
            for _ in 0..MAX_ROUNDS {
                let started = Instant::now();
                self.catch_up().await?;
                if started.elapsed() < SHORT_ROUND {
                    break;
                }
            }
            match self.copy_from_snapshot().await {
                Ok(()) => return Ok(()),
                Err(error) if is_expired(&error) => last_error = Some(error),
                Err(error) => return Err(error),
            }
            // The target may have older documents than the events that were read: read these events again.
            if let Some(token) = &self.state.token {
                let start = WatchFrom::After(to_raw_document(token)?);
                self.changes = Some(self.open_changes(start).await?);
            }
        }
        let message = "the source changes faster than the copy follows: pause the writers for the end of the copy";
        let error = Error::new(ErrorKind::Conflict, message);
        Err(match last_error {
            Some(last) => error.with_source(last),
            None => error,
        })
    }

    /// Copies the changes since the last round from a snapshot.
    ///
    /// A document without a change up to the mark is equal to the snapshot, because the mark is later than the snapshot. The other
    /// documents come from the snapshot.
    async fn copy_from_snapshot(&mut self) -> Result<()> {
        if self.changes.is_none() {
            return Ok(());
        }
        let snapshot = self.from.begin().await?;
        // A transaction of MongoDB gets its snapshot with the first read.
        let mut first_read = documents::find(TRANSFERS, RawDocumentBuf::new());
        first_read.limit = Some(1);
        let copied = match snapshot.find_all(first_read).await {
            Ok(_) => {
                self.copy_changes(Some(&*snapshot), &mut Ids::new(), "")
                    .await
            }
            Err(error) => Err(error),
        };
        snapshot.abort().await;
        copied
    }

    /// Creates the indexes, and removes the records.
    pub(super) async fn finish(mut self) -> Result<CopyReport> {
        self.report(CopyStage::Finish, "");
        let definitions = self.create_all_indexes().await?;
        let mut collections = Vec::new();
        for definition in definitions::collections(&definitions) {
            let documents = documents::count(self.to, &definition.name).await?;
            if self.is_quiescent {
                self.ensure_count(&definition.name, documents).await?;
            }
            collections.push(CopiedCollection {
                documents,
                indexes: definition.indexes.len(),
                name: definition.name.clone(),
            });
        }
        if !self.is_quiescent {
            remove_marks(self.from, self.state.copy).await?;
        }
        // The copy is complete when the state is gone.
        self.to.drop_collection(TRANSFERS).await?;
        Ok(CopyReport {
            collections,
            changes: self.progress.changes,
            skipped: self.skipped.into_iter().collect(),
        })
    }

    async fn ensure_count(&mut self, collection: &str, copied: u64) -> Result<()> {
        let expected = documents::count(self.from, collection).await?;
        if expected == copied {
            return Ok(());
        }
        let message = format!(
            "the source has {expected} documents and the target {copied}: was the source written during the copy?"
        );
        Err(Error::new(ErrorKind::CopyDiffers, message).with_collection(collection))
    }
}

/// Whether a transaction ended before all changes were copied. The copy reports conflicts of its own, for example with a second
/// process: another attempt would not help.
fn is_expired(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Conflict => error.is_from_backend(),
        ErrorKind::TransactionExpired | ErrorKind::TransactionOver => true,
        _ => false,
    }
}

/// Removes the marks of a copy from the source, and the collection after the last mark.
pub(super) async fn remove_marks(source: &dyn Backend, copy: ObjectId) -> Result<()> {
    let marks = doc! { "$or": [{ "_id": copy }, { COPY: copy }] };
    let delete = DeleteOperation {
        collection: TRANSFERS.into(),
        filter: to_raw_document(&marks)?,
        multi: true,
        origin: OperationOrigin::default(),
    };
    source.delete(delete).await?;
    match documents::count(source, TRANSFERS).await? {
        0 => source.drop_collection(TRANSFERS).await,
        _ => Ok(()),
    }
}
