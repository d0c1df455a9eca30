//! Computed fields: each field is a function of other fields of the document, and correct after every write.
//!
//! A document is computed in this process before an insert (`schema/computed/evaluate.rs`). An update that changes an input becomes a
//! pipeline, which computes the field in the same atomic operation (`computed/expression.rs`). The update operators are
//! translated if expressions have exactly the same result (`computed/translate.rs`). Otherwise the operators and the computation
//! are two updates in one transaction. This stage is the last of the write path, because the stages for references and copies
//! read the update operators.

mod check;
mod condition;
mod conditional_record;
mod expression;
mod translate;

use std::collections::BTreeMap;

use bson::{Bson, Document, RawDocumentBuf};

pub(crate) use check::{WrongComputedField, find_wrong_fields, recompute_fields};
use translate::UpdateTree;

use super::{
    Footprint, WriteOperation, WriteOutcome,
    footprint::recomputed_fields,
    maintainer::{ConditionalRecord, Maintainer, Strategy, WriteContext, WriteFuture},
    metadata_update::{parse_document, to_raw_document, to_raw_value},
};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::{DocumentChange, Stage, UpdateOperation},
    error,
    language::query::{equal_to, single_field_document},
    metadata::caseless_path,
    model::ids::one_of,
    schema::{ComputedField, Model},
    session::access::{Access, ModelAccess},
};

/// The beginning of the message of an error that an expression raises.
const ERROR_MESSAGE_START: &str = "odm: ";

/// The end of the message of an error that an expression raises; the server appends the type of a value.
const ERROR_MESSAGE_END: &str = "; type ";

/// Fields that are computed from other fields of the document.
#[derive(Debug)]
pub(super) struct ComputedFields;

impl Maintainer for ComputedFields {
    fn stage(&self) -> Stage {
        Stage::COMPUTED
    }

    fn is_affected(&self, cx: &WriteContext, footprint: &Footprint<'_>) -> bool {
        let is_change = matches!(footprint, Footprint::Changes(_));
        is_change && !(cx.model.computed.is_empty() && cx.conditional_record.is_none())
    }

    fn reasons(&self, access: ModelAccess<'_>, footprint: &Footprint<'_>) -> Vec<String> {
        let Footprint::Changes(change) = footprint else {
            // An insert computes the fields in this process, and a delete computes none.
            return Vec::new();
        };
        let changed = change
            .update()
            .map(|update| recomputed_fields(access.model, update));
        let reason = |field| format!("`{field}` is computed from a changed field");
        changed.into_iter().flatten().map(reason).collect()
    }

    fn run(&'static self, cx: WriteContext, write: WriteOperation) -> WriteFuture {
        Box::pin(run_write(cx, write))
    }

    fn declarations(&self, model: &'static Model) -> BTreeMap<String, String> {
        // A field that is computed from the state of a rollup is declared by the rollup.
        let is_rollup = |field: &&ComputedField| {
            let mut rollups = model.rollups.iter();
            rollups.any(|rollup| rollup.stored == field.stored)
        };
        let fields = model.computed.iter().filter(|field| !is_rollup(field));
        let description = |field: &ComputedField| format!("{:?}", (field.computation)());
        let caseless = model.caseless.iter();
        let caseless = caseless.map(|field| (caseless_path(field), "text without case".to_owned()));
        fields
            .map(|field| (field.stored.to_owned(), description(field)))
            .chain(caseless)
            .collect()
    }
}

/// Returns the pipeline stages that compute these fields. A field that depends on another computed field is in a later stage.
fn computing_stages(model: &Model, fields: &[&str]) -> Result<Vec<RawDocumentBuf>> {
    let mut stages: Vec<Document> = Vec::new();
    for field in model.computed {
        if !fields.contains(&field.stored) {
            continue;
        }
        let inputs = (field.computation)().list_inputs();
        let depends = |stage: &Document| {
            let mut inputs = inputs.iter();
            inputs.any(|input| stage.contains_key(input.path()))
        };
        let expression = expression::field_expression(field);
        match stages.last_mut().filter(|stage| !depends(stage)) {
            Some(stage) => {
                stage.insert(field.stored, expression);
            }
            None => stages.push(
                [(field.stored.to_owned(), expression)]
                    .into_iter()
                    .collect(),
            ),
        }
    }
    stages.iter().map(set_stage).collect()
}

fn set_stage(fields: &Document) -> Result<RawDocumentBuf> {
    single_field_document("$set", to_raw_document(fields)?)
}

/// The form in which an update runs.
enum ComputedUpdate {
    /// Runs the unchanged update: no computed field has a changed input.
    Unchanged,
    /// Runs the update as a pipeline.
    Pipeline(Vec<RawDocumentBuf>),
    /// Runs the unchanged update, followed by a pipeline. Errors name the field.
    TwoUpdates(Vec<RawDocumentBuf>, &'static str),
}

fn plan_update(
    model: &'static Model,
    change: &DocumentChange,
    record: Option<&ConditionalRecord>,
) -> Result<ComputedUpdate> {
    let DocumentChange::Operators {
        update,
        array_filters,
    } = change
    else {
        if model.computed.is_empty() {
            return Ok(ComputedUpdate::Unchanged);
        }
        let message = "computed fields cannot be maintained by a replacement: use update operators";
        let error = Error::new(ErrorKind::Unsupported, message);
        return Err(error::naming_model(model)(error));
    };
    let changed = recomputed_fields(model, update);
    if changed.is_empty() && record.is_none() {
        return Ok(ComputedUpdate::Unchanged);
    }
    let computing = computing_stages(model, &changed)?;
    let update = parse_document(update)?;
    // The backend rejects an update with conflicting operators, with an error of its own.
    let Some(changes) = UpdateTree::from_update(&update) else {
        return Ok(ComputedUpdate::Unchanged);
    };
    let filters = array_filters.iter().map(|filter| parse_document(filter));
    let filters = filters.collect::<Result<Vec<_>>>()?;
    Ok(match (changes.to_stage(&filters), changed.first()) {
        (Some(mut stage), _) => {
            let to_stage = |update: &Document| UpdateTree::from_update(update)?.to_stage(&filters);
            if let Some(record) = record {
                conditional_record::mark_only_if_changed(
                    record, &changed, &update, &mut stage, to_stage,
                );
            }
            let mut stages = vec![set_stage(&stage)?];
            stages.extend(computing);
            ComputedUpdate::Pipeline(stages)
        }
        (None, Some(first)) => ComputedUpdate::TwoUpdates(computing, first),
        (None, None) => ComputedUpdate::Unchanged,
    })
}

/// Adds the computation to a change if one operation is enough. Returns `false` if two operations are necessary; the change then
/// stays as before.
pub(super) fn try_as_one_update(
    model: &'static Model,
    change: &mut DocumentChange,
) -> Result<bool> {
    Ok(match plan_update(model, change, None)? {
        ComputedUpdate::Unchanged => true,
        ComputedUpdate::Pipeline(stages) => {
            *change = DocumentChange::Pipeline(stages);
            true
        }
        ComputedUpdate::TwoUpdates(..) => false,
    })
}

/// Runs an update together with the computation of changed fields.
async fn run_write(cx: WriteContext, mut write: WriteOperation) -> Result<WriteOutcome> {
    let (access, model, strategy) = (cx.access.clone(), cx.model, cx.strategy);
    let computed_update = match write.change_mut() {
        None => ComputedUpdate::Unchanged,
        Some(change) => plan_update(model, change, cx.conditional_record.as_ref())?,
    };
    let result = match computed_update {
        ComputedUpdate::Unchanged => return cx.run_next(write).await,
        ComputedUpdate::Pipeline(stages) => {
            if let Some(change) = write.change_mut() {
                *change = DocumentChange::Pipeline(stages);
            }
            cx.run_next(write).await
        }
        ComputedUpdate::TwoUpdates(_, field) if strategy != Strategy::Transactional => {
            Err(error::naming_model(model)(needs_transaction_error(field)))
        }
        ComputedUpdate::TwoUpdates(stages, _) => {
            let work = |access: Access| {
                let (write, stages) = (write.clone(), stages.clone());
                async move {
                    let result = run_two_updates(access.to(model), write, stages).await;
                    result.map_err(|error| access.fail_transaction(error))
                }
            };
            access.run_transactional(work).await
        }
    };
    result.map_err(expression_error)
}

/// Runs a write and then the computation, in one transaction.
async fn run_two_updates(
    access: ModelAccess<'_>,
    mut write: WriteOperation,
    stages: Vec<RawDocumentBuf>,
) -> Result<WriteOutcome> {
    let find = write.find_affected(access.model, None);
    let find = find.with_origin(Stage::COMPUTED.step("read the ids"));
    let full_access = access.with_full_visibility();
    let ids = one_of(&full_access.to(access.model).find_ids(find).await?);
    write.add_condition("_id", ids.clone())?;
    let update = UpdateOperation {
        collection: access.model.collection.into(),
        filter: single_field_document("_id", ids)?,
        change: DocumentChange::Pipeline(stages),
        multi: true,
        upsert: false,
        origin: Stage::COMPUTED.step("compute in a second update"),
    };
    write.send_before(update, access).await
}

fn needs_transaction_error(field: &str) -> Error {
    let message = format!(
        "`{field}` is computed from a field that this update changes, which needs a second operation; this standalone server has no \
         transactions, and nothing was written: address elements by `all`, `at` or `matching` with plain \
         comparisons instead of `first_matching`, use `set` instead of `rename` and bit operators, or use `modify`"
    );
    Error::new(ErrorKind::Unsupported, message).with_path(field)
}

/// Turns an error that an expression raised into an [`Invalid`](ErrorKind::Invalid) error with the message of the expression.
pub(super) fn expression_error(error: Error) -> Error {
    let message = error.message().split_once(ERROR_MESSAGE_START);
    match message.and_then(|(_, message)| message.split_once(ERROR_MESSAGE_END)) {
        Some((message, _)) => Error::new(ErrorKind::Invalid, message),
        None => error,
    }
}

/// Returns the condition that a field equals a value.
fn equality_condition(value: &Bson) -> Result<RawDocumentBuf> {
    Ok(equal_to(to_raw_value(value)?))
}
