//! Reads and writes, on the database and in its transactions.

use std::sync::Arc;

use bson::{Bson, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use odm_engine as engine;

use super::{
    Engine,
    commands::Commands,
    convert,
    cursor::{EngineCursor, Fetched},
    error, work,
};
use crate::{
    Result,
    backend::{
        BoxFuture, Cursor, Executor,
        operation::{Collection, Count, Delete, Deleted, Find, FindEach, Insert, Update, Updated},
    },
};

impl<T: Commands> Engine<T> {
    /// Runs a command where it may block.
    pub(super) fn run<R: Send + 'static>(
        &self,
        collection: impl Into<Collection>,
        command: impl FnOnce(&T, &str) -> engine::Result<R> + Send + 'static,
    ) -> BoxFuture<'static, Result<R>> {
        let (target, collection) = (Arc::clone(&self.0), collection.into());
        Box::pin(work::blocking(move || {
            command(&target, &collection)
                .map_err(|failure| error::in_collection(failure, &collection))
        }))
    }
}

impl<T: Commands> Executor for Engine<T> {
    fn find(&self, find: Find) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        let by_id = is_by_id(&find.filter);
        let (collection, find) = convert::find(find);
        let open =
            move |target: &T, collection: &str| Fetched::first(target.find(collection, &find)?);
        Box::pin(async move {
            let first = if by_id {
                open(&self.0, &collection)
                    .map_err(|failure| error::in_collection(failure, &collection))?
            } else {
                self.run(collection, open).await?
            };
            Ok(EngineCursor::boxed(first))
        })
    }

    fn find_each(&self, each: FindEach) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        let (collection, each) = convert::find_each(each);
        let found = self.run(collection, move |target, collection| {
            target.find_each(collection, &each).map(Fetched::keyed)
        });
        Box::pin(async { Ok(EngineCursor::boxed(found.await?)) })
    }

    fn count(&self, count: Count) -> BoxFuture<'_, Result<u64>> {
        self.run(count.collection, move |target, collection| {
            target.count(collection, &count.filter, count.limit)
        })
    }

    fn insert(&self, insert: Insert) -> BoxFuture<'_, Result<()>> {
        let Insert {
            collection,
            documents,
        } = insert;
        Box::pin(async move {
            if documents.is_empty() {
                return Ok(());
            }
            // The engine keeps the documents, and says only how many it stored.
            let ids: Vec<_> = documents.iter().map(id).collect();
            let insert = move |target: &T, collection: &str| target.insert(collection, documents);
            let report = self.run(collection.clone(), insert).await?;
            let Some(failure) = report.failure else {
                return Ok(());
            };
            let error = error::in_collection(failure, &collection).with_inserted(report.inserted);
            match ids
                .into_iter()
                .nth(report.inserted)
                .flatten()
                .map(Bson::try_from)
            {
                Some(Ok(id)) => Err(error.with_id(id)),
                _ => Err(error),
            }
        })
    }

    fn update(&self, update: Update) -> BoxFuture<'_, Result<Updated>> {
        let (collection, update) = convert::update(update);
        self.run(collection, move |target, collection| {
            target.update(collection, &update).map(convert::updated)
        })
    }

    fn delete(&self, delete: Delete) -> BoxFuture<'_, Result<Deleted>> {
        let (collection, delete) = convert::delete(delete);
        self.run(collection, move |target, collection| {
            target.delete(collection, &delete).map(convert::deleted)
        })
    }
}

/// Whether the filter is the equality of the id with one value, and nothing else.
fn is_by_id(filter: &RawDocument) -> bool {
    let Some(("_id", value)) = only_field(filter) else {
        return false;
    };
    match value {
        RawBsonRef::Document(operators) => matches!(only_field(operators), Some(("$eq", _))),
        RawBsonRef::RegularExpression(_) => false,
        _ => true,
    }
}

fn only_field(document: &RawDocument) -> Option<(&str, RawBsonRef<'_>)> {
    let mut fields = document.iter();
    let (name, value) = fields.next()?.ok()?;
    fields.next().is_none().then_some((name.as_str(), value))
}

fn id(document: &RawDocumentBuf) -> Option<RawBson> {
    document.get("_id").ok().flatten().map(RawBson::from)
}
