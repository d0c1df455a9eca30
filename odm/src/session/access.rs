//! The access of typed operations to a backend. Every typed read and write goes through this module.

use std::{ops::Deref, sync::Arc, time::Duration};

use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use futures_util::TryFutureExt;
use tracing::{Instrument, Span};

use crate::{
    Error, ErrorKind, Result,
    backend::{
        Backend, BackendTransaction, BoxFuture, Cursor, Executor, LastConflict, Observed, Trial,
        operation::{
            AggregateOperation, BulkWrite, BulkWriteResult, Collection, CountOperation,
            DeleteOperation, DeleteResult, DistinctOperation, Explain, FindAndModify, FindEach,
            FindOperation, FindSeveral, InsertOperation, OperationOrigin, ReadOptions,
            ReadPreference, UpdateOperation, UpdateResult,
        },
        read_to_end,
    },
    error,
    language::{
        field::Path,
        query::{FilterNode, append_field, single_field_document},
    },
    model::decode,
    pending::lease::Lease,
    schema::{Model, Schema},
    session::{
        lookup,
        scope::{Scope, ScopeReach},
        soft_delete::Visibility,
        time_limit::{LimitedCursor, TimeLimit},
        trace::{self, NPlusOneDetector, OperationMetrics},
        transaction_scope::{self, AttemptError, TransactionAttempts, TransactionScope},
    },
    write::{WriteExplanation, WriterState},
};

/// The target of typed operations: an executor with a scope, a visibility and metrics. Cheap to clone.
///
/// Every operation names a model. Errors contain its name.
#[derive(Debug, Clone)]
pub struct Access {
    executor: Arc<dyn Executor>,
    backend: Arc<Observed<dyn Backend>>,
    /// The backend with the durability of the opened database, for background work. It lives as long as a handle of the application.
    opened: Arc<Observed<dyn Backend>>,
    /// The executor of [`ReadTarget::AsClient`]. `None` in a transaction, and if all reads go to the same server.
    client_reads: Option<Arc<dyn Executor>>,
    reads: ReadTarget,
    /// The models of the schema.
    models: &'static [&'static Model],
    /// The transaction of the write. `None` outside of a transaction.
    transaction_scope: Option<Arc<TransactionScope>>,
    scope: Scope,
    visibility: Visibility,
    /// Whether reads return the current source values instead of stored copies.
    reads_current_copies: bool,
    /// The metrics, which all parts of one operation share.
    metrics: Arc<OperationMetrics>,
    /// The time limit for the reads of the operation. `None` unless the caller has set a limit.
    limit: Option<Arc<TimeLimit>>,
    /// The comment of all reads of the operation.
    comment: Option<Arc<str>>,
    /// The read preference of the reads [as a client](ReadTarget::AsClient).
    read_preference: Option<ReadPreference>,
    n_plus_one: Arc<NPlusOneDetector>,
    shared: Arc<WriterState>,
    /// Whether the reference to the backend is weak.
    is_background: bool,
    /// The number of nested hooks.
    hook_depth: u8,
    /// The explanation of the write, whose operations run in a trial. `None` for a write that is executed.
    explanation: Option<Arc<WriteExplanation>>,
}

/// The server that answers the reads of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadTarget {
    /// The primary, with majority-committed data. A stale read here would cause a stale copy, a lost reference, or a false report
    /// that no work is pending.
    Primary,
    /// Any server that the options of the URL allow. Only for data that goes to the application and to no further write or check.
    AsClient,
}

/// The maximum number of nested hooks.
const MAX_HOOK_DEPTH: u8 = 16;

impl Access {
    pub(crate) fn of_database<S: Schema>(
        backend: Arc<Observed<dyn Backend>>,
        state: WriterState,
    ) -> Self {
        Self {
            executor: backend.clone(),
            client_reads: backend.client_reads(),
            opened: backend.clone(),
            backend,
            reads: ReadTarget::Primary,
            models: S::MODELS,
            transaction_scope: None,
            is_background: false,
            explanation: None,
            hook_depth: 0,
            scope: Scope::NONE,
            visibility: Visibility::Present,
            reads_current_copies: false,
            metrics: Arc::new(OperationMetrics::new("session", None)),
            limit: None,
            comment: None,
            read_preference: None,
            n_plus_one: Arc::default(),
            shared: Arc::new(state),
        }
    }

    /// Returns the access through a backend of the same database with a different durability.
    pub(crate) fn with_durability_of(&self, backend: Arc<dyn Backend>) -> Self {
        let backend = Arc::new(self.backend.wrap(backend));
        Self {
            executor: backend.clone(),
            client_reads: backend.client_reads(),
            backend,
            ..self.clone()
        }
    }

    /// Returns the access of a test database, which panics at an N+1 query.
    pub(crate) fn panicking_on_n_plus_one(self) -> Self {
        Self {
            n_plus_one: Arc::new(NPlusOneDetector::panicking()),
            ..self
        }
    }

    /// Returns this access inside a transaction.
    pub(crate) fn in_transaction(&self, scope: Arc<TransactionScope>) -> Self {
        let executor: Arc<dyn Executor> = scope.backend_transaction().clone();
        Self {
            executor,
            client_reads: None,
            transaction_scope: Some(scope),
            ..self.clone()
        }
    }

    /// Returns the access for a hook of a written model: the same database or transaction, and the same scope if the model has a
    /// scope. The hook gets metrics and a visibility of its own.
    pub(crate) fn for_hook(&self, model: &Model) -> Result<Self> {
        if self.hook_depth >= MAX_HOOK_DEPTH {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "hooks are nested {MAX_HOOK_DEPTH} levels deep: a hook probably writes the documents for which the hook runs"
                ),
            ));
        }
        let scope = match model.scope {
            None => Scope::NONE,
            Some(field) if self.scope.reach_of(&field)? == ScopeReach::All => {
                let message = "the model has hooks, which run in a single scope: write through `db.scope(…)` instead of `db.all_scopes()`";
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            Some(_) => self.scope.clone(),
        };
        Ok(Self {
            hook_depth: self.hook_depth + 1,
            scope,
            visibility: Visibility::Present,
            // The write depends on the reads of its hooks, so stale reads are not allowed.
            client_reads: None,
            reads: ReadTarget::Primary,
            metrics: Arc::new(OperationMetrics::new("session", None)),
            ..self.clone().without_time_limit()
        })
    }

    /// Returns the access for background work: with a weak reference to the backend, and without a time limit. Once the
    /// application has dropped every handle of the backend, operations return an error of kind [`Closed`](ErrorKind::Closed).
    pub(crate) fn in_background(&self) -> Self {
        if self.is_background {
            return self.clone();
        }
        let backend = Arc::new(match &self.explanation {
            None => self.opened.downgrade(),
            // The trial ends when the write returns, so background work stays pending.
            Some(_) => self.backend.dropped(),
        });
        Self {
            executor: backend.clone(),
            // A strong reference would keep the file open.
            opened: backend.clone(),
            backend,
            is_background: true,
            transaction_scope: None,
            client_reads: None,
            reads: ReadTarget::Primary,
            limit: None,
            ..self.clone()
        }
    }

    /// Begins a trial of a write: every operation through the returned access is undone.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](ErrorKind::Unsupported) in a transaction, and on a backend without transactions.
    pub(crate) async fn begin_trial(
        &self,
        explanation: Arc<WriteExplanation>,
        has_transactions: bool,
    ) -> Result<(Trial, Self)> {
        if self.transaction_scope.is_some() {
            let message = "a write in a transaction cannot be explained: explain the write through the database";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let (trial, backend) = self.backend.begin_trial(has_transactions).await?;
        let backend = Arc::new(backend);
        let access = Self {
            executor: backend.clone(),
            backend,
            client_reads: None,
            shared: Arc::new(self.shared.for_trial()),
            explanation: Some(explanation),
            ..self.clone()
        };
        Ok((trial, access))
    }

    /// Returns the explanation of the write. `None` for a write that is executed.
    pub(crate) fn explanation(&self) -> Option<&WriteExplanation> {
        self.explanation.as_deref()
    }

    /// Returns the access to all documents: of every scope, and soft-deleted.
    pub(crate) fn with_full_visibility(&self) -> Self {
        let access = self
            .clone()
            .with_scope(Scope::ALL)
            .with_visibility(Visibility::All);
        access.reading_from_primary()
    }

    /// Returns the access with reads according to the options of the URL. Only for documents that go to the application: a write
    /// or a check after such a read may depend on stale data.
    pub(crate) fn reading_as_client(self) -> Self {
        Self {
            reads: ReadTarget::AsClient,
            ..self
        }
    }

    /// Returns the access with reads from the primary.
    pub(crate) fn reading_from_primary(self) -> Self {
        Self {
            reads: ReadTarget::Primary,
            ..self
        }
    }

    /// Returns the executor of reads.
    fn read_executor(&self) -> &dyn Executor {
        match (self.reads, &self.client_reads) {
            (ReadTarget::AsClient, Some(reads)) => &**reads,
            _ => &*self.executor,
        }
    }

    /// Returns the models of the schema.
    pub(crate) fn schema_models(&self) -> &'static [&'static Model] {
        self.models
    }

    /// Returns the backend, for operations that are not about documents.
    pub(crate) fn backend(&self) -> Arc<dyn Backend> {
        self.backend.clone()
    }

    /// Begins a transaction of the database. The conflicts of the operations in the transaction go to `last_conflict`.
    pub(crate) async fn begin_transaction(
        &self,
        last_conflict: &Arc<LastConflict>,
    ) -> Result<Arc<dyn BackendTransaction>> {
        match &self.transaction_scope {
            None => self.backend.begin_noting(last_conflict).await,
            Some(_) => Err(Error::new(
                ErrorKind::Unsupported,
                "a transaction cannot begin inside another transaction: use the open transaction",
            )),
        }
    }

    /// Returns the state that all writes of this process share.
    pub(crate) fn shared_state(&self) -> &WriterState {
        &self.shared
    }

    /// Returns the lease on pending work that this process records.
    pub(crate) fn lease(&self) -> Lease {
        self.shared.lease()
    }

    /// Returns the transaction of this access.
    pub(crate) fn transaction_scope(&self) -> Option<&Arc<TransactionScope>> {
        self.transaction_scope.as_ref()
    }

    /// Returns whether a write can be undone, in the current transaction or in a new transaction.
    pub(crate) fn has_transactions(&self) -> bool {
        self.transaction_scope.is_some() || self.backend.capabilities().transactions
    }

    /// Returns whether a long write blocks all other writes.
    pub(crate) fn writes_are_serial(&self) -> bool {
        self.backend.capabilities().serial_writes
    }

    /// Runs `work` in the current transaction, or in a new transaction if the backend has transactions. Without transactions,
    /// `work` runs directly.
    ///
    /// Boxed, so that the compiler checks the nested futures of `work` here and not again in each caller.
    pub(crate) fn run_transactional<'w, R, F>(
        &'w self,
        work: impl FnMut(Self) -> F + Send + 'w,
    ) -> BoxFuture<'w, Result<R>>
    where
        R: Send + 'w,
        F: Future<Output = Result<R>> + Send + 'w,
    {
        self.run_with_attempts(transaction_scope::DEFAULT_TRANSACTION_ATTEMPTS, work)
    }

    /// Runs `work` as [`run_transactional`](Self::run_transactional), with another limit of attempts.
    pub(crate) fn run_with_attempts<'w, R, F>(
        &'w self,
        attempts: TransactionAttempts,
        mut work: impl FnMut(Self) -> F + Send + 'w,
    ) -> BoxFuture<'w, Result<R>>
    where
        R: Send + 'w,
        F: Future<Output = Result<R>> + Send + 'w,
    {
        if self.transaction_scope.is_some() || !self.has_transactions() {
            return Box::pin(work(self.clone()));
        }
        let model = self.metrics.model();
        let collection = model.map(|model| model.collection);
        let work = move |access| work(access).map_err(AttemptError::from);
        Box::pin(transaction_scope::run_transaction(
            self, attempts, collection, work,
        ))
    }

    /// Remembers a conflict of an operation in the current transaction, so that the transaction runs again. Returns the error.
    pub(crate) fn note_conflict(&self, error: Error) -> Error {
        if let Some(scope) = self.transaction_scope() {
            scope.note_conflict(&error);
        }
        error
    }

    /// Makes the current transaction rollback-only, even if the caller ignores the error. After a conflict, the transaction runs
    /// again. Returns the error.
    pub(crate) fn fail_transaction(&self, error: Error) -> Error {
        if let Some(scope) = self.transaction_scope() {
            scope.set_rollback_only(&error);
        }
        self.note_conflict(error)
    }

    /// Returns the access for one operation.
    pub(crate) fn for_operation(&self, name: &'static str, model: Option<&'static Model>) -> Self {
        Self {
            metrics: Arc::new(OperationMetrics::new(name, model)),
            limit: self.limit_of(name),
            ..self.clone()
        }
    }

    /// Returns the access for another run of the same operation, with fresh metrics.
    pub(crate) fn for_repeat(&self) -> Self {
        Self {
            metrics: Arc::new(self.metrics.fresh_copy()),
            limit: self.limit_of(self.metrics.name()),
            ..self.clone()
        }
    }

    /// Returns the access with a time limit for all reads of the operation together.
    pub(crate) fn with_time_limit(self, max_time: Duration) -> Self {
        Self {
            limit: Some(Arc::new(TimeLimit::new(self.metrics.name(), max_time))),
            ..self
        }
    }

    /// Returns the access without a time limit. A write must not be cut off.
    pub(crate) fn without_time_limit(self) -> Self {
        Self {
            limit: None,
            ..self
        }
    }

    /// Returns the time limit for another operation, with the full time left.
    fn limit_of(&self, operation: &'static str) -> Option<Arc<TimeLimit>> {
        let limit = self.limit.as_deref();
        limit.map(|limit| Arc::new(limit.for_operation(operation)))
    }

    /// Returns the maximum time of the next read.
    fn max_time(&self, model: &Model) -> Result<Option<Duration>> {
        let remaining = self
            .limit
            .as_deref()
            .map(TimeLimit::remaining_time)
            .transpose();
        remaining.map_err(error::naming_model(model))
    }

    /// Sets the options that the caller has chosen for all reads of the operation.
    fn set_read_options(&self, model: &Model, options: &mut ReadOptions) -> Result<()> {
        lookup::ensure_applied(options).map_err(error::naming_model(model))?;
        options.origin = self.origin(options.origin);
        options.max_time = self.max_time(model)?;
        options.comment = self.comment.as_deref().map(str::to_owned);
        if self.reads == ReadTarget::AsClient && self.read_preference.is_some() {
            if self.transaction_scope.is_some() {
                let message = "a transaction reads from the primary: leave out `read_preference`";
                let error = Error::new(ErrorKind::Unsupported, message);
                return Err(error::naming_model(model)(error));
            }
            options.read_preference = self.read_preference;
        }
        Ok(())
    }

    /// Returns the origin with the typed action of this access.
    pub(crate) fn origin(&self, origin: OperationOrigin) -> OperationOrigin {
        origin.in_action(self.metrics.name())
    }

    /// Returns the access with a comment for all reads of the operation.
    pub(crate) fn with_comment(self, comment: String) -> Self {
        Self {
            comment: Some(comment.into()),
            ..self
        }
    }

    /// Returns the access with a read preference for the reads that may be stale.
    pub(crate) fn with_read_preference(self, preference: ReadPreference) -> Self {
        Self {
            read_preference: Some(preference),
            ..self
        }
    }

    /// Awaits a read within the time limit of the operation.
    async fn run_limited<R>(&self, read: impl Future<Output = Result<R>>) -> Result<R> {
        match &self.limit {
            None => read.await,
            Some(limit) => limit.run_timed(read).await,
        }
    }

    /// Wraps a cursor with the time limit of the operation.
    fn limit_cursor(&self, cursor: Box<dyn Cursor>) -> Box<dyn Cursor> {
        match self.limit.clone() {
            None => cursor,
            Some(limit) => Box::new(LimitedCursor { cursor, limit }),
        }
    }

    /// Returns the metrics of the operation.
    pub(crate) fn operation_metrics(&self) -> &OperationMetrics {
        &self.metrics
    }

    /// Records a query of the application, to detect N+1 queries.
    pub(crate) fn record_query(&self, model: &Model, find: &FindOperation) {
        self.n_plus_one.record_query(model, find);
    }

    /// Logs the plan for a filter, if the target `odm::plan` is enabled.
    ///
    /// Runs outside of the transaction: MongoDB cannot explain a query in a transaction, and aborts a transaction that tries.
    pub(crate) async fn log_plan(
        &self,
        model: &Model,
        find: impl FnOnce() -> Result<FindOperation>,
    ) {
        // The operation itself reports an error of the query. In a trial, the plan would be one of its operations.
        if trace::is_plan_logged()
            && self.explanation.is_none()
            && let Ok(find) = find()
        {
            let filter = find.filter.clone();
            if let Ok(explain) = self
                .backend
                .explain(find)
                .instrument(self.operation_span())
                .await
            {
                self.operation_span()
                    .in_scope(|| trace::log_plan(model, &filter, &explain));
            }
        }
    }

    fn operation_span(&self) -> Span {
        self.metrics.tracing_span().clone()
    }

    /// Sends one read to the backend.
    async fn run_read<R>(&self, model: &Model, read: impl Future<Output = Result<R>>) -> Result<R> {
        self.metrics.add_query();
        let read = read.instrument(self.operation_span());
        self.run_limited(read)
            .await
            .map_err(error::naming_model(model))
    }

    /// Sends one read to the backend, and counts the returned documents.
    async fn read_all(
        &self,
        model: &Model,
        read: impl Future<Output = Result<Vec<RawDocumentBuf>>>,
    ) -> Result<Vec<RawDocumentBuf>> {
        let documents = self.run_read(model, read).await?;
        self.metrics.add_documents(documents.len() as u64);
        Ok(documents)
    }

    /// Returns the access for a scope.
    pub(crate) fn with_scope(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// Returns the access for the scope of a document, if the current access covers all scopes.
    pub(crate) fn in_scope_of(&self, model: &Model, value: Option<&RawBson>) -> Self {
        match (&model.scope, value) {
            (Some(field), Some(value)) if self.scope.is_all() => self
                .clone()
                .with_scope(Scope::of_stored(field, value.clone())),
            _ => self.clone(),
        }
    }

    /// Returns the access with a visibility of soft-deleted documents.
    pub(crate) fn with_visibility(self, visibility: Visibility) -> Self {
        Self { visibility, ..self }
    }

    /// Returns the access with current source values instead of stored copies. Only the primary has current values.
    pub(crate) fn reading_current(self) -> Self {
        Self {
            reads_current_copies: true,
            ..self.reading_from_primary()
        }
    }

    /// Returns whether reads return the current source values instead of stored copies.
    pub(crate) fn reads_current_copies(&self) -> bool {
        self.reads_current_copies
    }

    /// Returns the access to documents that a written document refers to. The access of a restore sees only soft-deleted documents, but
    /// the references of the restored document need live targets.
    pub(crate) fn for_targets(&self) -> Self {
        match self.visibility {
            Visibility::Deleted => self.clone().with_visibility(Visibility::Present),
            Visibility::Present | Visibility::All => self.clone(),
        }
    }

    /// Returns the visibility of soft-deleted documents.
    pub(crate) fn visibility(&self) -> Visibility {
        self.visibility
    }

    /// Returns the scope.
    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Returns whether both use the same database or the same transaction.
    pub(crate) fn is_same_target(&self, other: &Self) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.executor), Arc::as_ptr(&other.executor))
    }

    /// Restricts a filter to the visible documents of the model. The collection may contain documents of other models.
    pub(crate) fn restrict_filter(&self, model: &Model, filter: &mut RawDocumentBuf) -> Result<()> {
        for (field, operator, value) in self.read_restrictions(model)? {
            add_condition(filter, field, single_field_document(operator, value)?)?;
        }
        Ok(())
    }

    /// Returns the same restriction as a node of a filter tree.
    pub(crate) fn restriction_node(&self, model: &Model) -> Result<FilterNode> {
        let conditions = self.read_restrictions(model)?.into_iter();
        let conditions = conditions.map(|(field, operator, value)| {
            FilterNode::Test(Path::ROOT.subfield(field), operator, value)
        });
        Ok(conditions.fold(FilterNode::All, FilterNode::and))
    }

    /// Returns the conditions that the visible documents of the model meet: field, operator and value.
    fn read_restrictions(
        &self,
        model: &Model,
    ) -> Result<Vec<(&'static str, &'static str, RawBson)>> {
        let mut conditions = Vec::new();
        if let Some((field, value)) = model.tag {
            conditions.push((field, "$eq", value.into()));
        }
        if let Some(field) = &model.scope {
            match self
                .scope
                .reach_of(field)
                .map_err(error::naming_model(model))?
            {
                ScopeReach::All => {}
                ScopeReach::Scope(value) => conditions.push((field.stored, "$eq", value)),
                ScopeReach::Nothing => conditions.push(("_id", "$in", RawArrayBuf::new().into())),
            }
        }
        if let Some(field) = model.soft_delete {
            match self.visibility {
                Visibility::Present => conditions.push((field, "$eq", RawBson::Null)),
                Visibility::Deleted => conditions.push((field, "$ne", RawBson::Null)),
                Visibility::All => {}
            }
        }
        Ok(conditions)
    }

    /// Returns whether a matching document exists that this access cannot see: in another scope, soft-deleted, or of another
    /// variant. A document that fails the condition `visible` counts as well.
    pub(crate) async fn hides_match(
        &self,
        model: &Model,
        mut count: CountOperation,
        mut visible: RawDocumentBuf,
    ) -> Result<bool> {
        self.restrict_filter(model, &mut visible)?;
        if visible.is_empty() {
            return Ok(false);
        }
        let mut excluded = RawArrayBuf::new();
        excluded.push(visible);
        append_field(&mut count.filter, "$nor", excluded)?;
        count.options.origin = self.origin(count.options.origin);
        count.options.max_time = self.max_time(model)?;
        Ok(self.run_read(model, self.executor.count(count)).await? > 0)
    }

    /// Returns whether the collection of the model may contain documents that this access cannot see.
    pub(crate) fn has_restrictions(&self, model: &Model) -> bool {
        self.read_restrictions(model)
            .map_or(true, |conditions| !conditions.is_empty())
    }

    /// Returns a cursor over the matching documents.
    pub(crate) async fn find(
        &self,
        model: &Model,
        mut find: FindOperation,
    ) -> Result<Box<dyn Cursor>> {
        if lookup::is_used(&find.options) {
            return self
                .aggregate(model, lookup::find_as_aggregate(find)?)
                .await;
        }
        self.restrict_filter(model, &mut find.filter)?;
        self.log_plan(model, || Ok(find.clone())).await;
        self.set_read_options(model, &mut find.options)?;
        let cursor = self
            .run_read(model, self.read_executor().find(find))
            .await?;
        Ok(self.limit_cursor(cursor))
    }

    /// Returns all matching documents.
    pub(crate) async fn find_all(
        &self,
        model: &Model,
        mut find: FindOperation,
    ) -> Result<Vec<RawDocumentBuf>> {
        if lookup::is_used(&find.options) {
            let aggregate = lookup::find_as_aggregate(find)?;
            return self.aggregate_all(model, aggregate).await;
        }
        self.restrict_filter(model, &mut find.filter)?;
        self.log_plan(model, || Ok(find.clone())).await;
        self.set_read_options(model, &mut find.options)?;
        self.read_all(model, self.read_executor().find_all(find))
            .await
    }

    pub(crate) async fn find_each(
        &self,
        model: &Model,
        mut find: FindEach,
    ) -> Result<Vec<RawDocumentBuf>> {
        self.restrict_filter(model, &mut find.filter)?;
        self.log_plan(model, || find_for_keys(&find)).await;
        self.set_read_options(model, &mut find.options)?;
        let rows = async { read_to_end(self.read_executor().find_each(find).await?).await };
        self.read_all(model, rows).await
    }

    /// Runs several queries on different models in one round trip.
    pub(crate) async fn find_several(
        &self,
        queries: Vec<(&'static Model, FindOperation)>,
    ) -> Result<Vec<Vec<RawDocumentBuf>>> {
        let mut finds = Vec::with_capacity(queries.len());
        for (model, mut find) in queries {
            self.restrict_filter(model, &mut find.filter)?;
            self.log_plan(model, || Ok(find.clone())).await;
            self.set_read_options(model, &mut find.options)?;
            finds.push(find);
        }
        let mut batches = vec![Vec::new(); finds.len()];
        if finds.is_empty() {
            return Ok(batches);
        }
        self.metrics.add_query();
        let rows = async {
            read_to_end(
                self.read_executor()
                    .find_several(FindSeveral { finds })
                    .await?,
            )
            .await
        };
        let rows = self
            .run_limited(rows.instrument(self.operation_span()))
            .await?;
        self.metrics.add_documents(rows.len() as u64);
        for row in rows {
            let query = row
                .get_i32("query")
                .ok()
                .and_then(|query| usize::try_from(query).ok());
            let results = query.and_then(|query| batches.get_mut(query));
            match (results, row.get_document("document")) {
                (Some(results), Ok(document)) => results.push(document.to_owned()),
                _ => return Err(broken_contract()),
            }
        }
        Ok(batches)
    }

    pub(crate) async fn explain(&self, model: &Model, mut find: FindOperation) -> Result<Explain> {
        if lookup::is_used(&find.options) {
            find = lookup::part_before(find)?;
        }
        self.restrict_filter(model, &mut find.filter)?;
        self.set_read_options(model, &mut find.options)?;
        self.run_read(model, self.read_executor().explain(find))
            .await
    }

    pub(crate) async fn count(&self, model: &Model, mut count: CountOperation) -> Result<u64> {
        if lookup::is_used(&count.options) {
            let aggregate = lookup::count_as_aggregate(count)?;
            return lookup::counted(&self.aggregate_all(model, aggregate).await?);
        }
        self.restrict_filter(model, &mut count.filter)?;
        self.log_plan(model, || {
            Ok(find_matching(count.collection.clone(), &count.filter))
        })
        .await;
        self.set_read_options(model, &mut count.options)?;
        self.run_read(model, self.read_executor().count(count))
            .await
    }

    pub(crate) async fn distinct(
        &self,
        model: &Model,
        mut distinct: DistinctOperation,
    ) -> Result<Vec<RawBson>> {
        self.restrict_filter(model, &mut distinct.filter)?;
        let find = || Ok(find_matching(distinct.collection.clone(), &distinct.filter));
        self.log_plan(model, find).await;
        self.set_read_options(model, &mut distinct.options)?;
        self.run_read(model, self.read_executor().distinct(distinct))
            .await
    }

    pub(crate) async fn aggregate(
        &self,
        model: &Model,
        aggregate: AggregateOperation,
    ) -> Result<Box<dyn Cursor>> {
        let aggregate = self.restrict_pipeline(model, aggregate).await?;
        let cursor = self
            .run_read(model, self.read_executor().aggregate(aggregate))
            .await?;
        Ok(self.limit_cursor(cursor))
    }

    /// Returns all results of a pipeline.
    pub(crate) async fn aggregate_all(
        &self,
        model: &Model,
        aggregate: AggregateOperation,
    ) -> Result<Vec<RawDocumentBuf>> {
        let aggregate = self.restrict_pipeline(model, aggregate).await?;
        self.read_all(model, self.read_executor().aggregate_all(aggregate))
            .await
    }

    /// Inserts documents. The write path has already added metadata and follow-up work to the write.
    // The writes are no `async fn`: their futures would contain the operation, and the write path is deeply nested.
    pub(crate) fn insert<'a>(
        &'a self,
        model: &'a Model,
        mut insert: InsertOperation,
    ) -> impl Future<Output = Result<()>> + Send + 'a {
        insert.origin = self.origin(insert.origin);
        self.run_write(model, self.executor.insert(insert))
    }

    /// Updates documents that match the filter as it is. The write path has already restricted the filter.
    pub(crate) fn update<'a>(
        &'a self,
        model: &'a Model,
        mut update: UpdateOperation,
    ) -> impl Future<Output = Result<UpdateResult>> + Send + 'a {
        update.origin = self.origin(update.origin);
        self.run_write(model, self.executor.update(update))
    }

    /// Deletes documents that match the filter as it is. The write path has already restricted the filter.
    pub(crate) fn delete<'a>(
        &'a self,
        model: &'a Model,
        mut delete: DeleteOperation,
    ) -> impl Future<Output = Result<DeleteResult>> + Send + 'a {
        delete.origin = self.origin(delete.origin);
        self.run_write(model, self.executor.delete(delete))
    }

    /// Changes or deletes the document that matches the filter as it is. The write path has already restricted the filter.
    pub(crate) fn find_and_modify<'a>(
        &'a self,
        model: &'a Model,
        mut modify: FindAndModify,
    ) -> impl Future<Output = Result<Option<RawDocumentBuf>>> + Send + 'a {
        modify.origin = self.origin(modify.origin);
        self.run_write(model, self.executor.find_and_modify(modify))
    }

    /// Executes several writes, possibly of different models, in one operation.
    pub(crate) fn bulk_write(&self, mut bulk: BulkWrite) -> BoxFuture<'_, Result<BulkWriteResult>> {
        bulk.origin = self.origin(bulk.origin);
        self.metrics.add_write();
        self.executor.bulk_write(bulk)
    }

    /// Sends one write to the backend.
    fn run_write<'a, R: 'a>(
        &'a self,
        model: &'a Model,
        write: BoxFuture<'a, Result<R>>,
    ) -> impl Future<Output = Result<R>> + Send + 'a {
        self.metrics.add_write();
        write.map_err(error::naming_model(model))
    }

    /// Returns all documents of the collection that match, also documents without a model or of other variants.
    pub(crate) async fn find_all_in_collection(
        &self,
        mut find: FindOperation,
    ) -> Result<Vec<RawDocumentBuf>> {
        find.options.origin = self.origin(find.options.origin);
        self.metrics.add_query();
        self.executor.find_all(find).await
    }

    /// Returns whether the collection has a document, also a document of another scope or variant.
    pub(crate) async fn has_documents(
        &self,
        collection: &'static str,
        origin: OperationOrigin,
    ) -> Result<bool> {
        let count = CountOperation {
            collection: collection.into(),
            filter: RawDocumentBuf::new(),
            limit: Some(1),
            options: self.origin(origin).into(),
        };
        self.metrics.add_query();
        Ok(self.executor.count(count).await? > 0)
    }

    async fn restrict_pipeline(
        &self,
        model: &Model,
        mut aggregate: AggregateOperation,
    ) -> Result<AggregateOperation> {
        lookup::add_lookups(&mut aggregate)?;
        let mut restriction = RawDocumentBuf::new();
        self.restrict_filter(model, &mut restriction)?;
        // Skip an empty `$match`: some stages must come first in a pipeline.
        if !restriction.is_empty() {
            aggregate
                .pipeline
                .insert(0, single_field_document("$match", restriction)?);
        }
        let find = || {
            let first = aggregate.pipeline.first();
            let filter = first.and_then(|stage| stage.get_document("$match").ok());
            let filter = filter.map(RawDocument::to_owned).unwrap_or_default();
            Ok(find_matching(aggregate.collection.clone(), &filter))
        };
        self.log_plan(model, find).await;
        self.set_read_options(model, &mut aggregate.options)?;
        Ok(aggregate)
    }
}

fn broken_contract() -> Error {
    let message = "the backend returned a malformed row for several queries: expected `{query: <int32>, document: {…}}`";
    Error::new(ErrorKind::Decode, message)
}

/// An access to the documents of one model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ModelAccess<'a> {
    access: &'a Access,
    pub(crate) model: &'static Model,
}

impl Access {
    /// Returns the access to the documents of a model.
    pub(crate) fn to(&self, model: &'static Model) -> ModelAccess<'_> {
        ModelAccess {
            access: self,
            model,
        }
    }
}

/// The operations on the documents of the model. As in [`Access`], the writes are no `async fn`.
impl<'a> ModelAccess<'a> {
    /// Returns the query for the documents that match a filter.
    pub(crate) fn find_matching(self, filter: &RawDocument) -> FindOperation {
        find_matching(self.model.collection, filter)
    }

    pub(crate) async fn find(self, find: FindOperation) -> Result<Box<dyn Cursor>> {
        self.access.find(self.model, find).await
    }

    pub(crate) async fn find_all(self, find: FindOperation) -> Result<Vec<RawDocumentBuf>> {
        self.access.find_all(self.model, find).await
    }

    /// Returns the ids of the documents that match a query.
    pub(crate) async fn find_ids(self, find: FindOperation) -> Result<Vec<RawBson>> {
        let find = find.with_projection(rawdoc! { "_id": 1 });
        let found = self.find_all(find).await?;
        let ids = found.iter().filter_map(|raw| decode::owned_id(raw));
        Ok(ids.collect())
    }

    pub(crate) async fn count(self, count: CountOperation) -> Result<u64> {
        self.access.count(self.model, count).await
    }

    pub(crate) fn insert(
        self,
        insert: InsertOperation,
    ) -> impl Future<Output = Result<()>> + Send + 'a {
        self.access.insert(self.model, insert)
    }

    pub(crate) fn update(
        self,
        update: UpdateOperation,
    ) -> impl Future<Output = Result<UpdateResult>> + Send + 'a {
        self.access.update(self.model, update)
    }

    pub(crate) fn delete(
        self,
        delete: DeleteOperation,
    ) -> impl Future<Output = Result<DeleteResult>> + Send + 'a {
        self.access.delete(self.model, delete)
    }
}

impl Deref for ModelAccess<'_> {
    type Target = Access;

    fn deref(&self) -> &Access {
        self.access
    }
}

/// Returns the query for the documents that match a filter.
pub(crate) fn find_matching(
    collection: impl Into<Collection>,
    filter: &RawDocument,
) -> FindOperation {
    FindOperation {
        collection: collection.into(),
        filter: filter.to_owned(),
        projection: None,
        sort: None,
        limit: None,
        options: Default::default(),
    }
}

/// Returns the query for the documents of all keys.
fn find_for_keys(find: &FindEach) -> Result<FindOperation> {
    let mut query = find_matching(find.collection.clone(), &find.filter);
    let mut keys = RawArrayBuf::new();
    for key in &find.keys {
        keys.push(key.as_raw_bson_ref());
    }
    add_condition(
        &mut query.filter,
        &find.path,
        single_field_document("$in", keys)?,
    )?;
    Ok(query)
}

/// Adds a condition on a field to a filter.
pub(crate) fn add_condition(
    filter: &mut RawDocumentBuf,
    field: &str,
    condition: RawDocumentBuf,
) -> Result<()> {
    if has_condition(filter, field, &condition) {
        return Ok(());
    }
    if filter.get(field).is_ok_and(|existing| existing.is_none()) {
        return append_field(filter, field, condition);
    }
    let mut conditions = RawArrayBuf::new();
    conditions.push(std::mem::take(filter));
    conditions.push(single_field_document(field, condition)?);
    append_field(filter, "$and", conditions)
}

/// Returns whether the filter has the condition already, directly or in each alternative of an `$or`. A repeated condition beside
/// a page's `$or` would make MongoDB scan from the beginning of the index.
fn has_condition(filter: &RawDocument, field: &str, condition: &RawDocument) -> bool {
    let branches = |operator: &str| {
        let branches = filter.get_array(operator).ok()?;
        let present = branches.into_iter().map(|branch| match branch {
            Ok(RawBsonRef::Document(branch)) => has_condition(branch, field, condition),
            _ => false,
        });
        Some(present.collect::<Vec<_>>())
    };
    let is_direct = matches!(
        filter.get(field),
        Ok(Some(RawBsonRef::Document(existing))) if existing.as_bytes() == condition.as_bytes()
    );
    is_direct
        || branches("$and").is_some_and(|all| all.contains(&true))
        || branches("$or")
            .is_some_and(|alternatives| !alternatives.is_empty() && !alternatives.contains(&false))
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn a_condition_is_added_to_a_filter() {
        let condition = || rawdoc! { "$eq": "cat" };
        let mut filter = rawdoc! { "_id": { "$eq": 1 } };
        add_condition(&mut filter, "kind", condition()).unwrap();
        assert_eq!(
            filter,
            rawdoc! { "_id": { "$eq": 1 }, "kind": { "$eq": "cat" } }
        );
        add_condition(&mut filter, "kind", rawdoc! { "$ne": "dog" }).unwrap();
        let first = rawdoc! { "_id": { "$eq": 1 }, "kind": { "$eq": "cat" } };
        let both = rawdoc! { "$and": [first, { "kind": { "$ne": "dog" } }] };
        assert_eq!(filter, both);
    }

    #[test]
    fn a_condition_is_not_repeated() {
        let condition = || rawdoc! { "$eq": "cat" };
        let cat = rawdoc! { "kind": { "$eq": "cat" }, "n": 1 };
        let dog = rawdoc! { "kind": { "$eq": "dog" } };
        let disjunction =
            |a: &RawDocumentBuf, b: &RawDocumentBuf| rawdoc! { "$or": [a.clone(), b.clone()] };
        let nested = rawdoc! { "$and": [{ "n": 2 }, cat.clone()] };
        for original in [cat.clone(), disjunction(&cat, &nested), nested] {
            let mut filter = original.clone();
            add_condition(&mut filter, "kind", condition()).unwrap();
            assert_eq!(filter, original);
        }
        for original in [
            dog.clone(),
            rawdoc! { "$nor": [cat.clone()] },
            disjunction(&cat, &dog),
            rawdoc! { "$or": [] },
            disjunction(&cat, &rawdoc! {}),
        ] {
            let mut filter = original.clone();
            add_condition(&mut filter, "kind", condition()).unwrap();
            assert_ne!(filter, original);
        }
    }
}
