//! The other sides of links, written in the transaction of what changes them: all of them together.

use bson::{RawBson, RawDocumentBuf, oid::ObjectId};

use super::{
    FENCE, GOING,
    linked::{Fate, array, by_id, holds, one_of, read},
    refusal::{dangling, deciding, full, taken},
};
use crate::{
    Result,
    access::{Access, found_by},
    backend::operation::{BulkItem, BulkWrite, Change, Unmatched, Update, Write, Written},
    maintain::narrow,
    query::{append, document},
    schema::{InverseLink, OwnLink},
};

/// What is to be written to the other sides. Each write changes the fence of its document, even if nothing else: so two that know
/// different truths conflict.
pub(super) struct Sides<'a> {
    /// Sees what the writer may refer to.
    access: &'a Access,
    /// Sees whom it may concern.
    all: &'a Access,
    writes: Vec<BulkItem>,
    entered: Vec<Entered>,
}

/// Documents that are listed by another one from now on.
struct Entered {
    link: &'static OwnLink,
    inverse: &'static InverseLink,
    target: RawBson,
    owners: Vec<RawBson>,
}

impl<'a> Sides<'a> {
    pub(super) fn new(access: &'a Access, all: &'a Access) -> Self {
        Self {
            access,
            all,
            writes: Vec::new(),
            entered: Vec::new(),
        }
    }

    /// Takes documents that refer to it no more out of the inverse of another.
    pub(super) async fn leave(
        &mut self,
        link: &OwnLink,
        inverse: &InverseLink,
        target: &RawBson,
        owners: &[RawBson],
    ) -> Result<()> {
        let path = inverse.side.stored;
        let mut filter = by_id(target)?;
        let mut fence = document(FENCE, ObjectId::new())?;
        let mut change = RawDocumentBuf::new();
        if inverse.side.is_many {
            append(&mut change, "$pullAll", document(path, array(owners))?)?;
        } else {
            append(&mut filter, path, one_of(owners)?)?;
            append(&mut fence, path, RawBson::Null)?;
        }
        append(&mut change, "$set", fence)?;
        self.push(link, filter, change, self.all).await
    }

    /// Puts documents that refer to it from now on into the inverse of another.
    pub(super) async fn enter(
        &mut self,
        link: &'static OwnLink,
        inverse: &'static InverseLink,
        target: RawBson,
        owners: Vec<RawBson>,
    ) -> Result<()> {
        let path = inverse.side.stored;
        let mut filter = by_id(&target)?;
        append(&mut filter, GOING, document("$exists", false)?)?;
        let mut fence = document(FENCE, ObjectId::new())?;
        let mut change = RawDocumentBuf::new();
        if inverse.side.is_many {
            if let Some(max) = inverse.max {
                let Some(last) = max.checked_sub(owners.len()) else {
                    return Err(full(link, inverse, &target));
                };
                let last = format!("{path}.{last}");
                append(&mut filter, &last, document("$exists", false)?)?;
            }
            let each = document("$each", array(&owners))?;
            append(&mut change, "$addToSet", document(path, each)?)?;
        } else {
            let [one] = owners.as_slice() else {
                return Err(taken(link, inverse, &target));
            };
            append(&mut filter, path, one_of([one, &RawBson::Null])?)?;
            append(&mut fence, path, one.clone())?;
        }
        append(&mut change, "$set", fence)?;
        self.push(link, filter, change, self.access).await?;
        self.entered.push(Entered {
            link,
            inverse,
            target,
            owners,
        });
        Ok(())
    }

    async fn push(
        &mut self,
        link: &OwnLink,
        mut filter: RawDocumentBuf,
        change: RawDocumentBuf,
        access: &Access,
    ) -> Result<()> {
        let model = (link.side.model)();
        narrow(access, model, &mut filter, false).await?;
        self.writes.push(BulkItem {
            write: Write::Update(Update {
                collection: model.collection.into(),
                filter,
                change: Change::operators(change),
                multi: true,
                upsert: false,
            }),
            unmatched: Unmatched::Fine,
        });
        Ok(())
    }

    /// Writes all of it.
    pub(super) async fn write(self) -> Result<()> {
        let expected = self.writes.len() as u64;
        if expected == 0 {
            return Ok(());
        }
        self.access.told().writes();
        let bulk = BulkWrite {
            writes: self.writes,
            ordered: true,
        };
        let done = self.access.executor().bulk_write(bulk).await?;
        for result in done.results {
            if let Written::Failed(error) = result {
                return Err(error);
            }
        }
        if done.matched == expected {
            return Ok(());
        }
        // What was to be left may be gone; what was to be entered must not be.
        for entered in &self.entered {
            entered.look_at(self.access).await?;
        }
        Ok(())
    }
}

impl Entered {
    /// Whether it was carried out, or why not.
    async fn look_at(&self, access: &Access) -> Result<()> {
        let model = (self.link.side.model)();
        let there = by_id(&self.target)?;
        let there = read(access, model, found_by(&model.collection.into(), &there)).await?;
        let there = match there.first() {
            Some(there) if there.fate == Fate::Stays => there,
            // It may be refused yet.
            Some(there) if there.fate == Fate::Undecided => {
                return Err(deciding(model, &self.target));
            }
            _ => return Err(dangling(self.link, &self.target)),
        };
        let listed = there.listed(model, self.inverse);
        let mut owners = self.owners.iter();
        if owners.all(|owner| holds(listed, owner)) {
            return Ok(());
        }
        Err(match self.inverse.side.is_many {
            true => full(self.link, self.inverse, &self.target),
            false => taken(self.link, self.inverse, &self.target),
        })
    }
}
