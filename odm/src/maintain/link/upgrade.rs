//! Documents of older versions of a model whose references are others in today's form: they are entered as by any other write.

use std::sync::atomic::AtomicBool;

use bson::RawDocument;

use super::{Whole, linked::Linked, refusal::unentered};
use crate::{
    Result,
    access::Access,
    backend::{
        BoxFuture,
        operation::{Change, Update},
    },
    error,
    schema::Model,
    unit,
};

/// Writes what an outdated document becomes, unless somebody has changed it; what it refers to in today's form is held, entered and left
/// with it.
pub(crate) fn bring_up<'a>(
    access: &'a Access,
    model: &'static Model,
    raw: &'a RawDocument,
    update: Update,
) -> BoxFuture<'a, Result<bool>> {
    // What follows from it may be written to outdated documents of other models.
    Box::pin(brought_up(access, model, raw, update))
}

async fn brought_up(
    access: &Access,
    model: &'static Model,
    raw: &RawDocument,
    update: Update,
) -> Result<bool> {
    let Change::Replacement(upgraded) = &update.change else {
        return Ok(false);
    };
    let before = Linked::of(model, raw)?;
    let after = Linked::of(model, upgraded)?;
    let mut links = model.links().iter().enumerate();
    let Some((_, link)) = links.find(|(link, _)| before.held(*link) != after.held(*link)) else {
        let done = access.executor().update(update).await;
        return Ok(done.map_err(error::of(model))?.matched > 0);
    };
    if !access.has_transactions() {
        return Err(unentered(model, link, &before.id));
    }
    let is_too_large = AtomicBool::new(false);
    let work = |access: Access| {
        let whole = Whole {
            all: access.to_everything(),
            access,
            room: None,
            is_too_large: &is_too_large,
        };
        let (update, before, after) = (update.clone(), before.clone(), after.clone());
        async move {
            let done = whole.access.executor().update(update).await;
            if done.map_err(error::of(model))?.matched == 0 {
                return Ok(false);
            }
            let (before, after) = ([before], [after]);
            let access = whole.access.in_scope_of(model, before[0].scope.as_ref());
            let followed = whole.follow(&access, model, &before, &after, false);
            let followed = followed.await;
            followed.map_err(|error| whole.access.fail(error))?;
            Ok(true)
        }
    };
    access.together(unit::ATTEMPTS, work).await
}
