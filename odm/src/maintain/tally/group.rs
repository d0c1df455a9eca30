//! Which documents are counted where, and as what.

use bson::{Bson, Document, RawDocument, doc};

use super::COUNT;
use crate::{
    Result,
    maintain::{
        link::linked::Id,
        stored::{get, raw, set, touches},
    },
    schema::{Keeps, Model, SharedScope, Tally},
};

/// What owners are made of by one reference of their members.
#[derive(Debug)]
pub(super) struct Group {
    /// The reference, as it is stored in the members.
    pub(super) reference: String,
    pub(super) owner: &'static Model,
    /// Where both models have a scope: the fields that must be equal for a member to count.
    pub(super) scope: Option<SharedScope>,
    pub(super) tallies: Vec<&'static Tally>,
}

/// As what a member is counted at an owner.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Share {
    /// The owner.
    pub(super) at: Bson,
    /// What it adds to counts and sums, by their stored names; nothing where that is 0.
    pub(super) counts: Document,
    /// What of it stands there among the latest, by tally of the group; none where it is not one of them.
    pub(super) excerpts: Vec<Option<Document>>,
}

impl Share {
    /// As the member remembers it.
    pub(super) fn counted_as(&self, is_counted: bool) -> Document {
        let counts = match is_counted {
            true => self.counts.clone(),
            false => Document::new(),
        };
        doc! { "at": self.at.clone(), "as": counts }
    }
}

/// Whether documents of a model are made of others.
pub(super) fn is_owner(model: &Model) -> bool {
    !model.tallies.is_empty()
}

/// By what documents of a model are counted.
pub(super) fn groups(models: &[&'static Model], member: &Model) -> Vec<Group> {
    let mut found: Vec<Group> = Vec::new();
    for owner in models {
        for tally in owner.tallies {
            if tally.collection != member.collection {
                continue;
            }
            let reference = (tally.reference)().to_string();
            match found.iter_mut().find(|group| group.reference == reference) {
                Some(group) => group.tallies.push(tally),
                None => found.push(Group {
                    reference,
                    owner,
                    scope: SharedScope::between(member, owner),
                    tallies: vec![tally],
                }),
            }
        }
    }
    found
}

/// By what members owners of a model are made.
pub(super) fn groups_of(
    models: &[&'static Model],
    owner: &'static Model,
) -> Vec<(&'static Model, Group)> {
    let mut members: Vec<&'static Model> = Vec::new();
    for tally in owner.tallies {
        if !members
            .iter()
            .any(|model| model.collection == tally.collection)
        {
            members.push((tally.model)());
        }
    }
    let groups = members.into_iter().flat_map(|member| {
        let groups = groups(models, member).into_iter();
        groups.map(move |group| (member, group))
    });
    groups
        .filter(|(_, group)| group.owner.collection == owner.collection)
        .collect()
}

impl Group {
    /// What marks its entries among the notes of an owner.
    pub(super) fn mark(&self, member: &Model) -> String {
        format!("{}.{}", member.collection, self.reference)
    }

    pub(super) fn has_latest(&self) -> bool {
        let mut tallies = self.tallies.iter();
        tallies.any(|tally| matches!(tally.keeps, Keeps::Latest { .. }))
    }

    /// Whether an update changes as what documents are counted.
    pub(super) fn is_touched(&self, member: &Model, update: &RawDocument) -> bool {
        let is_touched = |path: &str| touches(update, path);
        let own = |tally: &&Tally| {
            let mut when = (tally.when)().into_iter();
            when.any(|(path, _)| is_touched(&path.to_string()))
                || match tally.keeps {
                    Keeps::Count => false,
                    Keeps::Sum(value) => is_touched(&value().to_string()),
                    Keeps::Latest { by, fields, .. } => {
                        is_touched(&by().to_string())
                            || fields.iter().any(|(_, stored)| is_touched(stored))
                    }
                }
        };
        is_touched(&self.reference)
            || member.soft_delete.is_some_and(is_touched)
            || self.tallies.iter().any(own)
    }

    /// Where a document is counted, and as what.
    pub(super) fn shares(&self, member: &Model, document: &Document) -> Result<Vec<Share>> {
        if is_gone(member, document) {
            return Ok(Vec::new());
        }
        let targets = match get(document, &self.reference) {
            None | Some(Bson::Null) => return Ok(Vec::new()),
            Some(Bson::Array(targets)) => targets.clone(),
            Some(target) => vec![target.clone()],
        };
        let (mut counts, mut excerpts) = (Document::new(), Vec::new());
        for tally in &self.tallies {
            let counted = meets(tally, document)?;
            excerpts.push(match tally.keeps {
                Keeps::Latest { by, fields, .. } if counted => {
                    Some(excerpt(document, &by().to_string(), fields))
                }
                _ => None,
            });
            let adds = match tally.keeps {
                Keeps::Count => 1,
                Keeps::Sum(value) => match get(document, &value().to_string()) {
                    Some(Bson::Int32(value)) => i64::from(*value),
                    Some(Bson::Int64(value)) => *value,
                    _ => 0,
                },
                Keeps::Latest { .. } => 0,
            };
            if counted && adds != 0 {
                counts.insert(tally.stored, adds);
            }
        }
        let mut shares: Vec<Share> = Vec::new();
        for at in targets {
            let id = Id::of(&raw(&at)?);
            let mut others = shares.iter().map(|share| raw(&share.at));
            if !others.any(|other| other.is_ok_and(|other| Id::of(&other) == id)) {
                shares.push(Share {
                    at,
                    counts: counts.clone(),
                    excerpts: excerpts.clone(),
                });
            }
        }
        Ok(shares)
    }

    /// Where a document remembers to be counted, and as what.
    pub(super) fn remembered(&self, document: &Document) -> Vec<(Bson, Document)> {
        let own = super::own(document).and_then(|own| own.get_document("counted").ok());
        let record = own.and_then(|own| own.get_array(&self.reference).ok());
        let record = record.into_iter().flatten().filter_map(|entry| {
            let entry = entry.as_document()?;
            let counts = entry.get_document("as").cloned().unwrap_or_default();
            Some((entry.get("at")?.clone(), counts))
        });
        record.collect()
    }

    /// The members that owners have something of, or are to have, by a condition on these.
    pub(super) fn concerned(&self, owners: &Document) -> Document {
        // One that leads elsewhere by now, and is not counted there yet.
        let leaving = doc! { COUNT.due(): { "$exists": true }, format!("{}.at", self.place()): owners.clone() };
        doc! { "$or": [{ &self.reference: owners.clone() }, leaving] }
    }

    /// Where a member remembers it.
    pub(super) fn place(&self) -> String {
        format!("_odm.counted.{}", self.reference)
    }

    /// Lets a new member remember where it is counted, and as what.
    pub(super) fn remember(&self, document: &mut Document, record: Vec<Document>) {
        if !record.is_empty() {
            let record = record.into_iter().map(Bson::Document).collect();
            set(document, &self.place(), Bson::Array(record));
        }
    }

    /// What of the members the latest are taken from, and their order: the condition beside the reference, and the sort.
    pub(super) fn latest_of(&self, member: &Model, tally: &Tally) -> Result<(Document, Document)> {
        let mut filter = Document::new();
        for (path, value) in (tally.when)() {
            let value = Bson::try_from(value?).map_err(crate::error::encode)?;
            filter.insert(path.to_string(), doc! { "$eq": value });
        }
        if let Some(mark) = member.soft_delete {
            filter.insert(mark, Bson::Null);
        }
        // One of which it is not decided whether it goes is there.
        filter.insert(
            "$nor",
            vec![doc! { "_odm.going": { "$exists": true }, "_odm.closing": { "$exists": false } }],
        );
        let mut sort = Document::new();
        if let Keeps::Latest { by, .. } = tally.keeps {
            sort.insert(by().to_string(), -1);
        }
        sort.insert("_id", -1);
        Ok((filter, sort))
    }
}

/// Whether a document is as good as deleted.
fn is_gone(member: &Model, document: &Document) -> bool {
    let marked = |mark: &str| get(document, mark).is_some_and(|at| *at != Bson::Null);
    let own = super::own(document);
    let has = |field| own.is_some_and(|own| own.contains_key(field));
    member.soft_delete.is_some_and(marked) || has("going") && !has("closing")
}

/// Whether a document is one of those that a tally is of.
fn meets(tally: &Tally, document: &Document) -> Result<bool> {
    for (path, value) in (tally.when)() {
        let held = get(document, &path.to_string()).unwrap_or(&Bson::Null);
        // As the database compares: whole numbers of any width are the same.
        if Id::of(&raw(held)?) != Id::of(&value?) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What is kept of a document among the latest, with its `_id` and by what it has its place there.
fn excerpt(document: &Document, by: &str, fields: &[(&str, &str)]) -> Document {
    let mut kept = Document::new();
    for (_, stored) in fields {
        if let Some(value) = document.get(stored) {
            kept.insert(*stored, value.clone());
        }
    }
    let mut own = doc! { "id": document.get("_id").cloned().unwrap_or(Bson::Null) };
    if place_of(by, fields) != by {
        own.insert("by", get(document, by).cloned().unwrap_or(Bson::Null));
    }
    kept.insert("_odm", own);
    kept
}

/// Where an excerpt has by what it has its place.
pub(super) fn place_of<'b>(by: &'b str, fields: &[(&str, &str)]) -> &'b str {
    match fields.iter().any(|(_, stored)| *stored == by) {
        true => by,
        false => "_odm.by",
    }
}
