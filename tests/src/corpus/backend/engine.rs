use std::collections::BTreeMap;

use bson::{Bson, Document, RawDocumentBuf, doc, rawdoc};
use odm_engine::{Aggregate, Cursor, Database, Delete, Error, Find, Index, Transaction, Update};
use tempfile::TempDir;

use super::Backend;
use crate::corpus::operation::{NotOffered, Operation};

/// The engine, with a database of its own for every case.
pub(super) struct Engine {
    /// Where the databases are; none if in memory.
    files: Option<TempDir>,
    database: Database,
    transactions: BTreeMap<String, Transaction>,
}

/// An operation that was refused.
enum Refused {
    NotOffered(NotOffered),
    Error(Error),
}

type Answer = Result<Document, Refused>;

impl Engine {
    pub(super) fn in_memory() -> Self {
        Self {
            files: None,
            database: Database::memory(),
            transactions: BTreeMap::new(),
        }
    }

    pub(super) fn on_disk() -> Result<Self, String> {
        let files = tempfile::tempdir().map_err(|error| error.to_string())?;
        Ok(Self {
            files: Some(files),
            ..Self::in_memory()
        })
    }

    fn try_run(&mut self, operation: &Operation<'_>) -> Answer {
        match operation.name {
            "find" => self.find(operation),
            "aggregate" => self.aggregate(operation),
            "count" => self.count(operation),
            "distinct" => self.distinct(operation),
            "insertMany" => self.insert(operation),
            "updateOne" => self.update(operation, "update", false),
            "updateMany" => self.update(operation, "update", true),
            "replaceOne" => self.update(operation, "replacement", false),
            "deleteOne" => self.delete(operation, false),
            "deleteMany" => self.delete(operation, true),
            "create" | "createIndexes" => self.create_indexes(operation),
            "listIndexes" => self.list_indexes(operation),
            "dropIndexes" => self.drop_index(operation),
            "startTransaction" => {
                let begun = self.database.begin()?;
                self.transactions
                    .insert(session(operation).to_owned(), begun);
                Ok(ok())
            }
            "commitTransaction" => Ok(self.in_transaction(operation)?.commit().map(|()| ok())?),
            "abortTransaction" => Ok(self.in_transaction(operation)?.abort().map(|()| ok())?),
            other => Err(NotOffered::new(other).into()),
        }
    }

    fn find(&self, operation: &Operation<'_>) -> Answer {
        operation.only(&["filter", "projection", "sort", "skip", "limit"])?;
        let find = Find {
            filter: operation.document("filter")?.unwrap_or_default(),
            projection: operation.document("projection")?,
            sort: operation.document("sort")?,
            skip: operation.count("skip")?.unwrap_or(0),
            // MongoDB's 0 is no limit.
            limit: operation.count("limit")?.filter(|limit| *limit > 0),
        };
        let found = match self.transaction(operation) {
            Some(transaction) => transaction.find(operation.collection, &find)?,
            None => self.database.find(operation.collection, &find)?,
        };
        documents(found)
    }

    fn aggregate(&self, operation: &Operation<'_>) -> Answer {
        operation.only(&["pipeline", "let"])?;
        let aggregate = Aggregate {
            pipeline: operation.documents("pipeline")?,
            variables: operation.document("let")?.unwrap_or_default(),
        };
        let found = match self.transaction(operation) {
            Some(transaction) => transaction.aggregate(operation.collection, &aggregate)?,
            None => self.database.aggregate(operation.collection, &aggregate)?,
        };
        documents(found)
    }

    fn count(&self, operation: &Operation<'_>) -> Answer {
        operation.only(&["filter", "limit"])?;
        let filter = operation.document("filter")?.unwrap_or_default();
        let limit = operation.count("limit")?.filter(|limit| *limit > 0);
        let count = match self.transaction(operation) {
            Some(transaction) => transaction.count(operation.collection, &filter, limit)?,
            None => self.database.count(operation.collection, &filter, limit)?,
        };
        Ok(doc! { "count": number(count) })
    }

    fn distinct(&self, operation: &Operation<'_>) -> Answer {
        operation.only(&["field", "filter"])?;
        let path = operation.text("field")?;
        let filter = operation.document("filter")?.unwrap_or_default();
        let values = match self.transaction(operation) {
            Some(transaction) => transaction.distinct(operation.collection, path, &filter)?,
            None => self
                .database
                .distinct(operation.collection, path, &filter)?,
        };
        let values = values
            .into_iter()
            .map(Bson::try_from)
            .collect::<Result<Vec<_>, _>>();
        Ok(doc! { "values": values.map_err(unreadable)? })
    }

    fn insert(&self, operation: &Operation<'_>) -> Answer {
        operation.only(&["documents", "ordered"])?;
        if operation.args.get("ordered") == Some(&Bson::Boolean(false)) {
            return Err(operation.not_offered("ordered", ": false").into());
        }
        let documents = operation.documents("documents")?;
        let report = match self.transaction(operation) {
            Some(transaction) => transaction.insert(operation.collection, documents)?,
            None => self.database.insert(operation.collection, documents)?,
        };
        let inserted = number(report.inserted as u64);
        let mut answer = doc! { "inserted": inserted };
        if let Some(failure) = report.failure {
            let mut error = error(&failure)?;
            error.insert("index", inserted);
            answer.insert("errors", [error.clone()].as_slice());
            answer.insert("error", error);
        }
        Ok(answer)
    }

    fn update(&self, operation: &Operation<'_>, change: &str, multi: bool) -> Answer {
        operation.only(&["filter", change, "upsert", "arrayFilters"])?;
        let update = Update {
            filter: operation.document("filter")?.unwrap_or_default(),
            update: operation.document(change)?.unwrap_or_default(),
            array_filters: operation.documents("arrayFilters")?,
            multi,
            upsert: operation.flag("upsert")?,
        };
        let report = match self.transaction(operation) {
            Some(transaction) => transaction.update(operation.collection, &update)?,
            None => self.database.update(operation.collection, &update)?,
        };
        if let Some(failure) = report.failure {
            return Err(failure.into());
        }
        let mut answer =
            doc! { "matched": number(report.matched), "modified": number(report.modified) };
        if let Some(id) = report.upserted_id {
            answer.insert("upsertedId", Bson::try_from(id).map_err(unreadable)?);
        }
        Ok(answer)
    }

    fn delete(&self, operation: &Operation<'_>, multi: bool) -> Answer {
        operation.only(&["filter"])?;
        let filter = operation.document("filter")?.unwrap_or_default();
        let delete = Delete { filter, multi };
        let report = match self.transaction(operation) {
            Some(transaction) => transaction.delete(operation.collection, &delete)?,
            None => self.database.delete(operation.collection, &delete)?,
        };
        Ok(doc! { "deleted": number(report.deleted) })
    }

    fn create_indexes(&self, operation: &Operation<'_>) -> Answer {
        outside_transactions(operation)?;
        let specifications = operation.documents("indexes")?;
        let indexes = specifications
            .iter()
            .map(|specification| Index::from_document(specification));
        let indexes = indexes.collect::<Result<Vec<_>, _>>()?;
        self.database
            .create_indexes(operation.collection, &indexes)?;
        Ok(ok())
    }

    fn list_indexes(&self, operation: &Operation<'_>) -> Answer {
        let versioned = |index: &Index| {
            let mut listed = doc! { "v": 2 };
            listed.extend(Document::try_from(index.to_document()).map_err(unreadable)?);
            Ok(listed)
        };
        let indexes = self.database.list_indexes(operation.collection)?;
        let indexes = indexes
            .iter()
            .map(versioned)
            .collect::<Result<Vec<_>, Refused>>()?;
        Ok(doc! { "indexes": indexes })
    }

    fn drop_index(&self, operation: &Operation<'_>) -> Answer {
        outside_transactions(operation)?;
        let name = operation.text("index")?;
        if name == "*" {
            return Err(operation.not_offered("index", ": \"*\"").into());
        }
        self.database.drop_index(operation.collection, name)?;
        Ok(ok())
    }

    fn transaction(&self, operation: &Operation<'_>) -> Option<&Transaction> {
        self.transactions.get(operation.session?)
    }

    fn in_transaction(&self, operation: &Operation<'_>) -> Result<&Transaction, Refused> {
        let none = || NotOffered::new(format!("{} without a transaction", operation.name));
        self.transaction(operation).ok_or_else(|| none().into())
    }
}

impl Backend for Engine {
    fn reset(&mut self) -> Result<(), String> {
        self.transactions.clear();
        self.database = Database::memory();
        if let Some(files) = &self.files {
            let file = files.path().join("corpus.odm");
            if file.exists() {
                std::fs::remove_file(&file).map_err(|error| error.to_string())?;
            }
            self.database = Database::open(&file).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn run(&mut self, operation: &Operation<'_>) -> Result<Document, NotOffered> {
        match self.try_run(operation) {
            Ok(answer) => Ok(answer),
            Err(Refused::NotOffered(reason)) => Err(reason),
            Err(Refused::Error(refused)) => Ok(doc! { "error": error(&refused)? }),
        }
    }

    fn store(&mut self, document: RawDocumentBuf) -> Result<Option<RawDocumentBuf>, NotOffered> {
        let report = self.database.insert("c", vec![document]);
        if report.and_then(odm_engine::InsertReport::all).is_err() {
            return Ok(None);
        }
        let found = self.database.find(
            "c",
            &Find {
                filter: rawdoc! {},
                ..Find::default()
            },
        );
        let mut found = found.map_err(|error| NotOffered::new(error.to_string()))?;
        Ok(found.next().and_then(Result::ok))
    }
}

impl From<NotOffered> for Refused {
    fn from(reason: NotOffered) -> Self {
        Self::NotOffered(reason)
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// An error as the corpus records it.
fn error(error: &Error) -> Result<Document, NotOffered> {
    if error.is_not_supported() {
        return Err(NotOffered::new(error.message()));
    }
    let mut recorded = doc! { "code": error.code(), "message": error.message() };
    if let Some(duplicate) = error.duplicate_key() {
        for (name, keys) in [
            ("keyPattern", duplicate.key_pattern()),
            ("keyValue", duplicate.key_value()),
        ] {
            recorded.insert(name, Document::try_from(keys).unwrap_or_default());
        }
    }
    Ok(recorded)
}

fn documents(found: Cursor) -> Answer {
    let documents = found
        .map(|document| to_bson(&document?))
        .collect::<Result<Vec<_>, Refused>>()?;
    Ok(doc! { "docs": documents })
}

fn to_bson(document: &RawDocumentBuf) -> Result<Document, Refused> {
    Document::try_from(document).map_err(unreadable)
}

/// Bytes that the engine should not have given.
fn unreadable(error: bson::error::Error) -> Refused {
    panic!("what the engine gave cannot be read: {error}")
}

fn outside_transactions(operation: &Operation<'_>) -> Result<(), NotOffered> {
    match operation.session {
        None => Ok(()),
        Some(_) => Err(operation.not_offered("a", " transaction")),
    }
}

fn session<'a>(operation: &Operation<'a>) -> &'a str {
    operation.session.unwrap_or_default()
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn ok() -> Document {
    doc! { "ok": true }
}
