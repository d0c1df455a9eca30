//! The documents of a pipeline that ends with `$out` or `$merge`.

use std::sync::Arc;

use bson::RawDocument;

use super::count::{self, Count};
use super::update::{self, Update};
use super::{ReadState, insert};
use crate::catalog::{Collection, check_name};
use crate::collation::Collation;
use crate::document;
use crate::error::{Error, Result, code};
use crate::expression::Environment;
use crate::index::ID_INDEX;
use crate::interrupt;
use crate::overlay::WriteOverlay;
use crate::path::Path;
use crate::pipeline::DocumentIterator;
use crate::pipeline::merge::{Merge, WhenMatched, WhenNotMatched};

/// Replaces the content of a collection. The collection keeps its indexes.
pub(super) fn replace_content(
    overlay: &mut WriteOverlay,
    name: &str,
    documents: DocumentIterator,
) -> Result<()> {
    let collection = overlay.empty_collection(name)?;
    for new in documents {
        interrupt::check()?;
        let new = new?;
        overlay.insert(&collection, &document::prepare_for_storage(&new)?)?;
    }
    Ok(())
}

/// Writes each document into a collection that may have a matching document. `environment` is the environment of the command.
pub(super) fn merge_documents(
    overlay: &mut WriteOverlay,
    merge: &Merge,
    environment: &Arc<Environment>,
    documents: DocumentIterator,
) -> Result<()> {
    check_name(&merge.collection)?;
    ensure_unique(overlay, merge, environment.order().collation())?;
    let has_id = merge.on.iter().any(|path| path.as_str() == "_id");
    for new in documents {
        interrupt::check()?;
        let mut new = new?;
        if has_id {
            // Generates a missing `_id`.
            new = document::prepare_for_storage(&new)?.into_owned();
        }
        merge_document(overlay, merge, environment, &new)?;
    }
    Ok(())
}

fn merge_document(
    overlay: &mut WriteOverlay,
    merge: &Merge,
    environment: &Arc<Environment>,
    new: &RawDocument,
) -> Result<()> {
    let filter = merge.matching_filter(new)?;
    // As on MongoDB, documents match byte by byte: the collation is for the expressions of the pipelines.
    let is_matched = match merge.update_stages() {
        Some(stages) => {
            let command = Update {
                filter,
                pipeline: Some(stages),
                ..Update::default()
            };
            let environment = Arc::new(merge.update_environment(new, environment)?);
            update::run_update_in(overlay, &merge.collection, &command, &environment)?.matched > 0
        }
        // The insert reports the duplicate key.
        None if matches!(merge.when_matched, WhenMatched::Fail) => false,
        None => {
            let count = Count {
                filter,
                limit: Some(1),
                ..Count::default()
            };
            count::run_count(ReadState::of_overlay(overlay), &merge.collection, &count)? > 0
        }
    };
    if is_matched {
        return Ok(());
    }
    match merge.when_not_matched {
        WhenNotMatched::Insert => {
            let documents = [new.to_owned()];
            let report = insert::run_insert(overlay, &merge.collection, &documents, true)?;
            report.into_result().map(drop)
        }
        WhenNotMatched::Discard => Ok(()),
        WhenNotMatched::Fail => {
            let message = "$merge could not find a matching document in the target collection for at least one document of the pipeline";
            Err(Error::with_server_code(
                code::MERGE_STAGE_NO_MATCHING_DOCUMENT,
                message,
            ))
        }
    }
}

/// Makes sure that at most one document can match.
///
/// # Errors
/// No unique index has exactly the fields of `on` and the collation of the command.
fn ensure_unique(
    overlay: &WriteOverlay,
    merge: &Merge,
    collation: Option<&Collation>,
) -> Result<()> {
    let is_id = matches!(merge.on.as_slice(), [path] if path.as_str() == "_id");
    let collection = overlay.collection(&merge.collection);
    let is_unique = match is_id {
        true => merge.has_default_on || collation.is_none(),
        false => {
            collection.is_some_and(|collection| has_unique_index(&collection, &merge.on, collation))
        }
    };
    if is_unique {
        return Ok(());
    }
    let fields: Vec<_> = merge.on.iter().map(Path::as_str).collect();
    let message = format!(
        "Cannot find index to verify that join fields will be unique: create a unique index of '{}' with the fields {}",
        merge.collection,
        fields.join(", ")
    );
    Err(Error::with_server_code(51183, message))
}

fn has_unique_index(collection: &Collection, on: &[Path], collation: Option<&Collation>) -> bool {
    let indexes = collection
        .indexes
        .iter()
        .filter(|state| state.id != ID_INDEX);
    let mut indexes = indexes.map(|state| &state.index);
    indexes.any(|index| {
        index.unique
            && index.partial.is_none()
            && index.collation.as_ref() == collation
            && index.keys.len() == on.len()
            && on
                .iter()
                .all(|path| index.keys.iter().any(|(key, _)| key == path.as_str()))
    })
}
