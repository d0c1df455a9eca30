//! What becomes of documents when one that they refer to is deleted.

use std::collections::BTreeSet;

use bson::{RawBson, RawDocumentBuf};

use super::{
    linked::{Id, Linked, array, one_of},
    outside::both,
    parting::parting,
};
use crate::{
    Result,
    access::{Access, also},
    backend::operation::{Change, Delete, Update},
    error,
    maintain::{Left, Means, Removal, Write, computed, copy, narrow, overflow, tally, with},
    query::document,
    schema::{InverseLink, Model, OnDelete, OwnLink},
};

/// A reference to the documents of a model, with what becomes of it when one of these is deleted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    /// The model of the documents that refer.
    pub(crate) model: &'static Model,
    pub(crate) link: &'static OwnLink,
    /// Which of the model's links it is.
    pub(super) position: usize,
    /// Where the documents that it leads to list what refers to them, if they do.
    pub(crate) inverse: Option<&'static InverseLink>,
    /// The same if all of the list is in the document: only then it is asked, else the index of the reference.
    pub(super) lister: Option<&'static InverseLink>,
}

/// What the schema says of references to a model.
pub(crate) fn rules(access: &Access, model: &'static Model) -> impl Iterator<Item = Rule> + use<> {
    let all = access.models().iter().flat_map(|owner| Rule::of(owner));
    all.filter(|rule| rule.link.side.collection == model.collection)
}

impl Rule {
    /// Those of the references of a model.
    pub(super) fn of(model: &'static Model) -> impl Iterator<Item = Self> {
        let links = model.links().iter().enumerate();
        links.map(move |(position, link)| Self {
            model,
            link,
            position,
            inverse: link.inverse(),
            lister: link.lister(),
        })
    }

    pub(super) fn is_restricting(&self) -> bool {
        self.link.on_delete == OnDelete::Restrict
    }

    /// Whether something is done to what refers to a deleted document.
    pub(super) fn acts(&self) -> bool {
        !matches!(self.link.on_delete, OnDelete::Restrict | OnDelete::Keep)
    }

    pub(super) fn is_cascading(&self) -> bool {
        self.link.on_delete == OnDelete::Cascade
    }

    /// Whether it leads from documents of a model to others of the same.
    pub(super) fn is_of_one_model(&self) -> bool {
        self.link.side.collection == self.model.collection
    }

    /// Those that refer to one of these documents by what it lists, and are none of them; nothing if it does not list them all.
    pub(super) fn listed(&self, documents: &[Linked]) -> BTreeSet<Id> {
        let own = (self.link.side.model)();
        let listed = self.lister.into_iter().flat_map(|inverse| {
            let documents = documents.iter();
            documents.flat_map(|document| document.listed(own, inverse))
        });
        let mut listed: BTreeSet<_> = listed.map(Id::of).collect();
        if self.is_of_one_model() {
            for document in documents {
                listed.remove(&Id::of(&document.id));
            }
        }
        listed
    }

    /// The condition that a document refers to one of these, and is none of them; none if there is no such document. `most` is as in
    /// [`leads_to`](Self::leads_to).
    pub(super) async fn referring(
        &self,
        access: &Access,
        documents: &[Linked],
        most: Option<usize>,
    ) -> Result<Option<RawDocumentBuf>> {
        let mut filter = match self.lister {
            Some(_) => {
                let owners = self.listed(documents).into_iter();
                let owners = owners.map(|owner| owner.value());
                let owners = owners.collect::<Result<Vec<_>>>()?;
                if owners.is_empty() {
                    return Ok(None);
                }
                document("_id", one_of(&owners)?)?
            }
            None if self.is_of_one_model() => {
                let ids = documents.iter().map(|document| &document.id);
                document("_id", document("$nin", array(ids))?)?
            }
            None => RawDocumentBuf::new(),
        };
        let ids: Vec<_> = documents.iter().map(|document| &document.id).collect();
        both(&mut filter, self.leads_to(access, &ids, most).await?)?;
        Ok(Some(filter))
    }

    /// The deletion of documents that refer to what is deleted. It is for good, as a mark would leave a reference that leads nowhere.
    pub(super) fn cascade(&self, filter: RawDocumentBuf) -> Result<Removal> {
        let delete = Delete {
            collection: self.model.collection.into(),
            filter,
            multi: true,
        };
        Removal::new(self.model, delete, Means::ForGood)
    }

    /// Takes what is deleted out of the references to it of the documents that a filter finds, and with that some fields out of them.
    /// Tells how many documents these are.
    pub(super) async fn take_out<'g>(
        &self,
        access: &Access,
        filter: RawDocumentBuf,
        gone: impl IntoIterator<Item = &'g RawBson>,
        fields: &[&str],
    ) -> Result<u64> {
        let gone: Vec<_> = gone.into_iter().collect();
        let (mut write, left) = self.part(access, filter, gone)?;
        if let Change::Operators { update, .. } = &mut write.change {
            for field in fields {
                *update = with(update, "$unset", field, "".into())?;
            }
        }
        access.told().writes();
        let done = self.take_out_of_all(access, write).await;
        left.carry_out_behind(access, self.model);
        done.map_err(error::of(self.model))
    }

    /// Those of which the array is whole in one go, and the others each.
    async fn take_out_of_all(&self, access: &Access, mut write: Update) -> Result<u64> {
        let Some(field) = self.overflow() else {
            return Ok(computed::run(access, self.model, write).await?.matched);
        };
        let mut whole = write.clone();
        also(&mut whole.filter, field.header, document("$exists", false)?)?;
        let whole = computed::run(access, self.model, whole).await?.matched;
        also(&mut write.filter, field.header, document("$exists", true)?)?;
        let others = overflow::follow(access, self.model, write).await?.matched;
        Ok(whole + others)
    }

    /// The write that takes what is deleted out of the references to it, with what that leaves to be done.
    pub(super) fn part<'g>(
        &self,
        access: &Access,
        filter: RawDocumentBuf,
        gone: impl IntoIterator<Item = &'g RawBson>,
    ) -> Result<(Update, Left)> {
        let mut change = parting(self.link, gone)?;
        let copies = copy::leave(access, self.model, &mut change)?;
        let counts = match &mut change {
            Change::Operators { update, .. } => tally::say(access, self.model, update)?,
            _ => None,
        };
        let write = Update {
            collection: self.model.collection.into(),
            filter,
            change,
            multi: true,
            upsert: false,
        };
        Ok((write.filled(self.model)?, Left { copies, counts }))
    }
}

/// Takes what is deleted out of the documents that refer to it and stay, in a transaction.
pub(super) async fn take_leave(
    access: &Access,
    model: &'static Model,
    deleted: &[Linked],
) -> Result<()> {
    for rule in rules(access, model).filter(|rule| rule.acts() && !rule.is_cascading()) {
        let Some(mut filter) = rule.referring(access, deleted, None).await? else {
            continue;
        };
        narrow(access, rule.model, &mut filter, false).await?;
        let gone = deleted.iter().map(|document| &document.id);
        rule.take_out(access, filter, gone, &[]).await?;
    }
    let deleted = deleted.iter().map(Linked::as_deleted);
    copy::clear(access, model, deleted, &copy::Source::gone()).await
}
