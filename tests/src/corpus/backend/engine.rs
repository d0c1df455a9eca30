use std::collections::BTreeMap;

use bson::{Bson, Document, RawDocumentBuf, doc, rawdoc};
use odm_engine::{
    Aggregate, Collation, Count, Cursor, Database, Delete, Distinct, DropIndexes, Error, Find,
    FindAndModify, Index, Modification, Session, Transaction, Update,
};
use tempfile::TempDir;

use super::Backend;
use crate::corpus::operation::{NotOffered, Operation};

/// The engine, with a new database for every case.
pub(super) struct Engine {
    /// The directory of the databases. `None` in memory.
    files: Option<TempDir>,
    database: Database,
    transactions: BTreeMap<String, Transaction>,
}

/// A refused operation.
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
            "findOneAndUpdate" => self.find_and_modify(operation, Some("update")),
            "findOneAndReplace" => self.find_and_modify(operation, Some("replacement")),
            "findOneAndDelete" => self.find_and_modify(operation, None),
            "create" => self.create(operation),
            "drop" => self.drop_collection(operation),
            "listCollections" => self.list_collections(operation),
            "createIndexes" => self.create_indexes(operation),
            "listIndexes" => self.list_indexes(operation),
            "dropIndexes" => self.drop_index(operation),
            "startTransaction" => {
                let begun = self.database.begin()?;
                self.transactions
                    .insert(session(operation).to_owned(), begun);
                Ok(ok_answer())
            }
            "commitTransaction" => Ok(self
                .in_transaction(operation)?
                .commit()
                .map(|()| ok_answer())?),
            "abortTransaction" => Ok(self
                .in_transaction(operation)?
                .abort()
                .map(|()| ok_answer())?),
            other => Err(NotOffered::new(other).into()),
        }
    }

    fn find(&self, operation: &Operation<'_>) -> Answer {
        operation.ensure_only(&[
            "filter",
            "projection",
            "sort",
            "skip",
            "limit",
            "let",
            "hint",
            "collation",
        ])?;
        let find = Find {
            filter: operation.document("filter")?.unwrap_or_default(),
            projection: operation.document("projection")?,
            sort: operation.document("sort")?,
            skip: operation.count("skip")?.unwrap_or(0),
            // In MongoDB, a limit of 0 means no limit.
            limit: operation.count("limit")?.filter(|limit| *limit > 0),
            variables: operation.document("let")?.unwrap_or_default(),
            hint: operation.value("hint")?,
            collation: collation(operation)?,
        };
        documents(self.session(operation).find(operation.collection, &find)?)
    }

    fn aggregate(&self, operation: &Operation<'_>) -> Answer {
        operation.ensure_only(&["pipeline", "let", "hint", "collation"])?;
        let aggregate = Aggregate {
            pipeline: operation.documents("pipeline")?,
            variables: operation.document("let")?.unwrap_or_default(),
            hint: operation.value("hint")?,
            collation: collation(operation)?,
        };
        let session = self.session(operation);
        documents(session.aggregate(operation.collection, &aggregate)?)
    }

    fn count(&self, operation: &Operation<'_>) -> Answer {
        operation.ensure_only(&["filter", "skip", "limit", "hint", "collation"])?;
        let count = Count {
            filter: operation.document("filter")?.unwrap_or_default(),
            skip: operation.count("skip")?.unwrap_or(0),
            limit: operation.count("limit")?.filter(|limit| *limit > 0),
            hint: operation.value("hint")?,
            collation: collation(operation)?,
        };
        let count = self
            .session(operation)
            .count(operation.collection, &count)?;
        Ok(doc! { "count": to_i64(count) })
    }

    fn distinct(&self, operation: &Operation<'_>) -> Answer {
        operation.ensure_only(&["field", "filter", "collation"])?;
        let distinct = Distinct {
            path: operation.text("field")?.to_owned(),
            filter: operation.document("filter")?.unwrap_or_default(),
            collation: collation(operation)?,
        };
        let session = self.session(operation);
        let values = session.distinct_values(operation.collection, &distinct)?;
        let values = values
            .into_iter()
            .map(Bson::try_from)
            .collect::<Result<Vec<_>, _>>();
        Ok(doc! { "values": values.map_err(unreadable)? })
    }

    fn insert(&self, operation: &Operation<'_>) -> Answer {
        operation.ensure_only(&["documents", "ordered"])?;
        let documents = operation.documents("documents")?;
        let session = self.session(operation);
        let report = match operation.args.get("ordered") {
            Some(Bson::Boolean(false)) => {
                session.insert_unordered(operation.collection, documents)?
            }
            _ => session.insert(operation.collection, documents)?,
        };
        let mut answer = doc! { "inserted": to_i64(report.inserted as u64) };
        let mut errors = Vec::new();
        for failure in &report.failures {
            let mut error = error(&failure.error)?;
            error.insert("index", to_i64(failure.position as u64));
            errors.push(error);
        }
        if let Some(first) = errors.first() {
            answer.insert("error", first.clone());
            answer.insert("errors", errors);
        }
        Ok(answer)
    }

    fn update(&self, operation: &Operation<'_>, change: &str, multi: bool) -> Answer {
        operation.ensure_only(&[
            "filter",
            change,
            "upsert",
            "arrayFilters",
            "let",
            "hint",
            "collation",
        ])?;
        let (changes, pipeline) = changes(operation, change)?;
        let update = Update {
            filter: operation.document("filter")?.unwrap_or_default(),
            update: changes,
            pipeline,
            array_filters: operation.documents("arrayFilters")?,
            multi,
            upsert: operation.flag("upsert")?,
            variables: operation.document("let")?.unwrap_or_default(),
            hint: operation.value("hint")?,
            collation: collation(operation)?,
        };
        let report = self
            .session(operation)
            .update(operation.collection, &update)?;
        if let Some(failure) = report.failure {
            return Err(failure.into());
        }
        let mut answer =
            doc! { "matched": to_i64(report.matched), "modified": to_i64(report.modified) };
        if let Some(id) = report.upserted_id {
            answer.insert("upsertedId", Bson::try_from(id).map_err(unreadable)?);
        }
        Ok(answer)
    }

    fn delete(&self, operation: &Operation<'_>, multi: bool) -> Answer {
        operation.ensure_only(&["filter", "let", "hint", "collation"])?;
        let delete = Delete {
            filter: operation.document("filter")?.unwrap_or_default(),
            multi,
            variables: operation.document("let")?.unwrap_or_default(),
            hint: operation.value("hint")?,
            collation: collation(operation)?,
        };
        let report = self
            .session(operation)
            .delete(operation.collection, &delete)?;
        Ok(doc! { "deleted": to_i64(report.deleted) })
    }

    fn find_and_modify(&self, operation: &Operation<'_>, change: Option<&str>) -> Answer {
        let common = ["filter", "sort", "projection", "let", "hint", "collation"];
        let modification = match change {
            None => {
                operation.ensure_only(&common)?;
                Modification::Delete
            }
            Some(change) => {
                let update_arguments = [change, "arrayFilters", "upsert", "returnDocument"];
                operation.ensure_only(&[&common[..], &update_arguments].concat())?;
                let (update, pipeline) = changes(operation, change)?;
                Modification::Update {
                    update,
                    pipeline,
                    array_filters: operation.documents("arrayFilters")?,
                    upsert: operation.flag("upsert")?,
                    return_new: match operation.args.get_str("returnDocument") {
                        Ok("after") => true,
                        Ok("before") | Err(_) => false,
                        Ok(other) => return Err(operation.not_offered(other, "").into()),
                    },
                }
            }
        };
        let modify = FindAndModify {
            filter: operation.document("filter")?.unwrap_or_default(),
            sort: operation.document("sort")?,
            projection: operation.document("projection")?,
            modification,
            variables: operation.document("let")?.unwrap_or_default(),
            hint: operation.value("hint")?,
            collation: collation(operation)?,
        };
        let report = self
            .session(operation)
            .find_and_modify(operation.collection, &modify)?;
        let value = report.document.as_ref().map(to_bson).transpose()?;
        let mut answer = doc! { "value": value };
        if change.is_some() {
            answer.insert("updatedExisting", report.matched);
        }
        if let Some(id) = report.upserted_id {
            answer.insert("upsertedId", Bson::try_from(id).map_err(unreadable)?);
        }
        Ok(answer)
    }

    fn create(&self, operation: &Operation<'_>) -> Answer {
        operation.ensure_only(&[])?;
        let created = self
            .session(operation)
            .create_collection(operation.collection);
        Ok(created.map(|()| ok_answer())?)
    }

    fn drop_collection(&self, operation: &Operation<'_>) -> Answer {
        outside_transactions(operation)?;
        operation.ensure_only(&[])?;
        self.database.drop_collection(operation.collection)?;
        Ok(ok_answer())
    }

    fn list_collections(&self, operation: &Operation<'_>) -> Answer {
        outside_transactions(operation)?;
        operation.ensure_only(&[])?;
        Ok(doc! { "names": self.database.list_collections()? })
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
        Ok(ok_answer())
    }

    fn list_indexes(&self, operation: &Operation<'_>) -> Answer {
        let versioned = |index: &Index| {
            let mut listed = doc! { "v": index.version() };
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
        let which = match operation.args.get("index") {
            Some(Bson::String(all)) if all == "*" => DropIndexes::All,
            Some(Bson::String(name)) => DropIndexes::Named(vec![name.clone()]),
            Some(Bson::Array(names)) => {
                let names = names.iter().filter_map(Bson::as_str);
                DropIndexes::Named(names.map(str::to_owned).collect())
            }
            _ => DropIndexes::Keyed(operation.document("index")?.unwrap_or_default()),
        };
        self.database.drop_indexes(operation.collection, &which)?;
        Ok(ok_answer())
    }

    fn transaction(&self, operation: &Operation<'_>) -> Option<&Transaction> {
        self.transactions.get(operation.session?)
    }

    /// Returns the transaction of the operation, or the database.
    fn session(&self, operation: &Operation<'_>) -> &Session {
        match self.transaction(operation) {
            Some(transaction) => transaction,
            None => &self.database,
        }
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

    fn insert_and_read(
        &mut self,
        document: RawDocumentBuf,
    ) -> Result<Option<RawDocumentBuf>, NotOffered> {
        let report = self.database.insert("c", vec![document]);
        if report
            .and_then(odm_engine::InsertReport::into_result)
            .is_err()
        {
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

/// Converts an error to the format of the corpus.
fn error(error: &Error) -> Result<Document, NotOffered> {
    if error.is_not_supported() {
        return Err(NotOffered::new(error.message()));
    }
    let mut recorded = doc! { "code": error.code(), "message": error.message() };
    if let Some(duplicate) = error.duplicate_key() {
        for (name, keys) in [
            ("keyPattern", Some(duplicate.key_pattern())),
            ("keyValue", Some(duplicate.key_value())),
            ("collation", duplicate.collation()),
        ] {
            if let Some(keys) = keys {
                recorded.insert(name, Document::try_from(keys).unwrap_or_default());
            }
        }
    }
    Ok(recorded)
}

/// Returns the change of an update: operators or a replacement, or a pipeline.
fn changes(
    operation: &Operation<'_>,
    name: &str,
) -> Result<(RawDocumentBuf, Option<Vec<RawDocumentBuf>>), NotOffered> {
    Ok(match operation.args.get(name) {
        Some(Bson::Array(_)) => (RawDocumentBuf::new(), Some(operation.documents(name)?)),
        _ => (operation.document(name)?.unwrap_or_default(), None),
    })
}

fn collation(operation: &Operation<'_>) -> Result<Option<Collation>, Refused> {
    match operation.document("collation")? {
        Some(collation) if !collation.is_empty() => Ok(Collation::from_document(&collation)?),
        _ => Ok(None),
    }
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

/// Panics because the engine returned invalid BSON.
fn unreadable(error: bson::error::Error) -> Refused {
    panic!("the engine returned invalid BSON: {error}")
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

fn to_i64(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn ok_answer() -> Document {
    doc! { "ok": true }
}
