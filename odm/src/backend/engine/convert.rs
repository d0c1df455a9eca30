//! Operations as the engine takes them, and what it answers.

use odm_engine as engine;

use crate::{
    Result,
    backend::operation::{
        Collection, Delete, Deleted, Direction, Find, FindEach, Index, Update, Updated,
    },
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

pub(super) fn updated(report: engine::UpdateReport) -> Updated {
    Updated {
        matched: report.matched,
        modified: report.modified,
    }
}

pub(super) fn delete(delete: Delete) -> (Collection, engine::Delete) {
    let command = engine::Delete {
        filter: delete.filter,
        multi: delete.multi,
    };
    (delete.collection, command)
}

pub(super) fn deleted(report: engine::DeleteReport) -> Deleted {
    Deleted {
        deleted: report.deleted,
    }
}

pub(super) fn index_to(index: Index) -> Result<engine::Index> {
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

pub(super) fn index_from(index: engine::Index) -> Index {
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
