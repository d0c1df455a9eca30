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

/// A change of what the framework keeps in documents.
#[derive(Debug, Clone)]
pub(super) struct Amendment {
    /// Which documents it is about: all that match.
    pub(super) filter: RawDocumentBuf,
    pub(super) update: Document,
    pub(super) array_filters: Vec<Document>,
}

impl Amendment {
    pub(super) fn new(filter: RawDocumentBuf, update: Document) -> Self {
        Self {
            filter,
            update,
            array_filters: Vec::new(),
        }
    }

    async fn into_update(mut self, access: &Access, model: &'static Model) -> Result<Update> {
        narrow(access, model, &mut self.filter, false).await?;
        let array_filters = self.array_filters.iter().map(close);
        Ok(Update {
            collection: model.collection.into(),
            filter: self.filter,
            change: Change::Operators {
                update: close(&self.update)?,
                array_filters: array_filters.collect::<Result<_>>()?,
            },
            multi: true,
            upsert: false,
        })
    }
}

/// Makes such changes in one go; gives how many documents they were about. Neither the version nor the time of change of a document
/// tells of that.
pub(super) async fn change_all(
    access: &Access,
    model: &'static Model,
    mut changes: Vec<Amendment>,
) -> Result<u64> {
    if changes.len() < 2 {
        return match changes.pop() {
            Some(only) => change(access, model, only).await,
            None => Ok(0),
        };
    }
    let mut writes = Vec::with_capacity(changes.len());
    for change in changes {
        writes.push(BulkItem {
            write: Write::Update(change.into_update(access, model).await?),
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

/// Makes one such change.
pub(super) async fn change(
    access: &Access,
    model: &'static Model,
    change: Amendment,
) -> Result<u64> {
    let update = change.into_update(access, model).await?;
    access.told().writes();
    let done = access.executor().update(update).await;
    Ok(done.map_err(error::of(model))?.matched)
}
