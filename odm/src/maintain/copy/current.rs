//! Copies as their sources are at the moment of a read, whatever is owed yet.

use bson::RawDocumentBuf;

use super::{close, group::groups, open, source::Sources};
use crate::{
    Result,
    access::Access,
    backend::BoxFuture,
    maintain::link::linked::Fate,
    schema::{Model, upgrade},
};

/// Makes the copies in documents that were read what their sources are now: one query for each model that these are of, and for each
/// that they copy from themselves.
pub(crate) fn bring_current<'a>(
    access: &'a Access,
    model: &'static Model,
    documents: &'a mut [RawDocumentBuf],
) -> BoxFuture<'a, Result<()>> {
    // What is copied may be a copy.
    Box::pin(async move {
        let mut groups = groups(model);
        groups.retain(|group| group.is_following());
        if groups.is_empty() {
            return Ok(());
        }
        let mut opened = Vec::with_capacity(documents.len());
        for raw in documents.iter() {
            opened.push(open(&upgrade::current(model, raw)?)?);
        }
        let mut wanted = Vec::new();
        for group in &groups {
            for document in &opened {
                let structs = group.structs(document).into_iter();
                let references = structs.filter_map(|(_, inside)| group.reference_in(inside));
                wanted.extend(references.map(|id| ((group.model)(), id.clone())));
            }
        }
        let mut sources = Sources::of_now();
        sources
            .read(&access.to_everything(), &groups, &wanted)
            .await?;
        for document in &mut opened {
            for group in &groups {
                let scope = group.scope_of_dependent(document);
                group.each(document, &mut |inside| {
                    let Some(id) = group.reference_in(inside) else {
                        return Ok(());
                    };
                    let source = sources.get_in_scope(group, id, scope.as_ref())?.flatten();
                    let source = source.filter(|source| source.fate != Fate::Goes);
                    for taken in group.following() {
                        match source {
                            Some(source) => {
                                inside.insert(taken.stored, source.value(&taken.from));
                            }
                            None if taken.clears => {
                                inside.insert(taken.stored, bson::Bson::Null);
                            }
                            // What is gone leaves its last value.
                            None => {}
                        }
                    }
                    Ok::<_, crate::Error>(())
                })?;
            }
        }
        for (raw, document) in documents.iter_mut().zip(&opened) {
            *raw = close(document)?;
        }
        Ok(())
    })
}
