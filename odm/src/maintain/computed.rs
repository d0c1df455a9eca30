//! Computed fields: each is a function of other fields of its document, and right behind every write.
//!
//! A document that is inserted is computed here (`computed/evaluate.rs`). An update that changes what a field is computed from becomes a
//! pipeline, which computes in the same atomic operation (`computed/expression.rs`): its operators are translated where expressions say
//! exactly the same (`computed/translate.rs`). Where none do, the operators and the computation are two updates of one transaction.
//! Either is the last that happens to a write, as links and copies look at its operators.

mod check;
mod condition;
mod evaluate;
mod expression;
mod translate;

use bson::{Bson, Document, RawBson, RawDocument, RawDocumentBuf};

pub(crate) use check::{Miscomputed, compute_again, miscomputed};
use translate::Changes;

use super::{
    Write, copy,
    link::linked::one_of,
    stored::{close, open, overlap, raw},
};
use crate::{
    Error, ErrorKind, Result,
    access::{Access, also, found_by},
    backend::operation::{Change, Find, Update},
    decode, error,
    query::{append, document},
    schema::{Input, Model},
    unit,
};

/// What is computed has no room in its field.
const TOO_LARGE: &str = "what is computed is beyond an int64, and nothing was written";

/// With what the text begins of an error that an expression makes.
const SAID: &str = "odm: ";

/// What stands behind it there: the type of a value.
const TYPE: &str = "; type ";

/// Computes the fields of a document that is inserted.
pub(crate) fn fill(model: &Model, whole: &mut RawDocumentBuf) -> Result<()> {
    for field in model.computed {
        let value = evaluate::value(field, whole).map_err(error::of(model))?;
        *whole = with(whole, field.stored, raw(&value)?)?;
    }
    Ok(())
}

/// The same for one that is changed before it is encoded.
pub(crate) fn fill_open(model: &Model, document: &mut Document) -> Result<()> {
    if model.computed.is_empty() {
        return Ok(());
    }
    let mut whole = close(document)?;
    fill(model, &mut whole)?;
    *document = open(&whole)?;
    Ok(())
}

/// The document with another value in a field.
fn with(raw: &RawDocument, field: &str, value: RawBson) -> Result<RawDocumentBuf> {
    let mut whole = RawDocumentBuf::new();
    let mut new = Some(value);
    for own in raw.iter() {
        let (name, old) = own.map_err(error::encode)?;
        match new.take_if(|_| name == field) {
            Some(new) => append(&mut whole, field, new)?,
            None => append(&mut whole, name.as_str(), RawBson::from(old))?,
        }
    }
    if let Some(new) = new {
        append(&mut whole, field, new)?;
    }
    Ok(whole)
}

/// The stored names of the fields that an update by these operators changes: they are computed from what it writes.
pub(super) fn changed(model: &Model, update: &RawDocument) -> Vec<&'static str> {
    if model.computed.is_empty() {
        return Vec::new();
    }
    let mut written = Vec::new();
    for (operator, fields) in update.iter().flatten() {
        for (path, value) in fields.as_document().into_iter().flatten().flatten() {
            written.push(path.as_str());
            if operator == "$rename" {
                written.extend(value.as_str());
            }
        }
    }
    let mut changed = Vec::new();
    // Each stands behind those that it is computed from.
    for field in model.computed {
        let inputs = (field.computation)().inputs();
        let mut inputs = inputs.iter();
        if inputs.any(|input| written.iter().any(|path| touches(path, input))) {
            written.push(field.stored);
            changed.push(field.stored);
        }
    }
    changed
}

/// Whether what is written at a path may change what is computed from an input: one of them is inside of the other.
fn touches(path: &str, input: &Input) -> bool {
    if let Input::Len(array) = input
        && path
            .strip_prefix(&**array)
            .is_some_and(|behind| behind.starts_with(".$"))
    {
        // As many elements are there as before.
        return false;
    }
    overlap(path, input.path())
}

/// The stages that compute these fields, each in one behind those that it is computed from.
fn stages(model: &Model, fields: &[&str]) -> Result<Vec<RawDocumentBuf>> {
    let mut stages: Vec<Document> = Vec::new();
    for field in model.computed {
        if !fields.contains(&field.stored) {
            continue;
        }
        let inputs = (field.computation)().inputs();
        let depends = |stage: &Document| {
            let mut inputs = inputs.iter();
            inputs.any(|input| stage.contains_key(input.path()))
        };
        let expression = expression::expression(field);
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
    stages.iter().map(set).collect()
}

fn set(fields: &Document) -> Result<RawDocumentBuf> {
    document("$set", close(fields)?)
}

/// How an update is carried out.
enum How {
    /// As it is: nothing is computed from what it changes.
    AsItIs,
    /// As these stages.
    Stages(Vec<RawDocumentBuf>),
    /// As it is, and these stages behind it, for this field.
    InTwo(Vec<RawDocumentBuf>, &'static str),
}

fn how(access: &Access, model: &'static Model, change: &Change) -> Result<How> {
    let Change::Operators {
        update,
        array_filters,
    } = change
    else {
        if model.computed.is_empty() {
            return Ok(How::AsItIs);
        }
        let message = "fields are computed behind update operators alone";
        return Err(error::of(model)(Error::new(
            ErrorKind::Unsupported,
            message,
        )));
    };
    let changed = changed(model, update);
    let copied = copy::written(access, model, update, &changed);
    if changed.is_empty() && copied.is_empty() {
        return Ok(How::AsItIs);
    }
    let computing = stages(model, &changed)?;
    let update = open(update)?;
    // The backend refuses an update with conflicting operators, with its own error.
    let Some(changes) = Changes::of(&update) else {
        return Ok(How::AsItIs);
    };
    let filters = array_filters.iter().map(|filter| open(filter));
    let filters = filters.collect::<Result<Vec<_>>>()?;
    Ok(match (changes.stage(&filters), changed.first()) {
        (Some(mut stage), _) => {
            let again = |update: &Document| Changes::of(update)?.stage(&filters);
            copy::only_if_changed(&copied, &changed, &update, &mut stage, again);
            let mut all = vec![set(&stage)?];
            all.extend(computing);
            How::Stages(all)
        }
        (None, Some(first)) => How::InTwo(computing, first),
        (None, None) => How::AsItIs,
    })
}

/// Makes a change one that computes what it has to, if that is one operation; false if it is not.
pub(super) fn at_once(access: &Access, model: &'static Model, change: &mut Change) -> Result<bool> {
    Ok(match how(access, model, change)? {
        How::AsItIs => true,
        How::Stages(stages) => {
            *change = Change::Pipeline(stages);
            true
        }
        How::InTwo(..) => false,
    })
}

/// Carries out a write, with what is computed from what it changes. There is no other way from an update to a backend.
pub(super) async fn run<W: Write>(
    access: &Access,
    model: &'static Model,
    mut write: W,
) -> Result<W::Done> {
    let how = match write.change() {
        None => How::AsItIs,
        Some(change) => how(access, model, change)?,
    };
    let done = match how {
        How::AsItIs => return write.run(&**access.executor()).await,
        How::Stages(stages) => {
            if let Some(change) = write.change() {
                *change = Change::Pipeline(stages);
            }
            write.run(&**access.executor()).await
        }
        How::InTwo(_, field) if !access.has_transactions() => {
            Err(error::of(model)(not_at_once(field)))
        }
        How::InTwo(stages, _) => {
            let work = |access: Access| {
                let (write, stages) = (write.clone(), stages.clone());
                async move {
                    let done = in_two(&access, model, write, stages).await;
                    done.map_err(|error| access.fail(error))
                }
            };
            access.together(unit::ATTEMPTS, work).await
        }
    };
    done.map_err(said)
}

/// Carries out a write and then computes, in one transaction.
async fn in_two<W: Write>(
    access: &Access,
    model: &'static Model,
    mut write: W,
    stages: Vec<RawDocumentBuf>,
) -> Result<W::Done> {
    let (sort, is_of_one) = (write.order().map(RawDocument::to_owned), write.is_of_one());
    let filter = write.filter().cloned().unwrap_or_default();
    let find = Find {
        projection: Some(document("_id", 1)?),
        sort,
        limit: is_of_one.then_some(1),
        ..found_by(&model.collection.into(), &filter)
    };
    let found = access.to_everything().find_all(model, find).await?;
    let ids = found
        .iter()
        .filter_map(|raw| decode::id(raw).map(RawBson::from));
    let ids = one_of(&ids.collect::<Vec<_>>())?;
    if let Some(filter) = write.filter() {
        also(filter, "_id", ids.clone())?;
    }
    let computing = Update {
        collection: model.collection.into(),
        filter: document("_id", ids)?,
        change: Change::Pipeline(stages),
        multi: true,
        upsert: false,
    };
    access.told().writes();
    write.run_before(&**access.executor(), computing).await
}

fn not_at_once(field: &str) -> Error {
    let message = format!(
        "`{field}` is computed from what this update changes, which no single operation does with it, and without transactions, as on \
         this standalone server, there are no two; nothing was written: name elements by `all`, `at` or `matching` with plain \
         comparisons instead of `first_matching`, use `set` instead of `rename` and bits, or `modify`, which computes with what it read"
    );
    Error::new(ErrorKind::Unsupported, message).with_path(field)
}

/// What an expression has said by failing.
pub(super) fn said(error: Error) -> Error {
    let said = error.message().split_once(SAID);
    match said.and_then(|(_, said)| said.split_once(TYPE)) {
        Some((said, _)) => Error::new(ErrorKind::Invalid, said),
        None => error,
    }
}

/// A value as it is written in a condition.
fn as_found(value: &Bson) -> Result<RawDocumentBuf> {
    document("$eq", raw(value)?)
}
