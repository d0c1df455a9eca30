//! The other sides of links, written in the transaction of what changes them: all of them together.
//!
//! Most of those that overflow have nothing outside of their document, and room in it: they are written with the others, on condition that
//! this is so. Which were not is told by their fences, and these few are written one by one.

use std::collections::{BTreeMap, BTreeSet};

use bson::{RawBson, RawDocumentBuf, oid::ObjectId};

use super::{
    BATCH, FENCE, GOING, hold,
    linked::{Fate, Id, array, by_id, holds, one_of, read},
    listing::{Listing, Turn},
    refusal::{dangling, deciding, full, taken},
};
use crate::{
    Result,
    access::{Access, found_by},
    backend::operation::{BulkItem, BulkWrite, Change, Find, Unmatched, Update, Write, Written},
    batches::id_batches,
    maintain::narrow,
    query::{append, document},
    schema::{InverseLink, Model, OwnLink},
};

/// What is to be written to the other sides. Each write changes the fence of its document, even if nothing else: so two that know
/// different truths conflict.
pub(super) struct Sides<'a> {
    /// Sees what the writer may refer to.
    access: &'a Access,
    /// Sees whom it may concern.
    all: &'a Access,
    writes: Vec<BulkItem>,
    overflowing: Vec<Overflowing<'a>>,
    entered: Vec<Entered>,
}

/// A change of an inverse that overflows.
struct Overflowing<'a> {
    listing: Listing,
    turn: Turn,
    /// What enters it, or leaves it.
    entered: Entered,
    /// What it makes of the fence.
    fence: ObjectId,
    /// Sees what it is about.
    access: &'a Access,
    /// The same if nothing is outside of its document; none if that cannot be.
    tried: Option<BulkItem>,
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
            overflowing: Vec::new(),
            entered: Vec::new(),
        }
    }

    /// Takes documents out of the other sides of what they refer to no more, and puts them into those of what they do from now on, by what
    /// that is. Where there is no other side, this stays there.
    pub(super) async fn follow(
        &mut self,
        link: &'static OwnLink,
        left: BTreeMap<Id, Vec<RawBson>>,
        entered: BTreeMap<Id, Vec<RawBson>>,
    ) -> Result<()> {
        let Some(inverse) = link.inverse() else {
            return hold(self.access, link, entered.into_keys().collect()).await;
        };
        for (target, owners) in left {
            self.leave(link, inverse, &target.value()?, &owners).await?;
        }
        for (target, owners) in entered {
            self.enter(link, inverse, target.value()?, owners).await?;
        }
        Ok(())
    }

    /// Takes documents that refer to it no more out of the inverse of another.
    pub(super) async fn leave(
        &mut self,
        link: &'static OwnLink,
        inverse: &'static InverseLink,
        target: &RawBson,
        owners: &[RawBson],
    ) -> Result<()> {
        if let Some(listing) = Listing::of(link, inverse) {
            let left = Entered {
                link,
                inverse,
                target: target.clone(),
                owners: owners.to_vec(),
            };
            return self.turn(listing, Turn::Leaves, left).await;
        }
        let path = inverse.side.stored;
        let mut filter = by_id(target)?;
        let mut fence = document(FENCE, ObjectId::new())?;
        let mut change = RawDocumentBuf::new();
        if inverse.side.is_many {
            append(&mut change, "$pullAll", document(path, array(owners))?)?;
        } else {
            append(&mut filter, path, one_of(owners)?)?;
            if (inverse.omits_none)() {
                append(&mut change, "$unset", document(path, "")?)?;
            } else {
                append(&mut fence, path, RawBson::Null)?;
            }
        }
        append(&mut change, "$set", fence)?;
        let item = item(self.all, updated(link, filter, change)).await?;
        self.writes.push(item);
        Ok(())
    }

    /// Puts documents that refer to it from now on into the inverse of another.
    pub(super) async fn enter(
        &mut self,
        link: &'static OwnLink,
        inverse: &'static InverseLink,
        target: RawBson,
        owners: Vec<RawBson>,
    ) -> Result<()> {
        let entered = Entered {
            link,
            inverse,
            target,
            owners,
        };
        if let Some(listing) = Listing::of(link, inverse) {
            return self.turn(listing, Turn::Enters, entered).await;
        }
        let item = item(self.access, entered.update()?).await?;
        self.writes.push(item);
        self.entered.push(entered);
        Ok(())
    }

    /// Changes an inverse that overflows.
    async fn turn(&mut self, listing: Listing, turn: Turn, entered: Entered) -> Result<()> {
        let access = match turn {
            Turn::Enters => self.access,
            Turn::Leaves => self.all,
        };
        let fence = ObjectId::new();
        let Entered { target, owners, .. } = &entered;
        let tried = match listing.condition_inside(target, turn, owners)? {
            None => None,
            Some(condition) => {
                let update = listing.update(condition, turn, owners, fence)?;
                Some(item(access, (listing.model, update)).await?)
            }
        };
        self.overflowing.push(Overflowing {
            listing,
            turn,
            entered,
            fence,
            access,
            tried,
        });
        Ok(())
    }

    /// Writes all of it.
    pub(super) async fn write(mut self) -> Result<()> {
        let writes = std::mem::take(&mut self.writes);
        if !self.write_together(writes).await? {
            // What was to be left may be gone; what was to be entered must not be.
            for entered in &self.entered {
                entered.look_at(self.access).await?;
            }
        }
        let overflowing = std::mem::take(&mut self.overflowing);
        let tried = overflowing.iter().filter_map(|one| one.tried.clone());
        let tried: Vec<_> = tried.collect();
        let are_all_tried = tried.len() == overflowing.len();
        if self.write_together(tried).await? && are_all_tried {
            return Ok(());
        }
        for one in self.left(&overflowing).await? {
            let condition = Listing::condition(&one.entered.target, one.turn)?;
            let owners = &one.entered.owners;
            let write = one
                .listing
                .write(one.access, &condition, one.turn, owners, one.fence);
            if !write.await? && one.turn == Turn::Enters {
                one.entered.look_at(self.access).await?;
                let model = one.listing.model;
                return Err(deciding(model, &one.entered.target));
            }
        }
        Ok(())
    }

    /// Writes what can be written together; tells whether each was about a document.
    async fn write_together(&self, writes: Vec<BulkItem>) -> Result<bool> {
        let expected = writes.len() as u64;
        if expected == 0 {
            return Ok(true);
        }
        self.access.told().writes();
        let bulk = BulkWrite {
            writes,
            ordered: true,
        };
        let done = self.access.executor().bulk_write(bulk).await?;
        for result in done.results {
            if let Written::Failed(error) = result {
                return Err(error);
            }
        }
        Ok(done.matched == expected)
    }

    /// Those of the changes of inverses that overflow which may not be written yet: a second time makes nothing of them.
    async fn left<'o>(&self, all: &'o [Overflowing<'a>]) -> Result<Vec<&'o Overflowing<'a>>> {
        let mut targets: BTreeMap<_, (_, Vec<RawBson>)> = BTreeMap::new();
        for one in all {
            let model = one.listing.model;
            let of_model = targets.entry(model.collection);
            let (_, targets) = of_model.or_insert_with(|| (model, Vec::new()));
            targets.push(one.entered.target.clone());
        }
        let mut fences = BTreeSet::new();
        for (collection, (model, targets)) in targets {
            for some in id_batches(&targets, BATCH) {
                let find = Find {
                    projection: Some(document(FENCE, 1)?),
                    ..found_by(&collection.into(), &document("_id", one_of(some)?)?)
                };
                for raw in self.all.find_all(model, find).await? {
                    let own = raw.get_document("_odm").ok();
                    fences.extend(own.and_then(|own| own.get_object_id("fence").ok()));
                }
            }
        }
        let (mut left, mut written) = (Vec::new(), BTreeSet::new());
        for one in all.iter().rev() {
            let place = (one.listing.place(), Id::of(&one.entered.target));
            if fences.contains(&one.fence) {
                written.insert(place.clone());
            }
            // What came before one that was written met all that this asks for.
            if !written.contains(&place) {
                left.push(one);
            }
        }
        left.reverse();
        Ok(left)
    }
}

/// The update of a document with an inverse.
fn updated(
    link: &OwnLink,
    filter: RawDocumentBuf,
    change: RawDocumentBuf,
) -> (&'static Model, Update) {
    let model = (link.side.model)();
    let update = Update {
        collection: model.collection.into(),
        filter,
        change: Change::operators(change),
        multi: true,
        upsert: false,
    };
    (model, update)
}

/// The update, about no more than what somebody sees.
async fn item(access: &Access, (model, mut update): (&'static Model, Update)) -> Result<BulkItem> {
    narrow(access, model, &mut update.filter, false).await?;
    Ok(BulkItem {
        write: Write::Update(update),
        unmatched: Unmatched::Fine,
    })
}

impl Entered {
    /// The update by which they enter an inverse that does not overflow.
    fn update(&self) -> Result<(&'static Model, Update)> {
        let Self {
            link,
            inverse,
            target,
            owners,
        } = self;
        let path = inverse.side.stored;
        let mut filter = by_id(target)?;
        append(&mut filter, GOING, document("$exists", false)?)?;
        let mut fence = document(FENCE, ObjectId::new())?;
        let mut change = RawDocumentBuf::new();
        if inverse.side.is_many {
            if let Some(max) = inverse.max {
                let Some(last) = max.checked_sub(owners.len()) else {
                    return Err(full(link, inverse, target));
                };
                let last = format!("{path}.{last}");
                append(&mut filter, &last, document("$exists", false)?)?;
            }
            let each = document("$each", array(owners))?;
            append(&mut change, "$addToSet", document(path, each)?)?;
        } else {
            let [one] = owners.as_slice() else {
                return Err(taken(link, inverse, target));
            };
            append(&mut filter, path, one_of([one, &RawBson::Null])?)?;
            append(&mut fence, path, one.clone())?;
        }
        append(&mut change, "$set", fence)?;
        Ok(updated(link, filter, change))
    }

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
        if Listing::of(self.link, self.inverse).is_some() {
            // However many it lists, there is room.
            return Ok(());
        }
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
