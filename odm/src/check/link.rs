//! Whether both sides of each link agree.

use std::collections::{HashMap, HashSet};

use bson::{RawBson, RawDocument, RawDocumentBuf};

use super::{Fault, Finding, Key, by_ids, key};
use crate::{
    Result,
    access::Access,
    decode,
    maintain::{PROMISE, ids_at, listed},
    query::append,
    schema::{LinkSide, Model},
};

/// What a document says of a link, which the other side must say as well.
#[derive(Clone)]
struct Claim {
    /// Where the document is in its batch.
    document: usize,
    side: LinkSide,
    /// The field of the other side, as it is stored.
    other: &'static str,
    /// The document on the other side.
    to: RawBson,
    from: Key,
}

/// The sides of links in a batch that the other side does not know of, and what is listed twice.
pub(super) async fn look_at(
    access: &Access,
    model: &'static Model,
    batch: &[RawDocumentBuf],
) -> Result<Vec<(usize, Finding)>> {
    let mut found = Vec::new();
    let mut claims = Vec::new();
    for (position, raw) in batch.iter().enumerate() {
        claims.extend(claims_of(access, model, position, raw).await?);
        for inverse in model.inverses {
            let listed = listed(access, model, &inverse.side, raw).await?;
            let mut seen = HashSet::new();
            for id in listed.into_iter().flatten() {
                if !seen.insert(key(id.as_raw_bson_ref())) {
                    let finding = Finding::of_side(model, raw, &inverse.side, id, |to, id| {
                        Fault::ListedTwice { to, id }
                    });
                    found.push((position, finding));
                }
            }
        }
    }
    let broken = broken(access, claims).await?;
    if broken.is_empty() {
        return Ok(found);
    }
    // Somebody may be writing: only what both sides say still is a fault.
    let mut asked: HashMap<Key, usize> = HashMap::new();
    for claim in &broken {
        asked.insert(claim.from.clone(), claim.document);
    }
    let ids = asked
        .values()
        .filter_map(|document| decode::id(&batch[*document]));
    let ids: Vec<_> = ids.collect();
    let places: HashSet<_> = broken.iter().map(place).collect();
    let mut again = Vec::new();
    for now in by_ids(access, model, &ids, None).await? {
        let position = decode::id(&now).and_then(|id| asked.get(&key(id)));
        if let Some(position) = position {
            let claims = claims_of(access, model, *position, &now).await?;
            let claims = claims.into_iter();
            again.extend(claims.filter(|claim| places.contains(&place(claim))));
        }
    }
    for claim in self::broken(access, again).await? {
        let raw = &batch[claim.document];
        let finding = Finding::of_side(model, raw, &claim.side, claim.to, |to, id| {
            Fault::OneSided { to, id }
        });
        found.push((claim.document, finding));
    }
    Ok(found)
}

fn place(claim: &Claim) -> (Key, &'static str, Key) {
    let to = key(claim.to.as_raw_bson_ref());
    (claim.from.clone(), claim.side.stored, to)
}

/// What a document says of its links; nothing while a write to it is not finished.
async fn claims_of(
    access: &Access,
    model: &'static Model,
    document: usize,
    raw: &RawDocument,
) -> Result<Vec<Claim>> {
    let (Some(id), false) = (decode::id(raw), is_unfinished(raw)) else {
        return Ok(Vec::new());
    };
    let from = key(id);
    let mut claims = Vec::new();
    let mut claim = |side: LinkSide, other: &'static str, targets: Vec<RawBson>| {
        claims.extend(targets.into_iter().map(|to| Claim {
            document,
            side,
            other,
            to,
            from: from.clone(),
        }));
    };
    for link in model.links {
        if let Some(inverse) = link.inverse() {
            let targets = listed(access, model, &link.side, raw).await?;
            claim(link.side, inverse.side.stored, targets.unwrap_or_default());
        }
    }
    for inverse in model.inverses {
        if let Some(link) = inverse.own() {
            let targets = listed(access, model, &inverse.side, raw).await?;
            claim(inverse.side, link.side.stored, targets.unwrap_or_default());
        }
    }
    Ok(claims)
}

/// Whether a write to a document is not finished.
pub(super) fn is_unfinished(raw: &RawDocument) -> bool {
    let own = raw.get_document("_odm").ok();
    own.is_some_and(|own| {
        let mut fields = PROMISE.iter();
        fields.any(|field| own.get(*field).ok().flatten().is_some())
    })
}

/// A collection and a field of it.
type Side<'m> = (&'m str, &'m str);

/// What a document lists in a field; none while a write to it is not finished.
type Listed = Option<HashSet<Key>>;

/// The claims whose other side is there, and says something else.
async fn broken(access: &Access, claims: Vec<Claim>) -> Result<Vec<Claim>> {
    let mut targets: HashMap<Side<'_>, (&'static Model, HashMap<Key, RawBson>)> = HashMap::new();
    for claim in &claims {
        let model = (claim.side.model)();
        let (_, ids) = targets
            .entry((model.collection, claim.other))
            .or_insert_with(|| (model, HashMap::new()));
        ids.insert(key(claim.to.as_raw_bson_ref()), claim.to.clone());
    }
    let mut said: HashMap<Side<'_>, HashMap<Key, Listed>> = HashMap::new();
    for ((collection, field), (model, ids)) in targets {
        let ids: Vec<_> = ids.values().map(RawBson::as_raw_bson_ref).collect();
        let mut projection = RawDocumentBuf::new();
        for field in ["_id", field, "_odm"] {
            append(&mut projection, field, 1)?;
        }
        let links = model.links.iter().map(|link| &link.side);
        let mut sides = links.chain(model.inverses.iter().map(|inverse| &inverse.side));
        let side = sides.find(|side| side.stored == field);
        let mut there = HashMap::new();
        for raw in by_ids(access, model, &ids, Some(projection)).await? {
            let Some(id) = decode::id(&raw) else {
                continue;
            };
            let ids = match side {
                _ if is_unfinished(&raw) => None,
                Some(side) => listed(access, model, side, &raw).await?,
                None => Some(ids_at(&raw, field)),
            };
            let ids = ids.map(|ids| ids.iter().map(|id| key(id.as_raw_bson_ref())).collect());
            there.insert(key(id), ids);
        }
        said.insert((collection, field), there);
    }
    let is_broken = |claim: &Claim| {
        let of_side = said.get(&(claim.side.collection, claim.other))?;
        let listed = of_side.get(&key(claim.to.as_raw_bson_ref()))?.as_ref()?;
        Some(!listed.contains(&claim.from))
    };
    Ok(claims
        .into_iter()
        .filter(|claim| is_broken(claim).unwrap_or_default())
        .collect())
}
