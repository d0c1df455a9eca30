//! Whether copies are as their sources, and what is done where they are not.

use bson::{Bson, Document, RawBson, RawDocument, RawDocumentBuf, doc};

use super::{
    VERIFY, close,
    fan::source_condition,
    group::{Group, groups},
    open,
    source::Sources,
    verify::verify_said,
};
use crate::{
    Result,
    access::Access,
    maintain::{
        Said,
        link::linked::{Fate, Id, by_id},
        stored::{Amendment, change, names, raw},
    },
    schema::{Model, upgrade},
};

/// A copy that is not as its source.
#[derive(Debug, Clone)]
pub(crate) struct StaleCopy {
    /// Where the document is in its batch.
    pub(crate) document: usize,
    /// Where the copy is, with the positions of elements.
    pub(crate) path: String,
    pub(crate) source: &'static Model,
    pub(crate) id: Bson,
    pub(crate) holds: Bson,
    pub(crate) is: Bson,
}

/// The copies in some documents that are not as their sources, though nobody is to bring them up to date.
pub(crate) async fn stale(
    access: &Access,
    model: &Model,
    batch: &[RawDocumentBuf],
) -> Result<Vec<StaleCopy>> {
    let groups = groups(model);
    if !groups.iter().any(Group::is_following) {
        return Ok(Vec::new());
    }
    let mut wanted = Vec::new();
    let mut held = Vec::new();
    for (document, raw) in batch.iter().enumerate() {
        if says(raw, VERIFY.0) {
            continue;
        }
        let current = upgrade::current(model, raw)?;
        let open = open(&current)?;
        for group in groups.iter().filter(|group| group.is_following()) {
            let scope = group.scope_of_dependent(&open);
            for (path, inside) in group.structs(&open) {
                let id = group.reference_in(inside);
                for taken in group.following() {
                    let holds = inside.get(taken.stored).cloned().unwrap_or(Bson::Null);
                    let path = format!("{path}{}", taken.stored);
                    let id = id.cloned().unwrap_or(Bson::Null);
                    held.push((document, group, (id, scope.clone()), path, taken, holds));
                }
                wanted.extend(id.map(|id| ((group.model)(), id.clone())));
            }
        }
    }
    let mut sources = Sources::default();
    sources.read(access, &groups, &wanted).await?;
    let mut found = Vec::new();
    for (document, group, (id, scope), path, taken, holds) in held {
        let source = (group.model)();
        let is = match (&id, sources.get_in_scope(group, &id, scope.as_ref())?) {
            (Bson::Null, _) => Bson::Null,
            (_, None) => continue,
            (_, Some(None)) if taken.clears => Bson::Null,
            // What is gone leaves its last value.
            (_, Some(None)) => continue,
            (_, Some(Some(source))) if source.is_fanning || source.fate != Fate::Stays => continue,
            (_, Some(Some(source))) => source.value(&taken.from),
        };
        if !is_same(&holds, &is)? {
            found.push(StaleCopy {
                document,
                path,
                source,
                id,
                holds,
                is,
            });
        }
    }
    Ok(found)
}

/// Whether a document says that something is owed.
fn says(raw: &RawDocument, promise: &str) -> bool {
    let field = promise.trim_start_matches("_odm.");
    let own = raw.get_document("_odm").ok();
    own.is_some_and(|own| own.get(field).is_ok_and(|said| said.is_some()))
}

/// Whether a database says that they are equal: then a write of the one over the other is none that copies follow.
pub(super) fn is_same(a: &Bson, b: &Bson) -> Result<bool> {
    Ok(Id::of(&raw(a)?) == Id::of(&raw(b)?))
}

/// Writes a copy again; tells whether there was something to write.
pub(crate) async fn copy_again(
    access: &Access,
    model: &'static Model,
    document: &RawBson,
    path: &str,
    source: &Bson,
) -> Result<bool> {
    let groups = groups(model);
    let copied = names(path);
    let is_of = |group: &&Group| {
        let mut fields = group.following();
        fields.any(|taken| group.path(taken.stored) == copied)
    };
    let Some(group) = groups.iter().find(is_of) else {
        return Ok(false);
    };
    // As if it had never been filled: whoever has an older value in hand is overtaken by what follows here.
    let condition = source_condition(group, source);
    let place = group.elements(&condition);
    let said = Said::now();
    let mut set = doc! { VERIFY.0: said.to_document() };
    let mut update = Document::new();
    if *source == Bson::Null {
        for taken in group.following() {
            set.insert(format!("{}{}", place.before, taken.stored), Bson::Null);
        }
    } else {
        update.insert(
            "$unset",
            doc! { format!("{}{}", place.before, group.from()): "" },
        );
    }
    update.insert("$set", set);
    let mut filter = open(&by_id(document)?)?;
    filter.extend(group.of_structs(condition));
    let amendment = Amendment {
        filter: close(&filter)?,
        update,
        array_filters: place.filters,
    };
    let changed = change(access, model, amendment).await?;
    verify_said(access, model, said, None).await?;
    Ok(changed > 0)
}
