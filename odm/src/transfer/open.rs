//! The start of a copy, and its recorded state.

use bson::{Bson, Document, RawBson, doc, oid::ObjectId, rawdoc};

use super::{
    CopyStage, SourceChanges, Transfer, definitions::collections, documents, finish::remove_marks,
};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::{
        CollectionDefinition, DocumentChange, InsertOperation, OperationOrigin, UpdateOperation,
        WatchFrom,
    },
    error,
    metadata::{
        collections::SCHEMA,
        transfer::{COPY, CopyState, OWNER, Pass, Position, STATE_ID, TRANSFERS},
    },
    model::stored::to_raw_document,
};

impl<'a> Transfer<'a> {
    /// Checks the source and the target, and returns the definitions of the source and the state of an unfinished copy.
    pub(super) async fn check(
        &mut self,
        restarts: bool,
    ) -> Result<(Vec<CollectionDefinition>, Option<CopyState>)> {
        if !self.is_quiescent && !self.from.capabilities().change_streams {
            let message = "a standalone MongoDB server has no change streams, so the copy would miss writes: stop all writers, and \
                           call `quiescent`";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let definitions = self.definitions().await?;
        for definition in collections(&definitions) {
            documents::ensure_ordered_ids(self.from, &definition.name).await?;
            self.ensure_unique_ids(&definition.name).await?;
        }
        let state = self.read_state(restarts).await?;
        let existing = self.to.list_definitions().await?;
        let mut existing = existing.iter().map(|definition| &definition.name);
        if state.is_none()
            // The open of a database records the declarations of its models.
            && let Some(name) = existing.find(|name| ![TRANSFERS, SCHEMA].contains(&name.as_str()))
        {
            let message = "the target of a copy must be empty: drop its collections, or choose an empty database";
            return Err(Error::new(ErrorKind::TargetNotEmpty, message).with_collection(&**name));
        }
        if let Some(state) = &state
            && !restarts
        {
            self.ensure_same_source(state).await?;
        }
        Ok((definitions, state))
    }

    /// Checks that each `_id` is unique in a sharded collection.
    async fn ensure_unique_ids(&mut self, collection: &str) -> Result<()> {
        if !self.from.capabilities().sharding {
            return Ok(());
        }
        match self.from.shard_key_of(collection).await? {
            Some(key) if key.fields != ["_id"] => {
                let message = format!(
                    "the collection is sharded by {key}, so the cluster does not keep `_id` unique, and the copy cannot find the documents by `_id`"
                );
                Err(Error::new(ErrorKind::Unsupported, message).with_collection(collection))
            }
            _ => Ok(()),
        }
    }

    /// Checks that an unfinished copy began with this source.
    async fn ensure_same_source(&mut self, state: &CopyState) -> Result<()> {
        // A copy of a quiescent source leaves no mark in the source. The verification finds a wrong source.
        if state.token.is_none() || state.pass == Pass::Finish {
            return Ok(());
        }
        let filter = rawdoc! { "_id": state.copy };
        let marks = self
            .from
            .find_all(documents::find(TRANSFERS, filter))
            .await?;
        match marks.is_empty() {
            false => Ok(()),
            true => {
                let message = "the target has an unfinished copy of a different source: call `restart` to discard that copy";
                Err(Error::new(ErrorKind::TargetNotEmpty, message))
            }
        }
    }

    /// Begins a copy, or continues an unfinished copy.
    pub(super) async fn open(&mut self, restarts: bool) -> Result<()> {
        let (definitions, state) = self.check(restarts).await?;
        self.progress.total = self.count_documents(&definitions).await?;
        match state {
            Some(state) if !restarts => self.continue_copy(state).await?,
            unfinished => {
                if let Some(unfinished) = unfinished {
                    self.discard(&unfinished).await?;
                }
                self.begin_copy().await?;
            }
        }
        match self.state.pass {
            Pass::Finish => Ok(()),
            Pass::Copy | Pass::Verify => self.create_collections(definitions).await,
        }
    }

    async fn count_documents(&mut self, definitions: &[CollectionDefinition]) -> Result<u64> {
        let mut total = 0;
        for definition in collections(definitions) {
            total += documents::count(self.from, &definition.name).await?;
        }
        Ok(total)
    }

    /// Removes an unfinished copy. The state goes last, so that a second attempt can continue.
    async fn discard(&mut self, unfinished: &CopyState) -> Result<()> {
        for definition in self.to.list_definitions().await? {
            if definition.name != TRANSFERS {
                self.to.drop_collection(&definition.name).await?;
            }
        }
        if !self.is_quiescent {
            remove_marks(self.from, unfinished.copy).await?;
        }
        self.to.drop_collection(TRANSFERS).await
    }

    /// Records the copy in the target, marks the source, and opens the change stream. After a crash in between, the next process
    /// finds the record, and no mark without a record remains.
    async fn begin_copy(&mut self) -> Result<()> {
        let insert = InsertOperation {
            collection: TRANSFERS.into(),
            documents: vec![to_raw_document(&to_document(&self.state)?)?],
            ordered: true,
            origin: OperationOrigin::default(),
        };
        match self.to.insert(insert).await {
            Err(error) if error.is_duplicate_key() => return Err(taken_over()),
            inserted => inserted?,
        }
        if self.is_quiescent {
            return Ok(());
        }
        self.mark_source().await?;
        // The stream starts before the first read, so that it has every change that a read may have missed.
        self.changes = Some(self.open_changes(WatchFrom::Now).await?);
        self.record_token().await
    }

    pub(super) async fn open_changes(&mut self, start: WatchFrom) -> Result<SourceChanges<'a>> {
        SourceChanges::open(self.from, self.state.copy, start).await
    }

    /// Inserts the document that proves a source to be the source of a copy.
    async fn mark_source(&mut self) -> Result<()> {
        let insert = InsertOperation {
            collection: TRANSFERS.into(),
            documents: vec![rawdoc! { "_id": self.state.copy }],
            ordered: true,
            origin: OperationOrigin::default(),
        };
        match self.from.insert(insert).await {
            Err(error) if error.is_duplicate_key() => Ok(()),
            inserted => inserted,
        }
    }

    async fn continue_copy(&mut self, mut state: CopyState) -> Result<()> {
        let previous_owner = state.owner;
        state.owner = ObjectId::new();
        self.state = state;
        let mut is_complete = self.is_quiescent == self.state.token.is_none();
        if self.state.pass == Pass::Finish {
            if self.is_quiescent && is_complete {
                return self.write_state(previous_owner).await;
            }
            // The source may have changed since the crash. An index of the target may have deleted documents.
            is_complete = false;
        }
        if !self.is_quiescent {
            let start = match &self.state.token {
                Some(token) => WatchFrom::After(to_raw_document(token)?),
                None => WatchFrom::Now,
            };
            self.mark_source().await?;
            let opened = match self.open_changes(start).await {
                Err(error) if error.is_history_lost() => {
                    is_complete = false;
                    self.open_changes(WatchFrom::Now).await?
                }
                opened => opened?,
            };
            self.changes = Some(opened);
        }
        if !is_complete {
            // Changes since the last read are unknown: compare all documents again, and copy the differences.
            self.state.pass = Pass::Copy;
            self.state.position = None;
        }
        self.state.token = self.token()?;
        self.write_state(previous_owner).await
    }

    /// Returns the position of the change stream.
    pub(super) fn token(&self) -> Result<Option<Document>> {
        let token = self.changes.as_ref().map(SourceChanges::token);
        let token = token.map(|token| Document::try_from(&*token));
        token.transpose().map_err(error::from_bson)
    }

    /// Records that all documents up to a position were examined.
    pub(super) async fn record_position(&mut self, collection: &str, id: &RawBson) -> Result<()> {
        let id = Bson::try_from(id.clone()).map_err(error::from_bson)?;
        self.state.position = Some(Position {
            collection: collection.to_owned(),
            document: doc! { "_id": id },
        });
        self.save_state().await
    }

    /// Records that all changes up to the position of the change stream were copied.
    pub(super) async fn record_token(&mut self) -> Result<()> {
        self.state.token = self.token()?;
        self.save_state().await
    }

    /// Records the begin of a pass.
    pub(super) async fn begin_pass(&mut self, pass: Pass) -> Result<()> {
        self.state.pass = pass;
        self.state.position = None;
        self.save_state().await
    }

    async fn save_state(&mut self) -> Result<()> {
        self.write_state(self.state.owner).await
    }

    /// Writes the state, if `owner` still runs the copy.
    async fn write_state(&mut self, owner: ObjectId) -> Result<()> {
        let update = UpdateOperation {
            collection: TRANSFERS.into(),
            filter: to_raw_document(&doc! { "_id": STATE_ID, OWNER: owner })?,
            change: DocumentChange::Replacement(to_raw_document(&to_document(&self.state)?)?),
            multi: false,
            upsert: false,
            origin: OperationOrigin::default(),
        };
        match self.to.update(update).await?.matched {
            0 => Err(taken_over()),
            _ => Ok(()),
        }
    }

    /// Reads the state of an unfinished copy. A restart needs only the field `copy` of a state.
    async fn read_state(&mut self, restarts: bool) -> Result<Option<CopyState>> {
        let filter = rawdoc! { "_id": STATE_ID };
        let stored = self.to.find_all(documents::find(TRANSFERS, filter)).await?;
        let Some(stored) = stored.first() else {
            return Ok(None);
        };
        match bson::deserialize_from_slice(stored.as_bytes()) {
            Ok(state) => Ok(Some(state)),
            Err(_) if restarts => {
                let mut state = CopyState::new();
                if let Ok(copy) = stored.get_object_id(COPY) {
                    state.copy = copy;
                }
                Ok(Some(state))
            }
            Err(failure) => {
                let message =
                    "the state of the unfinished copy in the target cannot be read: call `restart`";
                Err(Error::new(ErrorKind::Decode, message).with_source(failure))
            }
        }
    }

    /// Passes the progress to the callback.
    pub(super) fn report(&mut self, stage: CopyStage, collection: &str) {
        self.progress.stage = stage;
        collection.clone_into(&mut self.progress.collection);
        if let Some(callback) = &mut self.callback {
            callback(&self.progress);
        }
    }
}

fn to_document(state: &CopyState) -> Result<Document> {
    bson::serialize_to_document(state).map_err(error::from_bson)
}

fn taken_over() -> Error {
    let message =
        "a second process continues this copy: let only one process run a copy into a database";
    Error::new(ErrorKind::Conflict, message)
}
