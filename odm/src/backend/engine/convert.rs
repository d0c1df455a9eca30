//! Operations as the engine takes them, and what it answers.

use odm_engine as engine;

use crate::{
    Result,
    backend::operation::{
        Delete, Deleted, Direction, Find, FindEach, FullDocument, Index, Update, Updated, Watch,
        WatchFrom,
    },
};

pub(super) fn find(find: Find) -> engine::Find {
    engine::Find {
        filter: find.filter,
        projection: find.projection,
        sort: find.sort,
        skip: 0,
        limit: find.limit,
    }
}

pub(super) fn find_each(find: FindEach) -> engine::FindEach {
    engine::FindEach {
        path: find.path,
        keys: find.keys,
        filter: find.filter,
        projection: None,
        sort: find.sort,
        limit: find.limit,
    }
}

pub(super) fn update(update: Update) -> engine::Update {
    engine::Update {
        filter: update.filter,
        update: update.update,
        array_filters: update.array_filters,
        multi: update.multi,
        upsert: false,
    }
}

pub(super) fn updated(report: engine::UpdateReport) -> engine::Result<Updated> {
    match report.failure {
        Some(failure) => Err(failure),
        None => Ok(Updated {
            matched: report.matched,
            modified: report.modified,
        }),
    }
}

pub(super) fn delete(delete: Delete) -> engine::Delete {
    engine::Delete {
        filter: delete.filter,
        multi: delete.multi,
    }
}

pub(super) fn deleted(report: engine::DeleteReport) -> Deleted {
    Deleted {
        deleted: report.deleted,
    }
}

pub(super) fn watch(watch: Watch) -> engine::Watch {
    engine::Watch {
        collection: watch.collection.map(Into::into),
        filter: watch.filter,
        from: match watch.from {
            WatchFrom::Now => engine::WatchFrom::Now,
            WatchFrom::After(token) => engine::WatchFrom::After(token),
            WatchFrom::At(time) => engine::WatchFrom::At(time),
        },
        full_document: match watch.full_document {
            FullDocument::Default => engine::FullDocument::Default,
            FullDocument::UpdateLookup => engine::FullDocument::UpdateLookup,
        },
    }
}

pub(super) fn index_to_engine(index: Index) -> Result<engine::Index> {
    index.check()?;
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
    Ok(converted)
}

pub(super) fn index_from_engine(index: engine::Index) -> Index {
    let keys = index.keys.into_iter().map(|(path, direction)| {
        let direction = match direction {
            engine::Direction::Ascending => Direction::Ascending,
            engine::Direction::Descending => Direction::Descending,
        };
        (path, direction)
    });
    Index {
        name: index.name,
        keys: keys.collect(),
        unique: index.unique,
        sparse: index.sparse,
        partial: index.partial,
        expire_after: index.expire_after,
    }
}
