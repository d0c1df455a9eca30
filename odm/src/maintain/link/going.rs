//! All that goes in one deletion: whether something that stays keeps it from going is asked of the whole, so that no order, of models or
//! of documents, is part of the answer.

use std::collections::{BTreeMap, BTreeSet};

use bson::{RawBson, RawDocumentBuf};

use super::{
    deletion::{Rule, rules},
    linked::{Fate, Id, Linked, array, read},
    not_gone,
    refusal::{deciding, restricted},
};
use crate::{
    Error, Result,
    access::{Access, also, found_by},
    backend::operation::{Count, Find},
    maintain::narrow,
    query::document,
    schema::Model,
};

/// The documents that go in one deletion.
#[derive(Debug)]
pub(super) struct Going {
    by_collection: BTreeMap<&'static str, Goes>,
    /// Nothing is deleted: what another deletion has not decided about yet may as well stay.
    is_dry: bool,
}

#[derive(Debug)]
pub(super) struct Goes {
    pub(super) model: &'static Model,
    pub(super) documents: Vec<Linked>,
    ids: BTreeSet<Id>,
}

impl Going {
    pub(super) fn new(is_dry: bool) -> Self {
        Self {
            by_collection: BTreeMap::new(),
            is_dry,
        }
    }

    /// Adds documents, and gives those that were not among them before.
    pub(super) fn add(&mut self, model: &'static Model, documents: Vec<Linked>) -> Vec<Linked> {
        let goes = self
            .by_collection
            .entry(model.collection)
            .or_insert_with(|| Goes {
                model,
                documents: Vec::new(),
                ids: BTreeSet::new(),
            });
        let new = documents.into_iter();
        let new: Vec<_> = new
            .filter(|document| goes.ids.insert(Id::of(&document.id)))
            .collect();
        goes.documents.extend(new.iter().cloned());
        new
    }

    /// By collection.
    pub(super) fn all(&self) -> impl Iterator<Item = &Goes> {
        self.by_collection.values()
    }

    pub(super) fn has(&self, model: &Model, id: &Id) -> bool {
        let goes = self.by_collection.get(model.collection);
        goes.is_some_and(|goes| goes.ids.contains(id))
    }

    fn ids(&self, model: &Model) -> impl Iterator<Item = &RawBson> {
        let goes = self.by_collection.get(model.collection).into_iter();
        goes.flat_map(|goes| &goes.documents)
            .map(|document| &document.id)
    }

    /// Adds documents with all that goes with them. `room` says how many there may be; none if any number may.
    ///
    /// False if there are more.
    pub(super) async fn spread(
        &mut self,
        access: &Access,
        model: &'static Model,
        first: Vec<Linked>,
        mut room: Option<usize>,
    ) -> Result<bool> {
        let mut open = vec![(model, self.staying_of(model, first)?)];
        // One after the other, so that no depth is too deep.
        while let Some((model, documents)) = open.pop() {
            let new = self.add(model, documents);
            if let Some(room) = &mut room {
                let Some(left) = room.checked_sub(new.len()) else {
                    return Ok(false);
                };
                *room = left;
            }
            if new.is_empty() {
                continue;
            }
            for rule in rules(access, model).filter(Rule::is_cascading) {
                let Some(mut filter) = rule.referring(access, &new, None).await? else {
                    continue;
                };
                narrow(access, rule.model, &mut filter, false).await?;
                let find = Find {
                    limit: room.map(|room| room as u64 + 1),
                    ..found_by(&rule.model.collection.into(), &filter)
                };
                let found = read(access, rule.model, find).await?;
                open.push((rule.model, self.staying_of(rule.model, found)?));
            }
        }
        Ok(true)
    }

    /// Refuses it if something that stays must not lose one of them.
    pub(super) async fn refuse_restricted(&self, access: &Access) -> Result<()> {
        for goes in self.all() {
            for rule in rules(access, goes.model).filter(Rule::is_restricting) {
                match rule.lister {
                    Some(_) => self.refuse_listed(&rule, &goes.documents)?,
                    None => self.refuse_found(access, &rule, &goes.documents).await?,
                }
            }
        }
        Ok(())
    }

    pub(super) fn refuse_listed(&self, rule: &Rule, documents: &[Linked]) -> Result<()> {
        for document in documents {
            let listed = rule.listed(std::slice::from_ref(document));
            let others = listed.iter().filter(|owner| !self.has(rule.model, owner));
            match others.count() {
                0 => {}
                owners => return Err(restricted(rule, &document.id, owners as u64)),
            }
        }
        Ok(())
    }

    async fn refuse_found(&self, access: &Access, rule: &Rule, documents: &[Linked]) -> Result<()> {
        let Some(filter) = self.staying(access, rule, documents).await? else {
            return Ok(());
        };
        let find = Find {
            limit: Some(1),
            ..found_by(&rule.model.collection.into(), &filter)
        };
        let first = read(access, rule.model, find).await?;
        let first = self.staying_of(rule.model, first)?;
        let Some(first) = first.first() else {
            return Ok(());
        };
        let mut held = first.held(rule.position);
        held.append(&mut rule.held_by(access, &first.id).await?);
        let mut documents = documents.iter();
        let document = documents.find(|document| held.contains(&Id::of(&document.id)));
        Err(match document {
            Some(document) => self.found_restricted(access, rule, document).await?,
            // It refers to it by a number of another width.
            None => restricted(rule, &first.id, 1),
        })
    }

    /// Tells how many refer to a document.
    async fn found_restricted(
        &self,
        access: &Access,
        rule: &Rule,
        document: &Linked,
    ) -> Result<Error> {
        let those = std::slice::from_ref(document);
        let filter = self.staying(access, rule, those).await?;
        let count = Count {
            collection: rule.model.collection.into(),
            filter: filter.unwrap_or_default(),
            limit: None,
            max_time: None,
        };
        let owners = access.count(rule.model, count).await?;
        Ok(restricted(rule, &document.id, owners.max(1)))
    }

    /// Without those that another deletion takes. While that has not decided, nobody knows.
    fn staying_of(&self, model: &Model, mut found: Vec<Linked>) -> Result<Vec<Linked>> {
        found.retain(|document| document.fate != Fate::Goes);
        let mut undecided = found.iter().filter(|found| found.fate == Fate::Undecided);
        match undecided.next() {
            Some(document) if !self.is_dry => Err(deciding(model, &document.id)),
            _ => Ok(found),
        }
    }

    /// The condition that a document refers to one of these, and stays.
    async fn staying(
        &self,
        access: &Access,
        rule: &Rule,
        documents: &[Linked],
    ) -> Result<Option<RawDocumentBuf>> {
        let Some(mut filter) = rule.referring(access, documents, None).await? else {
            return Ok(None);
        };
        let gone: Vec<_> = self.ids(rule.model).collect();
        if !gone.is_empty() {
            also(&mut filter, "_id", document("$nin", array(gone))?)?;
        }
        not_gone(&mut filter)?;
        narrow(access, rule.model, &mut filter, false).await?;
        Ok(Some(filter))
    }

    /// The documents of a model but for these.
    pub(super) fn others(goes: &Goes, but: &[Linked]) -> Vec<Linked> {
        let but: BTreeSet<_> = but.iter().map(|document| Id::of(&document.id)).collect();
        let others = goes.documents.iter();
        let others = others.filter(|document| !but.contains(&Id::of(&document.id)));
        others.cloned().collect()
    }
}
