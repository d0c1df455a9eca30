//! Change events.

use std::marker::PhantomData;

use bson::{DateTime, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::ResumeToken;
use crate::{
    Error, ErrorKind, Result, error,
    language::field::{Place, SameScope},
    metadata,
    model::{
        decode,
        document::{Document, Stored},
    },
    schema::{Model, OverflowField},
};

/// A change of one document.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Change<T: Document> {
    /// The `_id` of the document.
    pub id: T::Id,
    /// The kind of the change, with the document or the changed fields.
    pub event: Event<T>,
    /// The time of the commit, by the clock of the database.
    pub time: DateTime,
    /// The position after this change, for [`Watch::after`](super::Watch::after).
    pub token: ResumeToken,
}

/// The kind of a [`Change`], with the document or the changed fields.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event<T> {
    /// The document was inserted. Contains the document at that time.
    Inserted(T),
    /// Fields of the document were changed.
    Updated {
        /// The changed fields and their values.
        fields: UpdatedFields<T>,
        /// The document as stored when the change is read. `None` without [`with_documents`](super::Watch::with_documents), or if
        /// the document is deleted by then.
        document: Option<T>,
    },
    /// The document was replaced as a whole, which no typed write does. Contains the document at that time.
    Replaced(T),
    /// The document was soft-deleted: see [`SoftDelete`](crate::SoftDelete). The document is still stored, and can be
    /// [restored](Event::Restored).
    SoftDeleted {
        /// The fields that changed in the same update.
        fields: UpdatedFields<T>,
        /// The document, as in [`Updated`](Event::Updated).
        document: Option<T>,
    },
    /// A soft-deleted document was restored by [`Session::restore`](crate::Session::restore).
    Restored {
        /// The fields that changed in the same update.
        fields: UpdatedFields<T>,
        /// The document, as in [`Updated`](Event::Updated).
        document: Option<T>,
    },
    /// The document was deleted for good.
    Deleted,
}

impl<T: Document> Change<T> {
    /// Parses an event. Returns `None` if the event changed the library's metadata alone.
    pub(super) fn from_event(event: &RawDocument) -> Result<Option<Self>> {
        let field = |name| event.get_document(name).map_err(malformed_event);
        let decode_model = |document: &RawDocument| T::from_stored(document);
        let id = decode::stored_id(field("documentKey")?).map(RawBson::from);
        let id = id.ok_or_else(missing_id)?;
        let kind = event.get_str("operationType");
        let event_kind = match kind.map_err(malformed_event)? {
            "insert" => Event::Inserted(decode_model(field("fullDocument")?)?),
            "replace" => Event::Replaced(decode_model(field("fullDocument")?)?),
            "delete" => Event::Deleted,
            "update" => {
                let fields = UpdatedFields::from_description(field("updateDescription")?)?;
                if fields.changed.is_metadata(&T::MODEL) {
                    return Ok(None);
                }
                let document = match event.get("fullDocument").map_err(malformed_event)? {
                    Some(RawBsonRef::Document(document)) => Some(decode_model(document)?),
                    _ => None,
                };
                match fields.soft_delete_change() {
                    Some(true) => Event::SoftDeleted { fields, document },
                    Some(false) => Event::Restored { fields, document },
                    None => Event::Updated { fields, document },
                }
            }
            other => {
                return Err(decode_error(&format!(
                    "a change event has the unknown type `{other}`"
                )));
            }
        };
        Ok(Some(Self {
            id: decode::decode_value(&id).map_err(|error| error.with_path("_id"))?,
            event: event_kind,
            time: time_of(event)?,
            token: ResumeToken::new(field("_id")?.to_owned()),
        }))
    }
}

/// The fields that an update has changed.
///
/// ```
/// # use odm::{prelude::*, watch::{Event, UpdatedFields}};
/// # #[derive(Serialize, Deserialize, Document)]
/// # #[document(collection = "posts")]
/// # struct Post { #[serde(rename = "_id")] id: i64, title: String, votes: i64 }
/// fn tell(fields: &UpdatedFields<Post>) -> odm::Result<()> {
///     if let Some(title) = fields.value(|p| p.title())? {
///         println!("it is called {title} now");
///     }
///     if fields.contains(|p| p.votes()) {
///         println!("somebody has voted");
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone)]
pub struct UpdatedFields<T> {
    changed: ChangedPaths,
    of: PhantomData<fn() -> T>,
}

/// The paths that an update has changed, with the new values.
#[derive(Debug, Clone)]
pub(super) struct ChangedPaths {
    updated: RawDocumentBuf,
    removed_or_truncated: Vec<String>,
}

impl ChangedPaths {
    pub(super) fn from_description(description: &RawDocument) -> Result<Self> {
        let mut removed_or_truncated = Vec::new();
        if let Ok(removed) = description.get_array("removedFields") {
            for path in removed {
                let path = path.map_err(malformed_event)?.as_str();
                removed_or_truncated.extend(path.map(str::to_owned));
            }
        }
        if let Ok(truncated) = description.get_array("truncatedArrays") {
            for array in truncated {
                let array = array.map_err(malformed_event)?.as_document();
                let path = array.and_then(|array| array.get_str("field").ok());
                removed_or_truncated.extend(path.map(str::to_owned));
            }
        }
        let updated = description.get_document("updatedFields");
        Ok(Self {
            updated: updated.map_err(malformed_event)?.to_owned(),
            removed_or_truncated,
        })
    }

    /// Returns all paths, also of the library's metadata.
    fn iter(&self) -> impl Iterator<Item = &str> {
        let updated = self.updated.iter().filter_map(Result::ok);
        let updated = updated.map(|(path, _)| path.as_str());
        updated.chain(self.removed_or_truncated.iter().map(String::as_str))
    }

    /// Returns whether the update changed metadata alone, for example to complete pending work. A change of an overflow array's
    /// manifest is not a metadata change: its elements belong to the document.
    pub(super) fn is_metadata(&self, model: &Model) -> bool {
        let mut arrays = model.overflows.iter();
        self.iter().all(is_metadata) && !arrays.any(|array| self.changes_manifest(array))
    }

    fn changes_manifest(&self, field: &OverflowField) -> bool {
        let updated = self.updated.iter().filter_map(Result::ok);
        let mut updated = updated.map(|(changed, value)| (changed.as_str(), value));
        // An update of an enclosing field counts only if the new value contains the manifest. Other metadata is stored there too.
        let is_set = updated.any(
            |(changed, value)| match field.manifest.strip_prefix(changed) {
                Some(suffix) if suffix.starts_with('.') => {
                    let mut names = suffix.split('.').skip(1);
                    names
                        .try_fold(value, |value, name| value.as_document()?.get(name).ok()?)
                        .is_some()
                }
                _ => change_overlaps_path(changed, field.manifest),
            },
        );
        is_set
            || self
                .removed_or_truncated
                .iter()
                .any(|path| change_overlaps_path(path, field.manifest))
    }
}

impl<T: Document> UpdatedFields<T> {
    fn from_description(description: &RawDocument) -> Result<Self> {
        Ok(Self {
            changed: ChangedPaths::from_description(description)?,
            of: PhantomData,
        })
    }

    /// Returns the dotted paths of the fields that were set, removed or truncated, in MongoDB's notation: `lines.0.price`. Paths
    /// of the library's metadata under `_odm` are left out.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.changed.iter().filter(|path| !is_metadata(path))
    }

    /// Returns `Some(true)` if the update soft-deleted the document, `Some(false)` if the update restored the document, and
    /// `None` otherwise.
    fn soft_delete_change(&self) -> Option<bool> {
        let field = T::MODEL.soft_delete?;
        let mut removed = self.changed.removed_or_truncated.iter();
        if removed.any(|path| path == field) {
            return Some(false);
        }
        let value = self.changed.updated.get(field).ok()??;
        Some(!matches!(value, RawBsonRef::Null))
    }

    /// Returns whether the update changed a field, a part of the field, or an enclosing field. For an overflow array, changes of
    /// spilled elements and moves between document and chunks count as well.
    pub fn contains<P: Place<Scope: SameScope<T>>>(
        &self,
        field: impl FnOnce(T::Fields) -> P,
    ) -> bool {
        let path = field(T::fields()).path();
        let Ok(path) = path.dotted() else {
            // MongoDB has no path for such a place, for example the elements by a condition. Any element may have changed.
            return true;
        };
        self.paths()
            .any(|changed| change_overlaps_path(changed, path))
            || self.changes_spilled(path)
    }

    /// Returns whether the update changed the spilled elements of the overflow array at a path.
    fn changes_spilled(&self, path: &str) -> bool {
        let field = T::MODEL.overflow_on(path);
        field.is_some_and(|field| self.changed.changes_manifest(field))
    }

    /// Returns the new value of a field, if the update set the whole field. For an overflow array, returns `None` if elements are
    /// spilled.
    ///
    /// # Errors
    ///
    /// [`Decode`](ErrorKind::Decode) for a value of another type.
    pub fn value<P>(&self, field: impl FnOnce(T::Fields) -> P) -> Result<Option<P::Value>>
    where
        P: Place<Scope: SameScope<T>, Value: Stored>,
    {
        let path = field(T::fields()).path();
        let path = path.dotted().map_err(error::of_model::<T>)?;
        if self.changes_spilled(path) {
            return Ok(None);
        }
        let set = self.changed.updated.iter().filter_map(Result::ok);
        let mut set = set.filter(|(name, _)| name.as_str() == path);
        let value = set
            .next()
            .map(|(_, value)| decode::decode_value(&value.into()));
        let value = value.transpose();
        value.map_err(|error| error::of_model::<T>(error).with_path(path))
    }
}

/// Returns whether a path belongs to the library's metadata.
fn is_metadata(path: &str) -> bool {
    path.split('.').next() == Some(metadata::FIELD)
}

/// Returns whether two paths name the same place, or nested places. `path` may omit the array positions of `changed`.
fn change_overlaps_path(changed: &str, path: &str) -> bool {
    let mut path = path.split('.').peekable();
    for part in changed.split('.') {
        match path.peek() {
            None => return true,
            Some(next) if *next == part => {
                path.next();
            }
            Some(_) if part.bytes().all(|byte| byte.is_ascii_digit()) => {}
            Some(_) => return false,
        }
    }
    true
}

/// Returns the commit time of an event. MongoDB before 6.0 has no `wallTime`.
pub(super) fn time_of(event: &RawDocument) -> Result<DateTime> {
    if let Ok(time) = event.get_datetime("wallTime") {
        return Ok(time);
    }
    let time = event.get_timestamp("clusterTime");
    let seconds = time.map_err(malformed_event)?.time;
    Ok(DateTime::from_millis(i64::from(seconds) * 1_000))
}

/// Returns the error for an event without the `_id` of the changed document.
pub(super) fn missing_id() -> Error {
    decode_error("a change event has no `_id` of the changed document")
}

fn decode_error(message: &str) -> Error {
    Error::new(ErrorKind::Decode, message)
}

/// Returns the error for an event that violates the contract of the backend.
pub(super) fn malformed_event(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    decode_error(&format!("a change event is malformed: {error}")).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_overlap_where_one_is_in_the_other() {
        for (changed, path) in [
            ("a", "a"),
            ("a", "a.b"),
            ("a.b", "a"),
            ("a.0.b", "a.b"),
            ("a.0.b", "a.0.b"),
            ("a.0", "a.b"),
            ("a.0.1", "a"),
        ] {
            assert!(change_overlaps_path(changed, path), "{changed} {path}");
        }
        for (changed, path) in [
            ("a", "b"),
            ("ab", "a"),
            ("a.0.b", "a.c"),
            ("a.0.b", "a.1.b"),
        ] {
            assert!(!change_overlaps_path(changed, path), "{changed} {path}");
        }
    }
}
