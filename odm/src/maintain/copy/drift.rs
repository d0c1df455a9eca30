//! How snapshots differ from what they were taken of.

use bson::{Bson, DateTime, Document, RawDocumentBuf};

use super::{
    check::is_same,
    group::{Group, groups},
    open,
    source::Sources,
};
use crate::{
    Result,
    access::Access,
    maintain::stored::get,
    query::append,
    schema::{Model, upgrade},
};

/// A snapshot that is not as its source is now.
#[derive(Debug, Clone)]
pub(crate) struct Drifted {
    /// Where the document is in its batch.
    pub(crate) document: usize,
    /// Where the snapshot is, with the positions of elements.
    pub(crate) path: String,
    pub(crate) taken: Bson,
    /// None if the source is gone.
    pub(crate) now: Option<Bson>,
    pub(crate) source: &'static Model,
    pub(crate) id: Bson,
    pub(crate) at: Option<DateTime>,
}

/// The snapshots in some documents that are not as their sources are now: one query for each model that these are of.
pub(crate) async fn drifted(
    access: &Access,
    model: &Model,
    batch: &[RawDocumentBuf],
) -> Result<Vec<Drifted>> {
    let groups: Vec<_> = with_snapshots(model);
    let (mut wanted, mut held) = (Vec::new(), Vec::new());
    for (document, raw) in batch.iter().enumerate() {
        let open = open(&upgrade::current(model, raw)?)?;
        for group in &groups {
            let source = (group.model)();
            for (path, inside) in group.structs(&open) {
                for taken in group.snapshots() {
                    let (id, at) = origin(inside, &taken.origin());
                    // What does not remember it was taken of what is referred to.
                    let id = id.or(group.reference_in(inside));
                    let (Some(value), Some(id)) = (inside.get(taken.stored), id) else {
                        continue;
                    };
                    wanted.push((source, id.clone()));
                    let drifted = Drifted {
                        document,
                        path: format!("{path}{}", taken.stored),
                        taken: value.clone(),
                        now: None,
                        source,
                        id: id.clone(),
                        at,
                    };
                    held.push((drifted, &taken.from));
                }
            }
        }
    }
    let mut sources = Sources::default();
    sources.read(access, &groups, &wanted).await?;
    let mut found = Vec::new();
    for (mut drifted, from) in held {
        let source = sources.get(drifted.source, &drifted.id)?.flatten();
        drifted.now = source.map(|source| source.value(from));
        let is_as_taken = match &drifted.now {
            Some(now) => is_same(&drifted.taken, now)?,
            None => false,
        };
        if !is_as_taken {
            found.push(drifted);
        }
    }
    Ok(found)
}

/// What of a document its snapshots are in; all of it where it may be of an older version. None at all if it has none.
pub(crate) fn projection(model: &Model) -> Result<Option<Option<RawDocumentBuf>>> {
    let groups = with_snapshots(model);
    if groups.is_empty() {
        return Ok(None);
    }
    if model.upgrade.is_some() {
        return Ok(Some(None));
    }
    let mut roots = vec!["_id", "_odm"];
    for group in &groups {
        match group.steps.first() {
            Some(step) => roots.push(step.stored),
            None => {
                roots.push(group.reference);
                roots.extend(group.snapshots().map(|taken| taken.stored));
            }
        }
    }
    roots.sort_unstable();
    roots.dedup();
    let mut projection = RawDocumentBuf::new();
    for root in roots {
        append(&mut projection, root, 1)?;
    }
    Ok(Some(Some(projection)))
}

fn with_snapshots(model: &Model) -> Vec<Group> {
    let mut groups = groups(model);
    groups.retain(|group| group.snapshots().next().is_some());
    groups
}

/// What a struct remembers of where a snapshot in it is from.
fn origin<'d>(inside: &'d Document, path: &str) -> (Option<&'d Bson>, Option<DateTime>) {
    let origin = get(inside, path).and_then(Bson::as_document);
    let at = origin.and_then(|origin| origin.get_datetime("at").ok().copied());
    (origin.and_then(|origin| origin.get("id")), at)
}
