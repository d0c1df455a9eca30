//! The feed: changes of products as server-sent events.

use axum::extract::State;
use odm::{
    axum::{Feed, LastEventId},
    watch::Event,
};

use crate::{
    App,
    models::{Product, Tenant},
};

/// Streams the changes from now on, or after the change of `Last-Event-ID`. The feed neither loses nor repeats a change.
///
/// A session of a tenant cannot watch, so the feed watches all tenants and filters. A delete event contains the `_id` alone. The
/// feed omits deletes, because the filter cannot tell the tenant of a deleted product.
pub(super) async fn feed(
    State(app): State<App>,
    tenant: Tenant,
    LastEventId(last): LastEventId,
) -> odm::Result<Feed> {
    let products = app.db.all_scopes().watch::<Product>();
    let products = products.filter(|p| p.tenant().eq(&tenant));
    let feed = Feed::new(products.after(last).await?, |event| match event {
        Event::Inserted(product) => Some(("inserted", product)),
        Event::Updated { document, .. } => Some(("updated", document?)),
        _ => None,
    });
    Ok(feed.until(app.stop.cancelled_owned()))
}
