//! Between the backend's operations and the engine's commands.

use bson::{Bson, RawDocumentBuf};
use odm_engine as engine;

use crate::{
    Error, ErrorKind,
    backend::operation::{Collection, Delete, Direction, Find, FindEach, Index, Update},
};

pub(super) fn find(find: Find) -> (Collection, engine::Find) {
    let command = engine::Find {
        filter: find.filter,
        projection: find.projection,
        sort: find.sort,
        limit: find.limit,
        ..engine::Find::default()
    };
    (find.collection, command)
}

pub(super) fn find_each(each: FindEach) -> (Collection, engine::FindEach) {
    let command = engine::FindEach {
        path: each.path,
        keys: each.keys,
        filter: each.filter,
        sort: each.sort,
        limit: each.limit,
        ..engine::FindEach::default()
    };
    (each.collection, command)
}

pub(super) fn update(update: Update) -> (Collection, engine::Update) {
    let command = engine::Update {
        filter: update.filter,
        update: update.update,
        array_filters: update.array_filters,
        multi: update.multi,
        ..engine::Update::default()
    };
    (update.collection, command)
}

pub(super) fn delete(delete: Delete) -> (Collection, engine::Delete) {
    let command = engine::Delete {
        filter: delete.filter,
        multi: delete.multi,
    };
    (delete.collection, command)
}

pub(super) fn index_to(index: Index) -> engine::Index {
    let keys = index.keys.into_iter().map(|(path, direction)| {
        let direction = match direction {
            Direction::Ascending => engine::Direction::Ascending,
            Direction::Descending => engine::Direction::Descending,
        };
        (path, direction)
    });
    let mut converted = engine::Index::new(keys).named(index.name);
    converted.unique = index.unique;
    converted.sparse = index.sparse;
    converted.partial = index.partial;
    converted.expire_after = index.expire_after;
    converted
}

pub(super) fn index_from(index: engine::Index) -> Index {
    let keys = index
        .keys
        .into_iter()
        .map(|(path, direction)| {
            let direction = match direction {
                engine::Direction::Ascending => Direction::Ascending,
                engine::Direction::Descending => Direction::Descending,
            };
            (path, direction)
        })
        .collect();
    Index {
        name: index.name,
        unique: index.unique,
        sparse: index.sparse,
        partial: index.partial,
        expire_after: index.expire_after,
        ..Index::new(keys)
    }
}

/// The `_id` of each document, for the error that may come.
pub(super) fn ids(documents: &[RawDocumentBuf]) -> Vec<Option<Bson>> {
    documents
        .iter()
        .map(|document| crate::decode::id(document).and_then(|id| Bson::try_from(id).ok()))
        .collect()
}

pub(super) fn error(error: engine::Error) -> Error {
    use engine::ErrorKind as Theirs;
    let kind = match error.kind() {
        Theirs::DuplicateKey => ErrorKind::DuplicateKey,
        Theirs::WriteConflict => ErrorKind::Conflict,
        Theirs::NotSupported => ErrorKind::Unsupported,
        Theirs::InUse => ErrorKind::InUse,
        Theirs::ForeignFile | Theirs::NewerFormat | Theirs::Damaged => ErrorKind::Damaged,
        Theirs::TransactionOver => ErrorKind::TransactionOver,
        Theirs::Io => ErrorKind::Io,
        // An operator that nobody knows and a bad value are refused alike by MongoDB, by their code.
        _ => ErrorKind::Backend,
    };
    let message = match kind {
        // The index and the key stand beside it.
        ErrorKind::DuplicateKey => "another document has the same key",
        _ => error.message(),
    };
    let mut converted = Error::new(kind, message);
    if let Some(code) = error.code() {
        converted = converted.with_code(code);
    }
    if let Some(key) = error.duplicate_key()
        && let Ok(value) = bson::Document::try_from(key.key_value())
    {
        converted = converted.with_index(key.index(), value);
    }
    converted.with_source(error)
}
