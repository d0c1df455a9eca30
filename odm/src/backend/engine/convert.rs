//! Operations as the engine takes them, and what it answers.

use bson::RawDocumentBuf;
use odm_engine as engine;

use crate::{
    Result,
    backend::operation::{
        Aggregate, Change, Count, Delete, Deleted, Direction, Explain, Find, FindAndModify,
        FindEach, FullDocument, Index, Modification, Update, Updated, Watch, WatchFrom,
    },
};

pub(super) fn find(find: Find) -> engine::Find {
    engine::Find {
        filter: find.filter,
        projection: find.projection,
        sort: find.sort,
        limit: find.limit,
        ..engine::Find::default()
    }
}

pub(super) fn explained(explain: engine::Explain, limit: Option<u64>) -> Explain {
    let mut indexes = Vec::new();
    for index in explain.indexes {
        if !indexes.contains(&index) {
            indexes.push(index);
        }
    }
    Explain {
        indexes,
        is_scan: explain.stage == engine::Stage::CollectionScan,
        is_sorted_afterwards: explain.stage != engine::Stage::Nothing && !explain.sorted_by_index,
        keys_examined: explain.keys_examined,
        documents_examined: explain.documents_examined,
        returned: limit.map_or(explain.returned, |limit| explain.returned.min(limit)),
    }
}

pub(super) fn find_each(find: FindEach) -> engine::FindEach {
    engine::FindEach {
        path: find.path,
        keys: find.keys,
        filter: find.filter,
        projection: find.projection,
        sort: find.sort,
        limit: find.limit,
    }
}

pub(super) fn count(count: Count) -> engine::Count {
    engine::Count {
        filter: count.filter,
        limit: count.limit,
        ..engine::Count::default()
    }
}

pub(super) fn update(update: Update) -> Result<engine::Update> {
    let change = changes(update.change)?;
    Ok(engine::Update {
        filter: update.filter,
        update: change.update,
        pipeline: change.pipeline,
        array_filters: change.array_filters,
        multi: update.multi,
        upsert: update.upsert,
        ..engine::Update::default()
    })
}

pub(super) fn updated(report: engine::UpdateReport) -> engine::Result<Updated> {
    match report.failure {
        Some(failure) => Err(failure),
        None => Ok(Updated {
            matched: report.matched,
            modified: report.modified,
            upserted_id: report.upserted_id,
        }),
    }
}

pub(super) fn find_and_modify(modify: FindAndModify) -> Result<engine::FindAndModify> {
    let modification = match modify.modification {
        Modification::Delete => engine::Modification::Delete,
        Modification::Update {
            change,
            upsert,
            return_new,
        } => {
            let change = changes(change)?;
            engine::Modification::Update {
                update: change.update,
                pipeline: change.pipeline,
                array_filters: change.array_filters,
                upsert,
                return_new,
            }
        }
    };
    Ok(engine::FindAndModify {
        sort: modify.sort,
        projection: modify.projection,
        ..engine::FindAndModify::new(modify.filter, modification)
    })
}

/// A change as the engine takes it.
#[derive(Default)]
struct Changes {
    update: RawDocumentBuf,
    pipeline: Option<Vec<RawDocumentBuf>>,
    array_filters: Vec<RawDocumentBuf>,
}

fn changes(change: Change) -> Result<Changes> {
    change.check()?;
    Ok(match change {
        Change::Operators {
            update,
            array_filters,
        } => Changes {
            update,
            array_filters,
            ..Changes::default()
        },
        Change::Replacement(document) => Changes {
            update: document,
            ..Changes::default()
        },
        Change::Pipeline(stages) => Changes {
            pipeline: Some(stages),
            ..Changes::default()
        },
    })
}

pub(super) fn aggregate(aggregate: Aggregate) -> engine::Aggregate {
    engine::Aggregate {
        pipeline: aggregate.pipeline,
        variables: aggregate.variables,
        ..engine::Aggregate::default()
    }
}

pub(super) fn delete(delete: Delete) -> engine::Delete {
    engine::Delete {
        filter: delete.filter,
        multi: delete.multi,
        ..engine::Delete::default()
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
    converted.hashed = index.hashed;
    converted.unique = index.unique;
    converted.sparse = index.sparse;
    converted.partial = index.partial;
    converted.expire_after = index.expire_after;
    Ok(converted)
}

pub(super) fn index_from_engine(index: engine::Index) -> Index {
    let is_other = index.is_wildcard() || index.collation.is_some();
    let other = is_other.then(|| index.to_document());
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
        hashed: index.hashed,
        unique: index.unique,
        sparse: index.sparse,
        partial: index.partial,
        expire_after: index.expire_after,
        other,
    }
}
