//! A preview of a delete.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use bson::{RawBson, RawDocumentBuf};
use serde::Serialize;

use super::{OrderedId, delete_rule::rules_targeting, delete_set::DeleteSet, read_matching};
use crate::{Error, ErrorKind, Result, schema::Model, session::access::ModelAccess};

/// The result of a delete that was not performed. See [`Delete::dry_run`](crate::action::Delete::dry_run).
///
/// The text form has a line for each collection. With serde the preview becomes JSON.
#[derive(Debug, Clone, Default, Serialize)]
#[must_use = "nothing was deleted"]
pub struct DeletePreview {
    /// The number of documents that the delete would remove, by collection. Cascaded documents are included.
    pub deleted: BTreeMap<&'static str, u64>,
    /// The number of remaining documents that would lose a reference through `nullify` or `pull`, by collection.
    pub changed: BTreeMap<&'static str, u64>,
    /// The error that the delete would return: [`Restricted`](ErrorKind::Restricted).
    #[serde(serialize_with = "as_text")]
    pub error: Option<Error>,
}

fn as_text<S: serde::Serializer>(error: &Option<Error>, serializer: S) -> Result<S::Ok, S::Error> {
    error
        .as_ref()
        .map(ToString::to_string)
        .serialize(serializer)
}

impl fmt::Display for DeletePreview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.deleted.is_empty() {
            writeln!(f, "nothing would be deleted")?;
        }
        for (collection, documents) in &self.deleted {
            writeln!(f, "{documents} of {collection} would be deleted")?;
        }
        for (collection, documents) in &self.changed {
            writeln!(f, "{documents} of {collection} would lose a reference")?;
        }
        if let Some(error) = &self.error {
            writeln!(f, "the delete would fail: {error}")?;
        }
        Ok(())
    }
}

/// Returns a preview of the soft delete of all documents that match a filter.
pub(crate) async fn preview_soft_delete(
    access: ModelAccess<'_>,
    filter: RawDocumentBuf,
) -> Result<DeletePreview> {
    let full_access = access.with_full_visibility();
    let mut documents = DeleteSet::new(true);
    let roots = read_matching(access, "read the documents to delete", &filter).await?;
    documents
        .collect_soft_cascade(full_access.to(access.model), roots, &RawBson::Null, None)
        .await?;
    let parts = documents.by_model();
    let deleted = parts.map(|part| (part.model.collection, part.documents.len() as u64));
    Ok(DeletePreview {
        deleted: deleted.filter(|(_, documents)| *documents > 0).collect(),
        ..DeletePreview::default()
    })
}

/// Returns a preview of the delete of all documents that match a filter.
pub(crate) async fn preview_delete(
    access: ModelAccess<'_>,
    filter: RawDocumentBuf,
) -> Result<DeletePreview> {
    let model = access.model;
    let full_access = access.with_full_visibility();
    let mut changed = BTreeMap::<&'static str, (&'static Model, BTreeSet<OrderedId>)>::new();
    let mut consequences = DeletePreview::default();
    let mut delete_set = DeleteSet::new(true);
    let roots = read_matching(access, "read the documents to delete", &filter).await?;
    delete_set
        .collect_cascade(full_access.to(model), roots, None)
        .await?;
    match delete_set.ensure_unrestricted(&full_access).await {
        Err(error) if error.kind() == ErrorKind::Restricted => consequences.error = Some(error),
        outcome => outcome?,
    }
    let parts = delete_set.by_model();
    for part in parts.filter(|part| !part.documents.is_empty()) {
        let deleted = part.documents.len() as u64;
        consequences.deleted.insert(part.model.collection, deleted);
        let detach_rules = rules_targeting(full_access.to(part.model))
            .filter(|rule| rule.affects_referrers() && !rule.is_cascading());
        for rule in detach_rules {
            let Some(filter) = rule
                .referrer_filter(&full_access, &part.documents, None)
                .await?
            else {
                continue;
            };
            let referrers = full_access.to(rule.model);
            let (_, changed) = changed
                .entry(rule.model.collection)
                .or_insert_with(|| (rule.model, BTreeSet::new()));
            for document in read_matching(referrers, "read the referrers", &filter).await? {
                changed.insert(OrderedId::from_id(&document.id));
            }
        }
    }
    for (collection, (model, changed)) in changed {
        let remaining = changed
            .iter()
            .filter(|id| !delete_set.contains(model, id))
            .count();
        if remaining > 0 {
            consequences.changed.insert(collection, remaining as u64);
        }
    }
    Ok(consequences)
}
