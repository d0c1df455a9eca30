//! Computed fields: each field is a function of other fields of the document, and correct after every write.
//!
//! A document is computed in this process before an insert (`computed/evaluate.rs`). An update that changes an input becomes a
//! pipeline, which computes the field in the same atomic operation (`computed/expression.rs`). The update operators are
//! translated if expressions have exactly the same result (`computed/translate.rs`). Otherwise the operators and the computation
//! are two updates in one transaction. This stage is the last of the write path, because the stages for references and copies
//! read the update operators.

mod check;
mod condition;
mod evaluate;
mod expression;
mod translate;

use bson::{Bson, Document, RawBson, RawDocument, RawDocumentBuf};

pub(crate) use check::{WrongComputedField, find_wrong_fields, recompute_fields};
use translate::UpdateTree;

use super::{
    Footprint, WriteOperation, WriteOutcome, copy,
    footprint::{PathChange, path_changes},
    link::linked_document::one_of,
    metadata_update::{parse_document, paths_overlap, to_raw_document, to_raw_value},
};
use crate::{
    Error, ErrorKind, Result,
    access::{Access, add_condition, find_matching},
    backend::operation::{DocumentChange, FindOperation, Stage, UpdateOperation},
    decode, error,
    query::{append_field, single_field_document},
    schema::{ComputedInput, Model},
    transaction_scope,
};

/// The message for a result outside the range of an int64.
const OUT_OF_RANGE_MESSAGE: &str = "the computed value does not fit into an int64, and nothing was written: write smaller values to the fields of the formula";

/// The beginning of the message of an error that an expression raises.
const ERROR_MESSAGE_START: &str = "odm: ";

/// The end of the message of an error that an expression raises; the server appends the type of a value.
const ERROR_MESSAGE_END: &str = "; type ";

/// Computes the fields of a document before an insert.
pub(crate) fn compute_fields(model: &Model, document: &mut RawDocumentBuf) -> Result<()> {
    for field in model.computed {
        let value =
            evaluate::evaluate_field(field, document).map_err(error::naming_model(model))?;
        *document = with_field(document, field.stored, to_raw_value(&value)?)?;
    }
    Ok(())
}

/// Computes the fields of a decoded document.
pub(crate) fn compute_document(model: &Model, document: &mut Document) -> Result<()> {
    if model.computed.is_empty() {
        return Ok(());
    }
    let mut raw = to_raw_document(document)?;
    compute_fields(model, &mut raw)?;
    *document = parse_document(&raw)?;
    Ok(())
}

/// Returns the document with a new value in a field.
fn with_field(raw: &RawDocument, field: &str, value: RawBson) -> Result<RawDocumentBuf> {
    let mut result = RawDocumentBuf::new();
    let mut new = Some(value);
    for entry in raw.iter() {
        let (name, old) = entry.map_err(error::from_bson)?;
        match new.take_if(|_| name == field) {
            Some(new) => append_field(&mut result, field, new)?,
            None => append_field(&mut result, name.as_str(), RawBson::from(old))?,
        }
    }
    if let Some(new) = new {
        append_field(&mut result, field, new)?;
    }
    Ok(result)
}

/// Returns the stored names of the computed fields that an update changes.
pub(super) fn changed_fields(model: &Model, update: &RawDocument) -> Vec<&'static str> {
    if model.computed.is_empty() {
        return Vec::new();
    }
    let changes = path_changes(update);
    let mut paths: Vec<_> = changes.flat_map(PathChange::written_paths).collect();
    let mut changed = Vec::new();
    // The schema lists each computed field after the computed fields that are inputs.
    for field in model.computed {
        let inputs = (field.computation)().list_inputs();
        let mut inputs = inputs.iter();
        if inputs.any(|input| paths.iter().any(|path| affects_input(path, input))) {
            paths.push(field.stored);
            changed.push(field.stored);
        }
    }
    changed
}

/// Returns why a write computes fields: the computed fields with a changed input.
pub(super) fn computed_reasons(model: &Model, footprint: &Footprint<'_>) -> Vec<String> {
    let Footprint::Changes(change) = footprint else {
        // An insert computes the fields in this process, and a delete computes none.
        return Vec::new();
    };
    let changed = change.update().map(|update| changed_fields(model, update));
    let reason = |field| format!("`{field}` is computed from a changed field");
    changed.into_iter().flatten().map(reason).collect()
}

/// Whether a write at a path can change an input: one path contains the other.
fn affects_input(path: &str, input: &ComputedInput) -> bool {
    if let ComputedInput::Len(array) = input
        && path
            .strip_prefix(&**array)
            .is_some_and(|suffix| suffix.starts_with(".$"))
    {
        // An update of array elements does not change the length.
        return false;
    }
    paths_overlap(path, input.path())
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
    access: &Access,
    model: &'static Model,
    change: &DocumentChange,
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
        return Err(error::naming_model(model)(Error::new(
            ErrorKind::Unsupported,
            message,
        )));
    };
    let changed = changed_fields(model, update);
    let copied = copy::copied_paths_written(access, model, update, &changed);
    if changed.is_empty() && copied.is_empty() {
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
            copy::mark_only_if_changed(&copied, &changed, &update, &mut stage, to_stage);
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
    access: &Access,
    model: &'static Model,
    change: &mut DocumentChange,
) -> Result<bool> {
    Ok(match plan_update(access, model, change)? {
        ComputedUpdate::Unchanged => true,
        ComputedUpdate::Pipeline(stages) => {
            *change = DocumentChange::Pipeline(stages);
            true
        }
        ComputedUpdate::TwoUpdates(..) => false,
    })
}

/// Runs a write together with the computation of changed fields. Every update reaches the backend through this function.
pub(super) async fn run_write(
    access: &Access,
    model: &'static Model,
    mut write: WriteOperation,
) -> Result<WriteOutcome> {
    let computed_update = match write.change_mut() {
        None => ComputedUpdate::Unchanged,
        Some(change) => plan_update(access, model, change)?,
    };
    let result = match computed_update {
        ComputedUpdate::Unchanged => return write.send(access, model).await,
        ComputedUpdate::Pipeline(stages) => {
            if let Some(change) = write.change_mut() {
                *change = DocumentChange::Pipeline(stages);
            }
            write.send(access, model).await
        }
        ComputedUpdate::TwoUpdates(_, field) if !access.has_transactions() => {
            Err(error::naming_model(model)(needs_transaction_error(field)))
        }
        ComputedUpdate::TwoUpdates(stages, _) => {
            let work = |access: Access| {
                let (write, stages) = (write.clone(), stages.clone());
                async move {
                    let result = run_two_updates(&access, model, write, stages).await;
                    result.map_err(|error| access.fail_transaction(error))
                }
            };
            access
                .run_transactional(transaction_scope::DEFAULT_TRANSACTION_ATTEMPTS, work)
                .await
        }
    };
    result.map_err(expression_error)
}

/// Runs a write and then the computation, in one transaction.
async fn run_two_updates(
    access: &Access,
    model: &'static Model,
    mut write: WriteOperation,
    stages: Vec<RawDocumentBuf>,
) -> Result<WriteOutcome> {
    let (sort, is_single) = (
        write.sort_order().map(RawDocument::to_owned),
        write.affects_at_most_one(),
    );
    let filter = write.filter().cloned().unwrap_or_default();
    let find = FindOperation {
        projection: Some(single_field_document("_id", 1)?),
        sort,
        limit: is_single.then_some(1),
        options: Stage::COMPUTED.step("read the ids").into(),
        ..find_matching(&model.collection.into(), &filter)
    };
    let documents = access.with_full_visibility().find_all(model, find).await?;
    let ids = documents
        .iter()
        .filter_map(|raw| decode::stored_id(raw).map(RawBson::from));
    let ids = one_of(&ids.collect::<Vec<_>>())?;
    if let Some(filter) = write.filter_mut() {
        add_condition(filter, "_id", ids.clone())?;
    }
    let update = UpdateOperation {
        collection: model.collection.into(),
        filter: single_field_document("_id", ids)?,
        change: DocumentChange::Pipeline(stages),
        multi: true,
        upsert: false,
        origin: Stage::COMPUTED.step("compute in a second update"),
    };
    write.send_before(update, access, model).await
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
    single_field_document("$eq", to_raw_value(value)?)
}
