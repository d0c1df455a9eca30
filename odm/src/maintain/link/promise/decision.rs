//! Whether a deletion may be where there are no transactions: it is asked of all that goes in it, before anything of it is final.
//!
//! What goes with a document is marked as that is, by the same token, and says with which. While a mark is not final nobody newly refers
//! to its document: whoever wants to waits, and what is found then to keep one of them is all there can be. The mark of the first document
//! decides: becomes it final, all go; is it taken away, all stay. Whoever finds the mark of another asks that one.

use std::collections::{BTreeMap, BTreeSet};

use bson::{RawArrayBuf, RawBson, RawDocumentBuf, oid::ObjectId};

use super::{
    super::{
        BATCH, CLOSING, GOING,
        deletion::{Rule, rules},
        going::Going,
        linked::{Fate, Id, Linked, array, by_id, one_of, read},
        not_gone,
        outside::SOME,
        refusal::restricted,
        update,
    },
    found::{BLOCKED, DUE, Found, WANTED, at_rest, due, find},
    settle, wait_or_settle,
};
use crate::{
    Result,
    access::{Access, also, found_by},
    backend::operation::Find,
    batches::id_batches,
    maintain::{narrow, tally},
    query::{append, document},
    schema::{Model, OnDelete},
};

/// How often others that are at a document are waited for before all marks are taken back: they may wait for one of these.
const PATIENCE: u32 = 7;

/// Whether it has to be asked of more than what the document itself lists.
pub(super) fn is_needed(all: &Access, model: &'static Model) -> bool {
    let reach = reach(all, model);
    let leads_back = reach.values().any(|other| {
        let mut cascades = rules(all, other).filter(Rule::is_cascading);
        cascades.any(|rule| rule.model.collection == model.collection)
    });
    let mut models = reach.values();
    models.any(|other| {
        let mut rules = rules(all, other).filter(Rule::is_restricting);
        // No other document of its model goes with it.
        let is_itself = other.collection == model.collection && !leads_back;
        rules.any(|rule| {
            !is_itself || rule.lister.is_none() || reach.contains_key(rule.model.collection)
        })
    })
}

/// Whether something may keep a document from going, or what goes with it.
pub(super) fn may_be_kept(all: &Access, model: &'static Model) -> bool {
    let reach = reach(all, model);
    let mut rules = reach.values().flat_map(|other| rules(all, other));
    rules.any(|rule| rule.is_restricting())
}

/// Whether one of several documents that are deleted may keep another from going.
pub(super) fn is_among_themselves(all: &Access, model: &'static Model) -> bool {
    let reach = reach(all, model);
    let mut models = reach.values();
    models.any(|other| {
        let mut rules = rules(all, other).filter(Rule::is_restricting);
        rules.any(|rule| reach.contains_key(rule.model.collection))
    })
}

/// The models of which documents may go with one of this.
fn reach(all: &Access, model: &'static Model) -> BTreeMap<&'static str, &'static Model> {
    let mut reach = BTreeMap::new();
    let mut open = vec![model];
    while let Some(model) = open.pop() {
        if reach.insert(model.collection, model).is_none() {
            let cascades = rules(all, model).filter(Rule::is_cascading);
            open.extend(cascades.map(|rule| rule.model));
        }
    }
    reach
}

/// Whether documents of a model are marked before they go with another one: others may be kept by them, or keep them.
fn is_marked(all: &Access, model: &'static Model) -> bool {
    let mut links = model.links().iter();
    links.any(|link| link.on_delete == OnDelete::Restrict) || rules(all, model).next().is_some()
}

/// Makes a mark final, unless something that stays must not lose what goes with it: then all marks are taken away. It gives false if they
/// are for another reason, or somebody else has decided meanwhile.
pub(super) async fn close(
    all: &Access,
    model: &'static Model,
    id: &RawBson,
    token: ObjectId,
) -> Result<bool> {
    let mut going = Going::new(false);
    let decision = Decision {
        all,
        model,
        id,
        token,
    };
    match decision.gather(&mut going).await {
        Ok(true) => {}
        gathered => {
            decision.take_back(&going).await?;
            return gathered;
        }
    }
    let done = decision.refuse(&going).await;
    if let Err(error) = done {
        decision.take_back(&going).await?;
        return Err(error);
    }
    Ok(update(all, model, decision.marked()?, gone(all, model)?).await? == 1)
}

/// The mark of a document that goes with another one, whose mark decides.
pub(super) fn going_with(first: &Model, id: &RawBson, token: ObjectId) -> Result<RawDocumentBuf> {
    let mut with = document("collection", first.collection)?;
    append(&mut with, "id", id.clone())?;
    let mut mark = document(GOING, token)?;
    append(&mut mark, CLOSING, with)?;
    append(&mut mark, DUE, due())?;
    Ok(mark)
}

/// The change that makes a mark final.
pub(super) fn gone(all: &Access, model: &Model) -> Result<RawDocumentBuf> {
    let mut change = document("$unset", document(CLOSING, "")?)?;
    let mut set = RawDocumentBuf::new();
    tally::say_gone(all, model, &mut set)?;
    if !set.is_empty() {
        append(&mut change, "$set", set)?;
    }
    Ok(change)
}

/// Takes the mark of a document away that goes with another one, if that stays.
pub(super) async fn release(
    all: &Access,
    model: &'static Model,
    id: &RawBson,
    token: ObjectId,
) -> Result<()> {
    let decision = Decision {
        all,
        model,
        id,
        token,
    };
    let mut undecided = decision.marked()?;
    append(&mut undecided, CLOSING, document("$exists", true)?)?;
    decision.unmark(undecided, model).await.map(drop)
}

/// A deletion that begins with a document.
struct Decision<'d> {
    all: &'d Access,
    model: &'static Model,
    id: &'d RawBson,
    token: ObjectId,
}

impl Decision<'_> {
    /// The condition that the document has its mark.
    fn marked(&self) -> Result<RawDocumentBuf> {
        let mut marked = by_id(self.id)?;
        append(&mut marked, GOING, document("$eq", self.token)?)?;
        Ok(marked)
    }

    /// Marks what goes with the document. False if others are at some of it, and may be waiting for this.
    async fn gather(&self, going: &mut Going) -> Result<bool> {
        let all = self.all;
        let Some(first) = find(all, self.model, &self.marked()?).await? else {
            return Ok(false);
        };
        let mut open = vec![(self.model, vec![first.linked])];
        while let Some((model, documents)) = open.pop() {
            let new = going.add(model, documents);
            let cascades = rules(all, model).filter(|rule| rule.is_cascading());
            let cascades: Vec<_> = cascades.filter(|rule| is_marked(all, rule.model)).collect();
            for some in id_batches(&new, BATCH) {
                for rule in &cascades {
                    // All referrers at once: a document without a tombstone would escape the decision.
                    let Some(filter) = rule.referring(all, some, None).await? else {
                        continue;
                    };
                    let awaited = self.awaited(rule, some).await?;
                    let outcome = self.mark_all(rule, &filter, awaited).await;
                    let mut marked = filter;
                    also(&mut marked, GOING, document("$eq", self.token)?)?;
                    let find = found_by(&rule.model.collection.into(), &marked);
                    let found = read(all, rule.model, find).await?;
                    open.push((rule.model, self.that_refer(rule, found, some).await?));
                    if !matches!(outcome, Ok(true)) {
                        // The caller removes the tombstones of all documents in `going`. A tombstone that stays would block
                        // every writer until its lease ends, and the next attempt of this delete as well.
                        for (model, documents) in open {
                            going.add(model, documents);
                        }
                        return outcome;
                    }
                }
            }
        }
        Ok(true)
    }

    /// Those of some marked documents that refer to one of others still: what is outside of a document is no part of the condition on
    /// which it is marked. The marks of the rest are taken away.
    async fn that_refer(
        &self,
        rule: &Rule,
        marked: Vec<Linked>,
        to: &[Linked],
    ) -> Result<Vec<Linked>> {
        if rule.overflow().is_none() {
            return Ok(marked);
        }
        let to: BTreeSet<_> = to.iter().map(|document| Id::of(&document.id)).collect();
        let mut those = Vec::new();
        for document in marked {
            match rule.held_by(self.all, &document.id).await?.is_disjoint(&to) {
                false => those.push(document),
                true => release(self.all, rule.model, &document.id, self.token).await?,
            }
        }
        Ok(those)
    }

    /// The condition that a document refers to one of these by a cascade, or is about to.
    async fn awaited(&self, rule: &Rule, documents: &[Linked]) -> Result<RawDocumentBuf> {
        let ids: Vec<_> = documents.iter().map(|document| &document.id).collect();
        let mut awaited = referring(self.all, rule, &ids, None).await?;
        if rule.lister.is_some() {
            let listed = rule.listed(documents);
            let listed = listed.iter().map(Id::value).collect::<Result<Vec<_>>>()?;
            also(&mut awaited, "_id", one_of(&listed)?)?;
        } else if rule.is_of_one_model() {
            also(&mut awaited, "_id", document("$nin", array(ids))?)?;
        }
        Ok(awaited)
    }

    /// Marks all documents that a filter finds, when nobody is at one that will be among them.
    async fn mark_all(
        &self,
        rule: &Rule,
        filter: &RawDocumentBuf,
        awaited: RawDocumentBuf,
    ) -> Result<bool> {
        let all = self.all;
        let mut others = awaited;
        also(&mut others, GOING, document("$ne", self.token)?)?;
        not_gone(&mut others)?;
        let mut free = filter.clone();
        at_rest(&mut free)?;
        for attempt in 1..=PATIENCE {
            let mark = document("$set", going_with(self.model, self.id, self.token)?)?;
            update(all, rule.model, free.clone(), mark).await?;
            let Some(other) = find(all, rule.model, &others).await? else {
                // Others leave it alone meanwhile.
                let renewed = document("$set", document(DUE, due())?)?;
                update(all, self.model, self.marked()?, renewed).await?;
                return Ok(true);
            };
            wait_or_settle(all, rule.model, &other, attempt).await?;
        }
        Ok(false)
    }

    /// Refuses it if something that stays must not lose one of them.
    async fn refuse(&self, going: &Going) -> Result<()> {
        for goes in going.all() {
            for rule in rules(self.all, goes.model).filter(Rule::is_restricting) {
                if rule.lister.is_some() {
                    going.refuse_listed(&rule, &goes.documents)?;
                    continue;
                }
                for some in id_batches(&goes.documents, BATCH) {
                    self.refuse_found(&rule, some).await?;
                }
            }
        }
        Ok(())
    }

    async fn refuse_found(&self, rule: &Rule, documents: &[Linked]) -> Result<()> {
        let mut first = None;
        for _ in 0..rule.looks() {
            if first.is_none() {
                let filter = match self.keeping(rule, documents, None).await {
                    // Of more than a condition can name, some keep it.
                    Err(error) if error.is_unsupported() => {
                        self.keeping(rule, documents, SOME).await?
                    }
                    filter => filter?,
                };
                first = find(self.all, rule.model, &filter).await?;
            }
        }
        let Some(first) = first else {
            return Ok(());
        };
        let mut held = first.held(rule.model, rule.position);
        held.append(&mut rule.held_by(self.all, &first.linked.id).await?);
        let mut those = documents.iter();
        let document = those.find(|document| held.contains(&Id::of(&document.id)));
        let Some(document) = document.or(documents.first()) else {
            return Ok(());
        };
        let find = Find {
            limit: Some(BATCH as u64),
            ..found_by(
                &rule.model.collection.into(),
                &self
                    .keeping(rule, std::slice::from_ref(document), SOME)
                    .await?,
            )
        };
        let owners = read(self.all, rule.model, find).await?.len();
        Err(restricted(rule, &document.id, owners.max(1) as u64))
    }

    /// The condition that a document refers to one of these, or is about to, and does not go with them.
    async fn keeping(
        &self,
        rule: &Rule,
        documents: &[Linked],
        most: Option<usize>,
    ) -> Result<RawDocumentBuf> {
        let ids: Vec<_> = documents.iter().map(|document| &document.id).collect();
        let mut filter = referring(self.all, rule, &ids, most).await?;
        also(&mut filter, GOING, document("$ne", self.token)?)?;
        not_gone(&mut filter)?;
        Ok(filter)
    }

    /// Takes all marks away, that of the first document first: it decides.
    async fn take_back(&self, going: &Going) -> Result<()> {
        let mut first = self.marked()?;
        append(&mut first, CLOSING, document("$exists", true)?)?;
        if !self.unmark(first, self.model).await? {
            return Ok(());
        }
        for goes in going.all() {
            for some in id_batches(&goes.documents, BATCH) {
                let ids = some.iter().map(|document| &document.id);
                let mut those = document("_id", one_of(ids)?)?;
                append(&mut those, GOING, document("$eq", self.token)?)?;
                append(&mut those, CLOSING, document("$exists", true)?)?;
                self.unmark(those, goes.model).await?;
            }
        }
        Ok(())
    }

    async fn unmark(&self, filter: RawDocumentBuf, model: &'static Model) -> Result<bool> {
        let mut unset = RawDocumentBuf::new();
        for field in [GOING, CLOSING, DUE, BLOCKED] {
            append(&mut unset, field, "")?;
        }
        Ok(update(self.all, model, filter, document("$unset", unset)?).await? > 0)
    }
}

/// The condition that a document refers to one of these, or is about to; of those that do so outside of them so many, or all.
pub(super) async fn referring(
    all: &Access,
    rule: &Rule,
    ids: &[&RawBson],
    most: Option<usize>,
) -> Result<RawDocumentBuf> {
    let path = rule.link.side.stored;
    let mut are = rule.leads_to(all, ids, most).await?;
    narrow(all, rule.model, &mut are, false).await?;
    let mut will = document(DUE, document("$exists", true)?)?;
    let wanted = format!("{WANTED}.{path}");
    append(&mut will, &wanted, one_of(ids.iter().copied())?)?;
    let mut either = RawArrayBuf::new();
    either.push(are);
    either.push(will);
    document("$or", either)
}

/// What becomes of a document that is marked with another one. While that is not decided and nobody is at it, it is asked again.
pub(super) async fn fate(all: &Access, model: &'static Model, found: &Found) -> Result<Fate> {
    let (Some(token), Some((collection, id))) = (found.going, &found.goes_with) else {
        return Ok(found.linked.fate);
    };
    let mut models = all.models().iter();
    if let Some(first) = models.find(|model| model.collection == collection)
        && let Some(decides) = find(all, first, &by_id(id)?).await?
        && decides.going == Some(token)
    {
        if decides.is_closing && decides.is_overdue() {
            settle(all, first, id).await?;
        }
        if decides.is_closing {
            return Ok(Fate::Undecided);
        }
        // What was outside of it when it was marked may not be there any more.
        let mut cascades = Rule::of(model).filter(Rule::is_cascading);
        if cascades.all(|rule| rule.overflow().is_none()) {
            return Ok(Fate::Goes);
        }
    }
    // That has gone before what is between them, or stays, which nothing that is final does.
    for rule in Rule::of(model).filter(Rule::is_cascading) {
        let between = (rule.link.side.model)();
        let mut held = found.linked.held(rule.position);
        held.append(&mut rule.held_by(all, &found.linked.id).await?);
        for target in held {
            let target = find(all, between, &by_id(&target.value()?)?).await?;
            if target.is_some_and(|target| target.going == Some(token) && !target.is_closing) {
                return Ok(Fate::Goes);
            }
        }
    }
    Ok(Fate::Stays)
}
