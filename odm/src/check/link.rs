//! The check of links: references and inverses must match.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use bson::{RawBson, RawDocument, RawDocumentBuf};

use super::{BatchFindings, ComparableId, Finding, FindingKind, comparable_id, find_by_ids};
use crate::{
    Result,
    language::query::projection_of,
    metadata::{self, Metadata},
    model::decode,
    schema::{LinkField, Model},
    session::access::{Access, ModelAccess},
    write::{SpilledState, ids_at, ids_of_side, spilled_state},
};

/// A target in a reference or an inverse, which the document on the other side must confirm.
#[derive(Clone)]
struct LinkClaim {
    /// The position of the document in the batch.
    batch_position: usize,
    side: LinkField,
    /// The stored field on the other side.
    other_field: &'static str,
    /// The document on the other side.
    to: RawBson,
    from: ComparableId,
}

/// Returns the links in a batch with sides that do not match, and the ids that an inverse lists more than once.
pub(super) async fn check_batch(
    access: ModelAccess<'_>,
    batch: &[RawDocumentBuf],
    spilled: &mut SpilledInverses,
) -> Result<BatchFindings> {
    let model = access.model;
    let mut findings = Vec::new();
    let mut claims = Vec::new();
    for (position, raw) in batch.iter().enumerate() {
        claims.extend(claims_of(access, position, raw).await?);
        for inverse in model.inverses {
            let inverse_ids = ids_of_side(access, &inverse.link_field, raw).await?;
            let mut seen = HashSet::new();
            for id in inverse_ids.into_iter().flatten() {
                if !seen.insert(comparable_id(id.as_raw_bson_ref())) {
                    let finding =
                        Finding::of_entry(model, raw, &inverse.link_field, id, |target, id| {
                            FindingKind::DuplicateInverse { to: target, id }
                        });
                    findings.push((position, finding));
                }
            }
        }
    }
    let broken = unconfirmed_claims(&access, claims, spilled).await?;
    if broken.is_empty() {
        return Ok(findings);
    }
    // A concurrent write may have changed one side: read the documents again.
    let mut suspects: HashMap<ComparableId, usize> = HashMap::new();
    for claim in &broken {
        suspects.insert(claim.from.clone(), claim.batch_position);
    }
    let ids = suspects
        .values()
        .filter_map(|position| decode::stored_id(&batch[*position]));
    let ids: Vec<_> = ids.collect();
    let broken_keys: HashSet<_> = broken.iter().map(claim_key).collect();
    let mut recheck = Vec::new();
    for current in find_by_ids(access, &ids, None).await? {
        let position = decode::stored_id(&current).and_then(|id| suspects.get(&comparable_id(id)));
        if let Some(position) = position {
            let claims = claims_of(access, *position, &current).await?;
            let claims = claims.into_iter();
            recheck.extend(claims.filter(|claim| broken_keys.contains(&claim_key(claim))));
        }
    }
    for claim in unconfirmed_claims(&access, recheck, spilled).await? {
        let raw = &batch[claim.batch_position];
        let finding = Finding::of_entry(model, raw, &claim.side, claim.to, |target, id| {
            FindingKind::OneSided { to: target, id }
        });
        findings.push((claim.batch_position, finding));
    }
    Ok(findings)
}

fn claim_key(claim: &LinkClaim) -> (ComparableId, &'static str, ComparableId) {
    let target = comparable_id(claim.to.as_raw_bson_ref());
    (claim.from.clone(), claim.side.stored, target)
}

/// Returns the claims of a document. A document with an unfinished write makes no claims.
async fn claims_of(
    access: ModelAccess<'_>,
    batch_position: usize,
    raw: &RawDocument,
) -> Result<Vec<LinkClaim>> {
    let (Some(id), false) = (decode::stored_id(raw), has_unfinished_write(raw)) else {
        return Ok(Vec::new());
    };
    let from = comparable_id(id);
    let mut claims = Vec::new();
    let mut add_claims = |side: LinkField, other_field: &'static str, targets: Vec<RawBson>| {
        claims.extend(targets.into_iter().map(|target| LinkClaim {
            batch_position,
            side,
            other_field,
            to: target,
            from: from.clone(),
        }));
    };
    for link in access.model.links {
        if let Some(inverse) = link.find_inverse() {
            let targets = ids_of_side(access, &link.link_field, raw)
                .await?
                .unwrap_or_default();
            add_claims(link.link_field, inverse.link_field.stored, targets);
        }
    }
    for inverse in access.model.inverses {
        if let Some(link) = inverse.find_reference() {
            let targets = ids_of_side(access, &inverse.link_field, raw)
                .await?
                .unwrap_or_default();
            add_claims(inverse.link_field, link.link_field.stored, targets);
        }
    }
    Ok(claims)
}

/// Whether a document has an unfinished write of references.
pub(super) fn has_unfinished_write(raw: &RawDocument) -> bool {
    Metadata::of(raw).has_unfinished_write()
}

/// A collection and a field.
type FieldKey<'m> = (&'m str, &'m str);

/// The ids in a reference or an inverse of a document. `None` for a document with an unfinished write.
type SideIds = Option<Arc<HashSet<ComparableId>>>;

/// The maximum size of the ids in [`SpilledInverses`], in bytes.
const MAX_SPILLED_BYTES: usize = 32 << 20;

/// The ids of spilled inverses that a check has read. Many documents refer to the same few documents with a large inverse, so
/// almost every batch needs these inverses.
#[derive(Default)]
pub(super) struct SpilledInverses {
    /// By collection, field and document.
    inverses: HashMap<(FieldKey<'static>, ComparableId), SpilledInverse>,
    bytes: usize,
}

/// The ids of an inverse in a known state.
struct SpilledInverse {
    state: SpilledState,
    ids: Arc<HashSet<ComparableId>>,
    bytes: usize,
}

impl SpilledInverses {
    /// Returns the ids in a reference or an inverse of a document.
    async fn ids_of_side(
        &mut self,
        access: ModelAccess<'_>,
        side: &LinkField,
        (id, raw): (&ComparableId, &RawDocument),
    ) -> Result<SideIds> {
        let state = spilled_state(access.model, side, raw)?;
        let key = ((access.model.collection, side.stored), id.clone());
        if let (Some(state), Some(known)) = (&state, self.inverses.get(&key))
            && *state == known.state
        {
            return Ok(Some(Arc::clone(&known.ids)));
        }
        let ids = ids_of_side(access, side, raw).await?;
        let ids = ids.map(|ids| Arc::new(comparable_ids(&ids)));
        if let (Some(state), Some(ids)) = (state, &ids) {
            // 64 bytes for a place in the set and an allocation.
            let bytes: usize = ids.iter().map(|id| id.len() + 64).sum();
            if self.bytes + bytes > MAX_SPILLED_BYTES {
                *self = Self::default();
            }
            self.bytes += bytes;
            let ids = Arc::clone(ids);
            let inverse = SpilledInverse { state, ids, bytes };
            let earlier = self.inverses.insert(key, inverse);
            self.bytes -= earlier.map_or(0, |earlier| earlier.bytes);
        }
        Ok(ids)
    }
}

fn comparable_ids(ids: &[RawBson]) -> HashSet<ComparableId> {
    let ids = ids.iter().map(RawBson::as_raw_bson_ref);
    ids.map(comparable_id).collect()
}

/// Returns the claims that an existing document on the other side does not confirm.
async fn unconfirmed_claims(
    access: &Access,
    claims: Vec<LinkClaim>,
    spilled: &mut SpilledInverses,
) -> Result<Vec<LinkClaim>> {
    let mut targets: HashMap<FieldKey<'_>, (&'static Model, HashMap<ComparableId, RawBson>)> =
        HashMap::new();
    for claim in &claims {
        let model = (claim.side.model)();
        let (_, ids) = targets
            .entry((model.collection, claim.other_field))
            .or_insert_with(|| (model, HashMap::new()));
        ids.insert(comparable_id(claim.to.as_raw_bson_ref()), claim.to.clone());
    }
    let mut ids_by_side: HashMap<FieldKey<'_>, HashMap<ComparableId, SideIds>> = HashMap::new();
    for ((collection, field), (model, ids)) in targets {
        let ids: Vec<_> = ids.values().map(RawBson::as_raw_bson_ref).collect();
        let projection = projection_of(["_id", field, metadata::FIELD])?;
        let links = model.links.iter().map(|link| &link.link_field);
        let mut sides = links.chain(model.inverses.iter().map(|inverse| &inverse.link_field));
        let side = sides.find(|side| side.stored == field);
        let mut ids_by_document = HashMap::new();
        for raw in find_by_ids(access.to(model), &ids, Some(projection)).await? {
            let Some(id) = decode::stored_id(&raw) else {
                continue;
            };
            let id = comparable_id(id);
            let ids = match side {
                _ if has_unfinished_write(&raw) => None,
                Some(side) => {
                    spilled
                        .ids_of_side(access.to(model), side, (&id, &raw))
                        .await?
                }
                None => Some(Arc::new(comparable_ids(&ids_at(&raw, field)))),
            };
            ids_by_document.insert(id, ids);
        }
        ids_by_side.insert((collection, field), ids_by_document);
    }
    let is_broken = |claim: &LinkClaim| {
        let ids_by_document = ids_by_side.get(&(claim.side.collection, claim.other_field))?;
        let target_ids = ids_by_document
            .get(&comparable_id(claim.to.as_raw_bson_ref()))?
            .as_ref()?;
        Some(!target_ids.contains(&claim.from))
    };
    Ok(claims
        .into_iter()
        .filter(|claim| is_broken(claim).unwrap_or_default())
        .collect())
}
