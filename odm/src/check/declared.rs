//! The recorded declarations of derived fields, and the fields that need a backfill because the declaration has changed.

use std::{collections::BTreeMap, fmt};

use bson::{Document, RawDocumentBuf, doc};

use crate::{
    Result,
    backend::operation::{DocumentChange, Stage, UpdateOperation},
    error,
    language::query::single_field_document,
    metadata::collections::{SCHEMA, declarations_from_document, set_declarations},
    schema::Model,
    session::access::{Access, ModelAccess, find_matching},
    write::declarations,
};

/// Derived fields that need a backfill: the fields are new, or the declaration changed after the documents were written. Found by
/// [`Database::backfills`](crate::Database::backfills).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backfill {
    /// The name of the model.
    pub model: &'static str,
    /// The stored paths of the fields, such as `lines.name`.
    pub fields: Vec<String>,
}

impl fmt::Display for Backfill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` of {} is new, or the declaration changed after the documents were written: run `db.repair().only::<{}>().apply()`",
            self.fields.join("`, `"),
            self.model,
            self.model
        )
    }
}

/// Returns the derived fields with a changed declaration. An empty collection needs no backfill, so the new declaration is
/// recorded at once.
pub(crate) async fn find_backfills(
    access: &Access,
    models: &[&'static Model],
) -> Result<Vec<Backfill>> {
    let models = models.iter().map(|model| (*model, declarations(model)));
    let models: Vec<_> = models.filter(|(_, fields)| !fields.is_empty()).collect();
    if models.is_empty() {
        return Ok(Vec::new());
    }
    let find = find_matching(SCHEMA, &RawDocumentBuf::new())
        .with_origin(Stage::CHECKS.step("read the recorded declarations"));
    let mut recorded = BTreeMap::new();
    for raw in access.find_all_in_collection(find).await? {
        let stored = Document::try_from(&*raw).map_err(error::from_bson)?;
        if let Ok(model) = stored.get_str("_id") {
            recorded.insert(model.to_owned(), declarations_from_document(&stored));
        }
    }
    let mut backfills = Vec::new();
    for (model, fields) in models {
        let recorded = recorded.get(model.name);
        let is_changed = |field: &str, description: &str| {
            let recorded = recorded.and_then(|recorded| recorded.get(field));
            recorded.is_none_or(|recorded| recorded != description)
        };
        let changed = fields
            .iter()
            .filter(|(field, description)| is_changed(field, description));
        let changed: Vec<_> = changed.map(|(field, _)| field.clone()).collect();
        if changed.is_empty() {
            continue;
        }
        let origin = Stage::CHECKS.step("look for a document");
        if !access.has_documents(model.collection, origin).await? {
            record_declared(access.to(model)).await?;
            continue;
        }
        backfills.push(Backfill {
            model: model.name,
            fields: changed,
        });
    }
    Ok(backfills)
}

/// Records the current declaration of a model: all documents match the declaration.
pub(crate) async fn record_declared(access: ModelAccess<'_>) -> Result<()> {
    let fields = declarations(access.model);
    if fields.is_empty() {
        return Ok(());
    }
    let set = doc! { "$set": set_declarations(fields) };
    let update = UpdateOperation {
        collection: SCHEMA.into(),
        filter: single_field_document("_id", access.model.name)?,
        change: DocumentChange::operators(
            RawDocumentBuf::try_from(&set).map_err(error::from_bson)?,
        ),
        multi: false,
        upsert: true,
        origin: Stage::CHECKS.step("record the declarations"),
    };
    access.update(update).await.map(drop)
}
