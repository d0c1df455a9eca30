//! Sources whose copies are to follow, and whose business that is for now.

use std::time::Instant;

use bson::{DateTime, Document, RawBson, RawDocumentBuf, doc};

use super::{
    FAN, dependents,
    source::{Source, projection},
};
use crate::{
    Result,
    access::{Access, found_by},
    backend::operation::Find,
    decode,
    maintain::{
        LEASE, Rejection, Said,
        link::linked::{by_id, one_of, read_upgraded},
        stored::{Amendment, change, change_all},
    },
    query::{append, document},
    schema::Model,
};

/// Sources that one write has made say that their copies are to follow.
#[derive(Debug, Clone)]
pub(crate) struct Fanning {
    said: Said,
    /// Since when they say so.
    since: DateTime,
    pub(super) sources: Vec<FanningSource>,
}

/// One of them.
#[derive(Debug, Clone)]
pub(super) struct FanningSource {
    pub(super) id: RawBson,
    pub(super) source: Source,
}

impl Fanning {
    /// Those of them that have not been written since they were read.
    pub(super) fn as_read(&self) -> Result<RawDocumentBuf> {
        let ids: Vec<_> = self.ids().cloned().collect();
        let mut filter = document("_id", one_of(&ids)?)?;
        append(&mut filter, &FAN.token(), document("$eq", self.said.token)?)?;
        Ok(filter)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &RawBson> {
        self.sources.iter().map(|of| &of.id)
    }

    /// The condition for one source that was not written after the read.
    pub(super) fn of(&self, source: &RawBson) -> Result<RawDocumentBuf> {
        let mut filter = by_id(source)?;
        append(&mut filter, &FAN.token(), document("$eq", self.said.token)?)?;
        Ok(filter)
    }

    /// Removes the pending fan-out, except from the sources of rejected copies.
    pub(super) async fn unsay_but(
        &self,
        access: &Access,
        model: &'static Model,
        blocked: &[(RawBson, Vec<Rejection>)],
    ) -> Result<()> {
        let mut filter = self.as_read()?;
        if !blocked.is_empty() {
            let others = self
                .ids()
                .filter(|id| blocked.iter().all(|(of, _)| of != *id));
            let others: Vec<_> = others.cloned().collect();
            if others.is_empty() {
                return Ok(());
            }
            filter = document("_id", one_of(&others)?)?;
            append(&mut filter, &FAN.token(), document("$eq", self.said.token)?)?;
        }
        let done = doc! { "$unset": { FAN.0: "" } };
        change(access, model, Amendment::new(filter, done)).await?;
        Ok(())
    }
}

/// The documents that say that their copies are to follow, of those that a filter finds: so many at most, by the writes that they
/// say it of.
pub(super) async fn fanning(
    access: &Access,
    model: &'static Model,
    filter: RawDocumentBuf,
    limit: Option<usize>,
) -> Result<Vec<Fanning>> {
    let groups: Vec<_> = dependents(access.models(), model).collect();
    let groups: Vec<_> = groups.into_iter().map(|(_, group)| group).collect();
    let find = Find {
        projection: projection(model, &groups)?,
        limit: limit.map(|limit| limit as u64),
        ..found_by(&model.collection.into(), &filter)
    };
    let mut found: Vec<Fanning> = Vec::new();
    for raw in read_upgraded(access, model, find).await? {
        let said = Said::read(&raw, FAN)?;
        let (Some(id), Some(said)) = (decode::id(&raw).map(RawBson::from), said) else {
            continue;
        };
        let since = FAN.since(&raw)?.unwrap_or(said.at());
        let source = Source::of(&raw)?;
        let source = FanningSource { id, source };
        let mut same = found.iter_mut();
        match same.find(|other| other.said == said && other.since == since) {
            Some(same) => same.sources.push(source),
            None => found.push(Fanning {
                said,
                since,
                sources: vec![source],
            }),
        }
    }
    Ok(found)
}

/// That a fan-out is this process's to carry out, for as long as it goes on.
pub(super) struct Lease<'f> {
    model: &'static Model,
    fanning: &'f Fanning,
    /// How many dependents have followed.
    followed: u64,
    renewed: Instant,
}

impl<'f> Lease<'f> {
    pub(super) fn of(model: &'static Model, fanning: &'f Fanning) -> Self {
        Self {
            model,
            fanning,
            followed: 0,
            renewed: Instant::now(),
        }
    }

    /// Takes over what is overdue; false if another process has.
    pub(super) async fn take(
        access: &Access,
        model: &'static Model,
        fanning: &Fanning,
    ) -> Result<bool> {
        let mut filter = fanning.as_read()?;
        append(&mut filter, &FAN.due(), document("$eq", fanning.said.due)?)?;
        let taken = Amendment::new(filter, goes_on(fanning));
        Ok(change(access, model, taken).await? > 0)
    }

    /// Says in the sources, now and then, that it goes on, and in the first of them how far it is; false if all of them have been
    /// written again, whose copies follow by that.
    pub(super) async fn renew(&mut self, access: &Access, followed: usize) -> Result<bool> {
        self.followed += followed as u64;
        if access.unit().is_some() || self.renewed.elapsed() < LEASE / 4 {
            return Ok(true);
        }
        self.renewed = Instant::now();
        let fanning = self.fanning;
        let mut renewed = vec![Amendment::new(fanning.as_read()?, goes_on(fanning))];
        if let Some(first) = fanning.ids().next() {
            let filter = fanning.of(first)?;
            let followed = i64::try_from(self.followed).unwrap_or(i64::MAX);
            let followed = doc! { "$set": { FAN.field("followed"): followed } };
            renewed.push(Amendment::new(filter, followed));
        }
        Ok(change_all(access, self.model, renewed).await? > 0)
    }
}

/// Lets sources say that others are not to see to them yet.
fn goes_on(fanning: &Fanning) -> Document {
    doc! { "$set": {
        FAN.due(): Said::now().due,
        FAN.field("since"): fanning.since,
    } }
}
