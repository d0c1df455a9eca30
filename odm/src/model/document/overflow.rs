//! `Overflow`: an array with resident and spilled elements.

use bson::RawDocument;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Stored, kind};
use crate::{
    Error, ErrorKind, Result,
    language::field::{CheckedPlace, OverflowPlace, Path, VariantMap},
    metadata::Metadata,
    model::{native, validation},
    overflow::capacity,
    schema::{Model, Schema, TargetsInSchema, TypeCopies},
};

/// An array that may outgrow a document: the first elements are resident in the document, and the rest spills into chunk
/// documents of a separate collection.
///
/// Reading the document gives the resident elements ([`resident`](Self::resident)), whether the array [has more](Self::has_more),
/// and the [total number](Self::len). [`Get::elements`](crate::action::Get::elements) reads all elements. Updates change resident
/// and spilled elements alike:
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
/// Before an insert, the array holds all elements, in any number. After a read, an array with spilled elements is incomplete.
/// Writing an incomplete array is an error of kind [`Invalid`](crate::ErrorKind::Invalid). Serde sees the array of resident
/// elements. An array that was deserialized from such data, JSON for example, knows no spilled elements: do not write that array.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Overflow<T> {
    resident: Vec<T>,
    spilled: u64,
}

impl<T> Overflow<T> {
    /// Creates an array without elements.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the resident elements: the first elements of the array.
    #[must_use]
    pub fn resident(&self) -> &[T] {
        &self.resident
    }

    /// Converts the array into a vector of the resident elements.
    #[must_use]
    pub fn into_resident(self) -> Vec<T> {
        self.resident
    }

    /// Returns whether the array has spilled elements.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.spilled > 0
    }

    /// Returns the total number of elements, resident and spilled, at the time of the read.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.resident.len() as u64 + self.spilled
    }

    /// Returns whether the array has no elements at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets the number of spilled elements from the stored document. Called by derived code.
    #[doc(hidden)]
    pub fn set_spilled_count(&mut self, raw: &RawDocument, model: &Model, stored: &str) {
        let metadata = Metadata::of(raw);
        self.spilled = metadata.spilled_count(stored).unwrap_or(0);
        // A sorted array may store more resident elements than `after`. Count the surplus as spilled.
        let mut fields = model.overflows.iter();
        let ordered = fields.find(|field| field.stored == stored && field.order.is_some());
        if let Some(field) = ordered.filter(|_| !metadata.is_complete()) {
            self.spilled += self.resident.len().saturating_sub(field.max_resident) as u64;
            self.resident.truncate(field.max_resident);
        }
    }
}

impl<T> Overflow<T> {
    /// Ensures that the array is complete: a write of an incomplete array would lose the spilled elements. `path` is the path of
    /// the array. Called by derived code.
    #[doc(hidden)]
    pub fn ensure_complete(&self, path: &Path) -> Result<()> {
        if self.spilled == 0 {
            return Ok(());
        }
        let message = format!(
            "the array was read without {} of its elements, and writing the array would lose these elements; read all elements with \
             `get(…).elements(…).all()`, and write the result",
            self.spilled
        );
        let error = Error::new(ErrorKind::Invalid, message);
        Err(match path.is_root() {
            true => error,
            false => error.with_path(path.to_string()),
        })
    }
}

impl<T: Stored> Overflow<T> {
    /// Validates the elements by their rules. Called by derived code.
    #[doc(hidden)]
    pub fn validate_elements(&self, place: &CheckedPlace<'_>) -> Result<()> {
        self.resident
            .iter()
            .try_for_each(|value| value.validate(place))
    }

    /// Keeps the elements that stay resident after the insert of this array. Called by derived code.
    #[doc(hidden)]
    pub fn keep_resident(&mut self, model: &'static Model, stored: &str, raw: &RawDocument) {
        let Some(positions) = capacity::resident_positions(model, stored, raw) else {
            return;
        };
        self.spilled = self.resident.len().saturating_sub(positions.len()) as u64;
        let mut elements: Vec<_> = self.resident.drain(..).map(Some).collect();
        let positions = positions.into_iter();
        self.resident = positions
            .filter_map(|position| elements.get_mut(position)?.take())
            .collect();
    }
}

impl<T> Default for Overflow<T> {
    fn default() -> Self {
        Self {
            resident: Vec::new(),
            spilled: 0,
        }
    }
}

impl<T> From<Vec<T>> for Overflow<T> {
    fn from(elements: Vec<T>) -> Self {
        Self {
            resident: elements,
            spilled: 0,
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
    const RULES: validation::Rules = validation::Rules::of_elements::<T>();
    type Kind = kind::Overflowing;
    type Fields<M: 'static, R: 'static, S: 'static> = OverflowPlace<M, T, R, S>;
    type ShapeWithDefault<S: 'static> = S;
    type New = Overflow<T::New>;
    const COPIES: &'static TypeCopies = T::COPIES;
    const IS_ARRAY: bool = true;
    const HAS_SERDE_DEFAULTS: bool = T::HAS_SERDE_DEFAULTS;
    const ROUNDS_VALUES: bool = T::ROUNDS_VALUES;

    fn serialize_stored<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.resident.iter().map(native::AsStored))
    }

    fn deserialize_stored<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<T>::deserialize_stored(deserializer).map(Self::from)
    }

    fn validate(&self, place: &CheckedPlace<'_>) -> Result<()> {
        self.ensure_complete(place.path())?;
        self.validate_elements(place)
    }

    fn count(&self) -> usize {
        self.resident.len()
    }

    fn variants(&self, variants: &mut VariantMap) {
        for (i, value) in self.resident.iter().enumerate() {
            variants.element(i, |variants| value.variants(variants));
        }
    }
}

impl<S: Schema, T: TargetsInSchema<S>> TargetsInSchema<S> for Overflow<T> {}

/// Implemented by arrays with spilled elements: by [`Overflow`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an overflow array",
    label = "all elements are in the document",
    note = "read the array with its document; for an overflow array, declare an `Overflow` with `#[embed(overflow(after = …, into = \"…\"))]`"
)]
pub trait OverflowArray {
    /// The element type.
    type Element: Stored;
}

#[diagnostic::do_not_recommend]
impl<T: Stored> OverflowArray for Overflow<T> {
    type Element = T;
}
