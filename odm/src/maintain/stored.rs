//! Documents as they are stored, and what the framework keeps in them.

use bson::{Bson, Document, RawBson, RawDocument, RawDocumentBuf};

use super::narrow;
use crate::{
    Result,
    access::Access,
    backend::operation::{BulkItem, BulkWrite, Change, Unmatched, Update, Write, Written},
    error,
    schema::Model,
};

/// A document, to be changed.
pub(super) fn open(raw: &RawDocument) -> Result<Document> {
    Document::try_from(raw).map_err(error::encode)
}

/// The document as it is written.
pub(super) fn close(document: &Document) -> Result<RawDocumentBuf> {
    RawDocumentBuf::try_from(document).map_err(error::encode)
}

/// A value as it is written.
pub(super) fn raw(value: &Bson) -> Result<RawBson> {
    RawBson::try_from(value.clone()).map_err(error::encode)
}

/// The value at a dotted path.
pub(super) fn get<'d>(document: &'d Document, dotted: &str) -> Option<&'d Bson> {
    match dotted.split_once('.') {
        None => document.get(dotted),
        Some((first, rest)) => get(document.get_document(first).ok()?, rest),
    }
}

/// Puts a value at a dotted path.
pub(super) fn set(document: &mut Document, dotted: &str, value: impl Into<Bson>) {
    let Some((first, rest)) = dotted.split_once('.') else {
        document.insert(dotted, value);
        return;
    };
    let inside = document.entry(first.to_owned());
    if let Bson::Document(inside) = inside.or_insert_with(|| Bson::Document(Document::new())) {
        set(inside, rest, value);
    }
}

/// The names in a path, without what says which elements of an array are meant.
pub(super) fn names(path: &str) -> String {
    let names = path.split('.').filter(|part| !is_position(part));
    names.collect::<Vec<_>>().join(".")
}

/// Whether a part of a path says which elements of an array are meant.
pub(super) fn is_position(part: &str) -> bool {
    part.starts_with('$') || part.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether one place is inside of the other.
pub(super) fn overlap(a: &str, b: &str) -> bool {
    let (a, b) = (names(a), names(b));
    a.split('.').zip(b.split('.')).all(|(a, b)| a == b)
}

/// Whether an update writes to a place, or into it, or to what it is in.
pub(super) fn touches(update: &RawDocument, place: &str) -> bool {
    update.iter().flatten().any(|(operator, fields)| {
        let fields = fields.as_document().into_iter().flatten().flatten();
        fields.into_iter().any(|(path, value)| {
            let renamed = value.as_str().filter(|_| operator == "$rename");
            overlap(path.as_str(), place) || renamed.is_some_and(|to| overlap(to, place))
        })
    })
}

/// Makes such changes in one go; gives how many documents they were about. Each is a condition with what becomes of the documents.
pub(super) async fn change_all(
    access: &Access,
    model: &'static Model,
    mut changes: Vec<(Document, Document)>,
) -> Result<u64> {
    if changes.len() < 2 {
        return match changes.pop() {
            Some((filter, update)) => change(access, model, close(&filter)?, &update, &[]).await,
            None => Ok(0),
        };
    }
    let mut writes = Vec::with_capacity(changes.len());
    for (filter, update) in &changes {
        let mut filter = close(filter)?;
        narrow(access, model, &mut filter, false).await?;
        writes.push(BulkItem {
            write: Write::Update(Update {
                collection: model.collection.into(),
                filter,
                change: Change::operators(close(update)?),
                multi: true,
                upsert: false,
            }),
            unmatched: Unmatched::Fine,
        });
    }
    access.told().writes();
    let ordered = false;
    let done = access.executor().bulk_write(BulkWrite { writes, ordered });
    let done = done.await.map_err(error::of(model))?;
    for result in done.results {
        if let Written::Failed(error) = result {
            return Err(error::of(model)(error));
        }
    }
    Ok(done.matched)
}

/// Changes what the framework keeps in documents: neither their version nor their time of change tells of that.
pub(super) async fn change(
    access: &Access,
    model: &'static Model,
    mut filter: RawDocumentBuf,
    update: &Document,
    array_filters: &[Document],
) -> Result<u64> {
    narrow(access, model, &mut filter, false).await?;
    let array_filters = array_filters.iter().map(close).collect::<Result<_>>()?;
    let update = Update {
        collection: model.collection.into(),
        filter,
        change: Change::Operators {
            update: close(update)?,
            array_filters,
        },
        multi: true,
        upsert: false,
    };
    access.told().writes();
    let done = access.executor().update(update).await;
    Ok(done.map_err(error::of(model))?.matched)
}
