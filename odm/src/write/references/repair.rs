//! Repair of references and inverses after an integrity check.
//!
//! Each repair reads the documents again before the write, and writes nothing if the fault is gone.

use std::collections::BTreeSet;

use bson::{RawBson, oid::ObjectId};

use super::{
    delete_rule::{DeleteRule, DetachIntent},
    intent,
    inverse_batch::{InverseBatch, InverseEntry},
    linked_document::{LinkedDocument, read_linked},
    overflow_inverse::{InverseChange, OverflowInverse},
    overflow_references::add_conditions,
    run_write, set_metadata,
};
use crate::{
    Result,
    backend::operation::Stage,
    language::query::{append_field, equal_to, id_filter, single_field_document},
    metadata::references::INVERSE_VERSION,
    model::ids::{OrderedId, contains_id, id_array},
    schema::InverseLink,
    session::access::{Access, ModelAccess},
    write::{WriteOperation, maintainer::WriteContext, narrow_filter},
};

/// A repair of a reference or an inverse.
#[derive(Debug, Clone)]
pub(crate) enum ReferenceRepair {
    /// Update the inverse to match the reference.
    SyncInverse { referrer: RawBson, target: RawBson },
    /// Treat a dangling reference as if the target were deleted: apply the delete rule.
    DetachMissing { referrer: RawBson, target: RawBson },
}

/// Repairs a reference or an inverse. Returns whether a repair was necessary.
pub(crate) async fn repair_reference(
    full_access: &Access,
    rule: DeleteRule,
    repair: ReferenceRepair,
) -> Result<bool> {
    if let (ReferenceRepair::SyncInverse { referrer, target }, false, Some(inverse)) =
        (&repair, full_access.has_transactions(), rule.inverse)
    {
        return intent::sync_inverse(full_access, &rule, inverse, referrer, target).await;
    }
    let run_repair = |full_access: Access| {
        let repair = repair.clone();
        async move {
            match repair {
                ReferenceRepair::SyncInverse { referrer, target } => {
                    sync_inverse(&full_access, &rule, &referrer, &target).await
                }
                ReferenceRepair::DetachMissing { referrer, target } => {
                    detach_missing(&full_access, &rule, &referrer, &target).await
                }
            }
        }
    };
    full_access.run_transactional(run_repair).await
}

async fn sync_inverse(
    full_access: &Access,
    rule: &DeleteRule,
    referrer: &RawBson,
    target: &RawBson,
) -> Result<bool> {
    let target_model = (rule.link.link_field.model)();
    let target_document = read_by_id(full_access.to(target_model), target).await?;
    let (Some(inverse), Some(target_document)) = (rule.inverse, target_document) else {
        return Ok(false);
    };
    let is_referenced = match read_by_id(full_access.to(rule.model), referrer).await? {
        Some(_) if rule.overflow_array().is_some() => {
            let target = BTreeSet::from([OrderedId::from_id(target)]);
            let referenced = rule.referenced_among(full_access, referrer, &target);
            !referenced.await?.is_empty()
        }
        Some(referrer) => referrer
            .targets_of(rule.link_index)
            .contains(&OrderedId::from_id(target)),
        None => false,
    };
    let is_in_inverse = match OverflowInverse::on_target(rule.link, inverse) {
        Some(inverse) => contains_id(&inverse.all_elements(full_access, target).await?, referrer),
        None => {
            let inverse_ids = target_document.referrers_in(target_model, inverse);
            contains_id(inverse_ids, referrer)
        }
    };
    let change = match (is_referenced, is_in_inverse) {
        (true, false) => InverseChange::Add,
        (false, true) => InverseChange::Remove,
        (true, true) | (false, false) => return Ok(false),
    };
    let entry = InverseEntry {
        link: rule.link,
        inverse,
        target: target.clone(),
        referrers: vec![referrer.clone()],
    };
    let mut inverse_batch = InverseBatch::new(full_access, full_access);
    inverse_batch.queue_change(change, entry).await?;
    inverse_batch.write_all().await?;
    Ok(true)
}

async fn detach_missing(
    full_access: &Access,
    rule: &DeleteRule,
    referrer: &RawBson,
    missing: &RawBson,
) -> Result<bool> {
    if read_by_id(full_access.to((rule.link.link_field.model)()), missing)
        .await?
        .is_some()
    {
        return Ok(false);
    }
    let mut filter = id_filter(referrer);
    let Some(unchanged) = rule
        .unchanged_reference_filter(full_access, referrer, missing)
        .await?
    else {
        return Ok(false);
    };
    add_conditions(&mut filter, unchanged)?;
    if rule.is_cascading() {
        narrow_filter(full_access.to(rule.model), &mut filter).await?;
        let cascade = WriteOperation::Delete(rule.cascade_delete(filter));
        let cx = WriteContext::after_references(full_access.to(rule.model));
        let outcome = run_write(cx, cascade).await?;
        return Ok(outcome.matched > 0);
    }
    if rule.overflow_array().is_some() {
        narrow_filter(full_access.to(rule.model), &mut filter).await?;
        return Ok(rule
            .detach_matching(full_access, filter, [missing], DetachIntent::None)
            .await?
            > 0);
    }
    let mut detach = rule.detach_update(full_access, filter, [missing])?;
    narrow_filter(full_access.to(rule.model), &mut detach.write.filter).await?;
    let mut cx = WriteContext::after_references(full_access.to(rule.model));
    cx.conditional_record = detach.record;
    let outcome = run_write(cx, detach.write.into()).await?;
    for run_in_background in detach.follow_ups {
        run_in_background(full_access);
    }
    Ok(outcome.matched > 0)
}

/// Removes duplicates from an inverse. The first occurrence of each id stays.
pub(crate) async fn remove_duplicates(
    full_access: ModelAccess<'_>,
    inverse: &InverseLink,
    id: &RawBson,
) -> Result<bool> {
    let path = inverse.link_field.stored;
    let Some(found) = read_by_id(full_access, id).await? else {
        return Ok(false);
    };
    let all_elements;
    let overflow_inverse = OverflowInverse::of_inverse(full_access.model, inverse);
    let inverse_ids = match &overflow_inverse {
        Some(overflow_inverse) => {
            all_elements = overflow_inverse.all_elements(&full_access, id).await?;
            &all_elements
        }
        None => found.referrers_in(full_access.model, inverse),
    };
    let mut seen = BTreeSet::new();
    let unique_ids: Vec<_> = inverse_ids
        .iter()
        .filter(|id| seen.insert(OrderedId::from_id(id)))
        .collect();
    if unique_ids.len() == inverse_ids.len() {
        return Ok(false);
    }
    if let Some(overflow_inverse) = overflow_inverse {
        let version = found.inverse_version.as_ref();
        let repair = overflow_inverse.replace_elements(&full_access, id, version, &unique_ids);
        return repair.await;
    }
    let mut filter = id_filter(id);
    append_field(&mut filter, path, equal_to(id_array(inverse_ids)))?;
    let mut set = single_field_document(path, id_array(unique_ids))?;
    append_field(&mut set, INVERSE_VERSION, ObjectId::new())?;
    Ok(set_metadata(full_access, "repair the inverse", filter, set).await? == 1)
}

async fn read_by_id(full_access: ModelAccess<'_>, id: &RawBson) -> Result<Option<LinkedDocument>> {
    let find = full_access
        .find_matching(&id_filter(id))
        .with_origin(Stage::REFERENCES.step("read the document to repair"))
        .with_limit(1);
    Ok(read_linked(full_access, find).await?.pop())
}
