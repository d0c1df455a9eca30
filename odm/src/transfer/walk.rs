//! The passes over all documents, and the copies of changed documents.

use std::{pin::pin, time::Instant};

use bson::{RawBson, RawDocumentBuf};
use futures_util::future::{Either, select};

use super::{
    CATCH_UP_INTERVAL, CopyStage, Transfer,
    changes::ChangedDocuments,
    definitions::collections,
    documents::{self, Ids, MAX_CHUNK_DOCUMENTS},
};
use crate::{Result, backend::Executor, model::stored::to_raw_value};

impl Transfer<'_> {
    /// Examines all documents in the order of the collections and ids. In the stage `Copy`, copies all differences. In the stage
    /// `Verify`, fails if a difference has no reason.
    pub(super) async fn walk(&mut self, stage: CopyStage) -> Result<()> {
        self.progress.documents = 0;
        let definitions = self.definitions().await?;
        let position = self.state.position.clone();
        for definition in collections(&definitions) {
            let name = definition.name.as_str();
            let mut after = None;
            if let Some(position) = &position {
                if name < position.collection.as_str() {
                    continue;
                }
                if name == position.collection {
                    after = position.document.get("_id").map(to_raw_value).transpose()?;
                }
            }
            self.ensure_created(name).await?;
            self.report(stage, name);
            after = self.walk_source(stage, name, after).await?;
            self.walk_rest_of_target(stage, name, after).await?;
        }
        self.catch_up().await
    }

    /// Examines the documents of the source after an id, and returns the last id.
    async fn walk_source(
        &mut self,
        stage: CopyStage,
        collection: &str,
        mut after: Option<RawBson>,
    ) -> Result<Option<RawBson>> {
        loop {
            let expected =
                documents::read_after(self.from, collection, after.as_ref(), MAX_CHUNK_DOCUMENTS)
                    .await?;
            let Some(last) = expected.last() else {
                return Ok(after);
            };
            let last = RawBson::from(documents::id_of(last)?);
            let count = expected.len();
            self.examine_chunk(stage, collection, after.as_ref(), expected)
                .await?;
            self.record_position(collection, &last).await?;
            after = Some(last);
            self.progress.documents += count as u64;
            self.report(stage, collection);
            if self.last_catch_up.elapsed() >= CATCH_UP_INTERVAL {
                self.catch_up().await?;
            }
        }
    }

    /// Compares documents of the source with the documents of the target after the same id.
    async fn examine_chunk(
        &mut self,
        stage: CopyStage,
        collection: &str,
        after: Option<&RawBson>,
        expected: Vec<RawDocumentBuf>,
    ) -> Result<()> {
        let actual = documents::read_after(self.to, collection, after, expected.len()).await?;
        let differences = match actual.is_empty() && stage == CopyStage::Copy {
            true => documents::insert(self.to, collection, expected).await?,
            false => documents::compare(&expected, &actual)?,
        };
        self.examine(stage, collection, differences).await
    }

    /// Examines the documents of the target after the last document of the source.
    async fn walk_rest_of_target(
        &mut self,
        stage: CopyStage,
        collection: &str,
        mut after: Option<RawBson>,
    ) -> Result<()> {
        loop {
            let rest =
                documents::read_after(self.to, collection, after.as_ref(), MAX_CHUNK_DOCUMENTS)
                    .await?;
            let Some(last) = rest.last() else {
                return Ok(());
            };
            after = Some(RawBson::from(documents::id_of(last)?));
            let mut ids = Ids::new();
            for document in &rest {
                documents::add_id(&mut ids, document)?;
            }
            self.examine(stage, collection, ids).await?;
        }
    }

    /// Copies documents that may differ, or verifies them.
    async fn examine(&mut self, stage: CopyStage, collection: &str, ids: Ids) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        if stage == CopyStage::Copy {
            return documents::refresh(self.from, self.to, collection, &ids).await;
        }
        // The documents may have changed between the two reads. After a copy of all changes, each remaining difference must have
        // a later change.
        self.catch_up().await?;
        let mut differences =
            documents::find_differences(self.from, self.to, collection, &ids).await?;
        if !differences.is_empty() {
            self.copy_changes(None, &mut differences, collection)
                .await?;
        }
        match differences.is_empty() {
            true => Ok(()),
            false => Err(documents::differs(collection, &differences)),
        }
    }

    /// Copies all changes of the source up to now.
    pub(super) async fn catch_up(&mut self) -> Result<()> {
        self.copy_changes(None, &mut Ids::new(), "").await
    }

    /// Copies all changes of the source up to now, and removes the changed documents from `unexplained`, which are ids of
    /// `collection`. Reads the documents from the snapshot, or else from the source.
    pub(super) async fn copy_changes(
        &mut self,
        snapshot: Option<&dyn Executor>,
        unexplained: &mut Ids,
        collection: &str,
    ) -> Result<()> {
        let Some(changes) = &mut self.changes else {
            return Ok(());
        };
        let mark = changes.mark().await?;
        let mut is_reached = false;
        while !is_reached {
            let mut changed = ChangedDocuments::default();
            while !is_reached && !changed.is_full() {
                let Some(changes) = &mut self.changes else {
                    return Ok(());
                };
                changes.read_into(&mut changed).await?;
                is_reached = changed.has_mark(mark);
            }
            if changed.dropped.contains(collection) {
                unexplained.clear();
            }
            if let Some(ids) = changed.ids.get(collection) {
                unexplained.retain(|id, _| !ids.contains_key(id));
            }
            self.apply(snapshot, changed).await?;
        }
        if let Some(changes) = &mut self.changes {
            changes.remove_mark(mark).await?;
        }
        self.last_catch_up = Instant::now();
        Ok(())
    }

    /// Copies changed documents.
    async fn apply(
        &mut self,
        snapshot: Option<&dyn Executor>,
        changed: ChangedDocuments,
    ) -> Result<()> {
        for collection in changed.dropped {
            self.to.drop_collection(&collection).await?;
            self.created.remove(&collection);
        }
        for (collection, ids) in changed.ids {
            self.ensure_created(&collection).await?;
            let source: &dyn Executor = snapshot.unwrap_or(self.from);
            documents::refresh(source, self.to, &collection, &ids).await?;
            self.progress.changes += ids.len() as u64;
        }
        match snapshot {
            None => self.record_token().await,
            // The changes after the snapshot are not copied. After a failure, another attempt must read them again.
            Some(_) => Ok(()),
        }
    }

    /// Follows the changes of the source until the caller ends the copy.
    pub(super) async fn follow(&mut self) -> Result<()> {
        let Some(mut until) = self.until.take() else {
            return Ok(());
        };
        loop {
            self.report(CopyStage::Follow, "");
            let Some(changes) = &mut self.changes else {
                until.await;
                return Ok(());
            };
            let mut changed = ChangedDocuments::default();
            let read = match select(&mut until, pin!(changes.read_into(&mut changed))).await {
                Either::Left(_) => return Ok(()),
                Either::Right((read, _)) => read,
            };
            read?;
            self.apply(None, changed).await?;
        }
    }
}
