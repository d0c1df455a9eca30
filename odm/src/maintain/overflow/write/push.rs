//! Pushes to an array in the order in which they come.

use bson::{Bson, Document, doc, oid::ObjectId};

use super::{
    super::{
        extras,
        header::{Kind, Owner, Work},
        order::Order,
        rewrite,
        room::{fits, has_room, has_room_in_tail, is_still, not_fits, room_for},
        room_in_tail,
        work::{attempts, put},
    },
    OfOne, Outside,
    staged::Target,
};
use crate::{Result, maintain::Write, overflow::ElementSet, retry};

impl<W: Write> OfOne<W> {
    /// Pushes to the tail, if it has room and those in the document are as many as stay there.
    pub(super) fn to_tail(&self, values: &[Bson]) -> Result<Option<(Document, Document)>> {
        let Some(left) = room_in_tail(self.field).checked_sub(values.len()) else {
            return Ok(None);
        };
        let tail = self.place("tail");
        let Some(condition) = fits(&tail, left, self.field.part, values)? else {
            return Ok(None);
        };
        let operators = doc! {
            "$push": { tail: { "$each": values.to_vec() } },
            "$set": { self.field.flag: true },
        };
        Ok(Some((condition, operators)))
    }

    pub(super) async fn push(&self, values: &[Bson]) -> Result<W::Done> {
        let field = self.field;
        let mut is_whole = true;
        for attempt in attempts() {
            if let Some(room) = has_room(self.field, values)?.filter(|_| is_whole) {
                let mut condition = self.is_whole();
                condition.extend(room);
                let push = doc! { "$push": { field.stored: { "$each": values.to_vec() } } };
                if let Some(done) = self.attempt(condition, &[&push]).await? {
                    return Ok(done);
                }
            }
            let Some((room, push)) = self.to_tail(values)? else {
                return self.push_many(values).await;
            };
            let is_full = match values.first() {
                Some(first) => not_fits(field, field.after.saturating_sub(1), first)?,
                None => doc! {},
            };
            let outside = doc! { field.header: { "$exists": true } };
            let condition = doc! { "$and": [{ "$or": [outside, is_full] }, room] };
            if let Some(done) = self.attempt(condition, &[&push]).await? {
                return Ok(done);
            }
            let Some(owner) = self.owner().await? else {
                return Ok(W::done(0));
            };
            is_whole = owner.header.is_none();
            match &owner.header {
                // Some of them have room in the document.
                None => {
                    let split = self.split(&owner, values, doc! {}).await?;
                    if let Some(done) = split {
                        return Ok(done);
                    }
                }
                Some(header) if header.work.is_some() => {
                    let at = self.at(&owner.id);
                    let is_full = !has_room_in_tail(field, header, values)?;
                    if is_full {
                        at.help(owner.clone(), attempt).await?;
                    }
                }
                Some(header) if !has_room_in_tail(field, header, values)? => {
                    self.at(&owner.id).spill(&owner).await?;
                }
                Some(_) => {}
            }
            if attempt > 3 {
                retry::pause(attempt).await;
            }
        }
        Err(self.busy())
    }

    /// Pushes to an array without elements outside of its document what has room there, and the rest behind.
    pub(super) async fn split(
        &self,
        owner: &Owner,
        values: &[Bson],
        condition: Document,
    ) -> Result<Option<W::Done>> {
        let field = self.field;
        let room = room_for(field, &owner.resident, values)?;
        let (stay, go) = values.split_at_checked(room).unwrap_or((values, &[]));
        if go.is_empty() && room > 0 {
            // There is room for all by now.
            return Ok(None);
        }
        let Some((_, mut push)) = self.to_tail(go)? else {
            return Ok(None);
        };
        if !stay.is_empty() {
            put(
                &mut push,
                "$push",
                field.stored,
                doc! { "$each": stay.to_vec() },
            );
        }
        let mut condition = condition;
        condition.extend(self.is_whole());
        let as_read = match owner.resident.len() {
            0 => is_still(field, &[]),
            len => doc! { field.stored: { "$size": len as i64 } },
        };
        let mut both = vec![condition, as_read];
        if !stay.is_empty() {
            // As many others may be larger.
            let left = field.after.saturating_sub(stay.len());
            both.extend(fits(field.stored, left, field.room, stay)?);
        }
        let both = doc! { "$and": both };
        self.attempt(both, &[&push]).await
    }

    /// Pushes more than a tail holds.
    pub(super) async fn push_many(&self, values: &[Bson]) -> Result<W::Done> {
        let done = self.together(&Outside::Push(values)).await?;
        done.ok_or_else(|| self.busy())
    }

    /// Whether elements have room in the document, or what becomes of them in a tail.
    pub(super) fn are_few(&self, owner: &Owner, values: &[Bson]) -> Result<bool> {
        let is_whole = owner.header.is_none();
        if is_whole && room_for(self.field, &owner.resident, values)? == values.len() {
            return Ok(true);
        }
        let outside = match Order::of(self.field) {
            Some(order) => self.outside_of(&order, owner, values)?,
            None => values.to_vec(),
        };
        Ok(self.to_tail(&outside)?.is_some())
    }

    pub(super) async fn push_staged(
        &self,
        values: &[Bson],
        to_set: bool,
    ) -> Result<Option<W::Done>> {
        let field = self.field;
        for attempt in attempts() {
            let Some(owner) = self.resting().await? else {
                return Ok(Some(W::done(0)));
            };
            let id = owner.id.clone();
            let at = self.at(&id);
            if !rewrite::is_in_order(field, &owner) {
                rewrite::spill_over(&at).await?;
                continue;
            }
            let was_whole = owner.header.is_none();
            let mut values = values.to_vec();
            if to_set {
                let missing = self.missing(&owner, &values).await?;
                if self.are_few(&owner, &missing)? {
                    return Ok(None);
                }
                // What an array has that is whole may be gone again before it says that this is begun.
                if !was_whole {
                    values = missing;
                }
            }
            let work = Work::new(Kind::Stage);
            let condition = self.is_as_read(owner.header.as_ref());
            let Some(begun) = at.begin(condition, &work, true).await? else {
                retry::pause(attempt).await;
                continue;
            };
            let Some((header, block)) = begun.header.as_ref().and_then(|header| {
                let block = header.work.as_ref()?.block.clone();
                Some((header, block))
            }) else {
                return Err(self.busy());
            };
            let mut others = Document::new();
            if to_set {
                // What was pushed between. What is outside is as it was read.
                let inside = ElementSet::of(begun.resident.iter().chain(&block))?;
                values = inside.missing(values)?;
                let are_few = extras::for_one_request(&values)?.len() <= 1;
                let (tail, condition) = match are_few {
                    true => (self.place("tail"), doc! { "$nin": values.clone() }),
                    // More than a condition can name: none has come at all.
                    false => (self.place("tail.0"), doc! { "$exists": false }),
                };
                others.insert(tail, condition);
            }
            let (operators, go) = match Order::of(field) {
                Some(order) => self.staged_in_order(&order, &begun.resident, header, &values)?,
                None => self.staged(&begun.resident, was_whole, &values)?,
            };
            if to_set && go.is_empty() {
                // They are few by now.
                self.leave(&at, work.key).await?;
                continue;
            }
            let elements: Vec<_> = block.into_iter().chain(go).collect();
            let count = elements.len() as i64;
            let target = Target {
                generation: header.generation.unwrap_or_else(ObjectId::new),
                first: header.next,
                count: header.count + count,
                sweep: None,
            };
            match self
                .publish(&at, &work, target, elements, operators, others)
                .await?
            {
                Some(done) => return Ok(Some(done)),
                None => retry::pause(attempt).await,
            }
        }
        Err(self.busy())
    }

    /// What a push of many changes in the document, and what goes elsewhere.
    pub(super) fn staged(
        &self,
        resident: &[Bson],
        was_whole: bool,
        values: &[Bson],
    ) -> Result<(Document, Vec<Bson>)> {
        let field = self.field;
        let room = match was_whole {
            true => room_for(field, resident, values)?,
            false => 0,
        };
        let (stay, go) = values.split_at_checked(room).unwrap_or((values, &[]));
        let mut operators = doc! { "$set": {} };
        if !stay.is_empty() {
            let push = doc! { "$each": stay.to_vec() };
            put(&mut operators, "$push", field.stored, push);
        }
        Ok((operators, go.to_vec()))
    }
}
