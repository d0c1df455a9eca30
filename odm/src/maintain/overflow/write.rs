//! An update of an array that overflows.
//!
//! What is in one document is one operation: an update for an array without elements outside of it, and where that finds none, one for
//! an array with some. The condition which of both it is, and that there is room, is part of the operation, so no two of them can both
//! take the last place. What is about the documents of the other elements too is said in the owner by that operation, and follows.
//!
//! An update of several such arrays is one of the first in which each operation is an update of the next. So the operation that the last
//! of them carries out does it to all, on the conditions of each: what one has prepared outside is taken back where another's are not met.

mod each;
mod growth;
mod ordered;
mod push;
mod replace;
mod set;
mod staged;

use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use tracing::Instrument;

use super::{
    At,
    asked::{Asked, What},
    header::{Header, Owner},
    inside,
    order::{Order, in_order},
    place,
    room::{is_whole, of_version},
    work::{attempts, stays},
};
use crate::{
    Error, ErrorKind, Result,
    access::{Access, found_by},
    backend::{BoxFuture, operation::Find},
    decode,
    maintain::{
        Sources, Write,
        link::{Rule, is_promised, refer, rule_of},
        stored::{close, open},
    },
    query::document,
    retry,
    schema::{Model, OverflowField},
    task, unit,
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
    let asked = Asked::first(model, change)?;
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
    /// The arrays of which the update says already where their elements go.
    apart: Vec<&'static OverflowField>,
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
            apart: Vec::new(),
        }
    }

    /// The same as another write, where the update says already where the elements of these arrays go.
    fn of(
        access: Access,
        (model, sources): (&'static Model, Sources),
        mut write: W,
        apart: Vec<&'static OverflowField>,
    ) -> Result<Option<Self>> {
        let Some(change) = write.change() else {
            return Ok(None);
        };
        let asked = Asked::of(model, change, &apart)?;
        let one = Self::new(access, model, write, sources, asked);
        Ok(Some(Self { apart, ..one }))
    }

    /// Carries an operation on this array out as an update of the next.
    fn next(&self, write: W) -> BoxFuture<'static, Result<W::Done>> {
        let (access, of) = (self.access.clone(), (self.model, self.sources.clone()));
        let mut apart = self.apart.clone();
        apart.push(self.field);
        let next = async move {
            match Self::of(access, of, write, apart)? {
                Some(next) => next.run().await,
                None => Ok(W::done(0)),
            }
        };
        // In a task of its own: however many there are, no stack is as deep.
        let next = task::run(next.in_current_span());
        Box::pin(next)
    }

    /// Carries it out, with what follows from it where its elements are references with a rule.
    async fn run(self) -> Result<W::Done> {
        let elements = self.asked.what.added();
        let rule = rule_of(self.model, self.field);
        let is_followed = |rule: &Rule| rule.inverse.is_some() || !elements.is_empty();
        let Some(rule) = rule.filter(is_followed) else {
            return Box::pin(self.carry_out()).await;
        };
        // It may be carried out by one that has the promise of these.
        let filter = self.filter()?;
        if is_promised(&filter) {
            return Box::pin(self.carry_out()).await;
        }
        let Some(owner) = self.owner().await? else {
            return Ok(W::done(0));
        };
        let carry_out = |access: Access, write: W| {
            let of = (self.model, self.sources.clone());
            let apart = self.apart.clone();
            Box::pin(async move {
                match Self::of(access, of, write, apart)? {
                    Some(one) => one.carry_out().await,
                    None => Ok(W::done(0)),
                }
            })
        };
        let (access, write) = (&self.access, &self.write);
        let done = refer(access, rule, write, &owner.id, elements, carry_out);
        let done = Box::pin(done).await?;
        Ok(done.unwrap_or_else(|| W::done(0)))
    }

    async fn carry_out(&self) -> Result<W::Done> {
        let order = Order::of(self.field);
        match &self.asked.what {
            What::Push(values) => match &order {
                Some(order) => self.push_in_order(order, values).await,
                None => self.push(values).await,
            },
            What::Add(values) => match &order {
                Some(order) => self.add_in_order(order, &set::distinct(values)?).await,
                None => self.add(&set::distinct(values)?).await,
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
            apart: self.apart.clone(),
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

    /// The same, while nothing is being done to it.
    async fn resting(&self) -> Result<Option<Owner>> {
        for attempt in attempts() {
            let Some(owner) = self.owner().await? else {
                return Ok(None);
            };
            if owner.work().is_none() {
                return Ok(Some(owner));
            }
            let id = owner.id.clone();
            self.at(&id).help(owner, attempt).await?;
        }
        Err(self.busy())
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
        let done = match self.asked.has_more() {
            true => self.next(write).await?,
            false => inside(self.access.clone(), self.model, write, self.sources.clone()).await?,
        };
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

    /// The document that it is about.
    fn id(&self) -> Result<Bson> {
        match pinned(&self.filter()?) {
            Some(id) => Bson::try_from(id).map_err(crate::error::encode),
            None => Err(self.busy()),
        }
    }

    /// What is several operations: in one transaction, where there are any.
    async fn together(&self, outside: &Outside<'_>) -> Result<Option<W::Done>> {
        let run = |access: Access| {
            let own = self.within(&access);
            async move {
                let done = match outside {
                    Outside::Push(values) => own.push_staged(values, false).await,
                    Outside::Add(values) => own.push_staged(values, true).await,
                    Outside::Replace(values, stays) => {
                        own.replace_all(values, *stays).await.map(Some)
                    }
                    Outside::Each(operators, counts, growth) => {
                        let done = own.each_outside(operators, *counts, *growth);
                        done.await.map(Some)
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
    Add(&'v [Bson]),
    Replace(&'v [Bson], usize),
    Each(&'v Document, bool, usize),
}
