//! Elements that are added to an array if it does not have them.

use bson::{Bson, Document, doc};

use super::{
    super::{
        extras::{self, of_owner},
        header::{Owner, array},
        room::{has_room, has_room_in_tail},
        work::attempts,
    },
    OfOne, Outside,
};
use crate::{
    Result,
    maintain::{Write, stored::open},
    overflow::ElementSet,
    retry,
};

/// Each value once.
pub(super) fn distinct(values: &[Bson]) -> Result<Vec<Bson>> {
    let (mut before, mut distinct) = (ElementSet::default(), Vec::new());
    for value in values {
        if before.insert(value)? {
            distinct.push(value.clone());
        }
    }
    Ok(distinct)
}

impl<W: Write> OfOne<W> {
    pub(super) async fn add(&self, values: &[Bson]) -> Result<W::Done> {
        let field = self.field;
        if let Some(room) = has_room(self.field, values)? {
            let mut condition = self.is_whole();
            condition.extend(room);
            let add = doc! { "$addToSet": { field.stored: { "$each": values.to_vec() } } };
            if let Some(done) = self.attempt(condition, &[&add]).await? {
                return Ok(done);
            }
        }
        for attempt in attempts() {
            let Some(owner) = self.resting().await? else {
                return Ok(W::done(0));
            };
            let id = owner.id.clone();
            let at = self.at(&id);
            let missing = self.missing(&owner, values).await?;
            if !self.are_few(&owner, &missing)? {
                match self.add_many(values).await? {
                    Some(done) => return Ok(done),
                    None => continue,
                }
            }
            let done = match &owner.header {
                _ if missing.is_empty() => {
                    // It changes nothing of the array, and goes with what the update does beside.
                    let nothing = doc! { "$pullAll": { field.stored: [] } };
                    let mut condition = self.is_as_read(owner.header.as_ref());
                    if owner.header.is_none() {
                        condition.extend(self.has_these_alone(values, &missing)?);
                    }
                    self.attempt(condition, &[&nothing]).await?
                }
                None => {
                    let others = self.has_these_alone(values, &missing)?;
                    match self.split(&owner, &missing, others.clone()).await? {
                        Some(done) => Some(done),
                        None => {
                            let push =
                                doc! { "$push": { field.stored: { "$each": missing.clone() } } };
                            let mut condition = others;
                            condition.extend(self.is_whole());
                            match has_room(self.field, &missing)? {
                                Some(room) => {
                                    let both = doc! { "$and": [condition, room] };
                                    self.attempt(both, &[&push]).await?
                                }
                                None => None,
                            }
                        }
                    }
                }
                Some(header) if !has_room_in_tail(field, header, &missing)? => {
                    at.spill(&owner).await?;
                    None
                }
                Some(header) => match self.to_tail(&missing)? {
                    None => None,
                    Some((room, push)) => {
                        let mut condition = self.is_as_read(Some(header));
                        condition.insert(field.stored, doc! { "$nin": missing.clone() });
                        let others = doc! { self.place("tail"): { "$nin": missing.clone() } };
                        let all = doc! { "$and": [condition, others, room] };
                        self.attempt(all, &[&push]).await?
                    }
                },
            };
            if let Some(done) = done {
                return Ok(done);
            }
            if attempt > 1 {
                retry::pause(attempt).await;
            }
        }
        Err(self.busy())
    }

    /// That an array which is whole has the others of these values, and none of those that are missing: it has no version that says so.
    pub(super) fn has_these_alone(&self, values: &[Bson], missing: &[Bson]) -> Result<Document> {
        let mut condition = doc! { "$nin": missing.to_vec() };
        let present = ElementSet::of(missing)?.missing(values.to_vec())?;
        if !present.is_empty() {
            condition.insert("$all", present);
        }
        Ok(doc! { self.field.stored: condition })
    }

    /// Adds more than a tail holds to a set; none if it has others of them by now.
    pub(super) async fn add_many(&self, values: &[Bson]) -> Result<Option<W::Done>> {
        self.together(&Outside::Add(values)).await
    }

    /// Those that the array does not have.
    pub(super) async fn missing(&self, owner: &Owner, values: &[Bson]) -> Result<Vec<Bson>> {
        let tail = owner.header.as_ref().map(|header| &header.tail);
        let inside = owner.resident.iter().chain(tail.into_iter().flatten());
        let mut present = ElementSet::of(inside)?;
        let missing = present.missing(values.to_vec())?;
        let Some(those) = of_owner(self.field, owner).filter(|_| !missing.is_empty()) else {
            return Ok(missing);
        };
        for some in extras::for_one_request(&missing)? {
            let mut those = those.clone();
            those.insert(self.field.elements, doc! { "$in": some.to_vec() });
            let find = extras::in_order(self.field, &those)?;
            for found in self.all.find_all(self.field.extras, find).await? {
                let found = open(&found)?;
                for element in array(found.get(self.field.elements)) {
                    present.insert(&element)?;
                }
            }
        }
        present.missing(missing)
    }
}
