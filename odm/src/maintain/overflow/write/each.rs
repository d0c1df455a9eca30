//! Operators on elements, wherever they are.

use bson::{Document, doc};

use super::{
    super::{
        header::{Header, Kind, Owner, Work},
        work::{At, attempts, put},
    },
    OfOne, Outside,
    growth::can_grow,
};
use crate::{
    Result,
    maintain::{
        Write,
        stored::{close, open, set},
    },
};

impl<W: Write> OfOne<W> {
    pub(super) async fn each(
        &self,
        operators: &Document,
        counts: bool,
        growth: usize,
    ) -> Result<W::Done> {
        let mut condition = self.is_whole();
        if growth > 0 {
            condition.extend(can_grow(self.field, growth));
        }
        if let Some(done) = self.attempt(condition, &[operators]).await? {
            return Ok(done);
        }
        let all = Outside::Each(operators, counts, growth);
        let done = self.together(&all).await?;
        done.ok_or_else(|| self.busy())
    }

    pub(super) async fn each_outside(
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
                let Some(owner) = self.resting().await? else {
                    return Ok(W::done(0));
                };
                as_measured = self.measure(&owner, operators, growth).await?;
            }
            let all = [operators, &at_tail, &say];
            let mut at_rest = self.is_at_rest();
            at_rest.extend(as_measured.clone());
            if let Some(mut done) = self.attempt(at_rest, &all).await? {
                // What the write was about may not be what was asked for any more.
                let id = self.id()?;
                let at = self.at(&id);
                if let Some(owner) = at.owner().await?.filter(|owner| owner.is_at(work.key)) {
                    at.finish(owner).await?;
                }
                if counts {
                    self.count_in(&at, &mut done).await?;
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

    /// What is given of the document counts the elements outside as they are now, unless others have changed what is outside since: it is
    /// then the document of the moment before any went from there.
    async fn count_in(&self, at: &At<'_>, done: &mut W::Done) -> Result<()> {
        let Some(found) = self.write.found_behind(done) else {
            return Ok(());
        };
        let given = Owner::of(self.field, found)?.header;
        let now = at.owner().await?.and_then(|owner| owner.header);
        let (Some(given), Some(now)) = (given, now) else {
            return Ok(());
        };
        let moment = |header: &Header| (header.generation, header.version);
        if moment(&given) == moment(&now) {
            let mut document = open(found)?;
            set(&mut document, &self.place("count"), now.count);
            *found = close(&document)?;
        }
        Ok(())
    }
}
