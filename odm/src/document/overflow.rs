//! An array of which only the first elements are in its document.

use bson::{RawArray, RawBsonRef, RawDocument};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Stored, kind};
use crate::{
    Error, ErrorKind, Result, decode,
    field::{Checked, Overflowing, Path, Variants},
    maintain, native, rule,
    schema::{Closed, Copies, Model, Schema},
};

/// An array that may have more elements than are good in one document: the first ones are in it, the others in documents of their own
/// in another collection.
///
/// What is read of it with its document is what is there: [`resident`](Self::resident), whether there is [more](Self::has_more), and
/// [how many](Self::len) there are. The others are read by [`Get::elements`](crate::action::Get::elements), and changed by updates,
/// which are about all of them:
///
/// ```
/// use odm::prelude::*;
///
/// #[derive(Debug, Serialize, Deserialize, Document)]
/// #[document(collection = "sales")]
/// struct Book {
///     #[serde(rename = "_id")]
///     id: i64,
///     title: String,
///     #[embed(overflow(after = 2, into = "extra_sales", owner = "book_id"))]
///     customers_purchased: Overflow<String>,
/// }
/// # #[derive(Schema)] #[schema(models(Book))] struct Shop;
/// # #[cfg(feature = "engine")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> odm::Result<()> {
/// # let db = odm::Database::<Shop>::open("memory:").await?;
/// # db.sync_indexes().await?;
/// let book = db
///     .insert(Book { id: 2, title: "Harry Potter".into(), customers_purchased: Overflow::from(["ann", "bob"].map(String::from)) })
///     .await?;
/// assert!(!book.customers_purchased.has_more());
///
/// db.update::<Book>(2).push(|b| b.customers_purchased(), "cid").await?;
///
/// let book = db.get::<Book>(2).await?;
/// assert_eq!(book.customers_purchased.resident(), ["ann", "bob"]);
/// assert_eq!(book.customers_purchased.len(), 3);
///
/// let all = db.get::<Book>(2).elements(|b| b.customers_purchased()).all().await?;
/// assert_eq!(all, ["ann", "bob", "cid"]);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "engine"))]
/// # fn main() {}
/// ```
///
/// As a document is inserted it has all of them, however many; one that was read and has more outside is not written, with an error of kind
/// [`Invalid`](crate::ErrorKind::Invalid). To serde it is the array of those that are in the document, and what comes back from there, as from
/// JSON, knows of no others: do not write it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Overflow<T> {
    resident: Vec<T>,
    outside: u64,
}

impl<T> Overflow<T> {
    /// Without elements.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The elements that are in the document: the first ones.
    #[must_use]
    pub fn resident(&self) -> &[T] {
        &self.resident
    }

    /// The same, by value.
    #[must_use]
    pub fn into_resident(self) -> Vec<T> {
        self.resident
    }

    /// Whether there are others, outside of the document.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.outside > 0
    }

    /// How many elements there are, wherever they are, as of when the document was read.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.resident.len() as u64 + self.outside
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Learns how many there are outside of the stored document; called by derived code.
    #[doc(hidden)]
    pub fn look_outside(&mut self, raw: &RawDocument, model: &Model, stored: &str) {
        self.outside = outside(raw, stored).unwrap_or(0);
        // Of an array in an order some more may be there.
        let mut fields = model.overflows.iter();
        let ordered = fields.find(|field| field.stored == stored && field.order.is_some());
        if let Some(field) = ordered.filter(|_| !decode::is_new(raw)) {
            self.outside += self.resident.len().saturating_sub(field.after) as u64;
            self.resident.truncate(field.after);
        }
    }
}

impl<T> Overflow<T> {
    /// An error if it was read and has elements that were not: written, it would lose them. `path` leads to it. Called by derived code.
    #[doc(hidden)]
    pub fn refuse_partial(&self, path: &Path) -> Result<()> {
        if self.outside == 0 {
            return Ok(());
        }
        let message = format!(
            "{} of its elements are outside of the document with which the array was read, and would be lost: read all of them by \
             `get(…).elements(…).all()`, and write those",
            self.outside
        );
        let error = Error::new(ErrorKind::Invalid, message);
        Err(match path.is_root() {
            true => error,
            false => error.with_path(path.to_string()),
        })
    }
}

impl<T: Stored> Overflow<T> {
    /// Checks the elements that it has; called by derived code.
    #[doc(hidden)]
    pub fn validate_elements(&self, place: &Checked<'_>) -> Result<()> {
        self.resident
            .iter()
            .try_for_each(|value| value.validate(place))
    }

    /// Keeps what stays in a document that is inserted as this; called by derived code.
    #[doc(hidden)]
    pub fn keep_inside(&mut self, model: &'static Model, stored: &str, raw: &RawDocument) {
        let Some(kept) = maintain::kept_inside(model, stored, raw) else {
            return;
        };
        self.outside = self.resident.len().saturating_sub(kept.len()) as u64;
        let mut all: Vec<_> = self.resident.drain(..).map(Some).collect();
        let kept = kept.into_iter();
        self.resident = kept
            .filter_map(|position| all.get_mut(position)?.take())
            .collect();
    }
}

/// How many elements a stored document says that there are outside of it.
fn outside(raw: &RawDocument, stored: &str) -> Option<u64> {
    let own = raw.get_document("_odm").ok()?;
    let header = own.get_document("overflow").ok()?;
    let header = header.get_document(stored).ok()?;
    let count = header.get("count").ok().flatten();
    let count = match count {
        Some(RawBsonRef::Int64(count)) => u64::try_from(count).unwrap_or(0),
        Some(RawBsonRef::Int32(count)) => u64::try_from(count).unwrap_or(0),
        _ => 0,
    };
    let len = |array: Option<&RawArray>| array.map_or(0, |array| array.into_iter().count() as u64);
    let tail = len(header.get_array("tail").ok());
    let work = header.get_document("work").ok();
    let block = len(work.and_then(|work| work.get_array("block").ok()));
    Some(count + tail + block)
}

impl<T> Default for Overflow<T> {
    fn default() -> Self {
        Self {
            resident: Vec::new(),
            outside: 0,
        }
    }
}

impl<T> From<Vec<T>> for Overflow<T> {
    fn from(elements: Vec<T>) -> Self {
        Self {
            resident: elements,
            outside: 0,
        }
    }
}

impl<T, const N: usize> From<[T; N]> for Overflow<T> {
    fn from(elements: [T; N]) -> Self {
        Self::from(Vec::from(elements))
    }
}

impl<T> FromIterator<T> for Overflow<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        Self::from(Vec::from_iter(elements))
    }
}

impl<T: Serialize> Serialize for Overflow<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.resident.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Overflow<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}

impl<T: Stored> Stored for Overflow<T> {
    const RULES: rule::Rules = rule::Rules::of_elements::<T>();
    type Kind = kind::Overflowing;
    type Fields<M: 'static, R: 'static, S: 'static> = Overflowing<M, T, R, S>;
    type ShapeWithDefault<S: 'static> = S;
    type New = Overflow<T::New>;
    const COPIES: &'static Copies = T::COPIES;
    const IS_ARRAY: bool = true;
    const REWRITES: bool = T::REWRITES;
    const ROUNDS: bool = T::ROUNDS;

    fn serialize_stored<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.resident.iter().map(native::Stored))
    }

    fn deserialize_stored<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<T>::deserialize_stored(deserializer).map(Self::from)
    }

    fn validate(&self, place: &Checked<'_>) -> Result<()> {
        self.refuse_partial(place.path())?;
        self.validate_elements(place)
    }

    fn count(&self) -> usize {
        self.resident.len()
    }

    fn variants(&self, found: &mut Variants) {
        for (i, value) in self.resident.iter().enumerate() {
            found.element(i, |found| value.variants(found));
        }
    }
}

impl<S: Schema, T: Closed<S>> Closed<S> for Overflow<T> {}

/// An array whose elements can be outside of its document: an [`Overflow`].
#[diagnostic::on_unimplemented(
    message = "all elements of a `{Self}` are in its document",
    label = "no array that overflows",
    note = "read it with its document; to let it overflow, declare an `Overflow` with `#[embed(overflow(after = …, into = \"…\"))]`"
)]
pub trait OverflowArray {
    /// What it holds.
    type Element: Stored;
}

#[diagnostic::do_not_recommend]
impl<T: Stored> OverflowArray for Overflow<T> {
    type Element = T;
}
