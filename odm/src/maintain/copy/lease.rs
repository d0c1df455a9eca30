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
        LEASE, Said,
        link::linked::{by_id, read_upgraded},
        stored::change,
    },
    query::{append, document},
    schema::Model,
};

/// A source that says that its copies are to follow.
pub(super) struct Fanning {
    pub(super) id: RawBson,
    said: Said,
    /// Since when it says so.
    since: DateTime,
    pub(super) source: Source,
}

impl Fanning {
    /// The condition that it has not been written since it was read.
    pub(super) fn as_read(&self) -> Result<RawDocumentBuf> {
        let mut filter = by_id(&self.id)?;
        append(&mut filter, &FAN.token(), document("$eq", self.said.token)?)?;
        Ok(filter)
    }
}

/// The documents that a write has made say that their copies are to follow.
pub(super) async fn fanning(
    access: &Access,
    model: &'static Model,
    said: Said,
) -> Result<Vec<Fanning>> {
    read_fanning(access, model, said.filter(FAN)?, None).await
}

pub(super) async fn read_fanning(
    access: &Access,
    model: &'static Model,
    filter: RawDocumentBuf,
    limit: Option<u64>,
) -> Result<Vec<Fanning>> {
    let groups: Vec<_> = dependents(access.models(), model).collect();
    let groups: Vec<_> = groups.into_iter().map(|(_, group)| group).collect();
    let find = Find {
        projection: projection(model, &groups)?,
        limit,
        ..found_by(&model.collection.into(), &filter)
    };
    let mut found = Vec::new();
    for raw in read_upgraded(access, model, find).await? {
        let said = Said::read(&raw, FAN)?;
        if let (Some(id), Some(said)) = (decode::id(&raw).map(RawBson::from), said) {
            found.push(Fanning {
                id,
                said,
                since: FAN.since(&raw)?.unwrap_or(said.at()),
                source: Source::of(&raw)?,
            });
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
        fanning: &'f Fanning,
    ) -> Result<bool> {
        let mut filter = fanning.as_read()?;
        append(&mut filter, &FAN.due(), document("$eq", fanning.said.due)?)?;
        let lease = Self::of(model, fanning);
        Ok(change(access, model, filter, &lease.update(), &[]).await? > 0)
    }

    /// Says in the source, now and then, that it goes on, and how far it is; false if the source has been written again, whose copies
    /// follow by that.
    pub(super) async fn renew(&mut self, access: &Access, followed: usize) -> Result<bool> {
        self.followed += followed as u64;
        if access.unit().is_some() || self.renewed.elapsed() < LEASE / 4 {
            return Ok(true);
        }
        self.renewed = Instant::now();
        let filter = self.fanning.as_read()?;
        Ok(change(access, self.model, filter, &self.update(), &[]).await? > 0)
    }

    fn update(&self) -> Document {
        doc! { "$set": {
            FAN.due(): Said::now().due,
            FAN.field("since"): self.fanning.since,
            FAN.field("followed"): i64::try_from(self.followed).unwrap_or(i64::MAX),
        } }
    }
}
