//! An array that becomes another as a whole.

use bson::{Bson, Document, doc, oid::ObjectId};

use super::{
    super::{
        At,
        header::{Header, Kind, Work},
        order::Order,
        room::room_for,
        work::{attempts, emptied, put},
    },
    OfOne, Outside,
    staged::Target,
};
use crate::{Result, maintain::Write, retry};

impl<W: Write> OfOne<W> {
    pub(super) async fn replace(&self, values: &[Bson]) -> Result<W::Done> {
        let stays = room_for(self.field, &[], values)?;
        if stays == values.len() {
            let set = doc! { "$set": { self.field.stored: values.to_vec() } };
            if let Some(done) = self.attempt(self.is_whole(), &[&set]).await? {
                return Ok(done);
            }
        }
        let done = self.together(&Outside::Replace(values, stays)).await?;
        done.ok_or_else(|| self.busy())
    }

    pub(super) async fn replace_all(&self, values: &[Bson], stays: usize) -> Result<W::Done> {
        let field = self.field;
        let (stay, go) = values.split_at_checked(stays).unwrap_or((values, &[]));
        for attempt in attempts() {
            let Some(owner) = self.resting().await? else {
                return Ok(W::done(0));
            };
            let id = owner.id.clone();
            let at = self.at(&id);
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
                    .publish(&at, &work, target, go.to_vec(), operators, doc! {})
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
    pub(super) async fn empty(
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
}
