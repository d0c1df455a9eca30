//! The indexes by which dependents, and what is owed, are found.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use bson::RawDocumentBuf;

use super::{
    FAN, VERIFY,
    group::{Group, dependents, groups},
    is_dependent,
};
use crate::{
    Error, ErrorKind, Result,
    access::Access,
    backend::operation::{Count, Direction, Index},
    error,
    maintain::Promise,
    schema::Model,
};

/// The declared indexes, with those by which dependents, and what is owed, are found.
pub(crate) fn with_indexes(
    mut declared: Vec<(&'static Model, Vec<Index>)>,
    models: &[&'static Model],
) -> Vec<(&'static Model, Vec<Index>)> {
    for (model, indexes) in &mut declared {
        for group in groups(model).iter().filter(|group| group.is_following()) {
            Index::declare_on(group.reference_path(), indexes);
        }
        if is_dependent(model) {
            indexes.push(Index::sparse_on(VERIFY.due()));
        }
        if dependents(models, model).next().is_some() {
            indexes.push(Index::sparse_on(FAN.due()));
        }
        // Where there are no transactions it is marked before it is deleted.
        let due = Index::sparse_on(Promise::LINK.due());
        if dependents(models, model).any(|(_, group)| group.is_clearing())
            && !indexes.contains(&due)
        {
            indexes.push(due);
        }
    }
    declared
}

/// The places of which it is known that an index finds them; shared by all that is done on a database.
#[derive(Debug, Default)]
pub(crate) struct Searched(Mutex<HashSet<(&'static str, String)>>);

impl Searched {
    fn with<R>(&self, change: impl FnOnce(&mut HashSet<(&'static str, String)>) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Refuses to let dependents follow that only a look at every document would find.
pub(super) async fn refuse_without(
    access: &Access,
    dependents: &[(&'static Model, Group)],
) -> Result<()> {
    for (owner, group) in dependents {
        let place = (owner.collection, group.reference_path());
        if access
            .shared()
            .searched
            .with(|known| known.contains(&place))
        {
            continue;
        }
        let found = access.backend().list_indexes(owner.collection).await;
        let found = found.map_err(error::of(owner))?;
        let own = Index::new(vec![(place.1.clone(), Direction::Ascending)]);
        if !found.iter().any(|index| index.serves_as(&own)) {
            let any = Count {
                collection: owner.collection.into(),
                filter: RawDocumentBuf::new(),
                limit: Some(1),
                max_time: None,
            };
            let any = access.executor().count(any).await;
            if any.map_err(error::of(owner))? == 0 {
                continue;
            }
            let message = format!(
                "no index finds what copies from the document, and nothing was written: {} needs one on `{}`, which `sync_indexes` creates",
                owner.collection, place.1
            );
            let error = Error::new(ErrorKind::Unsupported, message).with_path(place.1);
            return Err(error::of(owner)(error));
        }
        access.shared().searched.with(|known| known.insert(place));
    }
    Ok(())
}
