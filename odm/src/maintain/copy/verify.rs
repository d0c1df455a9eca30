//! Copies are looked at again whose references are new: their source may have changed in between.

use std::collections::BTreeMap;

use bson::{Bson, Document, RawBson, RawDocumentBuf, doc, oid::ObjectId};

use super::{
    VERIFY,
    fan::{BATCH, Newer, Room, bring, source_condition},
    group::Group,
    open,
    source::{Revisions, Source, Sources},
};
use crate::{
    Result,
    access::{Access, found_by},
    backend::operation::Find,
    decode,
    maintain::{
        Said,
        link::linked::{Fate, Id, one_of},
        stored::{Amendment, change, raw},
    },
    query::{append, document},
    schema::Model,
};

/// Looks again at the copies in the documents that a write was about. Where it is known what they were taken of, it is enough that
/// this is as it was.
pub(super) async fn verify_said(
    access: &Access,
    model: &'static Model,
    said: Said,
    taken: Option<&Revisions>,
) -> Result<()> {
    let filter = said.filter(VERIFY)?;
    if let Some(taken) = taken
        && taken.are_of_now(access, &super::groups(model)).await?
    {
        let done = doc! { "$unset": { VERIFY.0: "" } };
        change(access, model, Amendment::new(filter, done)).await?;
        return Ok(());
    }
    while verify_some(access, model, &filter).await?.are_left {}
    Ok(())
}

/// Some of the documents whose copies were to be looked at again.
pub(super) struct Verified {
    /// How many they are of which nothing is owed any more.
    pub(super) documents: u64,
    /// Whether there are others.
    pub(super) are_left: bool,
}

/// Looks again at some of the documents that a filter finds.
pub(super) async fn verify_some(
    access: &Access,
    model: &'static Model,
    filter: &RawDocumentBuf,
) -> Result<Verified> {
    let groups = super::groups(model);
    let mut paths = RawDocumentBuf::new();
    let scope = model.scope.iter().map(|scope| scope.stored);
    for field in ["_id", "_odm"].into_iter().chain(scope) {
        append(&mut paths, field, 1)?;
    }
    let mut roots: Vec<_> = groups
        .iter()
        .map(|group| {
            group
                .steps
                .first()
                .map_or(group.reference, |step| step.stored)
        })
        .collect();
    roots.sort_unstable();
    roots.dedup();
    // A reference may be the scope.
    roots.retain(|root| model.scope.is_none_or(|scope| scope.stored != *root));
    for root in roots {
        append(&mut paths, root, 1)?;
    }
    let find = Find {
        projection: Some(paths),
        limit: Some(BATCH as u64 + 1),
        ..found_by(&model.collection.into(), filter)
    };
    let gone = Source::gone();
    let mut found = access.find_all(model, find).await?;
    let are_left = found.len() > BATCH;
    found.truncate(BATCH);
    let mut wanted = Vec::new();
    let mut held = Vec::new();
    let mut tokens = BTreeMap::<ObjectId, Vec<RawBson>>::new();
    for raw in &found {
        let open = open(raw)?;
        let Some(id) = decode::id(raw).map(RawBson::from) else {
            continue;
        };
        for (position, group) in groups.iter().enumerate() {
            let scope = group.scope_of_dependent(&open);
            for (_, inside) in group.structs(&open) {
                if let (Some(reference), true) = (group.reference_in(inside), group.is_following())
                {
                    wanted.push(((group.model)(), reference.clone()));
                    let from = group.revision_in(inside);
                    held.push((
                        position,
                        (reference.clone(), scope.clone()),
                        from,
                        id.clone(),
                    ));
                }
            }
        }
        let own = raw.get_document("_odm").ok();
        let own = own.and_then(|own| own.get_document("verify").ok());
        if let Some(token) = own.and_then(|own| own.get_object_id("token").ok()) {
            tokens.entry(token).or_default().push(id);
        }
    }
    let mut sources = Sources::default();
    sources.read(access, &groups, &wanted).await?;
    let mut older = BTreeMap::<(usize, Id, Option<Id>), (Lead, Vec<RawBson>)>::new();
    for (position, lead, from, id) in held {
        let Some(group) = groups.get(position) else {
            continue;
        };
        let Some(source) = seen(group, &sources, &gone, &lead)? else {
            continue;
        };
        if source.fate == Fate::Undecided && group.is_clearing() {
            tokens
                .values_mut()
                .for_each(|ids| ids.retain(|other| *other != id));
        } else if from.is_none_or(|from| from < source.revision) {
            let (reference, scope) = &lead;
            let scope = scope.as_ref().map(raw).transpose()?;
            let key = (
                position,
                Id::of(&raw(reference)?),
                scope.as_ref().map(Id::of),
            );
            let (_, ids) = older.entry(key).or_insert((lead, Vec::new()));
            ids.push(id);
        }
    }
    for (position, group) in groups.iter().enumerate() {
        let of_group = older.iter().filter(|((of, ..), _)| *of == position);
        let mut newer = Vec::new();
        for (lead, ids) in of_group.map(|(_, older)| older) {
            if let Some(source) = seen(group, &sources, &gone, lead)? {
                newer.push(Newer {
                    refers: source_condition(group, &lead.0),
                    source,
                    those: document("_id", one_of(ids)?)?,
                    in_scope: Document::new(),
                });
            }
        }
        if !newer.is_empty() {
            bring(access, model, group, newer, &mut Room::All).await?;
        }
    }
    let mut documents = 0;
    for (token, ids) in tokens {
        let mut filter = document("_id", one_of(&ids)?)?;
        append(&mut filter, &VERIFY.token(), document("$eq", token)?)?;
        let done = doc! { "$unset": { VERIFY.0: "" } };
        documents += change(access, model, Amendment::new(filter, done)).await?;
    }
    Ok(Verified {
        documents,
        // Where nothing could be taken back, nothing will be.
        are_left: are_left && documents > 0,
    })
}

/// What a reference holds, and the scope that its source must have.
type Lead = (Bson, Option<Bson>);

/// What copies are to be like that were taken through a reference; nothing in particular if what is gone leaves its last value.
fn seen<'s>(
    group: &Group,
    sources: &'s Sources,
    gone: &'s Source,
    (reference, scope): &Lead,
) -> Result<Option<&'s Source>> {
    let source = sources.get_in_scope(group, reference, scope.as_ref())?;
    let source = source.flatten();
    let is_there = source.is_some_and(|source| source.fate != Fate::Goes);
    Ok(match group.is_clearing() && !is_there {
        true => Some(gone),
        false => source,
    })
}
