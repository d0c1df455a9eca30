//! An update of an array that overflows.
//!
//! What is in one document is one operation: an update for an array without elements outside of it, and where that finds none, one for
//! an array with some. The condition which of both it is, and that there is room, is part of the operation, so no two of them can both
//! take the last place. What is about the documents of the other elements too is said in the owner by that operation, and follows.

mod growth;
mod ordered;

use growth::can_grow;

use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc, oid::ObjectId};

use super::{
    At,
    asked::{Asked, What},
    extras::{self, Batch, of_owner, parts},
    header::{Header, Kind, Owner, Work, size},
    inside,
    order::{Order, in_order, most_inside},
    place, room_in_tail,
    work::{attempts, put, stays},
};
use crate::{
    Error, ErrorKind, Result,
    access::{Access, found_by},
    backend::operation::Find,
    decode,
    maintain::{
        Sources, Write,
        stored::{close, open},
    },
    overflow::read::is_same,
    query::document,
    retry,
    schema::{Model, OverflowField},
    unit,
};

/// Carries it out.
pub(super) async fn run<W: Write>(
    access: Access,
    model: &'static Model,
    mut write: W,
    sources: Sources,
) -> Result<W::Done> {
    let Some(change) = write.change() else {
        return inside(access, model, write, sources).await;
    };
    let asked = Asked::of(model, change)?;
    let is_of_one = write.is_of_one();
    if write.filter().is_none_or(|filter| pinned(filter).is_some()) {
        return OfOne::new(access, model, write, sources, asked).run().await;
    }
    // Which document is the first must not depend on the room in it.
    for attempt in attempts() {
        let ids = ids(&access, model, &mut write, is_of_one).await?;
        let is_none = ids.is_empty();
        let mut sum = W::done(0);
        for id in ids {
            let mut write = write.clone();
            if let Some(filter) = write.filter() {
                let id = bson::RawBson::try_from(id).map_err(crate::error::encode)?;
                let mut asked = bson::RawArrayBuf::new();
                asked.push(std::mem::take(filter));
                crate::query::append(filter, "_id", document("$eq", id)?)?;
                crate::query::append(filter, "$and", asked)?;
            }
            let (access, sources) = (access.clone(), sources.clone());
            let one = OfOne::new(access, model, write, sources, asked.clone());
            W::add(&mut sum, one.run().await?);
        }
        if is_none || !is_of_one || W::documents(&sum) > 0 {
            return Ok(sum);
        }
        // It is no more what was asked for: another is the first.
        retry::pause(attempt).await;
    }
    let message =
        "others write to the first of those that were asked for, again and again: try again";
    Err(crate::error::of(model)(Error::new(
        ErrorKind::Conflict,
        message,
    )))
}

/// The id of the one document that a filter is about.
fn pinned(filter: &RawDocument) -> Option<bson::RawBson> {
    let own = filter.get_document("_id").ok();
    let own = own.and_then(|id| id.get("$eq").ok().flatten());
    own.map(Into::into).or_else(|| {
        let parts = filter.get_array("$and").ok()?;
        let mut parts = parts.into_iter().flatten();
        parts.find_map(|part| pinned(part.as_document()?))
    })
}

/// The documents that a write is about.
async fn ids<W: Write>(
    access: &Access,
    model: &'static Model,
    write: &mut W,
    is_of_one: bool,
) -> Result<Vec<Bson>> {
    let sort = write.order().map(RawDocument::to_owned);
    let filter = write.filter().cloned().unwrap_or_default();
    let find = Find {
        projection: Some(document("_id", 1)?),
        sort,
        limit: is_of_one.then_some(1),
        ..found_by(&model.collection.into(), &filter)
    };
    let found = access.find_all(model, find).await?;
    let ids = found.iter().filter_map(|raw| decode::id(raw));
    let ids = ids.map(|id| Bson::try_from(id).map_err(crate::error::encode));
    ids.collect()
}

/// An update of one document.
struct OfOne<W> {
    access: Access,
    /// To everything.
    all: Access,
    model: &'static Model,
    field: &'static OverflowField,
    write: W,
    sources: Sources,
    asked: Asked,
}

impl<W: Write> OfOne<W> {
    fn new(
        access: Access,
        model: &'static Model,
        write: W,
        sources: Sources,
        asked: Asked,
    ) -> Self {
        Self {
            all: access.to_everything(),
            access,
            model,
            field: asked.field,
            write,
            sources,
            asked,
        }
    }

    async fn run(self) -> Result<W::Done> {
        let order = Order::of(self.field);
        match &self.asked.what {
            What::Push(values) => match &order {
                Some(order) => self.push_in_order(order, values).await,
                None => self.push(values).await,
            },
            What::Add(values) => match &order {
                Some(order) => self.add_in_order(order, &distinct(values)).await,
                None => self.add(&distinct(values)).await,
            },
            What::Replace(values) => {
                let mut values = values.clone();
                in_order(self.field, &mut values);
                self.replace(&values).await
            }
            What::Each {
                operators,
                counts,
                growth,
            } => self.each(operators, *counts, *growth).await,
        }
    }

    /// The same in a transaction.
    fn within(&self, access: &Access) -> Self {
        Self {
            access: access.clone(),
            all: access.to_everything(),
            model: self.model,
            field: self.field,
            write: self.write.clone(),
            sources: self.sources.clone(),
            asked: self.asked.clone(),
        }
    }

    fn place(&self, name: &str) -> String {
        place(self.field, name)
    }

    fn at<'a>(&'a self, id: &'a Bson) -> At<'a> {
        At {
            access: &self.all,
            model: self.model,
            field: self.field,
            id,
        }
    }

    /// The array, if its document is what was asked for and not as good as gone.
    async fn owner(&self) -> Result<Option<Owner>> {
        let asked = open(&self.filter()?)?;
        let filter = close(&doc! { "$and": [asked, stays()] })?;
        Owner::find(&self.access, self.model, self.field, &filter).await
    }

    fn filter(&self) -> Result<RawDocumentBuf> {
        let mut write = self.write.clone();
        Ok(write.filter().cloned().unwrap_or_default())
    }

    /// Carries the write out with these operators for the array, where its document meets a condition too.
    async fn attempt(
        &self,
        condition: Document,
        operators: &[&Document],
    ) -> Result<Option<W::Done>> {
        let mut write = self.write.clone();
        if let Some(filter) = write.filter() {
            let id = pinned(filter);
            let mut both = bson::RawArrayBuf::new();
            both.push(std::mem::take(filter));
            both.push(close(&condition)?);
            // What pins the document stays where everybody looks for it.
            if let Some(id) = id {
                crate::query::append(filter, "_id", document("$eq", id)?)?;
            }
            crate::query::append(filter, "$and", both)?;
        }
        if let Some(change) = write.change() {
            *change = self.asked.change(operators)?;
        }
        let done = inside(self.access.clone(), self.model, write, self.sources.clone()).await?;
        Ok((W::documents(&done) > 0).then_some(done))
    }

    fn is_whole(&self) -> Document {
        is_whole(self.field)
    }

    /// That something is, and that nothing is being done to it.
    fn is_at_rest(&self) -> Document {
        doc! { self.field.header: { "$exists": true }, self.field.work: { "$exists": false } }
    }

    /// That it is as it was when it was read, but for what was pushed behind its elements.
    fn is_as_read(&self, header: Option<&Header>) -> Document {
        let Some(header) = header else {
            return self.is_whole();
        };
        let mut condition = self.is_at_rest();
        condition.extend(of_version(self.field, header));
        condition
    }

    /// Pushes to the tail, if it has room and those in the document are as many as stay there.
    fn to_tail(&self, values: &[Bson]) -> Result<Option<(Document, Document)>> {
        let Some(left) = room_in_tail(self.field).checked_sub(values.len()) else {
            return Ok(None);
        };
        let tail = self.place("tail");
        let Some(condition) = fits(self.field, &tail, left, values)? else {
            return Ok(None);
        };
        let operators = doc! {
            "$push": { tail: { "$each": values.to_vec() } },
            "$set": { self.field.flag: true },
        };
        Ok(Some((condition, operators)))
    }

    async fn push(&self, values: &[Bson]) -> Result<W::Done> {
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
    async fn split(
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
        let both = doc! { "$and": [condition, as_read] };
        self.attempt(both, &[&push]).await
    }

    /// Pushes more than a tail holds.
    async fn push_many(&self, values: &[Bson]) -> Result<W::Done> {
        self.together(&Outside::Push(values)).await
    }

    async fn push_staged(&self, values: &[Bson]) -> Result<W::Done> {
        let field = self.field;
        for attempt in attempts() {
            let Some(owner) = self.owner().await? else {
                return Ok(W::done(0));
            };
            let id = owner.id.clone();
            let at = self.at(&id);
            if owner.work().is_some() {
                at.help(owner, attempt).await?;
                continue;
            }
            if !super::rewrite::is_in_order(field, &owner) {
                super::rewrite::spill_over(&at).await?;
                continue;
            }
            let work = Work::new(Kind::Stage);
            let was_whole = owner.header.is_none();
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
            let (operators, go) = match Order::of(field) {
                Some(order) => self.staged_in_order(&order, &begun.resident, header, values)?,
                None => self.staged(&begun.resident, was_whole, values)?,
            };
            let elements: Vec<_> = block.into_iter().chain(go).collect();
            let count = elements.len() as i64;
            let target = Target {
                generation: header.generation.unwrap_or_else(ObjectId::new),
                first: header.next,
                count: header.count + count,
                sweep: None,
            };
            match self
                .publish(&at, &work, target, elements, operators)
                .await?
            {
                Some(done) => return Ok(done),
                None => retry::pause(attempt).await,
            }
        }
        Err(self.busy())
    }

    /// What a push of many changes in the document, and what goes elsewhere.
    fn staged(
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

    /// Fills documents and lets them be read, together with the write. None if another has taken them back meanwhile.
    async fn publish(
        &self,
        at: &At<'_>,
        work: &Work,
        target: Target,
        elements: Vec<Bson>,
        mut operators: Document,
    ) -> Result<Option<W::Done>> {
        let field = self.field;
        let parts = parts(elements)?;
        let batch = Batch {
            owner: at.id,
            generation: target.generation,
            key: work.key,
            first: target.first,
        };
        batch.stage(&self.all, field, &parts, Some(at)).await?;
        let published = Work {
            key: work.key,
            sweep: target.sweep,
            ..Work::new(Kind::Published { expects: None })
        };
        put(&mut operators, "$set", field.work, published.stored()?);
        put(&mut operators, "$set", field.flag, true);
        put(
            &mut operators,
            "$set",
            &self.place("generation"),
            target.generation,
        );
        put(&mut operators, "$set", &self.place("count"), target.count);
        let next = target.first + parts.len() as i64;
        put(&mut operators, "$set", &self.place("next"), next);
        match self.attempt(at.is_at(work.key), &[&operators]).await {
            Ok(Some(done)) => {
                if let Some(owner) = at.owner().await?.filter(|owner| owner.is_at(work.key)) {
                    at.finish(owner).await?;
                }
                Ok(Some(done))
            }
            // It is not what was asked for any more, or was taken back.
            Ok(None) => Ok(self.leave(at, work.key).await?.then(|| W::done(0))),
            Err(error) => {
                // Of what is not known to have failed somebody else takes care. So is what cannot be taken back now.
                if error.kind() != ErrorKind::Connection && self.access.unit().is_none() {
                    let _ = self.leave(at, work.key).await;
                }
                Err(error)
            }
        }
    }

    /// Takes back what was not published; false if another has.
    async fn leave(&self, at: &At<'_>, key: ObjectId) -> Result<bool> {
        let Some(owner) = at.owner().await?.filter(|owner| owner.is_at(key)) else {
            return Ok(false);
        };
        at.finish(owner).await?;
        Ok(true)
    }

    async fn replace(&self, values: &[Bson]) -> Result<W::Done> {
        let stays = room_for(self.field, &[], values)?;
        if stays == values.len() {
            let set = doc! { "$set": { self.field.stored: values.to_vec() } };
            if let Some(done) = self.attempt(self.is_whole(), &[&set]).await? {
                return Ok(done);
            }
        }
        self.together(&Outside::Replace(values, stays)).await
    }

    async fn replace_all(&self, values: &[Bson], stays: usize) -> Result<W::Done> {
        let field = self.field;
        let (stay, go) = values.split_at_checked(stays).unwrap_or((values, &[]));
        for attempt in attempts() {
            let Some(owner) = self.owner().await? else {
                return Ok(W::done(0));
            };
            let id = owner.id.clone();
            let at = self.at(&id);
            if owner.work().is_some() {
                at.help(owner, attempt).await?;
                continue;
            }
            let set = doc! { "$set": { field.stored: stay.to_vec() } };
            let sweep = owner.header.as_ref().and_then(|header| header.generation);
            if !go.is_empty() {
                let work = Work::new(Kind::Stage);
                let condition = self.is_as_read(owner.header.as_ref());
                if at.begin(condition, &work, false).await?.is_none() {
                    retry::pause(attempt).await;
                    continue;
                }
                let mut operators = set;
                put(
                    &mut operators,
                    "$set",
                    &self.place("tail"),
                    Vec::<Bson>::new(),
                );
                if let Some(order) = Order::of(field) {
                    let bound = order.bound(stay, go);
                    put(&mut operators, "$set", &self.place("bound"), bound);
                }
                let target = Target {
                    generation: ObjectId::new(),
                    first: 0,
                    count: go.len() as i64,
                    sweep,
                };
                match self
                    .publish(&at, &work, target, go.to_vec(), operators)
                    .await?
                {
                    Some(done) => return Ok(done),
                    None => retry::pause(attempt).await,
                }
                continue;
            }
            let done = match &owner.header {
                None => self.attempt(self.is_whole(), &[&set]).await?,
                Some(header) => self.empty(&at, header, sweep, stay, set).await?,
            };
            match done {
                Some(done) => return Ok(done),
                None => retry::pause(attempt).await,
            }
        }
        Err(self.busy())
    }

    /// Lets an array that is in its document as a whole from now on lose all that is outside of it.
    async fn empty(
        &self,
        at: &At<'_>,
        header: &Header,
        sweep: Option<ObjectId>,
        stay: &[Bson],
        mut operators: Document,
    ) -> Result<Option<W::Done>> {
        let work = Work {
            sweep,
            ..Work::new(Kind::Sweep)
        };
        emptied(self.field, &work, stay, &mut operators)?;
        let done = self
            .attempt(self.is_as_read(Some(header)), &[&operators])
            .await?;
        if done.is_some()
            && let Some(owner) = at.owner().await?.filter(|owner| owner.is_at(work.key))
        {
            at.finish(owner).await?;
        }
        Ok(done)
    }

    async fn each(&self, operators: &Document, counts: bool, growth: usize) -> Result<W::Done> {
        let mut condition = self.is_whole();
        if growth > 0 {
            condition.extend(can_grow(self.field, growth));
        }
        if let Some(done) = self.attempt(condition, &[operators]).await? {
            return Ok(done);
        }
        self.together(&Outside::Each(operators, counts, growth))
            .await
    }

    async fn each_outside(
        &self,
        operators: &Document,
        counts: bool,
        growth: usize,
    ) -> Result<W::Done> {
        let change = self.asked.at_extras(operators)?;
        let at_tail = self.asked.at_tail(operators);
        for attempt in attempts() {
            let work = Work::new(Kind::Change {
                change: change.clone(),
                counts,
            });
            let mut say = doc! { "$inc": { self.place("version"): 1_i64 } };
            put(&mut say, "$set", self.field.work, work.stored()?);
            let mut as_measured = Document::new();
            if growth > 0 {
                let Some(owner) = self.owner().await? else {
                    return Ok(W::done(0));
                };
                if owner.work().is_some() {
                    let id = owner.id.clone();
                    self.at(&id).help(owner, attempt).await?;
                    continue;
                }
                as_measured = self.measure(&owner, operators, growth).await?;
            }
            let all = [operators, &at_tail, &say];
            let mut at_rest = self.is_at_rest();
            at_rest.extend(as_measured.clone());
            if let Some(done) = self.attempt(at_rest, &all).await? {
                // What the write was about may not be what was asked for any more.
                let id = self.id()?;
                let at = self.at(&id);
                if let Some(owner) = at.owner().await?.filter(|owner| owner.is_at(work.key)) {
                    at.finish(owner).await?;
                }
                return Ok(done);
            }
            let mut whole = self.is_whole();
            whole.extend(as_measured);
            if let Some(done) = self.attempt(whole, &[operators]).await? {
                return Ok(done);
            }
            let Some(owner) = self.owner().await? else {
                return Ok(W::done(0));
            };
            if owner.work().is_some() {
                let id = owner.id.clone();
                self.at(&id).help(owner, attempt).await?;
            }
        }
        Err(self.busy())
    }

    async fn add(&self, values: &[Bson]) -> Result<W::Done> {
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
            let Some(owner) = self.owner().await? else {
                return Ok(W::done(0));
            };
            let id = owner.id.clone();
            let at = self.at(&id);
            if owner.work().is_some() {
                at.help(owner, attempt).await?;
                continue;
            }
            let missing = self.missing(&owner, values).await?;
            if missing.len() > room_in_tail(field) {
                let message = format!(
                    "{} values that a set which overflows does not have, where {} are the most at once: add them by several updates",
                    missing.len(),
                    room_in_tail(field)
                );
                let error = Error::new(ErrorKind::Unsupported, message).with_path(field.field);
                return Err(crate::error::of(self.model)(error));
            }
            let done = match &owner.header {
                _ if missing.is_empty() => {
                    // It changes nothing of the array, and goes with what the update does beside.
                    let nothing = doc! { "$pullAll": { field.stored: [] } };
                    let mut condition = self.is_as_read(owner.header.as_ref());
                    if owner.header.is_none() {
                        condition.insert(field.stored, doc! { "$all": values.to_vec() });
                    }
                    self.attempt(condition, &[&nothing]).await?
                }
                None => {
                    let others = doc! { field.stored: { "$nin": missing.clone() } };
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

    /// Those that the array does not have.
    async fn missing(&self, owner: &Owner, values: &[Bson]) -> Result<Vec<Bson>> {
        let tail = owner.header.as_ref().map(|header| &header.tail);
        let inside = owner.resident.iter().chain(tail.into_iter().flatten());
        let inside: Vec<_> = inside.collect();
        let mut missing: Vec<_> = values.to_vec();
        missing.retain(|value| !inside.iter().any(|other| is_same(other, value)));
        let Some(mut those) = of_owner(self.field, owner).filter(|_| !missing.is_empty()) else {
            return Ok(missing);
        };
        those.insert(self.field.elements, doc! { "$in": missing.clone() });
        let find = extras::in_order(self.field, &those)?;
        for found in self.all.find_all(self.field.extras, find).await? {
            let found = open(&found)?;
            let elements = super::header::array(found.get(self.field.elements));
            missing.retain(|value| !elements.iter().any(|other| is_same(other, value)));
        }
        Ok(missing)
    }

    /// The document that it is about.
    fn id(&self) -> Result<Bson> {
        match pinned(&self.filter()?) {
            Some(id) => Bson::try_from(id).map_err(crate::error::encode),
            None => Err(self.busy()),
        }
    }

    /// What is several operations: in one transaction, where there are any.
    async fn together(&self, outside: &Outside<'_>) -> Result<W::Done> {
        let run = |access: Access| {
            let own = self.within(&access);
            async move {
                let done = match outside {
                    Outside::Push(values) => own.push_staged(values).await,
                    Outside::Replace(values, stays) => own.replace_all(values, *stays).await,
                    Outside::Each(operators, counts, growth) => {
                        own.each_outside(operators, *counts, *growth).await
                    }
                };
                done.map_err(|error| access.fail(error))
            }
        };
        self.access.together(unit::ATTEMPTS, run).await
    }

    fn busy(&self) -> Error {
        let id = self.id_if_any().unwrap_or(Bson::Null);
        self.at(&id).busy()
    }

    fn id_if_any(&self) -> Option<Bson> {
        let filter = self.filter().ok()?;
        Bson::try_from(pinned(&filter)?).ok()
    }
}

/// What several operations do.
enum Outside<'v> {
    Push(&'v [Bson]),
    Replace(&'v [Bson], usize),
    Each(&'v Document, bool, usize),
}

/// Where documents that are filled belong.
struct Target {
    generation: ObjectId,
    first: i64,
    /// How many elements there are in documents then.
    count: i64,
    /// The generation that they replace.
    sweep: Option<ObjectId>,
}

/// Says that what was outside of a document goes, and that these are all of its elements.
pub(super) fn emptied(
    field: &OverflowField,
    work: &Work,
    all: &[Bson],
    operators: &mut Document,
) -> Result<()> {
    if let Some(order) = Order::of(field) {
        put(
            operators,
            "$set",
            &place(field, "bound"),
            order.bound(all, &[]),
        );
    }
    put(operators, "$set", field.work, work.stored()?);
    put(operators, "$set", &place(field, "tail"), Vec::<Bson>::new());
    put(operators, "$set", &place(field, "next"), 0_i64);
    put(operators, "$set", &place(field, "count"), 0_i64);
    put(operators, "$unset", &place(field, "generation"), "");
    put(operators, "$inc", &place(field, "version"), 1_i64);
    Ok(())
}

/// That the array is of this time.
pub(super) fn of_version(field: &OverflowField, header: &Header) -> Document {
    let version = match header.version {
        0 => doc! { "$in": [Bson::Null, 0_i64] },
        version => doc! { "$eq": version },
    };
    let generation = match header.generation {
        Some(generation) => doc! { "$eq": generation },
        None => doc! { "$exists": false },
    };
    doc! { place(field, "version"): version, place(field, "generation"): generation }
}

/// That the elements in a document are these. Of none an old document may have no array.
pub(super) fn is_still(field: &OverflowField, resident: &[Bson]) -> Document {
    match resident {
        [] => doc! { format!("{}.0", field.stored): { "$exists": false } },
        _ => doc! { field.stored: { "$eq": resident.to_vec() } },
    }
}

/// That nothing of an array is outside of its document.
pub(in crate::maintain) fn is_whole(field: &OverflowField) -> Document {
    doc! { field.header: { "$exists": false } }
}

/// That there is room for these behind the elements in the document; none if there never is.
pub(in crate::maintain) fn has_room(
    field: &OverflowField,
    values: &[Bson],
) -> Result<Option<Document>> {
    let Some(left) = field.after.checked_sub(values.len()) else {
        return Ok(None);
    };
    fits(field, field.stored, left, values)
}

/// That an array of a field has no more elements than `left`, and room for the bytes of these; none if they are too many by themselves.
fn fits(
    field: &OverflowField,
    path: &str,
    left: usize,
    values: &[Bson],
) -> Result<Option<Document>> {
    let mut bytes = 0;
    for value in values {
        bytes += size(value)?;
    }
    let Some(left_bytes) = field.part.checked_sub(bytes) else {
        return Ok(None);
    };
    let mut condition = doc! { format!("{path}.{left}"): { "$exists": false } };
    let size = doc! { "$bsonSize": { "a": format!("${path}") } };
    condition.insert("$expr", doc! { "$lte": [size, left_bytes as i64] });
    Ok(Some(condition))
}

/// The opposite, of one.
fn not_fits(field: &OverflowField, left: usize, value: &Bson) -> Result<Document> {
    match fits(field, field.stored, left, std::slice::from_ref(value))? {
        Some(fits) => Ok(doc! { "$nor": [fits] }),
        None => Ok(doc! {}),
    }
}

/// How many of these have room in a document with such elements.
pub(super) fn room_for(field: &OverflowField, resident: &[Bson], values: &[Bson]) -> Result<usize> {
    let mut bytes = SIZE_OF_AN_ARRAY;
    for element in resident {
        bytes += size(element)?;
    }
    let left = field.after.saturating_sub(resident.len());
    let mut room = 0;
    for value in values.iter().take(left) {
        bytes += size(value)?;
        if bytes > field.part {
            break;
        }
        room += 1;
    }
    Ok(room)
}

/// Whether these can be all elements in a document.
fn fits_inside(field: &OverflowField, elements: &[Bson]) -> Result<bool> {
    let mut bytes = SIZE_OF_AN_ARRAY;
    for element in elements {
        bytes += size(element)?;
    }
    Ok(elements.len() <= most_inside(field) && bytes <= field.part)
}

/// Whether these can stay in a document: as the server measures them, so that what a push has had room for is not too large.
pub(super) fn can_stay(field: &OverflowField, elements: &[Bson]) -> Result<bool> {
    let bytes = close(&doc! { "a": elements.to_vec() })?.as_bytes().len();
    Ok(elements.len() <= most_inside(field) && bytes <= field.part)
}

/// The condition that they cannot, as far as a server can tell.
pub(crate) fn too_long_or_large(field: &OverflowField) -> Document {
    let too_long = doc! { format!("{}.{}", field.stored, field.after): { "$exists": true } };
    let size = doc! { "$bsonSize": { "a": format!("${}", field.stored) } };
    let too_large = doc! { "$expr": { "$gt": [size, field.part as i64] } };
    doc! { "$or": [too_long, too_large] }
}

/// The bytes of a document with an array without elements.
const SIZE_OF_AN_ARRAY: usize = 16;

fn has_room_in_tail(field: &OverflowField, header: &Header, values: &[Bson]) -> Result<bool> {
    let mut bytes = SIZE_OF_AN_ARRAY;
    for element in header.tail.iter().chain(values) {
        bytes += size(element)?;
    }
    let count = header.tail.len() + values.len();
    Ok(count <= room_in_tail(field) && bytes <= field.part)
}

/// Each value once.
fn distinct(values: &[Bson]) -> Vec<Bson> {
    let mut distinct: Vec<Bson> = Vec::new();
    for value in values {
        if !distinct.iter().any(|other| is_same(other, value)) {
            distinct.push(value.clone());
        }
    }
    distinct
}
