//! As what derived fields were declared when their documents were last made so, and whether they are declared otherwise by now.

use std::{collections::BTreeMap, fmt};

use bson::{Bson, Document, RawDocumentBuf, doc};

use crate::{
    Result,
    access::{Access, found_by},
    backend::operation::{Change, Count, Update},
    error, maintain,
    query::document,
    schema::{Keeps, Model},
};

/// Where it is kept: a document for each model with derived fields.
const DECLARED: &str = "_odm.declared";

/// Derived fields that documents were not made for: they are new, or declared otherwise than when the documents were written; found by
/// [`Database::backfills`](crate::Database::backfills).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backfill {
    /// The name of the model.
    pub model: &'static str,
    /// The fields, as they are stored: `lines.name`.
    pub fields: Vec<String>,
}

impl fmt::Display for Backfill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` of {} is new, or declared otherwise than when its documents were written: run `db.repair().only::<{}>().apply()`",
            self.fields.join("`, `"),
            self.model,
            self.model
        )
    }
}

/// The fields of a model that follow others, each with how.
fn fields(model: &Model) -> BTreeMap<String, String> {
    let mut fields = maintain::copied(model);
    for tally in model.tallies {
        let of = format!("{}.{}", tally.collection, (tally.reference)());
        let when = (tally.when)().into_iter();
        let when: Vec<_> = when
            .map(|(path, value)| format!("{path} {value:?}"))
            .collect();
        let kept = match tally.keeps {
            Keeps::Count => "count".to_owned(),
            Keeps::Sum(of) => format!("sum of {}", of()),
            Keeps::Latest { max, by, fields } => format!("latest {max} by {}: {fields:?}", by()),
        };
        fields.insert(
            tally.stored.to_owned(),
            format!("{kept} of {of} when {when:?}"),
        );
    }
    for field in model.computed {
        let how = format!("{:?}", (field.computation)());
        fields.insert(field.stored.to_owned(), how);
    }
    fields
}

/// What is declared otherwise than it was. Where there are no documents yet, that is as good as done.
pub(crate) async fn backfills(access: &Access, models: &[&'static Model]) -> Result<Vec<Backfill>> {
    let models = models.iter().map(|model| (*model, fields(model)));
    let models: Vec<_> = models.filter(|(_, fields)| !fields.is_empty()).collect();
    if models.is_empty() {
        return Ok(Vec::new());
    }
    let all = found_by(&DECLARED.into(), &RawDocumentBuf::new());
    let mut known = BTreeMap::new();
    for raw in access.executor().find_all(all).await? {
        let stored = Document::try_from(&*raw).map_err(error::encode)?;
        if let Ok(model) = stored.get_str("_id") {
            known.insert(model.to_owned(), as_stored(&stored));
        }
    }
    let mut found = Vec::new();
    for (model, fields) in models {
        let before = known.get(model.name);
        let differs = |field: &str, how: &str| {
            let before = before.and_then(|before| before.get(field));
            before.is_none_or(|before| before != how)
        };
        let others = fields.iter().filter(|(field, how)| differs(field, how));
        let others: Vec<_> = others.map(|(field, _)| field.clone()).collect();
        if others.is_empty() {
            continue;
        }
        let any = Count {
            collection: model.collection.into(),
            filter: RawDocumentBuf::new(),
            limit: Some(1),
            max_time: None,
        };
        if access.executor().count(any).await? == 0 {
            done(access, model).await?;
            continue;
        }
        found.push(Backfill {
            model: model.name,
            fields: others,
        });
    }
    Ok(found)
}

/// Keeps that the documents of a model are made for what is declared now.
pub(crate) async fn done(access: &Access, model: &'static Model) -> Result<()> {
    let fields = fields(model).into_iter();
    let fields: Vec<_> = fields
        .map(|(field, how)| Bson::Document(doc! { "field": field, "how": how }))
        .collect();
    if fields.is_empty() {
        return Ok(());
    }
    let set = doc! { "$set": { "fields": fields } };
    let update = Update {
        collection: DECLARED.into(),
        filter: document("_id", model.name)?,
        change: Change::operators(RawDocumentBuf::try_from(&set).map_err(error::encode)?),
        multi: false,
        upsert: true,
    };
    access.executor().update(update).await.map(drop)
}

fn as_stored(stored: &Document) -> BTreeMap<String, String> {
    let fields = stored.get_array("fields").ok().into_iter().flatten();
    let fields = fields.filter_map(|field| {
        let field = field.as_document()?;
        let (name, how) = (field.get_str("field").ok()?, field.get_str("how").ok()?);
        Some((name.to_owned(), how.to_owned()))
    });
    fields.collect()
}
