//! How snapshots differ from what they were taken of.

use bson::{Bson, DateTime, Document, RawDocument, RawDocumentBuf};

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
    overflow::{ATTEMPTS, Reading, Walk},
    query::append,
    retry,
    schema::{Model, OverflowField, upgrade},
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

/// How many elements outside of a document are looked at in one go, at least.
const PAGE: usize = 5_000;

/// The snapshots in some documents that are not as their sources are now: one query for each model that these are of, and for each
/// [`PAGE`] of an array that has overflowed.
pub(crate) async fn drifted(
    access: &Access,
    model: &'static Model,
    batch: &[RawDocumentBuf],
) -> Result<Vec<Drifted>> {
    let groups = with_snapshots(model);
    let (mut inside, mut found) = (Held::default(), Vec::new());
    for (document, raw) in batch.iter().enumerate() {
        let open = open(&upgrade::current(model, raw)?)?;
        for group in &groups {
            for (path, own) in group.structs(&open) {
                inside.add(group, (document, &path), own);
            }
        }
        for field in model.overflows {
            let groups = groups.iter().filter(|group| group.is_in(field));
            let groups: Vec<_> = groups.cloned().collect();
            if !groups.is_empty() {
                let outside = outside(access, model, field, raw, (document, &groups)).await?;
                found.extend(outside);
            }
        }
    }
    let mut all = inside.drifted(access, &groups).await?;
    all.append(&mut found);
    // Of one document behind the other.
    all.sort_by_key(|drifted| drifted.document);
    Ok(all)
}

/// The same of the elements that one document has outside of it.
async fn outside(
    access: &Access,
    model: &'static Model,
    field: &'static OverflowField,
    raw: &RawDocument,
    (document, groups): (usize, &[Group]),
) -> Result<Vec<Drifted>> {
    let all = access.to_everything();
    let Some((reading, owner)) = Reading::of(&all, model, field, raw)? else {
        return Ok(Vec::new());
    };
    let mut next = Some(owner);
    for attempt in 1..=ATTEMPTS {
        let Some(owner) = next else {
            return Ok(Vec::new());
        };
        let mut position = owner.resident.len();
        let mut walk = Walk::begin(reading.clone(), owner).await?;
        let mut found = Vec::new();
        while !walk.is_over() {
            let mut held = Held::default();
            for element in walk.next(PAGE).await? {
                for group in groups {
                    for (path, own) in group.structs_in(1, &element) {
                        let path = format!("{}.{position}.{path}", field.stored);
                        held.add(group, (document, &path), own);
                    }
                }
                position += 1;
            }
            found.extend(held.drifted(access, groups).await?);
        }
        if walk.is_whole().await? {
            return Ok(found);
        }
        retry::pause(attempt).await;
        next = reading.owner().await?;
    }
    Err(reading.replaced())
}

/// Snapshots, with what of their sources they were taken of.
#[derive(Default)]
struct Held(Vec<(Drifted, String)>);

impl Held {
    /// Adds those of a struct, which is in a document and there at a path.
    fn add(&mut self, group: &Group, (document, path): (usize, &str), inside: &Document) {
        for taken in group.snapshots() {
            let (id, at) = origin(inside, &taken.origin());
            // What does not remember it was taken of what is referred to.
            let id = id.or(group.reference_in(inside));
            let (Some(value), Some(id)) = (inside.get(taken.stored), id) else {
                continue;
            };
            let drifted = Drifted {
                document,
                path: format!("{path}{}", taken.stored),
                taken: value.clone(),
                now: None,
                source: (group.model)(),
                id: id.clone(),
                at,
            };
            self.0.push((drifted, taken.from.clone()));
        }
    }

    /// Those that are not as their sources are now.
    async fn drifted(self, access: &Access, groups: &[Group]) -> Result<Vec<Drifted>> {
        let wanted = self
            .0
            .iter()
            .map(|(held, _)| (held.source, held.id.clone()));
        let wanted: Vec<_> = wanted.collect();
        let mut sources = Sources::default();
        sources.read(access, groups, &wanted).await?;
        let mut found = Vec::new();
        for (mut drifted, from) in self.0 {
            let source = sources.get(drifted.source, &drifted.id)?.flatten();
            drifted.now = source.map(|source| source.value(&from));
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
