//! Pending fan-outs of sources, and the lease on a fan-out.

use bson::{DateTime, Document, RawBson, RawDocumentBuf, doc};

use super::{
    dependent_groups,
    source::{SourceState, source_projection},
};
use crate::{
    Result,
    backend::operation::Stage,
    language::query::{append_field, equal_to, id_filter},
    metadata::pending::{SINCE, UPDATED},
    model::{decode, ids::ids_filter},
    pending::{
        blocked::Rejection,
        record::{PendingKind, PendingToken},
    },
    schema::{Model, upgrade::read_upgraded},
    session::access::{Access, ModelAccess},
    write::metadata_update::{MetadataUpdate, apply_update, apply_updates, remove_records},
};

/// The sources that one write has changed: all have a pending fan-out with the same token.
#[derive(Debug, Clone)]
pub(crate) struct PendingFanOut {
    token: PendingToken,
    /// The start of the fan-out.
    started_at: DateTime,
    pub(super) sources: Vec<FanOutSource>,
}

/// A source with a pending fan-out.
#[derive(Debug, Clone)]
pub(super) struct FanOutSource {
    pub(super) id: RawBson,
    pub(super) source: SourceState,
}

impl PendingFanOut {
    /// Returns the filter for the sources that were not written after the read.
    pub(super) fn unchanged_since_read(&self) -> Result<RawDocumentBuf> {
        let ids: Vec<_> = self.source_ids().cloned().collect();
        self.with_token(ids_filter(&ids))
    }

    /// Adds the token of the fan-out to a filter. A later write of a source changes the token.
    fn with_token(&self, mut filter: RawDocumentBuf) -> Result<RawDocumentBuf> {
        PendingKind::FAN_OUT.add_token_condition(&mut filter, self.token.token)?;
        Ok(filter)
    }

    pub(super) fn source_ids(&self) -> impl Iterator<Item = &RawBson> {
        self.sources.iter().map(|source| &source.id)
    }

    /// Returns the filter for one source, if the source was not written after the read.
    pub(super) fn unchanged_source(&self, source: &RawBson) -> Result<RawDocumentBuf> {
        self.with_token(id_filter(source))
    }

    /// Removes the pending fan-out, except from the sources of rejected copies.
    pub(super) async fn complete_except(
        &self,
        access: ModelAccess<'_>,
        blocked: &[(RawBson, Vec<Rejection>)],
    ) -> Result<()> {
        let accepted = self
            .source_ids()
            .filter(|id| blocked.iter().all(|(source, _)| source != *id));
        let accepted: Vec<_> = accepted.cloned().collect();
        if accepted.is_empty() {
            return Ok(());
        }
        let filter = self.with_token(ids_filter(&accepted))?;
        remove_records(access, Stage::COPIES, PendingKind::FAN_OUT, filter).await?;
        Ok(())
    }
}

/// Returns the pending fan-outs of the sources that a filter matches, grouped by the write. `limit` is the maximum number of
/// sources.
pub(super) async fn read_pending_fan_outs(
    access: ModelAccess<'_>,
    filter: RawDocumentBuf,
    limit: Option<usize>,
) -> Result<Vec<PendingFanOut>> {
    let model = access.model;
    let groups: Vec<_> = dependent_groups(access.schema_models(), model).collect();
    let find = access
        .find_matching(&filter)
        .with_origin(Stage::COPIES.step("read the pending fan-outs"))
        .with_projection(source_projection(model, &groups)?)
        .with_limit(limit.map(|limit| limit as u64));
    let mut fan_outs: Vec<PendingFanOut> = Vec::new();
    for raw in read_upgraded(&access, model, find).await? {
        let token = PendingToken::from_stored(&raw, PendingKind::FAN_OUT)?;
        let (Some(id), Some(token)) = (decode::owned_id(&raw), token) else {
            continue;
        };
        let started_at = PendingKind::FAN_OUT.pending_since(&raw)?;
        let started_at = started_at.unwrap_or(token.created_at());
        let source = SourceState::from_raw(&raw)?;
        let source = FanOutSource { id, source };
        let mut known = fan_outs.iter_mut();
        match known.find(|known| known.token == token && known.started_at == started_at) {
            Some(fan_out) => fan_out.sources.push(source),
            None => fan_outs.push(PendingFanOut {
                token,
                started_at,
                sources: vec![source],
            }),
        }
    }
    Ok(fan_outs)
}

/// The lease of this process on a fan-out. Other processes take over when the lease expires.
pub(super) struct FanOutLease<'f> {
    model: &'static Model,
    fan_out: &'f PendingFanOut,
    /// The number of updated dependents.
    updated_dependents: u64,
    ends_at: DateTime,
}

impl<'f> FanOutLease<'f> {
    pub(super) fn new(model: &'static Model, fan_out: &'f PendingFanOut) -> Self {
        Self {
            model,
            fan_out,
            updated_dependents: 0,
            ends_at: fan_out.token.lease_end,
        }
    }

    /// Takes over an abandoned fan-out. Returns `false` if another process was faster.
    pub(super) async fn take_over(
        access: ModelAccess<'_>,
        fan_out: &mut PendingFanOut,
    ) -> Result<bool> {
        let new_end = access.lease().new_end();
        let mut filter = fan_out.unchanged_since_read()?;
        let lease_end = equal_to(fan_out.token.lease_end);
        append_field(&mut filter, &PendingKind::FAN_OUT.lease_path(), lease_end)?;
        let origin = Stage::COPIES.step("take over the fan-out");
        let renewal = MetadataUpdate::new(origin, filter, renewal_update(fan_out, new_end));
        fan_out.token.lease_end = new_end;
        Ok(apply_update(access, renewal).await? > 0)
    }

    /// Renews the lease if a quarter of the lease time has passed, and records the progress in the first source.
    ///
    /// Returns `false` if all sources have a newer write, which has its own fan-out.
    pub(super) async fn renew_if_old(&mut self, access: &Access, updated: usize) -> Result<bool> {
        self.updated_dependents += updated as u64;
        if access.transaction_scope().is_some() || !access.lease().needs_renewal(self.ends_at) {
            return Ok(true);
        }
        self.ends_at = access.lease().new_end();
        let fan_out = self.fan_out;
        let origin = Stage::COPIES.step("renew the lease");
        let filter = fan_out.unchanged_since_read()?;
        let renewal = renewal_update(fan_out, self.ends_at);
        let mut renewals = vec![MetadataUpdate::new(origin, filter, renewal)];
        if let Some(first) = fan_out.source_ids().next() {
            let filter = fan_out.unchanged_source(first)?;
            let updated = i64::try_from(self.updated_dependents).unwrap_or(i64::MAX);
            let progress = doc! { "$set": { PendingKind::FAN_OUT.field_path(UPDATED): updated } };
            let origin = Stage::COPIES.step("record the progress");
            renewals.push(MetadataUpdate::new(origin, filter, progress));
        }
        Ok(apply_updates(access.to(self.model), renewals).await? > 0)
    }
}

/// Returns the update that renews the lease of all sources.
fn renewal_update(fan_out: &PendingFanOut, new_end: DateTime) -> Document {
    doc! { "$set": {
        PendingKind::FAN_OUT.lease_path(): new_end,
        PendingKind::FAN_OUT.field_path(SINCE): fan_out.started_at,
    } }
}
