//! Conversion of operations to the engine's types, and of the engine's results.

use bson::{RawBson, RawDocumentBuf};
use odm_engine as engine;

use crate::{
    Result,
    backend::operation::{
        AggregateOperation, CountOperation, DeleteOperation, DeleteResult, Direction,
        DocumentChange, Explain, FindAndModify, FindAndModifyKind, FindEach, FindOperation,
        FullDocument, Index, UpdateOperation, UpdateResult, WatchFrom, WatchOperation,
    },
};

pub(super) fn find_to_engine(find: FindOperation) -> engine::Find {
    engine::Find {
        filter: find.filter,
        projection: find.projection,
        sort: find.sort,
        limit: find.limit,
        hint: find.options.hint.map(RawBson::String),
        ..engine::Find::default()
    }
}

pub(super) fn explain_from_engine(explain: engine::Explain, limit: Option<u64>) -> Explain {
    let mut indexes = Vec::new();
    for index in explain.indexes {
        if !indexes.contains(&index) {
            indexes.push(index);
        }
    }
    Explain {
        indexes,
        is_collection_scan: explain.stage == engine::ExplainStage::CollectionScan,
        is_sorted_in_memory: explain.stage != engine::ExplainStage::Nothing
            && !explain.sorted_by_index,
        keys_examined: explain.keys_examined,
        documents_examined: explain.documents_examined,
        returned: limit.map_or(explain.returned, |limit| explain.returned.min(limit)),
        related: Vec::new(),
        missing_index: None,
    }
}

pub(super) fn find_each_to_engine(find: FindEach) -> engine::FindEach {
    engine::FindEach {
        path: find.path,
        keys: find.keys,
        filter: find.filter,
        projection: find.projection,
        sort: find.sort,
        limit: find.limit,
    }
}

pub(super) fn count_to_engine(count: CountOperation) -> engine::Count {
    engine::Count {
        filter: count.filter,
        limit: count.limit,
        hint: count.options.hint.map(RawBson::String),
        ..engine::Count::default()
    }
}

pub(super) fn update_to_engine(update: UpdateOperation) -> Result<engine::Update> {
    let change = change_to_engine(update.change)?;
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

pub(super) fn update_result_from_engine(
    report: engine::UpdateReport,
) -> engine::Result<UpdateResult> {
    match report.failure {
        Some(failure) => Err(failure),
        None => Ok(UpdateResult {
            matched: report.matched,
            modified: report.modified,
            upserted_id: report.upserted_id,
        }),
    }
}

pub(super) fn find_and_modify_to_engine(modify: FindAndModify) -> Result<engine::FindAndModify> {
    let modification = match modify.modification {
        FindAndModifyKind::Delete => engine::Modification::Delete,
        FindAndModifyKind::Update {
            change,
            upsert,
            return_new,
        } => {
            let change = change_to_engine(change)?;
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

/// A document change as the engine's update fields.
#[derive(Default)]
struct EngineUpdateFields {
    update: RawDocumentBuf,
    pipeline: Option<Vec<RawDocumentBuf>>,
    array_filters: Vec<RawDocumentBuf>,
}

fn change_to_engine(change: DocumentChange) -> Result<EngineUpdateFields> {
    change.ensure_operators_match()?;
    Ok(match change {
        DocumentChange::Operators {
            update,
            array_filters,
        } => EngineUpdateFields {
            update,
            array_filters,
            ..EngineUpdateFields::default()
        },
        DocumentChange::Replacement(document) => EngineUpdateFields {
            update: document,
            ..EngineUpdateFields::default()
        },
        DocumentChange::Pipeline(stages) => EngineUpdateFields {
            pipeline: Some(stages),
            ..EngineUpdateFields::default()
        },
    })
}

pub(super) fn aggregate_to_engine(aggregate: AggregateOperation) -> engine::Aggregate {
    engine::Aggregate {
        pipeline: aggregate.pipeline,
        variables: aggregate.variables,
        hint: aggregate.options.hint.map(RawBson::String),
        collation: None,
    }
}

pub(super) fn delete_to_engine(delete: DeleteOperation) -> engine::Delete {
    engine::Delete {
        filter: delete.filter,
        multi: delete.multi,
        ..engine::Delete::default()
    }
}

pub(super) fn delete_result_from_engine(report: engine::DeleteReport) -> DeleteResult {
    DeleteResult {
        deleted: report.deleted,
    }
}

pub(super) fn watch_to_engine(watch: WatchOperation) -> engine::Watch {
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
    index.ensure_supported()?;
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
        unsupported_definition: other,
    }
}
