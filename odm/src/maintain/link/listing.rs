//! Inverses that overflow: they list what refers to a document in it and outside of it.

use bson::{Bson, RawBson, RawDocument, RawDocumentBuf, oid::ObjectId};

use super::{
    FENCE, GOING,
    linked::{array, by_id, ids_at},
};
use crate::{
    Result,
    access::Access,
    backend::operation::{Change, Update},
    error,
    maintain::{
        narrow, overflow,
        stored::{close, open},
    },
    overflow::Owner,
    query::{append, document},
    schema::{InverseLink, LinkSide, Model, OverflowField, OwnLink},
};

/// An inverse that overflows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Listing {
    pub(super) model: &'static Model,
    field: &'static OverflowField,
}

/// What a side of a link of a stored document leads to, in it and outside of it; none while something is being done to what is outside.
pub(crate) async fn listed(
    all: &Access,
    model: &'static Model,
    side: &LinkSide,
    raw: &RawDocument,
) -> Result<Option<Vec<RawBson>>> {
    let inside = || Ok(Some(ids_at(raw, side.stored)));
    let Some(listing) = Listing::at(model, side) else {
        return inside();
    };
    let owner = Owner::of(listing.field, raw)?;
    if owner.header.is_none() {
        return inside();
    }
    if owner.work().is_some() {
        return Ok(None);
    }
    let id = RawBson::try_from(owner.id).map_err(error::encode)?;
    listing.all(all, &id).await.map(Some)
}

/// What becomes of documents in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// They refer to its document from now on.
    Enters,
    /// They do so no more.
    Leaves,
}

impl Listing {
    /// That on the other side of a link.
    pub(super) fn of(link: &OwnLink, inverse: &InverseLink) -> Option<Self> {
        Self::on((link.side.model)(), inverse)
    }

    /// That of a model.
    pub(super) fn on(model: &'static Model, inverse: &InverseLink) -> Option<Self> {
        Self::at(model, &inverse.side)
    }

    fn at(model: &'static Model, side: &LinkSide) -> Option<Self> {
        let field = model.overflow_of(side)?;
        Some(Self { model, field })
    }

    /// Where it is.
    pub(super) fn place(&self) -> (&'static str, &'static str) {
        (self.model.collection, self.field.stored)
    }

    /// The condition of a change of the inverse in one document: none enters that of one that is going.
    pub(super) fn condition(target: &RawBson, turn: Turn) -> Result<RawDocumentBuf> {
        let mut filter = by_id(target)?;
        if turn == Turn::Enters {
            append(&mut filter, GOING, document("$exists", false)?)?;
        }
        Ok(filter)
    }

    /// The same, that all of the inverse is in the document and has room there; none if it cannot have.
    pub(super) fn condition_inside(
        &self,
        target: &RawBson,
        turn: Turn,
        owners: &[RawBson],
    ) -> Result<Option<RawDocumentBuf>> {
        let mut filter = open(&Self::condition(target, turn)?)?;
        match turn {
            Turn::Leaves => filter.extend(overflow::is_whole(self.field)),
            Turn::Enters => {
                let owners = owners.iter().map(|owner| Bson::try_from(owner.clone()));
                let owners = owners.collect::<Result<Vec<_>, _>>();
                let owners = owners.map_err(error::encode)?;
                let Some(room) = overflow::has_room(self.field, &owners)? else {
                    return Ok(None);
                };
                filter.extend(overflow::is_whole(self.field));
                filter.extend(room);
            }
        }
        close(&filter).map(Some)
    }

    /// The change of the inverse in a document that meets the condition.
    pub(super) fn update(
        &self,
        condition: RawDocumentBuf,
        turn: Turn,
        owners: &[RawBson],
        fence: ObjectId,
    ) -> Result<Update> {
        let path = self.field.stored;
        let mut change = match turn {
            Turn::Enters => {
                let each = document("$each", array(owners))?;
                document("$addToSet", document(path, each)?)?
            }
            Turn::Leaves => document("$pullAll", document(path, array(owners))?)?,
        };
        append(&mut change, "$set", document(FENCE, fence)?)?;
        Ok(Update {
            collection: self.model.collection.into(),
            filter: condition,
            change: Change::operators(change),
            multi: true,
            upsert: false,
        })
    }

    /// Changes the inverse of a document that meets the condition, wherever its elements are; false if there is none.
    pub(super) async fn write(
        &self,
        access: &Access,
        condition: &RawDocumentBuf,
        turn: Turn,
        owners: &[RawBson],
        fence: ObjectId,
    ) -> Result<bool> {
        let parts = match turn {
            Turn::Enters => owners.chunks(overflow::most_added(self.field)).collect(),
            Turn::Leaves => overflow::for_one_pull(self.field, owners)?,
        };
        for some in parts {
            let mut update = self.update(condition.clone(), turn, some, fence)?;
            narrow(access, self.model, &mut update.filter, false).await?;
            access.told().writes();
            let done = overflow::follow(access, self.model, update).await;
            if done.map_err(error::of(self.model))?.matched == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Lets the inverse of a document list these instead of what it did, if it is still what it was when its fence was read.
    pub(super) async fn replace(
        &self,
        access: &Access,
        target: &RawBson,
        fence: Option<&RawBson>,
        owners: &[&RawBson],
    ) -> Result<bool> {
        let mut condition = by_id(target)?;
        let fence = match fence {
            Some(fence) => document("$eq", fence.clone())?,
            None => document("$exists", false)?,
        };
        append(&mut condition, FENCE, fence)?;
        let mut set = document(self.field.stored, array(owners.iter().copied()))?;
        append(&mut set, FENCE, ObjectId::new())?;
        let update = Update {
            collection: self.model.collection.into(),
            filter: condition,
            change: Change::operators(document("$set", set)?),
            multi: true,
            upsert: false,
        };
        access.told().writes();
        let done = overflow::follow(access, self.model, update).await;
        Ok(done.map_err(error::of(self.model))?.matched == 1)
    }

    /// What the inverse of a document lists.
    pub(super) async fn all(&self, access: &Access, target: &RawBson) -> Result<Vec<RawBson>> {
        let all = overflow::all(access, self.model, self.field, by_id(target)?).await?;
        let all = all.into_iter().map(RawBson::try_from);
        all.collect::<Result<_, _>>().map_err(error::encode)
    }
}
