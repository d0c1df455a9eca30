//! The text of an operation, for the output of tests.

use std::fmt;

use bson::{Document, RawDocument, RawDocumentBuf};

use super::{
    BulkOperation, DocumentChange, FindAndModifyKind, FindOperation, Operation, OperationOrigin,
};

/// The maximum length of a filter or of a change in the text, in characters.
const MAX_DOCUMENT_CHARS: usize = 200;

/// Writes the operation in one line: the name, the collection, the condition and the change, with all values, and the
/// [origin](Operation::origin) in brackets.
impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_content(f)?;
        match self.origin() {
            origin if origin == OperationOrigin::default() => Ok(()),
            origin => write!(f, " [{origin}]"),
        }
    }
}

impl Operation {
    /// Returns the name of the operation and its collections, such as `update tasks`.
    ///
    /// ```
    /// use odm::backend::operation::{InsertOperation, Operation};
    ///
    /// let insert = InsertOperation {
    ///     collection: "tasks".into(),
    ///     documents: Vec::new(),
    ///     ordered: true,
    ///     origin: Default::default(),
    /// };
    /// assert_eq!(Operation::Insert(insert).summary(), "insert tasks");
    /// assert_eq!(Operation::Commit.summary(), "commit");
    /// ```
    #[must_use]
    pub fn summary(&self) -> String {
        let (name, collection) = match self {
            Self::Find(find) => ("find", &find.collection),
            Self::Explain(find) => ("explain", &find.collection),
            Self::Aggregate(aggregate) => ("aggregate", &aggregate.collection),
            Self::FindEach(find) => ("find", &find.collection),
            Self::Count(count) => ("count", &count.collection),
            Self::Distinct(distinct) => ("distinct", &distinct.collection),
            Self::Insert(insert) => ("insert", &insert.collection),
            Self::Update(update) => ("update", &update.collection),
            Self::Delete(delete) => ("delete", &delete.collection),
            Self::FindAndModify(modify) => ("findAndModify", &modify.collection),
            Self::FindSeveral(several) => {
                let names = several.finds.iter().map(|find| &*find.collection);
                return format!("find {}", names.collect::<Vec<_>>().join(", "));
            }
            Self::BulkWrite(bulk) => {
                let names = bulk.writes.iter().map(|item| &**item.write.collection());
                let mut names: Vec<_> = names.collect();
                names.dedup();
                return format!("bulkWrite {}", names.join(", "));
            }
            Self::ListCollections
            | Self::ListDefinitions
            | Self::CreateDefined(_)
            | Self::CreateCollection(_)
            | Self::DropCollection(_)
            | Self::ListIndexes(_)
            | Self::CreateIndexes(..)
            | Self::DropIndex(..)
            | Self::SetExpiry(..)
            | Self::ShardKeyOf(_)
            | Self::ShardCollection(..)
            | Self::Watch(_)
            | Self::Begin
            | Self::Commit
            | Self::Abort => return self.to_string(),
        };
        format!("{name} {collection}")
    }

    fn write_content(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Find(find) => write!(f, "find {}", query(find)),
            Self::Explain(find) => write!(f, "explain {}", query(find)),
            Self::Aggregate(aggregate) => {
                let pipeline = list(&aggregate.pipeline);
                write!(f, "aggregate {} {pipeline}", aggregate.collection)
            }
            Self::FindEach(find) => {
                let keys: Vec<_> = find.keys.iter().map(|key| format!("{key:?}")).collect();
                let keys = shorten(keys.join(", "));
                write!(
                    f,
                    "find {} where {} is each of [{keys}]",
                    find.collection, find.path
                )
            }
            Self::FindSeveral(several) => {
                let finds: Vec<_> = several.finds.iter().map(query).collect();
                write!(f, "find {}", finds.join(", and "))
            }
            Self::Count(count) => {
                write!(f, "count {} {}", count.collection, text(&count.filter))
            }
            Self::Distinct(distinct) => {
                let filter = text(&distinct.filter);
                write!(
                    f,
                    "distinct {} {} {filter}",
                    distinct.collection, distinct.path
                )
            }
            Self::Insert(insert) => {
                write!(
                    f,
                    "insert {} {}",
                    insert.collection,
                    list(&insert.documents)
                )
            }
            Self::Update(update) => {
                let (filter, change) = (text(&update.filter), change(&update.change));
                write!(f, "update {} {filter} {change}", update.collection)
            }
            Self::Delete(delete) => {
                write!(f, "delete {} {}", delete.collection, text(&delete.filter))
            }
            Self::FindAndModify(modify) => {
                write!(
                    f,
                    "findAndModify {} {}",
                    modify.collection,
                    text(&modify.filter)
                )?;
                match &modify.modification {
                    FindAndModifyKind::Delete => f.write_str(" delete"),
                    FindAndModifyKind::Update { change: c, .. } => write!(f, " {}", change(c)),
                }
            }
            Self::BulkWrite(bulk) => {
                let writes = bulk.writes.iter().map(|item| match &item.write {
                    BulkOperation::Insert {
                        collection,
                        document,
                    } => format!("insert {collection} {}", text(document)),
                    BulkOperation::Update(update) => format!(
                        "update {} {} {}",
                        update.collection,
                        text(&update.filter),
                        change(&update.change)
                    ),
                    BulkOperation::Delete(delete) => {
                        format!("delete {} {}", delete.collection, text(&delete.filter))
                    }
                });
                let writes: Vec<_> = writes.collect();
                write!(f, "bulkWrite: {}", writes.join("; "))
            }
            Self::ListCollections | Self::ListDefinitions => f.write_str("listCollections"),
            Self::CreateDefined(definition) => write!(f, "create {}", definition.name),
            Self::CreateCollection(name) => write!(f, "create {name}"),
            Self::DropCollection(name) => write!(f, "drop {name}"),
            Self::ListIndexes(name) => write!(f, "listIndexes {name}"),
            Self::CreateIndexes(name, indexes) => {
                let names: Vec<_> = indexes.iter().map(|index| index.name.as_str()).collect();
                write!(f, "createIndexes {name} {}", names.join(", "))
            }
            Self::DropIndex(name, index) => write!(f, "dropIndexes {name} {index}"),
            Self::SetExpiry(name, index, after) => write!(f, "collMod {name} {index} {after:?}"),
            Self::ShardKeyOf(name) => write!(f, "read the shard key of {name}"),
            Self::ShardCollection(name, key) => write!(f, "shardCollection {name} {key}"),
            Self::Watch(watch) => match &watch.collection {
                Some(name) => write!(f, "watch {name}"),
                None => f.write_str("watch the database"),
            },
            Self::Begin => f.write_str("begin"),
            Self::Commit => f.write_str("commit"),
            Self::Abort => f.write_str("abort"),
        }
    }
}

fn query(find: &FindOperation) -> String {
    let mut line = format!("{} {}", find.collection, text(&find.filter));
    if let Some(sort) = &find.sort {
        line.push_str(&format!(" sort {}", text(sort)));
    }
    if let Some(limit) = find.limit {
        line.push_str(&format!(" limit {limit}"));
    }
    line
}

fn change(change: &DocumentChange) -> String {
    match change {
        DocumentChange::Operators { update, .. } => text(update),
        DocumentChange::Replacement(document) => format!("replace by {}", text(document)),
        DocumentChange::Pipeline(stages) => list(stages),
    }
}

fn list(documents: &[RawDocumentBuf]) -> String {
    let texts: Vec<_> = documents.iter().map(|document| text(document)).collect();
    shorten(format!("[{}]", texts.join(", ")))
}

/// Returns a document as extended JSON, shortened.
fn text(document: &RawDocument) -> String {
    match Document::try_from(document) {
        Ok(document) => shorten(document.to_string()),
        Err(_) => format!("{} bytes of invalid BSON", document.as_bytes().len()),
    }
}

fn shorten(text: String) -> String {
    match text.char_indices().nth(MAX_DOCUMENT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
