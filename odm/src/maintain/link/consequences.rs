//! What a deletion would do.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use bson::RawDocumentBuf;
use serde::Serialize;

use super::{Id, deletion::rules, going::Going, read};
use crate::{
    Error, ErrorKind, Result,
    access::{Access, found_by},
    schema::Model,
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
    let mut changed = BTreeMap::<&'static str, (&'static Model, BTreeSet<Id>)>::new();
    let mut found = Consequences::default();
    let mut going = Going::new(true);
    let find = found_by(&model.collection.into(), &filter);
    let first = read(access, model, find).await?;
    going.spread(&all, model, first, None).await?;
    match going.refuse_restricted(&all).await {
        Err(error) if error.kind() == ErrorKind::Restricted => found.refused = Some(error),
        done => done?,
    }
    for goes in going.all().filter(|goes| !goes.documents.is_empty()) {
        let deleted = goes.documents.len() as u64;
        found.deleted.insert(goes.model.collection, deleted);
        let acting = rules(&all, goes.model).filter(|rule| rule.acts() && !rule.is_cascading());
        for rule in acting {
            let Some(filter) = rule.referring(&all, &goes.documents, None).await? else {
                continue;
            };
            let find = found_by(&rule.model.collection.into(), &filter);
            let (_, changed) = changed
                .entry(rule.model.collection)
                .or_insert_with(|| (rule.model, BTreeSet::new()));
            for document in read(&all, rule.model, find).await? {
                changed.insert(Id::of(&document.id));
            }
        }
    }
    for (collection, (model, changed)) in changed {
        let left = changed.iter().filter(|id| !going.has(model, id)).count();
        if left > 0 {
            found.changed.insert(collection, left as u64);
        }
    }
    Ok(found)
}
