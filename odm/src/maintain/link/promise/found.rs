//! A document with what writes to its links say in it.

use std::collections::{BTreeMap, BTreeSet};

use bson::{DateTime, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, oid::ObjectId};

use super::{
    super::{
        GOING,
        linked::{Id, Linked, array, ids_at, read_raw},
    },
    as_is,
};
use crate::{
    Result,
    access::{Access, also, found_by},
    backend::operation::Find,
    error,
    maintain::{LEASE, Promise as Owing, blocked::is_blocked},
    query::{append, document},
    schema::{LinkSide, LinkStep, Model, OwnLink},
};

/// What a write says of itself: its token, what the references were, what may be new, and whether it was carried out or given up.
pub(super) const PROMISE: &str = "_odm.link";
pub(in super::super) const TOKEN: &str = "_odm.link.token";
pub(super) const BEFORE: &str = "_odm.link.before";
pub(in super::super) const WANTED: &str = "_odm.link.wanted";
pub(super) const APPLIED: &str = "_odm.link.applied";
pub(super) const GIVEN_UP: &str = "_odm.link.given_up";
/// When others may keep it.
pub(in super::super) const DUE: &str = "_odm.due";
/// The record of documents that reject this work.
pub(super) const BLOCKED: &str = "_odm.blocked";

/// A document with its bookkeeping.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) linked: Linked,
    /// The fields with references, as they are stored.
    fields: Vec<(&'static str, Option<RawBson>)>,
    pub(super) promise: Option<Promise>,
    pub(super) due: Option<DateTime>,
    /// Whether documents have rejected the last attempt.
    is_blocked: bool,
    pub(super) going: Option<ObjectId>,
    pub(super) is_closing: bool,
    /// The collection and `_id` of the document that it goes with, if it goes, and which decides.
    pub(super) goes_with: Option<(String, RawBson)>,
}

/// What a write says that is not finished.
#[derive(Debug)]
pub(super) struct Promise {
    pub(super) token: ObjectId,
    /// The references as they were; none if there was no document.
    before: Option<RawDocumentBuf>,
    /// What they may be from now on.
    wanted: RawDocumentBuf,
    is_applied: bool,
    is_given_up: bool,
}

/// The document that a filter finds.
pub(super) async fn find(
    access: &Access,
    model: &'static Model,
    filter: &RawDocument,
) -> Result<Option<Found>> {
    let find = Find {
        limit: Some(1),
        ..found_by(&model.collection.into(), filter)
    };
    Ok(read(access, model, find).await?.pop())
}

/// The documents that a filter finds.
pub(super) async fn find_all(
    access: &Access,
    model: &'static Model,
    filter: RawDocumentBuf,
) -> Result<Vec<Found>> {
    read(access, model, found_by(&model.collection.into(), &filter)).await
}

async fn read(access: &Access, model: &'static Model, find: Find) -> Result<Vec<Found>> {
    // A reference in an embedded struct is compared with all that is around it.
    let found = read_raw(access, model, find, LinkSide::root).await?;
    found.iter().map(|raw| Found::of(model, raw)).collect()
}

/// Until when others leave to its writer what a write promises now.
pub(super) fn due() -> DateTime {
    DateTime::from_system_time(std::time::SystemTime::now() + LEASE)
}

impl Found {
    fn of(model: &'static Model, raw: &RawDocument) -> Result<Self> {
        let own = raw.get_document("_odm").ok();
        let value = |field: &str| own.and_then(|own| own.get(field).ok().flatten());
        let promise = value("link").and_then(RawBsonRef::as_document);
        let roots: BTreeSet<_> = model.links().iter().map(|link| link.side.root()).collect();
        let fields = roots.into_iter().map(|stored| {
            let value = raw.get(stored).map_err(error::encode)?;
            Ok((stored, value.map(RawBson::from)))
        });
        Ok(Self {
            linked: Linked::of(model, raw)?,
            fields: fields.collect::<Result<_>>()?,
            promise: promise.and_then(Promise::of),
            due: value("due").and_then(RawBsonRef::as_datetime),
            is_blocked: is_blocked(raw, Owing::LINK),
            going: value("going").and_then(RawBsonRef::as_object_id),
            is_closing: value("closing").is_some(),
            goes_with: value("closing")
                .and_then(RawBsonRef::as_document)
                .and_then(goes_with),
        })
    }

    /// Whether no process works on the document. Blocked work counts as abandoned: a waiting writer tries the work and gets the rejection.
    pub(super) fn is_overdue(&self) -> bool {
        self.is_blocked || self.due.is_none_or(|due| due <= DateTime::now())
    }

    /// Whether somebody is writing to it.
    pub(super) fn is_in_use(&self) -> bool {
        self.promise.is_some() || self.going.is_some()
    }

    /// Whether it is as good as gone.
    pub(super) fn goes(&self) -> bool {
        self.going.is_some() && !self.is_closing
    }

    /// Whether it is not known yet if it stays: its deletion may be forbidden, or its insert be taken back.
    pub(super) fn may_stay_or_go(&self) -> bool {
        let is_new = self.promise.as_ref().is_some_and(Promise::is_of_insert);
        self.is_closing || is_new && self.going.is_none()
    }

    /// What a reference leads to, or is about to.
    pub(super) fn held(&self, model: &Model, position: usize) -> BTreeSet<Id> {
        if self.goes() {
            return BTreeSet::new();
        }
        let mut held = self.linked.held(position);
        if let Some(promise) = &self.promise
            && !promise.is_applied
            && !promise.is_given_up
        {
            held.append(&mut promise.wanted(model, position));
        }
        held
    }

    /// The condition that the references are as they were read, and that nobody is writing to them.
    pub(super) fn as_read(&self, filter: &mut RawDocumentBuf) -> Result<()> {
        at_rest(filter)?;
        for (field, value) in &self.fields {
            also(filter, field, as_is(value.as_ref())?)?;
        }
        Ok(())
    }

    /// What the references lead to, with what is outside of the document, by reference.
    pub(super) fn references(
        &self,
        model: &Model,
        outside: &BTreeMap<usize, Vec<RawBson>>,
    ) -> Result<RawDocumentBuf> {
        let inside = self.linked.links.iter().enumerate();
        let all = inside.map(|(link, ids)| {
            [ids.clone(), outside.get(&link).cloned().unwrap_or_default()].concat()
        });
        let all: Vec<_> = all.collect();
        let links = model.links().iter().zip(&all);
        by_link(links.map(|(link, ids)| (link, ids.as_slice())))
    }
}

fn goes_with(closing: &RawDocument) -> Option<(String, RawBson)> {
    let collection = closing.get_str("collection").ok()?;
    let id = closing.get("id").ok()??;
    Some((collection.to_owned(), id.into()))
}

/// The condition that nobody is writing to a document.
pub(super) fn at_rest(filter: &mut RawDocumentBuf) -> Result<()> {
    also(filter, GOING, document("$exists", false)?)?;
    also(filter, TOKEN, document("$exists", false)?)
}

impl Promise {
    fn of(promise: &RawDocument) -> Option<Self> {
        let value = |field: &str| promise.get(field).ok().flatten();
        let references = |field: &str| value(field)?.as_document().map(RawDocument::to_owned);
        Some(Self {
            token: value("token")?.as_object_id()?,
            before: references("before"),
            wanted: references("wanted").unwrap_or_default(),
            is_applied: value("applied").is_some(),
            is_given_up: value("given_up").is_some(),
        })
    }

    pub(super) fn is_of_insert(&self) -> bool {
        self.before.is_none()
    }

    /// What a reference of the model led to.
    pub(super) fn before(&self, model: &Model, position: usize) -> BTreeSet<Id> {
        self.before
            .as_ref()
            .map(|before| held_in(before, model, position))
            .unwrap_or_default()
    }

    /// What it may lead to from now on.
    pub(super) fn wanted(&self, model: &Model, position: usize) -> BTreeSet<Id> {
        held_in(&self.wanted, model, position)
    }
}

/// Ids by reference, as they are said in a promise: where the reference is in the document, without the arrays on the way.
pub(super) fn by_link<'i>(
    ids: impl IntoIterator<Item = (&'static OwnLink, &'i [RawBson])>,
) -> Result<RawDocumentBuf> {
    let all: Vec<_> = ids
        .into_iter()
        .map(|(link, ids)| (link.side.way, ids))
        .collect();
    nested(&all)
}

fn nested(all: &[(&[LinkStep], &[RawBson])]) -> Result<RawDocumentBuf> {
    let mut by_field = BTreeMap::<_, Vec<_>>::new();
    for (way, ids) in all {
        if let Some((step, behind)) = way.split_first() {
            by_field
                .entry(step.stored)
                .or_default()
                .push((behind, *ids));
        }
    }
    let mut said = RawDocumentBuf::new();
    for (field, inside) in by_field {
        match inside.as_slice() {
            [([], ids)] => append(&mut said, field, array(*ids))?,
            inside => append(&mut said, field, nested(inside)?)?,
        }
    }
    Ok(said)
}

fn held_in(references: &RawDocument, model: &Model, position: usize) -> BTreeSet<Id> {
    let link = model.links().get(position);
    let ids = link.map(|link| ids_at(references, link.side.stored));
    ids.into_iter().flatten().map(|id| Id::of(&id)).collect()
}
