//! Runs updates: hooks, requirements, and checks of the outcome against the validation rules.

use crate::model::{
    hook::{self, Committed, HookedWrite, RunHooks},
    validation::{OutcomeCheck, check_update},
};
use bson::{RawArrayBuf, RawBson, RawDocumentBuf};

use super::{
    Update, Updated,
    operators::FinishedUpdate,
    requirement::{RequirementReason, UpdateRequirement},
};
use crate::{
    Error, ErrorKind, Result,
    action::{
        explain::ExplainWrite,
        target::{ErasedTarget, TargetKind, WriteTarget, decode_id, to_raw},
    },
    backend::{BoxFuture, operation},
    error,
    language::{
        field::Path,
        query::{FilterNode, append_field, single_field_document},
    },
    model::{decode, document::Document},
    overflow,
    overflow::element_search::any_element_condition,
    relation::resolve_related,
    schema::{Model, upgrade},
    session::{access::Access, retry, soft_delete::Visibility, trace},
    write::WriteRequest,
};

/// The form of an update: counting, or returning a document.
#[derive(Debug, Clone)]
#[doc(hidden)]
pub enum UpdateForm {
    /// Returns the number of documents.
    Count,
    /// Returns the first document.
    FindAndModify {
        projection: Option<RawDocumentBuf>,
        return_new: bool,
    },
}

/// The result of an update.
#[derive(Debug)]
#[doc(hidden)]
pub enum UpdateOutput {
    Counted(Updated),
    Found(Option<RawDocumentBuf>),
}

impl UpdateOutput {
    pub(in crate::action) fn is_applied(&self) -> bool {
        match self {
            Self::Counted(counts) => counts.is_applied(),
            Self::Found(document) => document.is_some(),
        }
    }

    pub(in crate::action) fn into_counts(self) -> Updated {
        match self {
            Self::Counted(counts) => counts,
            Self::Found(_) => Updated::default(),
        }
    }

    pub(in crate::action) fn into_document(self) -> Option<RawDocumentBuf> {
        match self {
            Self::Counted(_) => None,
            Self::Found(document) => document,
        }
    }
}

impl<T: Document, K: TargetKind> Update<T, K> {
    /// Makes the filter and the update document. The filter contains the room for pushed elements: two concurrent pushes must not
    /// both take the last place.
    pub(in crate::action) fn into_prepared(self) -> Result<PreparedUpdate> {
        let condition = self.target.full_condition().map_err(error::of_model::<T>)?;
        let checked = self.changes.ensure_compatible(&condition);
        checked.map_err(error::of_model::<T>)?;
        let outcome_check = check_update::<T>(self.changes.path_changes())?;
        let FinishedUpdate {
            update,
            array_filters,
            place_condition: places,
            mut requirements,
        } = self.changes.into_finished().map_err(error::of_model::<T>)?;
        // With computed fields the update becomes a pipeline. There, a sum beyond an `i64` becomes a `double` instead of an
        // error, so the range check stays.
        if T::MODEL.computed.is_empty() {
            requirements.retain(|requirement| !requirement.is_checked_by_backend());
        }
        ensure_room_checkable(&requirements).map_err(error::of_model::<T>)?;
        Ok(PreparedUpdate {
            condition: condition.and(places.clone()),
            access: self.access,
            aim: self.target.to_erased().map_err(error::of_model::<T>)?,
            place_condition: places,
            change: operation::DocumentChange::Operators {
                update,
                array_filters,
            },
            requirements,
            outcome_check,
        })
    }

    /// Returns the plan of the update, without changing anything: see [`ExplainWrite`].
    pub fn explain(self) -> ExplainWrite<'static> {
        let access = self.access.clone();
        let prepared = self.into_prepared();
        ExplainWrite::new::<T, _>(access, |access| async move {
            let update = PreparedUpdate {
                access,
                ..prepared?
            };
            update
                .execute_or_not_found(&UpdateForm::Count)
                .await
                .map(drop)
        })
    }

    /// Runs the update with the hooks of the model. An update whose patches have no values reads instead.
    pub(in crate::action) fn run_update(
        self,
        form: UpdateForm,
    ) -> BoxFuture<'static, Result<UpdateOutput>> {
        if self.is_unchanged() {
            return Box::pin(async move {
                let found = find_unchanged(&self.access, &self.target, &form).await?;
                match self.target.only_id() {
                    Some(id) if !found.is_applied() => Err(error::not_found::<T>(id)),
                    _ => Ok(found),
                }
            });
        }
        if T::HAS_HOOKS {
            return self.run_with_hooks(form);
        }
        PreparedUpdate::boxed_execute(self.into_prepared(), form)
    }

    /// Boxed as a trait object, so that models without hooks do not compile this code.
    fn run_with_hooks(self, form: UpdateForm) -> BoxFuture<'static, Result<UpdateOutput>> {
        Box::pin(async move {
            let Some(hooks) = T::hooks() else {
                return self.into_prepared()?.execute_or_not_found(&form).await;
            };
            let access = self.access.clone();
            let work = |access: Access| {
                let (update, form) = (self.clone(), form.clone());
                async move { update.run_hooked(hooks, access, form).await }
            };
            access.run_transactional(work).await
        })
    }

    async fn run_hooked(
        mut self,
        hooks: &'static dyn RunHooks<T>,
        access: Access,
        form: UpdateForm,
    ) -> Result<UpdateOutput> {
        let is_many = matches!(form, UpdateForm::Count) && !self.target.has_key();
        self.target.resolve_related(&access).await?;
        let mut changes = hook::Changes {
            selection: self.target.to_selection(&access, is_many)?,
            operators: std::mem::take(&mut self.changes),
            is_save: false,
        };
        let before = hooks.before_update(&mut changes, &access).await;
        before.map_err(|error| access.fail_transaction(error))?;
        let update = Self {
            access: access.clone(),
            target: self.target.restrict_to(changes.selection.ids_condition()?),
            changes: changes.operators.clone(),
        };
        let update = update
            .into_prepared()
            .map_err(|error| access.fail_transaction(error))?;
        hook::run_with_after_hooks(access, hooks, move |access| async move {
            let output = update.execute_or_not_found(&form).await?;
            if !output.is_applied() {
                return Ok(HookedWrite::without_match(output));
            }
            if let UpdateOutput::Found(Some(document)) = &output
                && changes.selection.ids.is_none()
                && let Ok(id) = decode_id::<T>(document)
            {
                changes.selection.ids = Some(vec![id]);
            }
            Ok(HookedWrite {
                done: output,
                after_hooks: hooks.after_update(&changes, &access).await,
                events: vec![Committed::Updated(changes)],
            })
        })
        .await
    }
}

/// Finds the documents of an update without changes.
pub(in crate::action) async fn find_unchanged<T: Document, K: TargetKind>(
    access: &Access,
    target: &WriteTarget<T, K>,
    form: &UpdateForm,
) -> Result<UpdateOutput> {
    let condition = target.full_condition().map_err(error::of_model::<T>)?;
    let condition = resolve_related(access, &T::MODEL, condition).await?;
    let filter = to_raw(&T::MODEL, &condition)?;
    let UpdateForm::FindAndModify { projection, .. } = form else {
        let count = operation::CountOperation {
            collection: T::COLLECTION.into(),
            filter,
            limit: target.has_key().then_some(1),
            options: Default::default(),
        };
        let matched = access.count(&T::MODEL, count).await?;
        let modified = 0;
        return Ok(UpdateOutput::Counted(Updated { matched, modified }));
    };
    let find = operation::FindOperation {
        collection: T::COLLECTION.into(),
        filter,
        projection: projection.clone(),
        sort: target.to_erased().map_err(error::of_model::<T>)?.sort,
        limit: Some(1),
        options: Default::default(),
    };
    let found = access.find_all(&T::MODEL, find).await?.pop();
    Ok(UpdateOutput::Found(found))
}

/// An update without the type of the model, ready to run.
pub(in crate::action) struct PreparedUpdate {
    pub(in crate::action) access: Access,
    pub(in crate::action) aim: ErasedTarget,
    pub(in crate::action) change: operation::DocumentChange,
    /// The condition that the places to change exist: elements that meet a condition, fields of a variant.
    place_condition: FilterNode,
    /// The condition of the caller, and the condition that the places exist.
    condition: FilterNode,
    /// The requirements beyond the condition.
    requirements: Vec<UpdateRequirement>,
    /// The check of the outcome against the validation rules, if the operators alone do not decide.
    outcome_check: Option<OutcomeCheck>,
}

impl PreparedUpdate {
    /// Runs the update, or returns the error of its preparation.
    fn boxed_execute(
        prepared: Result<Self>,
        form: UpdateForm,
    ) -> BoxFuture<'static, Result<UpdateOutput>> {
        Box::pin(async move { prepared?.execute_or_not_found(&form).await })
    }

    /// Whether the update changes all documents that meet the condition.
    pub(in crate::action) fn targets_many(&self) -> bool {
        self.aim.key_condition.is_none()
    }

    /// Returns the condition on the key of the document.
    fn key_condition(&self) -> FilterNode {
        self.aim.key_condition.clone().unwrap_or(FilterNode::All)
    }

    /// Whether a document can meet the condition and still stay unchanged, because the document does not meet a requirement.
    pub(in crate::action) fn has_requirements(&self) -> bool {
        !self.requirements.is_empty()
    }

    /// Whether only a query can tell the reason that the update matches no document. With a condition, a number out of range counts
    /// as an unmet condition.
    pub(in crate::action) fn needs_reason_query(&self) -> bool {
        let is_range = |requirement: &UpdateRequirement| {
            matches!(requirement.reason, RequirementReason::Range(_))
        };
        let is_unconditional = self.aim.only_id.is_some();
        !self
            .requirements
            .iter()
            .all(|requirement| is_range(requirement) && !is_unconditional)
    }

    /// Whether only a missing document, without any condition, leaves the update without a match.
    pub(in crate::action) fn always_matches(&self) -> bool {
        self.aim.only_id.is_some() && matches!(self.place_condition, FilterNode::All)
    }

    fn full_filter(&self, extra_condition: &FilterNode) -> Result<RawDocumentBuf> {
        let condition = extra_condition.clone().and(self.condition.clone());
        let requirements = self.requirements.iter();
        let node = requirements.fold(condition, |node, requirement| {
            node.and(requirement.condition.clone())
        });
        to_raw(self.aim.model, &node)
    }

    pub(in crate::action) fn to_operation(
        &self,
        multi: bool,
    ) -> Result<operation::UpdateOperation> {
        self.to_operation_on(&FilterNode::All, multi)
    }

    fn to_operation_on(
        &self,
        extra_condition: &FilterNode,
        multi: bool,
    ) -> Result<operation::UpdateOperation> {
        Ok(operation::UpdateOperation {
            collection: self.aim.model.collection.into(),
            filter: self.full_filter(extra_condition)?,
            change: self.change.clone(),
            multi,
            upsert: false,
            origin: operation::OperationOrigin::default(),
        })
    }

    /// Whether the outcome must be checked against the validation rules.
    pub(in crate::action) fn needs_outcome_check(&self) -> bool {
        self.outcome_check.is_some()
    }

    /// Whether a requirement concerns elements in chunk documents, which the filter of the update does not see.
    pub(in crate::action) fn may_spill(&self) -> bool {
        let mut requirements = self.requirements.iter();
        requirements.any(|requirement| requirement.may_spill)
    }

    /// Checks the requirements before an update of many documents, and removes nulls on which an operator would fail.
    ///
    /// # Errors
    ///
    /// The error of the first document that does not meet a requirement.
    pub(in crate::action) async fn check_requirements(&self) -> Result<()> {
        self.check_requirements_in(&self.access).await
    }

    /// Finds the requirement that an update of one document failed, and retries the update after a null was removed.
    pub(in crate::action) async fn explain_no_match(&self) -> Result<Option<Updated>> {
        let mut requirements = self.requirements.iter();
        if requirements.any(|requirement| matches!(requirement.reason, RequirementReason::Null(_)))
        {
            let counts = self.update_and_count(false).await?;
            return Ok(Some(counts).filter(|counts| counts.is_applied()));
        }
        self.ensure_requirements(&self.access, &FilterNode::All)
            .await?;
        Ok(None)
    }

    async fn check_requirements_in(&self, access: &Access) -> Result<()> {
        self.ensure_requirements(access, &FilterNode::All).await?;
        self.unset_nulls(access, &FilterNode::All).await?;
        Ok(())
    }

    /// Returns an error if a matching document does not meet a requirement.
    async fn ensure_requirements(
        &self,
        access: &Access,
        extra_condition: &FilterNode,
    ) -> Result<()> {
        let model = self.aim.model;
        for requirement in &self.requirements {
            if let RequirementReason::Null(_) = requirement.reason {
                continue;
            }
            let unmet_condition = match requirement.overflow_condition(model) {
                Some((field, element)) => {
                    any_element_condition(access.to(model), field, element).await?
                }
                None => FilterNode::Not(Box::new(requirement.condition.clone())),
            };
            let condition = extra_condition
                .clone()
                .and(self.condition.clone())
                .and(unmet_condition);
            let mut projection = single_field_document("_id", 1)?;
            if let Some(path) = requirement.shown_path() {
                append_field(&mut projection, &without_indexes(path), 1)?;
            }
            let find = operation::FindOperation {
                collection: model.collection.into(),
                filter: to_raw(model, &condition)?,
                projection: Some(projection),
                sort: None,
                limit: Some(1),
                options: Default::default(),
            };
            let documents = access.find_all(model, find).await?;
            if let Some(error) = documents
                .first()
                .and_then(|document| requirement.to_error(document))
            {
                return Err(error::naming_model(model)(error));
            }
        }
        Ok(())
    }

    /// Removes the nulls on which an operator of the update would fail. Null and missing both read as `None`, and operators
    /// accept missing values. Returns whether a null was removed.
    ///
    /// A crash after this step changes no value that can be read.
    async fn unset_nulls(&self, access: &Access, extra_condition: &FilterNode) -> Result<bool> {
        let (model, mut removed) = (self.aim.model, false);
        for requirement in &self.requirements {
            let RequirementReason::Null(null) = &requirement.reason else {
                continue;
            };
            let is_null = FilterNode::Not(Box::new(requirement.condition.clone()));
            let condition = match &null.element_condition {
                // `$` names an element only if a single condition concerns the array. Do not add the other conditions.
                FilterNode::All => self.condition.clone().and(is_null),
                first => first.clone(),
            };
            let update = operation::UpdateOperation {
                collection: model.collection.into(),
                filter: to_raw(model, &extra_condition.clone().and(condition))?,
                change: operation::DocumentChange::Operators {
                    update: null.update.clone(),
                    array_filters: null.array_filters.clone(),
                },
                multi: true,
                upsert: false,
                origin: operation::OperationOrigin::default(),
            };
            let counts = WriteRequest::exact(model, update).run(access.clone());
            removed |= counts.await?.modified > 0;
        }
        Ok(removed)
    }

    /// Runs the update. Fails if an update by id alone finds no document.
    ///
    /// Boxed, so that the compiler checks the nested futures here and not again for each model.
    fn execute_or_not_found(mut self, form: &UpdateForm) -> BoxFuture<'_, Result<UpdateOutput>> {
        Box::pin(async move {
            self.condition = resolve_related(&self.access, self.aim.model, self.condition).await?;
            let output = self.execute_update(form).await?;
            if !output.is_applied() {
                self.ensure_document_exists().await?;
            }
            Ok(output)
        })
    }

    /// Runs the update without the check for a missing document.
    pub(in crate::action) async fn execute_update(
        &self,
        form: &UpdateForm,
    ) -> Result<UpdateOutput> {
        match form {
            UpdateForm::Count => self
                .update_and_count(self.targets_many())
                .await
                .map(UpdateOutput::Counted),
            UpdateForm::FindAndModify {
                projection,
                return_new,
            } => {
                let document = self.find_and_modify(projection.clone(), *return_new).await;
                document.map(UpdateOutput::Found)
            }
        }
    }

    /// Fails if the update is by id alone and the document does not exist. Called after an update without a match.
    pub(in crate::action) async fn ensure_document_exists(&self) -> Result<()> {
        let Some(id) = &self.aim.only_id else {
            return Ok(());
        };
        let (model, has_places) = (
            self.aim.model,
            !matches!(self.place_condition, FilterNode::All),
        );
        if has_places && document_exists(&self.access, model, self.key_condition()).await? {
            return Ok(());
        }
        Err(error::not_found_stored(model, Some(id.clone())))
    }

    /// Runs the update and returns the counts. A missing match may be an unmet requirement, which is an error.
    pub(in crate::action) async fn update_and_count(&self, multi: bool) -> Result<Updated> {
        let Some(outcome_check) = &self.outcome_check else {
            return self
                .update_and_count_in(&self.access, &FilterNode::All, multi)
                .await;
        };
        self.ensure_transactions(outcome_check)?;
        let work = |access: Access| async move {
            let documents = self.select_documents(&access, !multi).await?;
            let counts = self
                .update_and_count_in(&access, &documents.0, multi)
                .await?;
            if counts.is_applied() {
                self.check_outcome(outcome_check, &access, documents)
                    .await?;
            }
            Ok(counts)
        };
        self.access.run_transactional(work).await
    }

    fn update_and_count_in<'u>(
        &'u self,
        access: &'u Access,
        extra_condition: &'u FilterNode,
        multi: bool,
    ) -> BoxFuture<'u, Result<Updated>> {
        Box::pin(async move {
            // Check all documents first, so that an unmet requirement of one document leaves all documents unchanged. A document
            // that stops meeting a requirement after the check is skipped, like a document that does not match the condition.
            if multi || self.may_spill() {
                self.check_requirements_in(access).await?;
            }
            for attempt in 1.. {
                let write = self.to_operation_on(extra_condition, multi)?;
                let counts = WriteRequest::new(self.aim.model, write)?.run(access.clone());
                let counts = counts.await?;
                if counts.matched > 0 {
                    self.trace_array_lengths(access).await;
                    return Ok(Updated {
                        matched: counts.matched,
                        modified: counts.modified,
                    });
                }
                if multi || !self.should_retry(access, extra_condition, attempt).await? {
                    break;
                }
            }
            Ok(Updated::default())
        })
    }

    /// Whether to retry an update of one document without a match: a null was removed.
    ///
    /// # Errors
    ///
    /// The error of a document that does not meet a requirement.
    async fn should_retry(
        &self,
        access: &Access,
        extra_condition: &FilterNode,
        attempt: u32,
    ) -> Result<bool> {
        self.ensure_requirements(access, &FilterNode::All).await?;
        if attempt == MAX_NULL_ATTEMPTS || !self.unset_nulls(access, extra_condition).await? {
            return Ok(false);
        }
        if attempt > 1 {
            retry::pause_before_retry("another write stored null again", attempt).await;
        }
        Ok(true)
    }

    /// Logs the arrays of the document that are close to their `max`.
    async fn trace_array_lengths(&self, access: &Access) {
        let Some(by_id) = &self.aim.key_condition else {
            return;
        };
        if !trace::is_plan_logged() {
            return;
        }
        for requirement in &self.requirements {
            let RequirementReason::Room { path, max } = &requirement.reason else {
                continue;
            };
            let threshold = trace::near_max(*max);
            let last = Path::ROOT.append_name(&format!("{path}.{}", threshold.saturating_sub(1)));
            let is_long = by_id
                .clone()
                .and(FilterNode::Test(last, "$exists", true.into()));
            let is_long = document_exists(access, self.aim.model, is_long);
            if threshold <= *max && is_long.await.unwrap_or(false) {
                trace::warn_near_max(path, threshold, *max);
            }
        }
    }

    /// Runs the update on the first matching document, and returns that document from the same step.
    pub(in crate::action) async fn find_and_modify(
        &self,
        projection: Option<RawDocumentBuf>,
        return_new: bool,
    ) -> Result<Option<RawDocumentBuf>> {
        let Some(outcome_check) = &self.outcome_check else {
            let access = &self.access;
            return self
                .find_and_modify_in(access, &FilterNode::All, projection, return_new)
                .await;
        };
        self.ensure_transactions(outcome_check)?;
        let projection = &projection;
        let work = |access: Access| async move {
            let documents = self.select_documents(&access, true).await?;
            let projection = projection.clone();
            let matches = self
                .find_and_modify_in(&access, &documents.0, projection, return_new)
                .await?;
            if matches.is_some() {
                self.check_outcome(outcome_check, &access, documents)
                    .await?;
            }
            Ok(matches)
        };
        self.access.run_transactional(work).await
    }

    async fn find_and_modify_in(
        &self,
        access: &Access,
        extra_condition: &FilterNode,
        projection: Option<RawDocumentBuf>,
        return_new: bool,
    ) -> Result<Option<RawDocumentBuf>> {
        if self.may_spill() {
            self.check_requirements_in(access).await?;
        }
        for attempt in 1.. {
            let write = operation::FindAndModify {
                collection: self.aim.model.collection.into(),
                filter: self.full_filter(extra_condition)?,
                sort: self.aim.sort.clone(),
                projection: projection.clone(),
                modification: operation::FindAndModifyKind::Update {
                    change: self.change.clone(),
                    upsert: false,
                    return_new,
                },
                origin: operation::OperationOrigin::default(),
            };
            let outcome = WriteRequest::new(self.aim.model, write)?.run(access.clone());
            let document = outcome.await?.document;
            if document.is_some() {
                self.trace_array_lengths(access).await;
                return Ok(document);
            }
            if !self.should_retry(access, extra_condition, attempt).await? {
                break;
            }
        }
        Ok(None)
    }

    fn ensure_transactions(&self, outcome_check: &OutcomeCheck) -> Result<()> {
        match self.access.has_transactions() {
            true => Ok(()),
            false => Err(outcome_check.unsupported_error()),
        }
    }

    /// Returns the documents to update, read in the transaction of the update: a condition for the update, and a condition that
    /// finds the documents after the update.
    async fn select_documents(
        &self,
        access: &Access,
        only_first: bool,
    ) -> Result<(FilterNode, FilterNode)> {
        let model = self.aim.model;
        if let Some(by_id) = &self.aim.key_condition {
            return Ok((FilterNode::All, by_id.clone()));
        }
        let find = operation::FindOperation {
            collection: model.collection.into(),
            filter: self.full_filter(&FilterNode::All)?,
            projection: Some(single_field_document("_id", 1)?),
            sort: self.aim.sort.clone(),
            limit: only_first.then_some(1),
            options: Default::default(),
        };
        upgrade::upgrade_before_write(access, model, &find.filter).await?;
        let mut ids = RawArrayBuf::new();
        for document in &access.find_all(model, find).await? {
            if let Some(id) = decode::stored_id(document) {
                ids.push(RawBson::from(id));
            }
        }
        let by_ids = FilterNode::Test(Path::ROOT.subfield("_id"), "$in", ids.into());
        Ok((by_ids.clone(), by_ids))
    }

    /// Checks the updated documents against the validation rules. An error rolls the transaction back.
    async fn check_outcome(
        &self,
        outcome_check: &OutcomeCheck,
        access: &Access,
        (_, updated): (FilterNode, FilterNode),
    ) -> Result<()> {
        let model = self.aim.model;
        let find = operation::FindOperation {
            collection: model.collection.into(),
            filter: to_raw(model, &updated)?,
            projection: None,
            sort: None,
            limit: None,
            options: Default::default(),
        };
        // A restored document is no longer visible to the session that restored the document.
        let access = access.clone().with_visibility(Visibility::All);
        let mut documents = access.find_all(model, find).await?;
        for field in outcome_check.overflow_fields() {
            for raw in &mut documents {
                *raw = overflow::with_all_elements(access.to(model), field, raw).await?;
            }
        }
        outcome_check
            .check_documents(&documents)
            .map_err(|error| access.fail_transaction(error))
    }
}

/// Returns whether a document meets the condition.
pub(in crate::action) async fn document_exists(
    access: &Access,
    model: &'static Model,
    condition: FilterNode,
) -> Result<bool> {
    let count = operation::CountOperation {
        collection: model.collection.into(),
        filter: to_raw(model, &condition)?,
        limit: Some(1),
        options: Default::default(),
    };
    Ok(access.count(model, count).await? > 0)
}

/// The maximum number of attempts while concurrent writes store a null in the place of an operator's value.
const MAX_NULL_ATTEMPTS: u32 = 10;

/// Converts a path to a projection path: projections name no array indexes.
fn without_indexes(path: &str) -> String {
    let is_name = |part: &&str| part.parse::<usize>().is_err();
    let names: Vec<_> = path.split('.').filter(is_name).collect();
    names.join(".")
}

/// Returns an error for an append inside elements that may be in chunk documents: the condition for room sees only the owner
/// document.
fn ensure_room_checkable(requirements: &[UpdateRequirement]) -> Result<()> {
    let unchecked = requirements
        .iter()
        .find_map(|requirement| match &requirement.reason {
            RequirementReason::Room { path, max } if requirement.may_spill => Some((path, max)),
            _ => None,
        });
    let Some((path, max)) = unchecked else {
        return Ok(());
    };
    let message = format!(
        "the array (max {max} elements) is inside an element that may be in a chunk document, so the update cannot check the room: \
         set the whole array, or pull the element and push the changed element"
    );
    Err(Error::new(ErrorKind::Unsupported, message).with_path(path.clone()))
}
