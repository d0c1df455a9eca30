//! Pushes to an array whose elements are in the order of a field of theirs.

use bson::{Bson, Document, doc};

use super::{
    super::{
        header::{Header, Owner},
        order::{Order, most_inside},
        rewrite,
        room::{fits, fits_inside, has_room_in_tail, is_still, room_for},
        work::{attempts, put},
    },
    OfOne,
};
use crate::{Result, maintain::Write, retry, schema::OverflowField};

/// Where elements belong that are pushed.
struct Placed {
    /// They come among those in the document.
    inside: Vec<Bson>,
    /// Those in the document are these from now on, because they were too many.
    instead: Option<Vec<Bson>>,
    /// They go elsewhere.
    outside: Vec<Bson>,
    /// The first of all that are outside, if another is from now on.
    bound: Option<Bson>,
}

impl Placed {
    fn of(order: &Order, field: &OverflowField, owner: &Owner, values: &[Bson]) -> Result<Self> {
        let bound = owner.header.as_ref().and_then(|own| own.bound.as_ref());
        let (inside, outside) = match bound {
            Some(bound) => order.split(values, bound),
            None => (values.to_vec(), Vec::new()),
        };
        let mut all: Vec<_> = owner.resident.iter().chain(&inside).cloned().collect();
        if fits_inside(field, &all)? {
            return Ok(Self {
                inside,
                instead: None,
                outside,
                bound: None,
            });
        }
        order.sort(&mut all);
        let stays = room_for(field, &[], &all)?;
        let mut gone = all.split_off(stays.min(all.len()));
        let bound = gone.first().map(|first| order.key(first));
        gone.extend(outside);
        Ok(Self {
            inside: Vec::new(),
            instead: Some(all),
            outside: gone,
            bound,
        })
    }
}

impl<W: Write> OfOne<W> {
    /// Pushes elements to where they belong.
    pub(super) async fn push_in_order(&self, order: &Order, values: &[Bson]) -> Result<W::Done> {
        let alone = self.push_inside(order, values, doc! {}).await?;
        if let Some(done) = alone {
            return Ok(done);
        }
        for attempt in attempts() {
            let Some(owner) = self.owner_in_order(attempt).await? else {
                return Ok(W::done(0));
            };
            let placed = Placed::of(order, self.field, &owner, values)?;
            let is_known = self.to_tail(&placed.outside)?.is_some();
            if !is_known {
                return self.push_many(values).await;
            }
            let done = self.place_at(order, &owner, placed, attempt, Vec::new());
            if let Some(done) = done.await? {
                return Ok(done);
            }
        }
        Err(self.busy())
    }

    /// The same of those that the array does not have.
    pub(super) async fn add_in_order(&self, order: &Order, values: &[Bson]) -> Result<W::Done> {
        let field = self.field;
        let none = doc! { field.stored: { "$nin": values.to_vec() } };
        if let Some(done) = self.push_inside(order, values, none).await? {
            return Ok(done);
        }
        for attempt in attempts() {
            let Some(owner) = self.owner_in_order(attempt).await? else {
                return Ok(W::done(0));
            };
            if owner.work().is_some() {
                self.at(&owner.id.clone()).help(owner, attempt).await?;
                continue;
            }
            let missing = self.missing(&owner, values).await?;
            let as_read = self.is_as_read(owner.header.as_ref());
            let done = if missing.is_empty() {
                // It changes nothing of the array, and goes with what the update does beside.
                let nothing = doc! { "$pullAll": { field.stored: [] } };
                let mut condition = as_read;
                if owner.header.is_none() {
                    condition.extend(self.has_these_alone(values, &missing)?);
                }
                self.attempt(condition, &[&nothing]).await?
            } else {
                let placed = Placed::of(order, field, &owner, &missing)?;
                if self.to_tail(&placed.outside)?.is_none() {
                    match self.add_many(values).await? {
                        Some(done) => return Ok(done),
                        None => continue,
                    }
                }
                let none = doc! { "$nin": missing.clone() };
                let inside = match owner.header {
                    Some(_) => doc! { field.stored: none.clone() },
                    None => self.has_these_alone(values, &missing)?,
                };
                let conditions = vec![as_read, inside, doc! { self.place("tail"): none }];
                self.place_at(order, &owner, placed, attempt, conditions)
                    .await?
            };
            if let Some(done) = done {
                return Ok(done);
            }
        }
        Err(self.busy())
    }

    /// Of elements that are pushed, those that go elsewhere.
    pub(super) fn outside_of(
        &self,
        order: &Order,
        owner: &Owner,
        values: &[Bson],
    ) -> Result<Vec<Bson>> {
        Ok(Placed::of(order, self.field, owner, values)?.outside)
    }

    /// Pushes elements to an array that is in its document as a whole, if there is room.
    async fn push_inside(
        &self,
        order: &Order,
        values: &[Bson],
        more: Document,
    ) -> Result<Option<W::Done>> {
        let field = self.field;
        let Some(left) = most_inside(field).checked_sub(values.len()) else {
            return Ok(None);
        };
        let Some(room) = fits(field.stored, left, field.room, values)? else {
            return Ok(None);
        };
        let condition = doc! { "$and": [self.is_whole(), room, more] };
        self.attempt(condition, &[&self.sorted_push(order, values)])
            .await
    }

    fn sorted_push(&self, order: &Order, values: &[Bson]) -> Document {
        let push = doc! { "$each": values.to_vec(), "$sort": order.sort_by("") };
        doc! { "$push": { self.field.stored: push } }
    }

    /// The array, in its order, and while nobody writes it anew.
    async fn owner_in_order(&self, attempt: u32) -> Result<Option<Owner>> {
        if attempt > 1 {
            retry::pause(attempt).await;
        }
        for attempt in attempts() {
            let Some(owner) = self.owner().await? else {
                return Ok(None);
            };
            let is_in_order = rewrite::is_in_order(self.field, &owner);
            let is_staged = owner.work().is_some_and(|work| work.is_stage());
            if is_in_order && !is_staged {
                return Ok(Some(owner));
            }
            let id = owner.id.clone();
            let at = self.at(&id);
            match owner.work() {
                Some(_) => at.help(owner, attempt).await?,
                // It was there before it had an order.
                None => drop(rewrite::spill_over(&at).await?),
            }
        }
        Err(self.busy())
    }

    /// Carries it out, if the array is as it was read as far as that matters; else it may have made room.
    async fn place_at(
        &self,
        order: &Order,
        owner: &Owner,
        placed: Placed,
        attempt: u32,
        mut conditions: Vec<Document>,
    ) -> Result<Option<W::Done>> {
        let field = self.field;
        if let Some(header) = &owner.header {
            if !has_room_in_tail(field, header, &placed.outside)? {
                let at = self.at(&owner.id);
                match header.work {
                    Some(_) => at.help(owner.clone(), attempt).await?,
                    None => at.spill(owner).await?,
                }
                return Ok(None);
            }
            conditions.push(self.is_bounded(header));
        } else {
            conditions.push(self.is_whole());
        }
        let mut operators = Document::new();
        if let Some(instead) = placed.instead {
            conditions.push(is_still(field, &owner.resident));
            put(&mut operators, "$set", field.stored, instead);
        } else if !placed.inside.is_empty() {
            let left = most_inside(field).checked_sub(placed.inside.len());
            let room = left.map(|left| fits(field.stored, left, field.room, &placed.inside));
            conditions.extend(room.transpose()?.flatten());
            operators = self.sorted_push(order, &placed.inside);
        }
        if !placed.outside.is_empty()
            && let Some((room, push)) = self.to_tail(&placed.outside)?
        {
            conditions.push(room);
            for (operator, fields) in &push {
                for (path, value) in fields.as_document().into_iter().flatten() {
                    put(&mut operators, operator, path, value.clone());
                }
            }
        }
        if let Some(bound) = placed.bound {
            put(&mut operators, "$set", &self.place("bound"), bound);
        }
        self.attempt(doc! { "$and": conditions }, &[&operators])
            .await
    }

    /// That the bound is the one that was read, and that the elements in the document are not being written anew.
    fn is_bounded(&self, header: &Header) -> Document {
        let bound = header.bound.clone().unwrap_or(Bson::Null);
        doc! {
            self.field.header: { "$exists": true },
            self.place("bound"): { "$eq": bound },
            self.place("work.kind"): { "$ne": "stage" },
        }
    }

    /// What a push of many changes in the document, and what goes elsewhere.
    pub(super) fn staged_in_order(
        &self,
        order: &Order,
        resident: &[Bson],
        header: &Header,
        values: &[Bson],
    ) -> Result<(Document, Vec<Bson>)> {
        let (inside, outside) = match &header.bound {
            Some(bound) => order.split(values, bound),
            None => (values.to_vec(), Vec::new()),
        };
        let mut all: Vec<_> = resident.iter().cloned().chain(inside).collect();
        order.sort(&mut all);
        let stays = room_for(self.field, &[], &all)?;
        let mut go = all.split_off(stays.min(all.len()));
        let bound = match (&header.bound, go.first()) {
            (Some(bound), None) => bound.clone(),
            _ => order.bound(&all, &go),
        };
        go.extend(outside);
        let set = doc! { self.field.stored: all, self.place("bound"): bound };
        Ok((doc! { "$set": set }, go))
    }
}
