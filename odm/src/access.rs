//! The way from typed questions to a backend: no typed read goes around it, and every typed write runs on it.

use std::{sync::Arc, time::Duration};

use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use tracing::{Instrument, Span};

use crate::{
    Error, ErrorKind, Result,
    backend::{
        Backend, Background, Cursor, Executor, Transaction, drain,
        operation::{Aggregate, Collection, Count, Distinct, Explain, Find, FindEach, FindSeveral},
    },
    error,
    field::Path,
    limit::{LimitedCursor, TimeLimit},
    maintain::Shared,
    query::{Node, append, document},
    schema::{Model, Schema},
    scope::{Reached, Scope},
    soft_delete::Sight,
    trace::{self, Operation, Repetition},
    unit::{self, Attempts, Unit},
};

/// Where typed operations are carried out; cheap to clone.
///
/// Whatever is asked for is asked for a model, which errors name.
#[derive(Debug, Clone)]
pub struct Access {
    executor: Arc<dyn Executor>,
    backend: Arc<dyn Backend>,
    /// The executor of [`Reads::AsClient`]. None in a transaction, and where all reads are alike.
    client_reads: Option<Arc<dyn Executor>>,
    reads: Reads,
    /// The models of the schema.
    models: &'static [&'static Model],
    /// The transaction with which a write is committed; none where it is by itself.
    unit: Option<Arc<Unit>>,
    scope: Scope,
    sight: Sight,
    /// Whether copies are read as their sources are now.
    is_current: bool,
    /// What is told of; shared by the parts of one operation.
    operation: Arc<Operation>,
    /// The time limit of the operation's reads; none unless the caller asks for one.
    limit: Option<Arc<TimeLimit>>,
    repetition: Arc<Repetition>,
    shared: Arc<Shared>,
    /// Whether it has a weak reference to the backend.
    is_background: bool,
    /// How many hooks have led here.
    depth: u8,
}

/// Which server answers the reads of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// The primary, with data that a majority has. A stale answer here would become a stale copy, a lost reference or a
    /// report that nothing is pending.
    Primary,
    /// Any server that the options of the URL allow: only for data that goes to the application and nowhere else.
    AsClient,
}

/// How many hooks may lead to one another.
const DEPTH: u8 = 16;

impl Access {
    pub(crate) fn of_database<S: Schema>(backend: Arc<dyn Backend>) -> Self {
        Self {
            executor: backend.clone(),
            client_reads: backend.client_reads(),
            backend,
            reads: Reads::Primary,
            models: S::MODELS,
            unit: None,
            is_background: false,
            depth: 0,
            scope: Scope::NONE,
            sight: Sight::Present,
            is_current: false,
            operation: Arc::new(Operation::new("session", None)),
            limit: None,
            repetition: Arc::default(),
            shared: Arc::default(),
        }
    }

    /// The same in a transaction.
    pub(crate) fn inside(&self, unit: Arc<Unit>) -> Self {
        let executor: Arc<dyn Executor> = unit.transaction().clone();
        Self {
            executor,
            client_reads: None,
            unit: Some(unit),
            ..self.clone()
        }
    }

    /// The way for a hook of a model that is written here: the same database or transaction and, if the model has a scope, for the
    /// same one; and nothing of what this write sees or is told of.
    pub(crate) fn deeper_for(&self, model: &Model) -> Result<Self> {
        if self.depth >= DEPTH {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "hooks have led to one another {DEPTH} times: one of them writes what it runs for, without an end"
                ),
            ));
        }
        let scope = match model.scope {
            None => Scope::NONE,
            Some(field) if self.scope.reach(&field)? == Reached::All => {
                let message = "the model has hooks, which run in its scope: write to it by `db.scope(…)`, not across all scopes";
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            Some(_) => self.scope.clone(),
        };
        Ok(Self {
            depth: self.depth + 1,
            scope,
            sight: Sight::Present,
            // The write depends on what its hooks read.
            client_reads: None,
            reads: Reads::Primary,
            operation: Arc::new(Operation::new("session", None)),
            ..self.clone().unlimited()
        })
    }

    /// The access of background work. It has a weak reference to the backend, and no time limit: when the last handle of the
    /// database is dropped, the next operation is an error of kind [`Closed`](ErrorKind::Closed).
    pub(crate) fn in_background(&self) -> Self {
        if self.is_background {
            return self.clone();
        }
        let backend: Arc<dyn Backend> = Arc::new(Background::of(&self.backend));
        Self {
            executor: backend.clone(),
            backend,
            is_background: true,
            unit: None,
            client_reads: None,
            reads: Reads::Primary,
            limit: None,
            ..self.clone()
        }
    }

    /// The same for the documents of all scopes, and for those that are deleted by a mark.
    pub(crate) fn to_everything(&self) -> Self {
        let everything = self.clone().within(Scope::ALL).seeing(Sight::All);
        everything.reading_from_primary()
    }

    /// The same access with reads by the options of the URL. Only for documents that go to the application: a write or a check after such
    /// a read may depend on stale data.
    pub(crate) fn reading_as_client(self) -> Self {
        Self {
            reads: Reads::AsClient,
            ..self
        }
    }

    /// The same access with reads from the primary.
    pub(crate) fn reading_from_primary(self) -> Self {
        Self {
            reads: Reads::Primary,
            ..self
        }
    }

    /// The executor of reads.
    fn reader(&self) -> &dyn Executor {
        match (self.reads, &self.client_reads) {
            (Reads::AsClient, Some(reads)) => &**reads,
            _ => &*self.executor,
        }
    }

    /// The models of the schema.
    pub(crate) fn models(&self) -> &'static [&'static Model] {
        self.models
    }

    /// The database, where it is about more than documents.
    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// Begins a transaction of the database.
    pub(crate) async fn begin(&self) -> Result<Arc<dyn Transaction>> {
        match &self.unit {
            None => self.backend.begin().await,
            Some(_) => Err(Error::new(
                ErrorKind::Unsupported,
                "a transaction has none inside of it",
            )),
        }
    }

    /// What the writes of this process know of each other.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The transaction that this is in.
    pub(crate) fn unit(&self) -> Option<&Arc<Unit>> {
        self.unit.as_ref()
    }

    /// Whether a write that turns out wrong can be taken back.
    pub(crate) fn has_transactions(&self) -> bool {
        self.unit.is_some() || self.backend.capabilities().transactions
    }

    /// Whether all other writes wait for a long one.
    pub(crate) fn writes_are_serial(&self) -> bool {
        self.backend.capabilities().serial_writes
    }

    /// Runs `work` in the transaction that this is in or, where there are any, in one of its own.
    pub(crate) async fn together<R, W, F>(&self, attempts: Attempts, mut work: W) -> Result<R>
    where
        W: FnMut(Self) -> F + Send,
        F: Future<Output = Result<R>> + Send,
    {
        if self.unit.is_none() && self.has_transactions() {
            let model = self.operation.model();
            let collection = model.map(|model| model.collection);
            unit::run(self, attempts, collection, work).await
        } else {
            work(self.clone()).await
        }
    }

    /// The error ends the transaction that this is in, though the caller go on.
    pub(crate) fn fail(&self, error: Error) -> Error {
        if let Some(unit) = self.unit() {
            unit.doom(&error);
        }
        error
    }

    /// The way for one operation.
    pub(crate) fn operation(&self, name: &'static str, model: Option<&'static Model>) -> Self {
        Self {
            operation: Arc::new(Operation::new(name, model)),
            limit: self.limit_of(name),
            ..self.clone()
        }
    }

    /// The way for the same operation, carried out once more.
    pub(crate) fn again(&self) -> Self {
        Self {
            operation: Arc::new(self.operation.again()),
            limit: self.limit_of(self.operation.name()),
            ..self.clone()
        }
    }

    /// The same with a time limit for the reads of the operation, all together.
    pub(crate) fn limited(self, max_time: Duration) -> Self {
        Self {
            limit: Some(Arc::new(TimeLimit::new(self.operation.name(), max_time))),
            ..self
        }
    }

    /// The same without a time limit: for a write, which is carried out to its end.
    pub(crate) fn unlimited(self) -> Self {
        Self {
            limit: None,
            ..self
        }
    }

    /// The time limit for another operation, of which nothing is spent yet.
    fn limit_of(&self, operation: &'static str) -> Option<Arc<TimeLimit>> {
        let limit = self.limit.as_deref();
        limit.map(|limit| Arc::new(limit.of(operation)))
    }

    /// The time that the next read may take.
    fn max_time(&self, model: &Model) -> Result<Option<Duration>> {
        let left = self.limit.as_deref().map(TimeLimit::left).transpose();
        left.map_err(error::of(model))
    }

    /// Awaits a read within the time limit of the operation.
    async fn spend<R>(&self, read: impl Future<Output = Result<R>>) -> Result<R> {
        match &self.limit {
            None => read.await,
            Some(limit) => limit.spend(read).await,
        }
    }

    /// A cursor within the time limit of the operation.
    fn spending(&self, cursor: Box<dyn Cursor>) -> Box<dyn Cursor> {
        match self.limit.clone() {
            None => cursor,
            Some(limit) => Box::new(LimitedCursor { cursor, limit }),
        }
    }

    /// What is told of the operation.
    pub(crate) fn told(&self) -> &Operation {
        &self.operation
    }

    /// Notes a query of the application's own, which may be one of many that should be one.
    pub(crate) fn note(&self, model: &Model, find: &Find) {
        self.repetition.note(model, find);
    }

    /// Tells the plan for a filter, if somebody wants to know it.
    ///
    /// It asks outside of a transaction: MongoDB explains none inside of one, and ends one that asks.
    pub(crate) async fn tell_plan(&self, model: &Model, find: impl FnOnce() -> Result<Find>) {
        // What cannot be put together is told by the operation itself.
        if trace::looks_at_plans()
            && let Ok(find) = find()
        {
            let filter = find.filter.clone();
            if let Ok(explain) = self.backend.explain(find).instrument(self.span()).await {
                self.span()
                    .in_scope(|| trace::plan(model, &filter, &explain));
            }
        }
    }

    fn span(&self) -> Span {
        self.operation.span().clone()
    }

    /// Asks the backend.
    async fn ask<R>(&self, model: &Model, asked: impl Future<Output = Result<R>>) -> Result<R> {
        self.operation.asks();
        let asked = asked.instrument(self.span());
        self.spend(asked).await.map_err(error::of(model))
    }

    /// Asks for all that there is.
    async fn all(
        &self,
        model: &Model,
        asked: impl Future<Output = Result<Vec<RawDocumentBuf>>>,
    ) -> Result<Vec<RawDocumentBuf>> {
        let all = self.ask(model, asked).await?;
        self.operation.had(all.len() as u64);
        Ok(all)
    }

    /// The same for a scope.
    pub(crate) fn within(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// The same for the scope of a document of a model, where this works across all scopes.
    pub(crate) fn in_scope_of(&self, model: &Model, value: Option<&RawBson>) -> Self {
        match (&model.scope, value) {
            (Some(field), Some(value)) if self.scope.is_all() => {
                self.clone().within(Scope::of_stored(field, value.clone()))
            }
            _ => self.clone(),
        }
    }

    /// The same with these of the documents that may be deleted by a mark.
    pub(crate) fn seeing(self, sight: Sight) -> Self {
        Self { sight, ..self }
    }

    /// The same access with copies as current as the sources. Only the primary has these.
    pub(crate) fn reading_current(self) -> Self {
        Self {
            is_current: true,
            ..self.reading_from_primary()
        }
    }

    /// Whether copies are read as their sources are now.
    pub(crate) fn is_current(&self) -> bool {
        self.is_current
    }

    /// Which of the documents that may be deleted by a mark are seen.
    pub(crate) fn sight(&self) -> Sight {
        self.sight
    }

    /// For whom it is.
    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
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
        for (field, operator, value) in self.conditions(model)? {
            also(filter, field, document(operator, value)?)?;
        }
        Ok(())
    }

    /// The same as part of a filter that is still a tree.
    pub(crate) fn node(&self, model: &Model) -> Result<Node> {
        let tests = self.conditions(model)?.into_iter();
        let tests = tests
            .map(|(field, operator, value)| Node::Test(Path::ROOT.then(field), operator, value));
        Ok(tests.fold(Node::All, Node::and))
    }

    /// What the documents meet that are of the model and may be seen: fields with an operator and a value.
    fn conditions(&self, model: &Model) -> Result<Vec<(&'static str, &'static str, RawBson)>> {
        let mut conditions = Vec::new();
        if let Some((field, value)) = model.tag {
            conditions.push((field, "$eq", value.into()));
        }
        if let Some(field) = &model.scope {
            match self.scope.reach(field).map_err(error::of(model))? {
                Reached::All => {}
                Reached::Scope(value) => conditions.push((field.stored, "$eq", value)),
                Reached::Nothing => conditions.push(("_id", "$in", RawArrayBuf::new().into())),
            }
        }
        if let Some(field) = model.soft_delete {
            match self.sight {
                Sight::Present => conditions.push((field, "$eq", RawBson::Null)),
                Sight::Deleted => conditions.push((field, "$ne", RawBson::Null)),
                Sight::All => {}
            }
        }
        Ok(conditions)
    }

    /// Whether there is a document that matches and is out of sight here: of another scope, deleted, of another kind. It is so as
    /// well if it does not meet the condition `seen`.
    pub(crate) async fn hides(
        &self,
        model: &Model,
        mut count: Count,
        mut seen: RawDocumentBuf,
    ) -> Result<bool> {
        self.narrow(model, &mut seen)?;
        if seen.is_empty() {
            return Ok(false);
        }
        let mut none = RawArrayBuf::new();
        none.push(seen);
        append(&mut count.filter, "$nor", none)?;
        count.max_time = self.max_time(model)?;
        Ok(self.ask(model, self.executor.count(count)).await? > 0)
    }

    /// Whether there may be documents in the model's collection that are out of sight here.
    pub(crate) fn narrows(&self, model: &Model) -> bool {
        self.conditions(model)
            .map_or(true, |conditions| !conditions.is_empty())
    }

    /// The documents that match, batch by batch.
    pub(crate) async fn find(&self, model: &Model, mut find: Find) -> Result<Box<dyn Cursor>> {
        self.narrow(model, &mut find.filter)?;
        self.tell_plan(model, || Ok(find.clone())).await;
        find.max_time = self.max_time(model)?;
        let cursor = self.ask(model, self.reader().find(find)).await?;
        Ok(self.spending(cursor))
    }

    /// The documents that match, all of them.
    pub(crate) async fn find_all(
        &self,
        model: &Model,
        mut find: Find,
    ) -> Result<Vec<RawDocumentBuf>> {
        self.narrow(model, &mut find.filter)?;
        self.tell_plan(model, || Ok(find.clone())).await;
        find.max_time = self.max_time(model)?;
        self.all(model, self.reader().find_all(find)).await
    }

    pub(crate) async fn find_each(
        &self,
        model: &Model,
        mut find: FindEach,
    ) -> Result<Vec<RawDocumentBuf>> {
        self.narrow(model, &mut find.filter)?;
        self.tell_plan(model, || of_each(&find)).await;
        find.max_time = self.max_time(model)?;
        let all = async { drain(self.reader().find_each(find).await?).await };
        self.all(model, all).await
    }

    /// What several queries find, each about documents of its own model: one round trip.
    pub(crate) async fn find_several(
        &self,
        asked: Vec<(&'static Model, Find)>,
    ) -> Result<Vec<Vec<RawDocumentBuf>>> {
        let mut finds = Vec::with_capacity(asked.len());
        for (model, mut find) in asked {
            self.narrow(model, &mut find.filter)?;
            self.tell_plan(model, || Ok(find.clone())).await;
            find.max_time = self.max_time(model)?;
            finds.push(find);
        }
        let mut found = vec![Vec::new(); finds.len()];
        if finds.is_empty() {
            return Ok(found);
        }
        self.operation.asks();
        let all = async { drain(self.reader().find_several(FindSeveral { finds }).await?).await };
        let all = self.spend(all.instrument(self.span())).await?;
        self.operation.had(all.len() as u64);
        for row in all {
            let query = row
                .get_i32("query")
                .ok()
                .and_then(|query| usize::try_from(query).ok());
            let own = query.and_then(|query| found.get_mut(query));
            match (own, row.get_document("document")) {
                (Some(own), Ok(document)) => own.push(document.to_owned()),
                _ => return Err(broken_contract()),
            }
        }
        Ok(found)
    }

    pub(crate) async fn explain(&self, model: &Model, mut find: Find) -> Result<Explain> {
        self.narrow(model, &mut find.filter)?;
        find.max_time = self.max_time(model)?;
        self.ask(model, self.reader().explain(find)).await
    }

    pub(crate) async fn count(&self, model: &Model, mut count: Count) -> Result<u64> {
        self.narrow(model, &mut count.filter)?;
        self.tell_plan(model, || Ok(found_by(&count.collection, &count.filter)))
            .await;
        count.max_time = self.max_time(model)?;
        self.ask(model, self.reader().count(count)).await
    }

    pub(crate) async fn distinct(
        &self,
        model: &Model,
        mut distinct: Distinct,
    ) -> Result<Vec<RawBson>> {
        self.narrow(model, &mut distinct.filter)?;
        let find = || Ok(found_by(&distinct.collection, &distinct.filter));
        self.tell_plan(model, find).await;
        distinct.max_time = self.max_time(model)?;
        self.ask(model, self.reader().distinct(distinct)).await
    }

    pub(crate) async fn aggregate(
        &self,
        model: &Model,
        aggregate: Aggregate,
    ) -> Result<Box<dyn Cursor>> {
        let aggregate = self.narrowed(model, aggregate).await?;
        let cursor = self.ask(model, self.reader().aggregate(aggregate)).await?;
        Ok(self.spending(cursor))
    }

    /// What a pipeline gives, all of it.
    pub(crate) async fn aggregate_all(
        &self,
        model: &Model,
        aggregate: Aggregate,
    ) -> Result<Vec<RawDocumentBuf>> {
        let aggregate = self.narrowed(model, aggregate).await?;
        self.all(model, self.reader().aggregate_all(aggregate))
            .await
    }

    async fn narrowed(&self, model: &Model, mut aggregate: Aggregate) -> Result<Aggregate> {
        let mut own = RawDocumentBuf::new();
        self.narrow(model, &mut own)?;
        // Some stages have to be the first.
        if !own.is_empty() {
            aggregate.pipeline.insert(0, document("$match", own)?);
        }
        let find = || {
            let first = aggregate.pipeline.first();
            let filter = first.and_then(|stage| stage.get_document("$match").ok());
            let filter = filter.map(RawDocument::to_owned).unwrap_or_default();
            Ok(found_by(&aggregate.collection, &filter))
        };
        self.tell_plan(model, find).await;
        aggregate.max_time = self.max_time(model)?;
        Ok(aggregate)
    }
}

fn broken_contract() -> Error {
    let message = "the backend gave an answer that does not say which query it is of";
    Error::new(ErrorKind::Decode, message)
}

/// A query for what a filter finds.
pub(crate) fn found_by(collection: &Collection, filter: &RawDocument) -> Find {
    Find {
        collection: collection.clone(),
        filter: filter.to_owned(),
        projection: None,
        sort: None,
        limit: None,
        max_time: None,
    }
}

/// A query for all that a query finds key by key.
fn of_each(find: &FindEach) -> Result<Find> {
    let mut all = found_by(&find.collection, &find.filter);
    let mut keys = RawArrayBuf::new();
    for key in &find.keys {
        keys.push(key.as_raw_bson_ref());
    }
    also(&mut all.filter, &find.path, document("$in", keys)?)?;
    Ok(all)
}

/// Adds a condition on a field to a filter.
pub(crate) fn also(
    filter: &mut RawDocumentBuf,
    field: &str,
    condition: RawDocumentBuf,
) -> Result<()> {
    if asks(filter, field, &condition) {
        return Ok(());
    }
    if filter.get(field).is_ok_and(|other| other.is_none()) {
        return append(filter, field, condition);
    }
    let mut both = RawArrayBuf::new();
    both.push(std::mem::take(filter));
    both.push(document(field, condition)?);
    append(filter, "$and", both)
}

/// Whether the filter has the condition already, by itself or in each of its alternatives, as a page has it. Said once more
/// beside them, MongoDB would walk to a page from the beginning.
fn asks(filter: &RawDocument, field: &str, condition: &RawDocument) -> bool {
    let inside = |operator: &str| {
        let parts = filter.get_array(operator).ok()?;
        let asked = parts.into_iter().map(|part| match part {
            Ok(RawBsonRef::Document(part)) => asks(part, field, condition),
            _ => false,
        });
        Some(asked.collect::<Vec<_>>())
    };
    let itself = matches!(
        filter.get(field),
        Ok(Some(RawBsonRef::Document(asked))) if asked.as_bytes() == condition.as_bytes()
    );
    itself
        || inside("$and").is_some_and(|all| all.contains(&true))
        || inside("$or").is_some_and(|ways| !ways.is_empty() && !ways.contains(&false))
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
        let both = rawdoc! { "$and": [first, { "kind": { "$ne": "dog" } }] };
        assert_eq!(filter, both);
    }

    #[test]
    fn a_condition_is_said_once() {
        let condition = || rawdoc! { "$eq": "cat" };
        let cat = rawdoc! { "kind": { "$eq": "cat" }, "n": 1 };
        let dog = rawdoc! { "kind": { "$eq": "dog" } };
        let either =
            |a: &RawDocumentBuf, b: &RawDocumentBuf| rawdoc! { "$or": [a.clone(), b.clone()] };
        let nested = rawdoc! { "$and": [{ "n": 2 }, cat.clone()] };
        for said in [cat.clone(), either(&cat, &nested), nested] {
            let mut filter = said.clone();
            also(&mut filter, "kind", condition()).unwrap();
            assert_eq!(filter, said);
        }
        for other in [
            dog.clone(),
            rawdoc! { "$nor": [cat.clone()] },
            either(&cat, &dog),
            rawdoc! { "$or": [] },
            either(&cat, &rawdoc! {}),
        ] {
            let mut filter = other.clone();
            also(&mut filter, "kind", condition()).unwrap();
            assert_ne!(filter, other);
        }
    }
}
