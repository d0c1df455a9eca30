//! Writes that may leave what is copied as it is: then no copies are to follow.

use bson::{Bson, Document, RawDocument, bson};

use super::{FAN, REVISION, dependents};
use crate::{
    access::Access,
    maintain::stored::{overlap, touches},
    schema::Model,
};

/// The places of which others have copies that an update writes, or that are computed from what it writes; none if it does not say
/// that copies are to follow.
pub(in crate::maintain) fn written(
    access: &Access,
    model: &'static Model,
    update: &RawDocument,
    computed: &[&str],
) -> Vec<String> {
    let sets = update.get_document("$set").ok();
    let is_said = sets.is_some_and(|sets| sets.get(FAN.0).is_ok_and(|said| said.is_some()));
    if !is_said {
        return Vec::new();
    }
    let groups = dependents(access.models(), model).map(|(_, group)| group);
    let mut places = Vec::new();
    for group in groups {
        let taken = group.following().map(|taken| &taken.from);
        let is_written = |from: &&String| touches(update, from) || is_in(from, computed);
        places.extend(taken.filter(is_written).cloned());
    }
    places.sort_unstable();
    places.dedup();
    places
}

/// Lets a stage say that copies are to follow, and raise the revision, only if one of these places has another value behind it.
///
/// `stage` makes the stage of an update. Nothing is compared of what is `computed` behind it: that counts as changed.
pub(in crate::maintain) fn only_if_changed(
    places: &[String],
    computed: &[&str],
    update: &Document,
    changes: &mut Document,
    stage: impl Fn(&Document) -> Option<Document>,
) {
    if places.is_empty() || places.iter().any(|place| is_in(place, computed)) {
        return;
    }
    let mut silent = update.clone();
    for (operator, field) in [("$inc", REVISION), ("$set", FAN.0)] {
        if let Ok(fields) = silent.get_document_mut(operator) {
            fields.remove(field);
        }
    }
    let (Some(silent), Some(told)) = (stage(&silent), changes.get("_odm")) else {
        return;
    };
    let changed: Option<Vec<_>> = places.iter().map(|place| differs(place, &silent)).collect();
    let Some(changed) = changed else {
        return;
    };
    let untold = silent.get("_odm").cloned().unwrap_or("$_odm".into());
    let own = bson!({ "$cond": [{ "$or": changed }, told.clone(), untold] });
    changes.insert("_odm", own);
}

fn is_in(place: &str, fields: &[&str]) -> bool {
    fields.iter().any(|field| overlap(field, place))
}

/// Whether a place has another value behind a stage than before it.
fn differs(place: &str, stage: &Document) -> Option<Bson> {
    let (top, rest) = match place.split_once('.') {
        None => (place, String::new()),
        Some((top, rest)) => (top, format!(".{rest}")),
    };
    let value = stage.get(top)?;
    let behind =
        bson!({ "$let": { "vars": { "new": value.clone() }, "in": format!("$$new{rest}") } });
    Some(bson!({ "$ne": [behind, format!("${place}")] }))
}
