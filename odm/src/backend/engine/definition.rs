//! Definitions of collections: the engine has collections without options, and indexes of the kinds that it supports.

use odm_engine::{Database, Index};

use super::error;
use crate::{Error, ErrorKind, Result, backend::operation::CollectionDefinition};

/// Lists the definitions: [`Backend::list_definitions`](crate::backend::Backend::list_definitions).
pub(super) fn list(database: &Database) -> odm_engine::Result<Vec<CollectionDefinition>> {
    let names = database.list_collections()?.into_iter();
    let definitions = names.map(|name| {
        let indexes = database.list_indexes(&name)?.into_iter();
        let indexes = indexes.filter(|index| index.name != "_id_");
        Ok(CollectionDefinition {
            indexes: indexes.map(|index| index.to_document()).collect(),
            ..CollectionDefinition::new(name)
        })
    });
    definitions.collect()
}

/// Returns the indexes of a definition that the engine supports.
pub(super) fn supported_indexes(definition: &CollectionDefinition) -> Result<Vec<Index>> {
    let unsupported = |what: String| {
        let message = format!("the embedded engine has no {what}");
        Err(Error::new(ErrorKind::Unsupported, message).with_collection(&*definition.name))
    };
    match definition.kind.as_str() {
        "collection" => {}
        "view" => return unsupported("views".into()),
        "timeseries" => return unsupported("time series".into()),
        other => return unsupported(format!("collections of the kind `{other}`")),
    }
    if let Some(option) = definition.options.iter_elements().next() {
        let option = option.map_err(crate::error::from_bson)?;
        return unsupported(format!(
            "option `{}` of a collection",
            option.key().as_str()
        ));
    }
    let indexes = definition.indexes.iter().map(|index| {
        Index::from_document(index).map_err(|failure| {
            let name = index.get_str("name").unwrap_or_default().to_owned();
            let message = format!("index `{name}`: {}", failure.message());
            let kind = error::from_engine(failure.clone()).kind();
            let error = Error::new(kind, message).with_source(failure);
            error.with_collection(&*definition.name)
        })
    });
    indexes.collect()
}
