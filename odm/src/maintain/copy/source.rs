//! What documents are copied from.

use std::collections::{BTreeMap, BTreeSet};

use bson::{Bson, Document, RawBson, RawDocument, RawDocumentBuf, doc};

use super::{REVISION, current::bring_current, first_revision, group::Group};
use crate::{
    Result,
    access::{Access, found_by},
    backend::operation::Find,
    batches::id_batches,
    decode, error,
    maintain::{
        link::{
            FATE,
            linked::{Fate, Id, one_of, read_upgraded},
        },
        stored::raw,
    },
    query::{append, document},
    schema::Model,
};

/// The sources that an operation has read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources {
    /// What was asked for, by collection, and what was found of it.
    found: BTreeMap<(&'static str, Id), Option<Source>>,
    /// Whether their own copies are to be as their sources are now.
    are_of_now: bool,
}

/// What is copied from a document, with its revision.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(super) revision: i64,
    /// Whether its copies are to follow yet.
    pub(super) is_fanning: bool,
    pub(super) fate: Fate,
    /// What changes with all that the document has of others that are counted there.
    fence: Option<Bson>,
    values: Document,
}

impl Source {
    pub(super) fn of(raw: &RawDocument) -> Result<Self> {
        let values = Document::try_from(raw).map_err(error::encode)?;
        let own = values.get_document("_odm").ok();
        let revision = own.and_then(|own| own.get_i64("rev").ok());
        Ok(Self {
            revision: revision.unwrap_or_default(),
            is_fanning: own.is_some_and(|own| own.contains_key("fan")),
            fate: Fate::of(raw),
            fence: own.and_then(|own| own.get("tally")).cloned(),
            values,
        })
    }

    /// What is left of a document that is deleted: newer than it was, and older than one that is inserted under its `_id` from now on. So
    /// it is made before the look that still finds the document, or finds it gone.
    pub(in crate::maintain) fn gone() -> Self {
        Self {
            revision: first_revision(),
            is_fanning: false,
            fate: Fate::Goes,
            fence: None,
            values: Document::new(),
        }
    }

    /// A field, or null.
    pub(super) fn value(&self, dotted: &str) -> Bson {
        let mut parts = dotted.split('.');
        let first = parts.next().and_then(|part| self.values.get(part));
        let value = parts.fold(first, |value, part| value?.as_document()?.get(part));
        value.cloned().unwrap_or(Bson::Null)
    }
}

impl Sources {
    /// Sources whose own copies are as their sources are now.
    pub(super) fn of_now() -> Self {
        Self {
            are_of_now: true,
            ..Self::default()
        }
    }

    /// What was found of a source; none if it is not there, nothing at all if it was not asked for.
    pub(super) fn get(&self, model: &Model, id: &Bson) -> Result<Option<Option<&Source>>> {
        let id = Id::of(&raw(id)?);
        Ok(self.found.get(&(model.collection, id)).map(Option::as_ref))
    }

    /// The same for a dependent of this scope: a source of another scope is not there for it.
    pub(super) fn get_in_scope(
        &self,
        group: &Group,
        id: &Bson,
        scope: Option<&Bson>,
    ) -> Result<Option<Option<&Source>>> {
        let Some(found) = self.get((group.model)(), id)? else {
            return Ok(None);
        };
        let found = found.filter(|source| group.scope_of_source(source).as_ref() == scope);
        Ok(Some(found))
    }

    /// Which revisions were found of what copies follow.
    pub(super) fn revisions(&self, groups: &[Group]) -> Result<Revisions> {
        let mut revisions = Vec::new();
        for ((collection, id), source) in &self.found {
            let mut groups = groups.iter().filter(|group| group.is_following());
            let group = groups.find(|group| (group.model)().collection == *collection);
            let Some(group) = group else {
                continue;
            };
            let id = Bson::try_from(id.value()?).map_err(error::encode)?;
            revisions.push(Taken {
                model: (group.model)(),
                id,
                revision: source.as_ref().map(|source| source.revision),
                fence: source.as_ref().and_then(|source| source.fence.clone()),
            });
        }
        Ok(Revisions(revisions))
    }

    /// Reads what is missing of the sources that these references lead to, for all that the groups take of them: one query for each
    /// model.
    pub(super) async fn read(
        &mut self,
        access: &Access,
        groups: &[Group],
        wanted: &[(&'static Model, Bson)],
    ) -> Result<()> {
        let mut missing = BTreeMap::<&str, (&'static Model, BTreeSet<Id>)>::new();
        for (model, id) in wanted {
            let id = Id::of(&raw(id)?);
            if !self.found.contains_key(&(model.collection, id.clone())) {
                let (_, ids) = missing
                    .entry(model.collection)
                    .or_insert((model, BTreeSet::new()));
                ids.insert(id);
            }
        }
        for (collection, (model, ids)) in missing {
            let mut found = read(access, model, groups, &ids, self.are_of_now).await?;
            for id in ids {
                let source = found.remove(&id);
                self.found.insert((collection, id), source);
            }
        }
        Ok(())
    }
}

/// Which revisions of which sources copies are of.
#[derive(Debug, Clone)]
pub(super) struct Revisions(Vec<Taken>);

/// A source that copies were taken of.
#[derive(Debug, Clone)]
pub(in crate::maintain) struct Taken {
    pub(in crate::maintain) model: &'static Model,
    pub(in crate::maintain) id: Bson,
    /// None if it was not there.
    revision: Option<i64>,
    pub(in crate::maintain) fence: Option<Bson>,
}

impl Taken {
    /// The condition that nothing has become of it since it was read; none if it was not there.
    pub(in crate::maintain) fn as_read(&self) -> Option<Document> {
        let revision = match self.revision? {
            // It has none until it is changed.
            0 => doc! { "$exists": false },
            revision => doc! { "$eq": revision },
        };
        Some(doc! { REVISION: revision, "_odm.going": { "$exists": false } })
    }
}

impl Revisions {
    pub(super) fn all(&self) -> &[Taken] {
        &self.0
    }

    /// Whether nothing has become of any of the sources since.
    pub(super) async fn are_of_now(&self, access: &Access, groups: &[Group]) -> Result<bool> {
        let wanted = self.0.iter().map(|taken| (taken.model, taken.id.clone()));
        let wanted: Vec<_> = wanted.collect();
        let mut now = Sources::default();
        now.read(access, groups, &wanted).await?;
        for taken in &self.0 {
            let same = now.get(taken.model, &taken.id)?.flatten();
            let is_same = |now: &Source| Some(now.revision) == taken.revision;
            if !same.is_some_and(|now| now.fate == Fate::Stays && is_same(now)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// How many sources one query asks for at most.
const MANY: usize = 10_000;

async fn read(
    access: &Access,
    model: &'static Model,
    groups: &[Group],
    ids: &BTreeSet<Id>,
    are_of_now: bool,
) -> Result<BTreeMap<Id, Source>> {
    let brings = are_of_now && model.copies.is_filled();
    let ids = ids.iter().map(Id::value).collect::<Result<Vec<_>>>()?;
    let mut found = BTreeMap::new();
    for some in id_batches(&ids, MANY) {
        let find = Find {
            projection: match brings {
                true => None,
                false => projection(model, groups)?,
            },
            ..found_by(&model.collection.into(), &document("_id", one_of(some)?)?)
        };
        let mut all = read_upgraded(access, model, find).await?;
        if brings {
            bring_current(access, model, &mut all).await?;
        }
        for raw in all {
            if let Some(id) = decode::id(&raw).map(RawBson::from) {
                found.insert(Id::of(&id), Source::of(&raw)?);
            }
        }
    }
    Ok(found)
}

/// What is read of a source; all of it where a document may be of an older version.
pub(super) fn projection(model: &Model, groups: &[Group]) -> Result<Option<RawDocumentBuf>> {
    if model.upgrade.is_some() {
        return Ok(None);
    }
    let groups = groups
        .iter()
        .filter(|group| (group.model)().collection == model.collection);
    let taken = groups.flat_map(|group| &group.fields);
    let mut paths: Vec<_> = taken.map(|taken| taken.from.as_str()).collect();
    paths.extend(["_id", REVISION, super::FAN.0, "_odm.tally"]);
    paths.extend(FATE);
    paths.extend(model.scope.iter().map(|scope| scope.stored));
    paths.sort_unstable();
    paths.dedup();
    let mut projection = RawDocumentBuf::new();
    for (position, path) in paths.iter().enumerate() {
        let is_inside = |other: &&str| {
            path.strip_prefix(*other)
                .is_some_and(|rest| rest.starts_with('.'))
        };
        // What is read as a whole is not read in parts.
        if !paths.iter().take(position).any(is_inside) {
            append(&mut projection, path, 1)?;
        }
    }
    Ok(Some(projection))
}
