//! The way from typed questions to a backend: no typed read goes around it, and every typed write runs on it.

use std::sync::Arc;

use bson::{RawArrayBuf, RawBson, RawDocumentBuf};

use crate::{
    Error, ErrorKind, Result,
    backend::{
        Backend, Cursor, Executor, Transaction, drain,
        operation::{Aggregate, Count, Distinct, Explain, Find, FindEach},
    },
    error,
    query::{append, document},
    schema::Model,
    unit::{self, Unit},
};

/// Where typed operations are carried out; cheap to clone.
///
/// Whatever is asked for is asked for a model, which errors name.
#[derive(Debug, Clone)]
pub struct Access {
    executor: Arc<dyn Executor>,
    scope: Scope,
    /// How many hooks have led here.
    depth: u8,
}

/// How many hooks may lead to one another.
const DEPTH: u8 = 16;

/// What a write is committed with.
#[derive(Debug, Clone)]
enum Scope {
    /// Itself.
    Database(Arc<dyn Backend>),
    /// The other writes of the transaction.
    Transaction(Arc<Unit>),
}

impl Access {
    pub(crate) fn of_database(backend: Arc<dyn Backend>) -> Self {
        Self {
            executor: backend.clone(),
            scope: Scope::Database(backend),
            depth: 0,
        }
    }

    /// The same in a transaction.
    pub(crate) fn inside(&self, unit: Arc<Unit>) -> Self {
        let executor: Arc<dyn Executor> = unit.transaction().clone();
        Self {
            executor,
            scope: Scope::Transaction(unit),
            depth: self.depth,
        }
    }

    /// The same for a hook.
    pub(crate) fn deeper(&self) -> Result<Self> {
        if self.depth >= DEPTH {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "hooks have led to one another {DEPTH} times: one of them writes what it runs for, without an end"
                ),
            ));
        }
        Ok(Self {
            depth: self.depth + 1,
            ..self.clone()
        })
    }

    /// Begins a transaction of the database.
    pub(crate) async fn begin(&self) -> Result<Arc<dyn Transaction>> {
        match &self.scope {
            Scope::Database(backend) => backend.begin().await,
            Scope::Transaction(_) => Err(Error::new(
                ErrorKind::Unsupported,
                "a transaction has none inside of it",
            )),
        }
    }

    /// The transaction that this is in.
    pub(crate) fn unit(&self) -> Option<&Arc<Unit>> {
        match &self.scope {
            Scope::Transaction(unit) => Some(unit),
            Scope::Database(_) => None,
        }
    }

    /// Whether a write that turns out wrong can be taken back.
    pub(crate) fn has_transactions(&self) -> bool {
        match &self.scope {
            Scope::Transaction(_) => true,
            Scope::Database(backend) => backend.capabilities().transactions,
        }
    }

    /// Runs `work` in the transaction that this is in or, where there are any, in one of its own, `attempts` times at most.
    pub(crate) async fn together<R, W, F>(&self, attempts: u32, mut work: W) -> Result<R>
    where
        W: FnMut(Self) -> F + Send,
        F: Future<Output = Result<R>> + Send,
    {
        match &self.scope {
            Scope::Database(backend) if backend.capabilities().transactions => {
                unit::run(self, attempts, work).await
            }
            _ => work(self.clone()).await,
        }
    }

    /// The error ends the transaction that this is in, though the caller go on.
    pub(crate) fn fail(&self, error: Error) -> Error {
        if let Some(unit) = self.unit() {
            unit.doom(&error);
        }
        error
    }

    /// The backend or its transaction; for writes, which are `maintain`'s.
    pub(crate) fn executor(&self) -> &Arc<dyn Executor> {
        &self.executor
    }

    /// Whether both lead to the same database or transaction.
    pub(crate) fn is_that_of(&self, other: &Self) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.executor), Arc::as_ptr(&other.executor))
    }

    /// Narrows a filter to what is of the model: its collection may have other documents beside.
    pub(crate) fn narrow(&self, model: &Model, filter: &mut RawDocumentBuf) -> Result<()> {
        if let Some((field, value)) = model.tag {
            also(filter, field, document("$eq", value)?)?;
        }
        Ok(())
    }

    /// The documents that match, batch by batch.
    pub(crate) async fn find(&self, model: &Model, mut find: Find) -> Result<Box<dyn Cursor>> {
        self.narrow(model, &mut find.filter)?;
        self.executor.find(find).await.map_err(error::of(model))
    }

    /// The documents that match, all of them.
    pub(crate) async fn find_all(&self, model: &Model, find: Find) -> Result<Vec<RawDocumentBuf>> {
        let cursor = self.find(model, find).await?;
        drain(cursor).await.map_err(error::of(model))
    }

    pub(crate) async fn find_each(
        &self,
        model: &Model,
        mut find: FindEach,
    ) -> Result<Vec<RawDocumentBuf>> {
        self.narrow(model, &mut find.filter)?;
        let cursor = self.executor.find_each(find).await;
        let rows = drain(cursor.map_err(error::of(model))?).await;
        rows.map_err(error::of(model))
    }

    pub(crate) async fn explain(&self, model: &Model, mut find: Find) -> Result<Explain> {
        self.narrow(model, &mut find.filter)?;
        self.executor.explain(find).await.map_err(error::of(model))
    }

    pub(crate) async fn count(&self, model: &Model, mut count: Count) -> Result<u64> {
        self.narrow(model, &mut count.filter)?;
        self.executor.count(count).await.map_err(error::of(model))
    }

    pub(crate) async fn distinct(&self, model: &Model, distinct: Distinct) -> Result<Vec<RawBson>> {
        let values = self.executor.distinct(distinct).await;
        values.map_err(error::of(model))
    }

    pub(crate) async fn aggregate(
        &self,
        model: &Model,
        mut aggregate: Aggregate,
    ) -> Result<Box<dyn Cursor>> {
        let mut own = RawDocumentBuf::new();
        self.narrow(model, &mut own)?;
        // Some stages have to be the first.
        if !own.is_empty() {
            aggregate.pipeline.insert(0, document("$match", own)?);
        }
        let cursor = self.executor.aggregate(aggregate).await;
        cursor.map_err(error::of(model))
    }

    /// What a pipeline gives, all of it.
    pub(crate) async fn aggregate_all(
        &self,
        model: &Model,
        aggregate: Aggregate,
    ) -> Result<Vec<RawDocumentBuf>> {
        let cursor = self.aggregate(model, aggregate).await?;
        drain(cursor).await.map_err(error::of(model))
    }
}

/// Adds a condition on a field to a filter.
fn also(filter: &mut RawDocumentBuf, field: &str, condition: RawDocumentBuf) -> Result<()> {
    if filter.get(field).is_ok_and(|other| other.is_none()) {
        return append(filter, field, condition);
    }
    let mut both = RawArrayBuf::new();
    both.push(std::mem::take(filter));
    both.push(document(field, condition)?);
    append(filter, "$and", both)
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn a_condition_is_added_to_what_is_asked_for() {
        let condition = || rawdoc! { "$eq": "cat" };
        let mut filter = rawdoc! { "_id": { "$eq": 1 } };
        also(&mut filter, "kind", condition()).unwrap();
        assert_eq!(
            filter,
            rawdoc! { "_id": { "$eq": 1 }, "kind": { "$eq": "cat" } }
        );
        also(&mut filter, "kind", rawdoc! { "$ne": "dog" }).unwrap();
        let first = rawdoc! { "_id": { "$eq": 1 }, "kind": { "$eq": "cat" } };
        assert_eq!(
            filter,
            rawdoc! { "$and": [first, { "kind": { "$ne": "dog" } }] }
        );
    }
}
