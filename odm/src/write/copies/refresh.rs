//! Reads with current copies: copies are replaced by the current source values, even while a fan-out is pending.

use bson::RawDocumentBuf;

use super::{
    layout::{CopyGroup, copy_groups},
    parse_document,
    source::SourceCache,
    to_raw_document,
};
use crate::{
    Result, backend::BoxFuture, metadata::references::TombstoneState, schema::upgrade,
    session::access::ModelAccess,
};

/// Replaces the copies in documents that were read by the current source values. Costs one query for each source model, and one
/// for each model that the sources copy these values from.
pub(crate) async fn refresh_copies(
    access: ModelAccess<'_>,
    documents: &mut [RawDocumentBuf],
) -> Result<()> {
    let mut groups = copy_groups(access.model);
    groups.retain(|group| group.has_fan_out());
    refresh_groups(access, documents, groups).await
}

/// Replaces the copies of some groups.
pub(super) fn refresh_groups<'a>(
    access: ModelAccess<'a>,
    documents: &'a mut [RawDocumentBuf],
    groups: Vec<CopyGroup>,
) -> BoxFuture<'a, Result<()>> {
    let model = access.model;
    // The future is boxed because a copied field can be a copy of another model.
    Box::pin(async move {
        if groups.is_empty() {
            return Ok(());
        }
        let mut parsed = Vec::with_capacity(documents.len());
        for raw in documents.iter() {
            parsed.push(parse_document(&upgrade::upgrade_for_read(model, raw)?)?);
        }
        let source_ids = groups.iter().flat_map(|group| group.sources_in(&parsed));
        let source_ids: Vec<_> = source_ids.collect();
        let mut sources = SourceCache::with_current_copies();
        sources
            .read_missing(&access.with_full_visibility(), &groups, &source_ids)
            .await?;
        for document in &mut parsed {
            for group in &groups {
                let scope = group.scope_of_dependent(document);
                group.for_each_struct(document, &mut |embedded| {
                    let Some(id) = group.reference_in(embedded) else {
                        return Ok(());
                    };
                    let source = sources
                        .get_source_in_scope(group, id, scope.as_ref())?
                        .flatten();
                    let source = source.filter(|source| source.tombstone != TombstoneState::Final);
                    for field in group.fan_out_fields() {
                        match source {
                            Some(source) => {
                                field.put_in_struct(embedded, field.value_of(source));
                            }
                            None if field.clears => field.put_in_struct(embedded, bson::Bson::Null),
                            // A copy keeps its last value when the source is deleted.
                            None => {}
                        }
                    }
                    Ok::<_, crate::Error>(())
                })?;
            }
        }
        for (raw, document) in documents.iter_mut().zip(&parsed) {
            *raw = to_raw_document(document)?;
        }
        Ok(())
    })
}
