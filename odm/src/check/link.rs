//! Whether both sides of each link agree.

use std::collections::{HashMap, HashSet};

use bson::{RawBson, RawDocument, RawDocumentBuf};

use super::{Fault, Finding, Key, by_ids, key};
use crate::{
    Result,
    access::Access,
    decode,
    maintain::{PROMISE, ids_at},
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
    model: &Model,
    batch: &[RawDocumentBuf],
) -> Result<Vec<(usize, Finding)>> {
    let mut found = Vec::new();
    let mut claims = Vec::new();
    for (position, raw) in batch.iter().enumerate() {
        claims.extend(claims_of(model, position, raw));
        for inverse in model.inverses {
            let listed = ids_at(raw, inverse.side.stored);
            let mut seen = HashSet::new();
            for id in listed {
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
            let claims = claims_of(model, *position, &now).into_iter();
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
fn claims_of(model: &Model, document: usize, raw: &RawDocument) -> Vec<Claim> {
    let (Some(id), false) = (decode::id(raw), is_unfinished(raw)) else {
        return Vec::new();
    };
    let from = key(id);
    let links = model.links.iter().filter_map(|link| {
        let inverse = link.inverse()?;
        Some((link.side, inverse.side.stored))
    });
    let inverses = model.inverses.iter().filter_map(|inverse| {
        let link = inverse.own()?;
        Some((inverse.side, link.side.stored))
    });
    let sides = links.chain(inverses);
    let claims = sides.flat_map(|(side, other)| {
        let from = from.clone();
        let targets = ids_at(raw, side.stored).into_iter();
        targets.map(move |to| Claim {
            document,
            side,
            other,
            to,
            from: from.clone(),
        })
    });
    claims.collect()
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
    let mut targets: HashMap<Side<'_>, (&Model, HashMap<Key, RawBson>)> = HashMap::new();
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
        let there = by_ids(access, model, &ids, Some(projection)).await?;
        let there = there.iter().filter_map(|raw| {
            let ids = ids_at(raw, field).into_iter();
            let ids = ids.map(|id| key(id.as_raw_bson_ref())).collect();
            Some((key(decode::id(raw)?), (!is_unfinished(raw)).then_some(ids)))
        });
        said.insert((collection, field), there.collect());
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
