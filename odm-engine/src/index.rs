//! Index definitions, and the keys of a document in an index.

mod collation;
mod definition;
pub(crate) mod hashed;
pub(crate) mod keys;
mod part;
mod partial;
mod specification;
mod unsupported;
mod verbatim;
pub(crate) mod wildcard;

use std::time::Duration;

use bson::RawDocumentBuf;

pub(crate) use definition::{ID_INDEX, IndexState};
use verbatim::VerbatimOptions;

use crate::collation::Collation;
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
/// A path that is `$**` or ends with `.$**` defines a wildcard index, over all paths or over all paths with that prefix.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Index {
    /// The name, unique within the collection.
    pub name: String,
    /// The dotted paths of the indexed fields with their directions, the most significant field first.
    pub keys: Vec<(String, Direction)>,
    /// The hashed field, if there is one. A hashed field supports only equality, and its direction is meaningless.
    pub hashed: Option<String>,
    /// The paths that an index on `$**` includes or excludes. `None` excludes only `_id`.
    pub wildcard_projection: Option<RawDocumentBuf>,
    /// Whether two documents with the same key are refused.
    pub unique: bool,
    /// Whether the index leaves out documents that have none of the fields.
    pub sparse: bool,
    /// A filter that documents must match to be indexed.
    pub partial: Option<RawDocumentBuf>,
    /// The time between the date in the (only) field and the deletion of the document.
    pub expire_after: Option<Duration>,
    /// Whether queries ignore the index. A hidden index is still maintained, and still enforces uniqueness.
    pub hidden: bool,
    /// The order of strings; `None` compares byte by byte.
    pub collation: Option<Collation>,
    pub(crate) verbatim: VerbatimOptions,
}

impl Index {
    /// Returns an index on these fields, with MongoDB's default name.
    pub fn new<P: Into<String>>(keys: impl IntoIterator<Item = (P, Direction)>) -> Index {
        let keys: Vec<_> = keys
            .into_iter()
            .map(|(path, direction)| (path.into(), direction))
            .collect();
        Index {
            name: default_index_name(&keys, None),
            keys,
            hashed: None,
            wildcard_projection: None,
            unique: false,
            sparse: false,
            partial: None,
            expire_after: None,
            hidden: false,
            collation: None,
            verbatim: VerbatimOptions::default(),
        }
    }

    /// Sets the name of the index.
    pub fn named(mut self, name: impl Into<String>) -> Index {
        self.name = name.into();
        self
    }

    /// Replaces the value of this field by its hash. Updates the name if it is the default name.
    pub fn hashed(mut self, path: impl Into<String>) -> Index {
        let path = path.into();
        if self.name == default_index_name(&self.keys, self.hashed.as_deref()) {
            self.name = default_index_name(&self.keys, Some(&path));
        }
        self.hashed = Some(path);
        self
    }

    /// Sets the paths that an index on `$**` includes (`{ "a": 1 }`) or excludes (`{ "a": 0 }`).
    pub fn wildcard_projection(mut self, projection: RawDocumentBuf) -> Index {
        self.wildcard_projection = Some(projection);
        self
    }

    /// Refuses documents with a key that another document already has.
    pub fn unique(mut self) -> Index {
        self.unique = true;
        self
    }

    /// Leaves out documents that have none of the fields.
    pub fn sparse(mut self) -> Index {
        self.sparse = true;
        self
    }

    /// Leaves out documents that do not match `filter`.
    pub fn partial(mut self, filter: RawDocumentBuf) -> Index {
        self.partial = Some(filter);
        self
    }

    /// Deletes documents when `duration` has passed since the date in the field.
    pub fn expire_after(mut self, duration: Duration) -> Index {
        self.expire_after = Some(duration);
        self
    }

    /// Compares strings by the rules of a language, including strings within documents and arrays. A unique index then refuses
    /// documents with keys that are equal under these rules:
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
    /// database.insert("people", vec![rawdoc! { "email": "ada@example.org" }])?.into_result()?;
    /// let twin = database.insert("people", vec![rawdoc! { "email": "Ada@Example.org" }])?;
    /// assert!(twin.failures[0].error.is_duplicate_key());
    /// # }
    /// # Ok::<(), odm_engine::Error>(())
    /// ```
    ///
    /// Queries compare byte by byte. They use such an index only for values without strings.
    pub fn collation(mut self, collation: impl Into<Option<Collation>>) -> Index {
        self.collation = collation.into();
        self
    }

    pub(crate) fn is_hashed(&self, path: &str) -> bool {
        self.hashed.as_deref() == Some(path)
    }

    /// Returns whether the index is a wildcard index.
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

fn default_index_name(keys: &[(String, Direction)], hashed: Option<&str>) -> String {
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
