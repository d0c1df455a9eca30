//! What a deletion would do.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use bson::RawDocumentBuf;
use serde::Serialize;

use super::{
    Id,
    deletion::{Rule, refuse_restricted, rules},
    read,
};
use crate::{
    Error, ErrorKind, Result,
    access::{Access, found_by},
    schema::{Model, OnDelete},
};

/// What a delete would do, and nothing of it was done: see [`Delete::dry_run`](crate::action::Delete::dry_run).
///
/// As text it has a line for each collection; serde makes JSON of it.
#[derive(Debug, Clone, Default, Serialize)]
#[must_use = "nothing was deleted"]
pub struct Consequences {
    /// How many documents would be deleted, by collection: those that were asked for, and those that `cascade` takes with them.
    pub deleted: BTreeMap<&'static str, u64>,
    /// How many documents would lose a reference to one of these, by collection, if they are not deleted themselves: `nullify` and
    /// `pull`.
    pub changed: BTreeMap<&'static str, u64>,
    /// Why nothing of it would be done: [`Restricted`](ErrorKind::Restricted).
    #[serde(serialize_with = "as_text")]
    pub refused: Option<Error>,
}

fn as_text<S: serde::Serializer>(error: &Option<Error>, to: S) -> Result<S::Ok, S::Error> {
    error.as_ref().map(ToString::to_string).serialize(to)
}

impl fmt::Display for Consequences {
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
        if let Some(error) = &self.refused {
            writeln!(f, "but: {error}")?;
        }
        Ok(())
    }
}

/// What the deletion of documents would do that a filter finds.
pub(crate) async fn consequences(
    access: &Access,
    model: &'static Model,
    filter: RawDocumentBuf,
) -> Result<Consequences> {
    let all = access.to_everything();
    let mut seen = BTreeMap::<&'static str, BTreeSet<Id>>::new();
    let mut changed = BTreeMap::<&'static str, BTreeSet<Id>>::new();
    let mut found = Consequences::default();
    let mut open = vec![(access.clone(), model, filter)];
    while let Some((access, model, filter)) = open.pop() {
        let find = found_by(&model.collection.into(), &filter);
        let mut gone = read(&access, model, find).await?;
        let seen = seen.entry(model.collection).or_default();
        gone.retain(|document| seen.insert(Id::of(&document.id)));
        if gone.is_empty() {
            continue;
        }
        *found.deleted.entry(model.collection).or_default() += gone.len() as u64;
        match refuse_restricted(&all, model, &gone).await {
            Err(error) if error.kind() == ErrorKind::Restricted => {
                found.refused.get_or_insert(error);
            }
            done => done?,
        }
        for rule in rules(&all, model).filter(Rule::acts) {
            let Some(filter) = rule.referring(&gone)? else {
                continue;
            };
            if rule.link.on_delete == OnDelete::Cascade {
                open.push((all.clone(), rule.model, filter));
                continue;
            }
            let find = found_by(&rule.model.collection.into(), &filter);
            let changed = changed.entry(rule.model.collection).or_default();
            for document in read(&all, rule.model, find).await? {
                changed.insert(Id::of(&document.id));
            }
        }
    }
    for (collection, changed) in changed {
        let gone = seen.entry(collection).or_default();
        let left = changed.difference(gone).count();
        if left > 0 {
            found.changed.insert(collection, left as u64);
        }
    }
    Ok(found)
}
