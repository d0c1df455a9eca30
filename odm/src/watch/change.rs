//! What a watch tells of.

use std::marker::PhantomData;

use bson::{DateTime, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::ResumeToken;
use crate::{
    Error, ErrorKind, Result, decode,
    document::{Document, Stored},
    error,
    field::{In, Place},
    schema::OverflowField,
};

/// What happened to a document.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Change<T: Document> {
    /// The `_id` of the document.
    pub id: T::Id,
    /// What happened to it.
    pub event: Event<T>,
    /// When, by the clock of the database.
    pub time: DateTime,
    /// For [`Watch::after`](super::Watch::after): behind this change.
    pub token: ResumeToken,
}

/// What can happen to a document.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event<T> {
    /// It was inserted: as it was then.
    Inserted(T),
    /// Some of its fields were changed.
    Updated {
        /// Which fields those are, and their values.
        fields: UpdatedFields<T>,
        /// The document as it is when the change is read, if that was [asked for](super::Watch::with_documents) and it
        /// is still there.
        document: Option<T>,
    },
    /// It was replaced as a whole, which no typed write does: as it was then.
    Replaced(T),
    /// It was deleted by a mark: see [`SoftDelete`](crate::SoftDelete). It is still stored, and may be [restored](Event::Restored).
    SoftDeleted {
        /// The fields that were changed with it.
        fields: UpdatedFields<T>,
        /// The document as of [`Updated`](Event::Updated).
        document: Option<T>,
    },
    /// The mark was taken away, by [`Session::restore`](crate::Session::restore).
    Restored {
        /// The fields that were changed with it.
        fields: UpdatedFields<T>,
        /// The document as of [`Updated`](Event::Updated).
        document: Option<T>,
    },
    /// It was deleted for good.
    Deleted,
}

impl<T: Document> Change<T> {
    /// Reads an event. None if it changed the library's metadata alone.
    pub(super) fn read(event: &RawDocument) -> Result<Option<Self>> {
        let part = |name| event.get_document(name).map_err(malformed);
        let of_model = |document: &RawDocument| T::from_stored(document);
        let id = decode::id(part("documentKey")?).map(RawBson::from);
        let id = id.ok_or_else(|| unreadable("an event has no `_id` of its document"))?;
        let kind = event.get_str("operationType");
        let what = match kind.map_err(malformed)? {
            "insert" => Event::Inserted(of_model(part("fullDocument")?)?),
            "replace" => Event::Replaced(of_model(part("fullDocument")?)?),
            "delete" => Event::Deleted,
            "update" => {
                let fields = UpdatedFields::read(part("updateDescription")?)?;
                if fields.is_metadata() {
                    return Ok(None);
                }
                let document = match event.get("fullDocument").map_err(malformed)? {
                    Some(RawBsonRef::Document(document)) => Some(of_model(document)?),
                    _ => None,
                };
                match fields.mark() {
                    Some(true) => Event::SoftDeleted { fields, document },
                    Some(false) => Event::Restored { fields, document },
                    None => Event::Updated { fields, document },
                }
            }
            other => {
                return Err(unreadable(&format!(
                    "an event of the unknown kind `{other}`"
                )));
            }
        };
        Ok(Some(Self {
            id: decode::value(&id).map_err(|error| error.with_path("_id"))?,
            event: what,
            time: time_of(event)?,
            token: ResumeToken::new(part("_id")?.to_owned()),
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
    updated: RawDocumentBuf,
    others: Vec<String>,
    of: PhantomData<fn() -> T>,
}

impl<T: Document> UpdatedFields<T> {
    fn read(description: &RawDocument) -> Result<Self> {
        let mut others = Vec::new();
        if let Ok(removed) = description.get_array("removedFields") {
            for path in removed {
                let path = path.map_err(malformed)?.as_str();
                others.extend(path.map(str::to_owned));
            }
        }
        if let Ok(truncated) = description.get_array("truncatedArrays") {
            for array in truncated {
                let array = array.map_err(malformed)?.as_document();
                let path = array.and_then(|array| array.get_str("field").ok());
                others.extend(path.map(str::to_owned));
            }
        }
        let updated = description.get_document("updatedFields");
        Ok(Self {
            updated: updated.map_err(malformed)?.to_owned(),
            others,
            of: PhantomData,
        })
    }

    /// The paths of fields that were set, removed or shortened, as MongoDB names them: `lines.0.price`. Paths of the library's
    /// metadata, under `_odm`, are left out.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.stored_paths().filter(|path| !is_metadata(path))
    }

    fn stored_paths(&self) -> impl Iterator<Item = &str> {
        let updated = self.updated.iter().filter_map(Result::ok);
        let updated = updated.map(|(path, _)| path.as_str());
        updated.chain(self.others.iter().map(String::as_str))
    }

    /// Whether the update changed metadata alone, for example to mark pending work as done. The manifest of an overflow array does not
    /// count as metadata: its elements belong to the document.
    fn is_metadata(&self) -> bool {
        let mut arrays = T::MODEL.overflows.iter();
        self.stored_paths().all(is_metadata) && !arrays.any(|array| self.changes_header(array))
    }

    /// Whether the mark of a soft delete was set or taken away, if it was either.
    fn mark(&self) -> Option<bool> {
        let field = T::MODEL.soft_delete?;
        if self.others.iter().any(|path| path == field) {
            return Some(false);
        }
        let mark = self.updated.get(field).ok()??;
        Some(!matches!(mark, RawBsonRef::Null))
    }

    /// Whether the place was changed, or something inside of it, or what it is in. Of an array that overflows: whether some of its elements
    /// were, in the document or outside of it, or have gone from one to the other.
    pub fn contains<P: Place<Scope: In<T>>>(&self, field: impl FnOnce(T::Fields) -> P) -> bool {
        let path = field(T::fields()).path();
        let Ok(path) = path.dotted() else {
            // A place that MongoDB has no name for, such as elements by a condition: it may be any of them.
            return true;
        };
        self.paths().any(|changed| overlap(changed, path)) || self.changes_outside(path)
    }

    /// Whether what the document says changed of the elements elsewhere of the array that a path leads to.
    fn changes_outside(&self, path: &str) -> bool {
        let field = T::MODEL.overflow_on(path);
        field.is_some_and(|field| self.changes_header(field))
    }

    fn changes_header(&self, field: &OverflowField) -> bool {
        let updated = self.updated.iter().filter_map(Result::ok);
        let mut updated = updated.map(|(changed, value)| (changed.as_str(), value));
        // Of what is around it, only with that in it: others keep something there too.
        let is_told = updated.any(
            |(changed, value)| match field.header.strip_prefix(changed) {
                Some(rest) if rest.starts_with('.') => {
                    let mut names = rest.split('.').skip(1);
                    names
                        .try_fold(value, |value, name| value.as_document()?.get(name).ok()?)
                        .is_some()
                }
                _ => overlap(changed, field.header),
            },
        );
        is_told || self.others.iter().any(|gone| overlap(gone, field.header))
    }

    /// The value that a field was set to, if the update has set it as a whole; of an array that overflows, if nothing of it is elsewhere.
    ///
    /// # Errors
    ///
    /// [`Decode`](ErrorKind::Decode) for a value of another type.
    pub fn value<P>(&self, field: impl FnOnce(T::Fields) -> P) -> Result<Option<P::Value>>
    where
        P: Place<Scope: In<T>, Value: Stored>,
    {
        let path = field(T::fields()).path();
        let path = path.dotted().map_err(error::of_model::<T>)?;
        if self.changes_outside(path) {
            return Ok(None);
        }
        let set = self.updated.iter().filter_map(Result::ok);
        let mut set = set.filter(|(name, _)| name.as_str() == path);
        let value = set.next().map(|(_, value)| decode::value(&value.into()));
        let value = value.transpose();
        value.map_err(|error| error::of_model::<T>(error).with_path(path))
    }
}

/// Whether a path leads to what this library keeps for itself.
fn is_metadata(path: &str) -> bool {
    path.split('.').next() == Some("_odm")
}

/// Whether one of two paths leads to, or into, the place of the other. The positions of elements in what has changed may be left
/// out of the path.
fn overlap(changed: &str, path: &str) -> bool {
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

/// MongoDB before 6.0 has no `wallTime`.
fn time_of(event: &RawDocument) -> Result<DateTime> {
    if let Ok(time) = event.get_datetime("wallTime") {
        return Ok(time);
    }
    let time = event.get_timestamp("clusterTime");
    let seconds = time.map_err(malformed)?.time;
    Ok(DateTime::from_millis(i64::from(seconds) * 1_000))
}

fn unreadable(message: &str) -> Error {
    Error::new(ErrorKind::Decode, message)
}

/// The backend broke its contract.
pub(super) fn malformed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    unreadable(&format!("an event lacks what it has to have: {error}")).with_source(error)
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
            assert!(overlap(changed, path), "{changed} {path}");
        }
        for (changed, path) in [
            ("a", "b"),
            ("ab", "a"),
            ("a.0.b", "a.c"),
            ("a.0.b", "a.1.b"),
        ] {
            assert!(!overlap(changed, path), "{changed} {path}");
        }
    }
}
