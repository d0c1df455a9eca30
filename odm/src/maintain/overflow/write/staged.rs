//! Documents of elements that are filled before they are read.

use bson::{Bson, Document, oid::ObjectId};

use super::{
    super::{
        At,
        extras::{Batch, parts},
        header::{Kind, Work},
        work::put,
    },
    OfOne,
};
use crate::{ErrorKind, Result, maintain::Write};

/// Where documents that are filled belong.
pub(super) struct Target {
    pub(super) generation: ObjectId,
    pub(super) first: i64,
    /// How many elements there are in documents then.
    pub(super) count: i64,
    /// The generation that they replace.
    pub(super) sweep: Option<ObjectId>,
}

impl<W: Write> OfOne<W> {
    /// Fills documents and lets them be read, together with the write, where its document meets a condition too. None if it does not, or
    /// if another has taken them back meanwhile.
    pub(super) async fn publish(
        &self,
        at: &At<'_>,
        work: &Work,
        target: Target,
        elements: Vec<Bson>,
        mut operators: Document,
        condition: Document,
    ) -> Result<Option<W::Done>> {
        let field = self.field;
        let parts = parts(&elements)?;
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
        let may_differ = !condition.is_empty();
        let mut condition = condition;
        condition.extend(at.is_at(work.key));
        match self.attempt(condition, &[&operators]).await {
            Ok(Some(done)) => {
                if let Some(owner) = at.owner().await?.filter(|owner| owner.is_at(work.key)) {
                    at.finish(owner).await?;
                }
                Ok(Some(done))
            }
            // It is not what was asked for any more, or was taken back.
            Ok(None) => {
                let is_over = self.leave(at, work.key).await? && !may_differ;
                Ok(is_over.then(|| W::done(0)))
            }
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
    pub(super) async fn leave(&self, at: &At<'_>, key: ObjectId) -> Result<bool> {
        let Some(owner) = at.owner().await?.filter(|owner| owner.is_at(key)) else {
            return Ok(false);
        };
        at.finish(owner).await?;
        Ok(true)
    }
}
