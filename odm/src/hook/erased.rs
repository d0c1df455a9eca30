//! Hooks of a model whose type knows them, for writes that know the model only as a document.

use std::marker::PhantomData;

use super::{Changes, Committed, Hooks, Selection};
use crate::{
    Result, access::Access, backend::BoxFuture, document::Document, error, session::Session,
};

/// The hooks of a model.
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
        which: &'a mut Selection<T>,
        tx: &'a Access,
    ) -> BoxFuture<'a, Result<()>>;
    fn after_delete<'a>(
        &self,
        which: &'a Selection<T>,
        tx: &'a Access,
    ) -> BoxFuture<'a, Result<()>>;
    fn after_commit(&self, event: Committed<T>, db: Access) -> BoxFuture<'static, Result<()>>;
}

/// The hooks of `T`.
#[doc(hidden)]
#[derive(Debug)]
pub struct Erased<T>(pub PhantomData<fn() -> T>);

/// The session that a hook gets: one level deeper.
fn session<T: Hooks>(access: &Access) -> Result<Session<T::Schema, T::Scope>> {
    let access = access.deeper_for(&T::MODEL);
    access.map(Session::new).map_err(error::of_model::<T>)
}

macro_rules! hooks {
    ($($hook:ident($value:ty);)*) => {$(
        fn $hook<'a>(&self, value: $value, tx: &'a Access) -> BoxFuture<'a, Result<()>> {
            Box::pin(async move { T::$hook(value, &session::<T>(tx)?).await })
        }
    )*};
}

impl<T: Hooks> RunHooks<T> for Erased<T> {
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
        Box::pin(async move { T::after_commit(event, &session::<T>(&db)?).await })
    }
}
