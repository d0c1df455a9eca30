//! Indexes: what they are defined by, and the keys that they hold for a document.

mod collation;
mod definition;
mod given;
pub(crate) mod hashed;
pub(crate) mod keys;
mod part;
mod partial;
mod specification;
mod unsupported;
pub(crate) mod wildcard;

use std::time::Duration;

use bson::RawDocumentBuf;

pub use collation::Collation;
pub(crate) use collation::Collator;
pub(crate) use definition::{ID_INDEX, IndexState};
use given::Given;

use crate::direction::Direction;

/// The definition of an index.
///
/// ```
/// use odm_engine::{Direction, Index};
///
/// let index = Index::new([("customer", Direction::Ascending), ("when", Direction::Descending)]).unique();
/// assert_eq!(index.name, "customer_1_when_-1");
/// let hashed = Index::new([("customer", Direction::Ascending)]).hashed("customer");
/// assert_eq!(hashed.name, "customer_hashed");
/// let wildcard = Index::new([("attributes.$**", Direction::Ascending)]);
/// assert_eq!(wildcard.name, "attributes.$**_1");
/// ```
///
/// A path that is `$**` or ends with `.$**` makes it a wildcard index: it is about every path, or every one
/// that begins so.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Index {
    /// The name, unique within the collection.
    pub name: String,
    /// The dotted paths of the indexed fields with their directions, the most significant first.
    pub keys: Vec<(String, Direction)>,
    /// The one of the fields that is hashed, if one is: it serves for equal values only, and its direction
    /// means nothing.
    pub hashed: Option<String>,
    /// Which paths an index on `$**` includes, or which it leaves out; all but `_id` if `None`.
    pub wildcard_projection: Option<RawDocumentBuf>,
    /// Whether no two documents may have the same key.
    pub unique: bool,
    /// Whether documents with none of the fields are left out.
    pub sparse: bool,
    /// A filter that documents must match to be indexed.
    pub partial: Option<RawDocumentBuf>,
    /// How long after the date in the (only) field a document is deleted.
    pub expire_after: Option<Duration>,
    /// Whether queries do not see the index. It is kept up and unique all the same.
    pub hidden: bool,
    /// How strings are compared; byte by byte if `None`.
    pub collation: Option<Collation>,
    pub(crate) given: Given,
}

impl Index {
    /// An index of these fields, named after them as MongoDB does.
    pub fn new<P: Into<String>>(keys: impl IntoIterator<Item = (P, Direction)>) -> Index {
        let keys: Vec<_> = keys
            .into_iter()
            .map(|(path, direction)| (path.into(), direction))
            .collect();
        Index {
            name: default_name(&keys, None),
            keys,
            hashed: None,
            wildcard_projection: None,
            unique: false,
            sparse: false,
            partial: None,
            expire_after: None,
            hidden: false,
            collation: None,
            given: Given::default(),
        }
    }

    /// The same index under another name.
    pub fn named(mut self, name: impl Into<String>) -> Index {
        self.name = name.into();
        self
    }

    /// Has a hash in the place of this field's value. An index that is named after its fields is so still.
    pub fn hashed(mut self, path: impl Into<String>) -> Index {
        let path = path.into();
        if self.name == default_name(&self.keys, self.hashed.as_deref()) {
            self.name = default_name(&self.keys, Some(&path));
        }
        self.hashed = Some(path);
        self
    }

    /// Says which paths an index on `$**` includes (`{ "a": 1 }`), or which it leaves out (`{ "a": 0 }`).
    pub fn wildcard_projection(mut self, projection: RawDocumentBuf) -> Index {
        self.wildcard_projection = Some(projection);
        self
    }

    /// Refuses documents whose key is already there.
    pub fn unique(mut self) -> Index {
        self.unique = true;
        self
    }

    /// Leaves out the documents that have none of the fields.
    pub fn sparse(mut self) -> Index {
        self.sparse = true;
        self
    }

    /// Leaves out the documents that do not match `filter`.
    pub fn partial(mut self, filter: RawDocumentBuf) -> Index {
        self.partial = Some(filter);
        self
    }

    /// Deletes documents some time after the date in the field.
    pub fn expire_after(mut self, duration: Duration) -> Index {
        self.expire_after = Some(duration);
        self
    }

    /// Compares strings as a language does, those within documents and arrays, too. A unique index then refuses what is
    /// equal by that:
    ///
    /// ```
    /// # #[cfg(feature = "collation")] {
    /// use bson::rawdoc;
    /// use odm_engine::{Collation, Database, Direction, Index};
    ///
    /// let ignoring_case = Collation::from_document(&rawdoc! { "locale": "en", "strength": 2 })?;
    /// let by_email = Index::new([("email", Direction::Ascending)]).unique().collation(ignoring_case);
    ///
    /// let database = Database::memory();
    /// database.create_indexes("people", &[by_email])?;
    /// database.insert("people", vec![rawdoc! { "email": "ada@example.org" }])?.all()?;
    /// let twin = database.insert("people", vec![rawdoc! { "email": "Ada@Example.org" }])?;
    /// assert!(twin.failures[0].error.is_duplicate_key());
    /// # }
    /// # Ok::<(), odm_engine::Error>(())
    /// ```
    ///
    /// Queries compare byte by byte. They use such an index for what has no strings in it.
    pub fn collation(mut self, collation: impl Into<Option<Collation>>) -> Index {
        self.collation = collation.into();
        self
    }

    pub(crate) fn is_hashed(&self, path: &str) -> bool {
        self.hashed.as_deref() == Some(path)
    }

    /// Whether the index is about every path that begins like its own.
    pub fn is_wildcard(&self) -> bool {
        self.keys
            .iter()
            .any(|(path, _)| wildcard::is_wildcard(path))
    }

    /// Hides the index from queries.
    pub fn hidden(mut self) -> Index {
        self.hidden = true;
        self
    }
}

fn default_name(keys: &[(String, Direction)], hashed: Option<&str>) -> String {
    let parts: Vec<_> = keys
        .iter()
        .map(|(path, direction)| match direction {
            _ if hashed == Some(path) => format!("{path}_{}", hashed::KIND),
            Direction::Ascending => format!("{path}_1"),
            Direction::Descending => format!("{path}_-1"),
        })
        .collect();
    parts.join("_")
}
