//! Hooks without the `Hooks` trait bound. A write only knows that its model is a `Document`, not that the model implements
//! `Hooks`.

use std::marker::PhantomData;

use super::{Changes, Committed, Hooks, Selection};
use crate::{
    Result,
    backend::BoxFuture,
    error,
    model::document::Document,
    session::{Session, access::Access},
};

/// The hooks of a model, as an object.
#[doc(hidden)]
pub trait RunHooks<T: Document>: Send + Sync {
    fn before_insert<'a>(&self, document: &'a mut T, tx: &'a Access) -> BoxFuture<'a, Result<()>>;
    fn before_validate<'a>(&self, document: &'a mut T, tx: &'a Access)
    -> BoxFuture<'a, Result<()>>;
    fn after_validate<'a>(&self, document: &'a T, tx: &'a Access) -> BoxFuture<'a, Result<()>>;
    fn after_insert<'a>(&self, document: &'a T, tx: &'a Access) -> BoxFuture<'a, Result<()>>;
    fn before_update<'a>(
        &self,
        changes: &'a mut Changes<T>,
        tx: &'a Access,
    ) -> BoxFuture<'a, Result<()>>;
    fn after_update<'a>(
        &self,
        changes: &'a Changes<T>,
        tx: &'a Access,
    ) -> BoxFuture<'a, Result<()>>;
    fn before_delete<'a>(
        &self,
        selection: &'a mut Selection<T>,
        tx: &'a Access,
    ) -> BoxFuture<'a, Result<()>>;
    fn after_delete<'a>(
        &self,
        selection: &'a Selection<T>,
        tx: &'a Access,
    ) -> BoxFuture<'a, Result<()>>;
    fn after_commit(&self, event: Committed<T>, db: Access) -> BoxFuture<'static, Result<()>>;
}

/// Runs the hooks of `T`.
#[doc(hidden)]
#[derive(Debug)]
pub struct ErasedHooks<T>(pub PhantomData<fn() -> T>);

/// Makes the session of a hook, a nesting level deeper than the write.
fn hook_session<T: Hooks>(access: &Access) -> Result<Session<T::Schema, T::Scope>> {
    let access = access.for_hook(&T::MODEL);
    access.map(Session::new).map_err(error::of_model::<T>)
}

macro_rules! hooks {
    ($($hook:ident($value:ty);)*) => {$(
        fn $hook<'a>(&self, value: $value, tx: &'a Access) -> BoxFuture<'a, Result<()>> {
            Box::pin(async move { T::$hook(value, &hook_session::<T>(tx)?).await })
        }
    )*};
}

impl<T: Hooks> RunHooks<T> for ErasedHooks<T> {
    hooks! {
        before_insert(&'a mut T);
        before_validate(&'a mut T);
        after_validate(&'a T);
        after_insert(&'a T);
        before_update(&'a mut Changes<T>);
        after_update(&'a Changes<T>);
        before_delete(&'a mut Selection<T>);
        after_delete(&'a Selection<T>);
    }

    fn after_commit(&self, event: Committed<T>, db: Access) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move { T::after_commit(event, &hook_session::<T>(&db)?).await })
    }
}
