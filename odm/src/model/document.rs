//! Documents, embedded types, and references between documents.

mod draft;
mod id;
mod overflow;
mod read_fields;
mod tree;
mod variant;

use std::{fmt, hash, marker::PhantomData};

use bson::{RawBson, RawDocument};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};

pub(crate) use draft::DraftContent;
#[doc(hidden)]
pub use draft::{Draft, NativeValue, NewFields, RawDraft, encode_new};
pub(crate) use id::upper_bound;
#[doc(hidden)]
pub use id::{
    AssignedNumber, IdPrefix, IdReader, IdText, OneSegment, PaddedInteger, SequenceInteger,
    assigned_number,
};
pub use id::{AutoId, IdPart, IntoIdPart};
pub use overflow::{Overflow, OverflowArray};
#[doc(hidden)]
pub use read_fields::{FieldReader, ReadFields, read_struct};
pub use tree::TreeDocument;
pub(crate) use variant::with_tag;
#[doc(hidden)]
pub use variant::{HasVariant, stored_tag, variant_indexes};
pub use variant::{InDocumentVariant, OfDocumentVariant, VariantOf};

use crate::{
    Result,
    backend::operation::Index,
    check::ModelCheck,
    language::{
        field::{CheckedPlace, Field, FromPath, Path, VariantMap},
        query::{Brackets, IntoKey, Key},
    },
    model::{decode, hook::RunHooks, validation},
    relation::{Children, FindableReference, ReferencePlace},
    schema::{ContainsTarget, EmbeddedLinks, LinkCollector, Model, TargetsInSchema, TypeCopies},
    session::scope::Scope,
};

/// A type that is the model of a collection's documents. Derive it.
///
/// The [derive](derive@crate::Document) lists all attributes. This example uses each attribute:
///
/// ```
/// use std::collections::BTreeMap;
///
/// use odm::prelude::*;
///
/// #[derive(Debug, Serialize, Deserialize, Document)]
/// #[document(collection = "parts", index(name, -size.width), index(process; sparse))]
/// #[serde(rename_all = "camelCase")]
/// struct Part {
///     #[serde(rename = "_id")]
///     id: PartId,
///     #[index(unique, name = "numbers")]
///     number: String,
///     name: String,
///     process: Option<Process>,
///     #[embed]
///     size: Size,
///     #[embed(max = 20)]
///     tags: Vec<String>,
///     #[embed(unbounded)]
///     remarks: Vec<String>,
///     #[embed]
///     prices: BTreeMap<String, i64>,
///     #[reference]
///     like: Option<Ref<Part>>,
///     #[reference(max = 100)]
///     inside: Vec<Ref<Part>>,
///     #[index(expire_after_seconds = 86_400, partial = |p| p.name().eq("sample"))]
///     made_at: DateTime,
/// }
///
/// /// A newtype, here of an id.
/// #[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
/// struct PartId(i64);
///
/// /// One value.
/// #[derive(Debug, Serialize, Deserialize, Embedded)]
/// enum Process { Cast, Forged }
///
/// /// An embedded struct.
/// #[derive(Debug, Serialize, Deserialize, Embedded)]
/// struct Size { width: i64, height: i64 }
///
/// assert_eq!(Part::COLLECTION, "parts");
/// assert_eq!(format!("{:?}", Part::fields().made_at().exists()), r#"Filter({ "madeAt": { "$exists": true } })"#);
/// ```
///
/// With a shard key, a write must identify the shard of its document:
///
/// ```
/// use odm::prelude::*;
///
/// #[derive(Debug, Serialize, Deserialize, Document)]
/// #[document(collection = "orders", shard_key(customer, id))]
/// struct Order {
///     #[serde(rename = "_id")]
///     id: ObjectId,
///     customer: String,
///     total: i64,
/// }
/// # #[derive(Schema)] #[schema(models(Order))] struct Shop;
/// # #[cfg(feature = "engine")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> odm::Result<()> {
/// # let db = odm::Database::<Shop>::open("memory:").await?;
///
/// // Creates the index of the key, and on a sharded cluster shards the collection.
/// println!("{}", db.sync_indexes().await?);
///
/// let order = db.insert(Order { id: ObjectId::new(), customer: "acme".into(), total: 10 }).await?;
/// db.update::<Order>(&order).inc(|o| o.total(), 5).await?;
///
/// // Without the document: the id and the rest of the key.
/// let key = OrderKey { id: order.id, customer: "acme".into() };
/// db.update::<Order>(&key).inc(|o| o.total(), 5).await?;
///
/// // A read may search all shards. With the key, the read uses one shard.
/// assert_eq!(db.get::<Order>(order.id).await?.total, 20);
/// assert_eq!(db.get::<Order>(&key).await?.total, 20);
/// db.delete::<Order>(key).await?;
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "engine"))]
/// # fn main() {}
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a document",
    label = "not a `Document`",
    note = "derive it: `#[derive(Serialize, Deserialize, Document)]` with `#[document(collection = \"…\")]`"
)]
pub trait Document: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The type of the field that is stored as `_id`.
    type Id: Stored + Clone;
    /// The field tree, for filters, sorts, updates and joins.
    type Fields: FromPath;
    /// The type that a schema lists for this model: the model or, for the model of a variant, the enum.
    type Listed;
    /// The type itself, for bounds that must not cause errors for types that are not documents.
    #[doc(hidden)]
    type Itself;
    /// Whether the id identifies the shard of a document.
    #[doc(hidden)]
    type Sharding;
    /// The name of the collection.
    const COLLECTION: &'static str;
    /// The static description of the model.
    const MODEL: Model;

    /// Returns the `_id`.
    fn id(&self) -> &Self::Id;

    /// Checks properties that types cannot express: the `max` of arrays, the keys of maps.
    ///
    /// # Errors
    ///
    /// [`TooManyElements`](crate::ErrorKind::TooManyElements) or [`Invalid`](crate::ErrorKind::Invalid), with the path.
    fn check_bounds(&self) -> Result<()> {
        self.check_bounds_of(&CheckedPlace::WHOLE)
    }

    /// Checks the bounds of the paths that a save writes.
    #[doc(hidden)]
    fn check_bounds_of(&self, place: &CheckedPlace<'_>) -> Result<()> {
        let _ = place;
        Ok(())
    }

    /// Returns the declared indexes.
    #[must_use]
    fn indexes() -> Vec<Index> {
        Vec::new()
    }

    /// Returns the id, with the shard key.
    #[doc(hidden)]
    fn routed_key(&self) -> Key<Self>
    where
        Self: Sized,
    {
        Key::of_id(self.id().clone())
    }

    /// The validation rules of the model.
    #[doc(hidden)]
    const RULES: Option<&'static validation::DocumentRules<Self>> = None;

    /// Returns the integrity check of the model.
    #[doc(hidden)]
    fn model_check() -> ModelCheck
    where
        Self: Sized,
    {
        ModelCheck::of::<Self>()
    }

    /// Whether the model has hooks. A constant, so that programs without hooks contain no code for hooks.
    #[doc(hidden)]
    const HAS_HOOKS: bool = false;

    /// Returns the hooks of the model.
    #[doc(hidden)]
    fn hooks() -> Option<&'static dyn RunHooks<Self>> {
        None
    }

    /// Records the enums in the document with their variants.
    #[doc(hidden)]
    fn variants(&self, variants: &mut VariantMap) {
        let _ = variants;
    }

    /// Records the references with delete rules in embedded structs.
    #[doc(hidden)]
    fn links(links: &mut LinkCollector) {
        let _ = links;
    }

    /// Copies the managed fields from another value.
    #[doc(hidden)]
    fn take_managed(&mut self, source: Self)
    where
        Self: Sized,
    {
        let _ = source;
    }

    /// Ensures that no overflow array was read partially: an insert would lose the spilled elements.
    #[doc(hidden)]
    fn ensure_complete(&self) -> Result<()> {
        Ok(())
    }

    /// Removes all but the resident elements from the overflow arrays of a document that is inserted as `raw`.
    #[doc(hidden)]
    fn keep_resident(&mut self, raw: &RawDocument) {
        let _ = raw;
    }

    /// Whether an insert generates the id.
    #[doc(hidden)]
    const GENERATES_ID: bool = false;

    /// The number of segments of an id that is composed of fields; 0 for other ids.
    #[doc(hidden)]
    const ID_SEGMENTS: usize = 0;

    /// Ensures that an id fits the template of the model, if ids are composed of fields.
    #[doc(hidden)]
    fn check_id(id: &Self::Id) -> Result<()> {
        let _ = id;
        Ok(())
    }

    /// Composes the id from the fields, if the model has a template.
    #[doc(hidden)]
    fn compose_id(&mut self) -> Result<()> {
        Ok(())
    }

    /// Returns the text of the id before the assigned number, if the template has a number.
    #[doc(hidden)]
    fn id_before_number(&self) -> Result<String> {
        Ok(String::new())
    }

    /// Sets the assigned number.
    #[doc(hidden)]
    fn set_number(&mut self, number: i64) -> Result<()> {
        let _ = number;
        Ok(())
    }

    /// Returns the stored value that selects a sequence of `Model::sequences`; `None` for a sequence of the whole model.
    #[doc(hidden)]
    fn sequence_key(&self, position: usize) -> Result<Option<RawBson>> {
        let _ = position;
        Ok(None)
    }

    /// Sets the assigned number of a sequence of `Model::sequences`.
    #[doc(hidden)]
    fn set_sequence_number(&mut self, position: usize, number: i64) -> Result<()> {
        let (_, _) = (position, number);
        Ok(())
    }

    /// Decodes a stored document.
    #[doc(hidden)]
    fn from_stored(raw: &RawDocument) -> Result<Self> {
        decode::decode_model(raw)
    }

    /// Returns the field tree, from which filters and updates are built.
    fn fields() -> Self::Fields {
        Self::Fields::from_path(Path::ROOT)
    }

    /// Returns a reference to this document.
    fn to_ref(&self) -> Ref<Self>
    where
        Self: Sized,
    {
        Ref(self.id().clone(), PhantomData)
    }

    /// Returns the documents of this model that refer to other documents, for
    /// [`Find::with_children`](crate::action::Find::with_children): `LogMessage::by(|m| m.host())`.
    fn by<P>(field: impl FnOnce(Self::Fields) -> P) -> Children<Self, P::Target>
    where
        Self: Sized,
        P: ReferencePlace<Scope = Self, EnclosingShapes: FindableReference>,
    {
        Children::new(field(Self::fields()).path())
    }
}

/// A value that can be inserted: a document or, for a model with managed fields, the insert struct.
///
/// ```
/// use odm::prelude::*;
///
/// #[derive(Debug, Serialize, Deserialize, Document)]
/// #[document(collection = "tasks", version, timestamps)]
/// struct Task {
///     #[serde(rename = "_id")]
///     id: ObjectId,
///     description: String,
///     version: i64,
///     created_at: DateTime,
///     updated_at: DateTime,
/// }
/// # #[derive(Schema)] #[schema(models(Task))] struct Office;
/// # async fn example(db: odm::Database<Office>) -> odm::Result<()> {
/// let task = db.insert(NewTask { id: ObjectId::new(), description: "paint the door".into() }).await?;
/// assert_eq!(task.version, 1);
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be inserted",
    label = "neither a document nor an insert struct",
    note = "a document is inserted as itself; a document with managed fields (`version`, `timestamps`, `soft_delete`, `scope`, \
         `id`, `#[sequence]`, copies, snapshots, computed fields, rollups) is inserted as its insert struct, `New…`"
)]
pub trait Insertable: Send + Sync + 'static {
    /// The model.
    type Document: Document;

    /// Returns a draft of the document, with the managed fields that need no query.
    ///
    /// # Errors
    ///
    /// The model has a scope, and the session has a scope of a different type.
    #[doc(hidden)]
    fn into_draft(self, scope: &Scope) -> Result<Draft<Self::Document>>;
}

/// A document without managed fields, which is inserted as itself.
#[doc(hidden)]
pub trait InsertedAsIs {}

#[diagnostic::do_not_recommend]
impl<T: Document + InsertedAsIs> Insertable for T {
    type Document = T;
    fn into_draft(self, _: &Scope) -> Result<Draft<T>> {
        Ok(Draft::of(self))
    }
}

/// A type with values that a document can store: scalars, types that derive [`Embedded`], and options, arrays, maps and
/// references of these.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be stored in a document",
    label = "not a `Stored` type",
    note = "derive `Embedded` for it; a type that derives `Document` is referred to by `Ref<{Self}>`"
)]
pub trait Stored: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The layout of the type: a type of [`kind`].
    type Kind: kind::Element;
    /// The field tree of a place in `M` with a value of this type, with the role `R` and the shape `S`.
    type Fields<M: 'static, R: 'static, S: 'static>: FromPath;

    /// The shape of a field of this type with serde's `default`, where `S` is the shape without `default`. Equals `S` if the
    /// database treats a missing value like the default.
    #[doc(hidden)]
    type ShapeWithDefault<S: 'static>: 'static;

    /// The type that applications write for a new value: the type or, for a struct with managed fields, the insert struct.
    type New: Serialize + Send + Sync + 'static;

    /// The copies and snapshots inside the type.
    #[doc(hidden)]
    const COPIES: &'static TypeCopies = &TypeCopies::NONE;

    /// Whether the type is an array.
    #[doc(hidden)]
    const IS_ARRAY: bool = false;

    /// Whether the type is an array of different elements without an order.
    #[doc(hidden)]
    const IS_SET: bool = false;

    /// Returns the field tree of the place at `path`.
    fn fields<M: 'static, R: 'static, S: 'static>(path: Path) -> Self::Fields<M, R, S> {
        FromPath::from_path(path)
    }

    /// Whether a stored document may lack a field of the value: serde's `default`.
    const HAS_SERDE_DEFAULTS: bool = false;

    /// Whether storing a value may lose precision: see [`native`](crate::native).
    const ROUNDS_VALUES: bool = false;

    /// Whether the value may be absent: true for `Option`.
    #[doc(hidden)]
    const MAY_BE_NONE: bool = false;

    /// Writes the stored form of the value, which may differ from serde's form.
    #[doc(hidden)]
    fn serialize_stored<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.serialize(serializer)
    }

    /// Reads the form that [`serialize_stored`](Self::serialize_stored) writes.
    #[doc(hidden)]
    fn deserialize_stored<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
    /// The type brackets of stored values.
    const BRACKETS: Brackets = Brackets::ANY;

    /// Checks properties that types cannot express, see [`Document::check_bounds`].
    ///
    /// # Errors
    ///
    /// The first violation, with its path.
    #[doc(hidden)]
    fn validate(&self, place: &CheckedPlace<'_>) -> Result<()> {
        let _ = place;
        Ok(())
    }

    /// Returns the number of elements of an array; 0 for other types.
    fn count(&self) -> usize {
        0
    }

    /// Records the enums in the value with their variants.
    #[doc(hidden)]
    fn variants(&self, variants: &mut VariantMap) {
        let _ = variants;
    }

    /// Properties of the references with delete rules inside the type.
    #[doc(hidden)]
    const LINKS: EmbeddedLinks = EmbeddedLinks::NONE;

    /// Records the references with delete rules inside the type.
    #[doc(hidden)]
    fn links(links: &mut LinkCollector) {
        let _ = links;
    }

    /// The validation rules inside the type.
    #[doc(hidden)]
    const RULES: validation::Rules = validation::Rules::UNKNOWN;

    /// The stored names of a struct's fields.
    #[doc(hidden)]
    const NAMES: &'static [&'static str] = &[];
}

/// A struct or an enum inside a document, or a newtype that is stored as one value. Derive it.
///
/// ```
/// use odm::prelude::*;
///
/// #[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
/// struct Address { street: String, city: String }
///
/// #[derive(Debug, Serialize, Deserialize, Document)]
/// #[document(collection = "persons")]
/// struct Person {
///     #[serde(rename = "_id")]
///     id: ObjectId,
///     #[embed(max = 20)]
///     addresses: Vec<Address>,
/// }
/// ```
///
/// Closures access the variants of an enum:
///
/// ```
/// use odm::prelude::*;
///
/// #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
/// #[serde(tag = "type")]
/// enum Payment {
///     Card { number: String, expires: DateTime },
///     Invoice(Invoice),
///     Cash,
/// }
///
/// #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
/// struct Invoice { number: String, reminders: i32 }
///
/// #[derive(Debug, Serialize, Deserialize, Document)]
/// #[document(collection = "orders")]
/// struct Order {
///     #[serde(rename = "_id")]
///     id: i64,
///     #[embed]
///     payment: Payment,
///     #[embed(max = 10)]
///     deposits: Vec<Payment>,
/// }
///
/// # #[derive(Schema)] #[schema(models(Order))] struct Shop;
/// # #[cfg(feature = "engine")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> odm::Result<()> {
/// # let db = odm::Database::<Shop>::open("memory:").await?;
/// # let invoice = Payment::Invoice(Invoice { number: "7".into(), reminders: 0 });
/// # db.insert(Order { id: 1, payment: invoice, deposits: vec![Payment::Cash] }).await?;
/// // An invoice with this number. A card with this number does not match.
/// let order = db.find::<Order>().filter(|o| o.payment().invoice(|i| i.number().eq("7"))).one().await?;
///
/// // One element is an expired card, or cash.
/// let now = DateTime::now();
/// let some = db
///     .find::<Order>()
///     .filter(|o| o.deposits().any(|d| d.card(|c| c.expires().lt(now)) | d.is_cash()))
///     .all()
///     .await?;
/// # assert_eq!(some.len(), 1);
///
/// // Written only if the payment is an invoice. Otherwise the update changes no document.
/// let reminded = db.update::<Order>(order.id).inc(|o| o.payment().invoice(|i| i.reminders()), 1).await?.is_applied();
/// # assert!(reminded);
/// db.update::<Order>(order.id).set(|o| o.payment(), Payment::Cash).await?;
/// # assert!(!db.update::<Order>(1).inc(|o| o.payment().invoice(|i| i.reminders()), 1).await?.is_applied());
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "engine"))]
/// # fn main() {}
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not derive `Embedded`",
    note = "derive `Embedded` for it; a type that derives `Document` is referred to by `Ref<{Self}>`"
)]
pub trait Embedded: Stored<Kind: kind::Element<Many = kind::Array>> {}

/// Layouts of stored types: the values of [`Stored::Kind`].
pub mod kind {
    /// The layout of a single value.
    #[derive(Debug)]
    pub struct Value;
    /// The layout of an embedded struct.
    #[derive(Debug)]
    pub struct Struct;
    /// The layout of an enum with variants that have content.
    #[derive(Debug)]
    pub struct Enum;
    /// The layout of an array of elements other than references.
    #[derive(Debug)]
    pub struct Array;
    /// The layout of an array with a fixed number of elements: `[T; N]`.
    #[derive(Debug)]
    pub struct FixedArray;
    /// The layout of a document with arbitrary keys.
    #[derive(Debug)]
    pub struct Map;
    /// The layout of a value that serde would store in another form than the database's own: see [`native`](crate::native).
    #[derive(Debug)]
    pub struct Native;
    /// The layout of an array of values of another crate.
    #[derive(Debug)]
    pub struct NativeArray;
    /// The layout of a map of values of another crate, or with keys that serde does not store as texts.
    #[derive(Debug)]
    pub struct NativeMap;
    /// The layout of an array with a fixed number of values of another crate.
    #[derive(Debug)]
    pub struct NativeFixedArray;
    /// The layout of a reference: the id of another document.
    #[derive(Debug)]
    pub struct Reference;
    /// The layout of an array of references: ids of other documents.
    #[derive(Debug)]
    pub struct References;

    /// The layout of an array with elements that may spill to chunk documents.
    #[derive(Debug)]
    pub struct Overflowing;

    /// The layouts of arrays and maps with elements of this layout.
    pub trait Element {
        /// The layout of an array of elements: [`References`], [`NativeArray`] or [`Array`].
        type Many: Element;
        /// The layout of a map with elements: [`NativeMap`] or [`Map`].
        type Mapped: Element;
        /// The layout of an array with a fixed number of elements.
        type Fixed: Element;
    }
    macro_rules! elements {
        ($($element:ident: $many:ident $mapped:ident $fixed:ident;)*) => {$(
            impl Element for $element {
                type Many = $many;
                type Mapped = $mapped;
                type Fixed = $fixed;
            }
        )*};
    }
    elements! {
        Value: Array Map FixedArray;
        Struct: Array Map FixedArray;
        Enum: Array Map FixedArray;
        Array: Array Map FixedArray;
        FixedArray: Array Map FixedArray;
        Map: Array Map FixedArray;
        Native: NativeArray NativeMap NativeFixedArray;
        NativeArray: NativeArray NativeMap NativeFixedArray;
        NativeFixedArray: NativeArray NativeMap NativeFixedArray;
        NativeMap: NativeArray NativeMap NativeFixedArray;
        Overflowing: Overflowing Overflowing Overflowing;
        Reference: References Map References;
        References: References Map References;
    }
}

/// A reference: the id of a document, stored as the bare id.
///
/// A reference does not load the document. [`Find::with`](crate::action::Find::with) joins the document.
pub struct Ref<T: Document>(T::Id, PhantomData<fn() -> T>);

impl<T: Document> Ref<T> {
    /// Returns a reference to the document with this id.
    pub fn new(id: impl IntoKey<T>) -> Self {
        Self(id.into_key().into_id(), PhantomData)
    }

    pub(crate) fn of_id(id: T::Id) -> Self {
        Self(id, PhantomData)
    }

    /// Returns the id.
    pub fn id(&self) -> &T::Id {
        &self.0
    }

    pub(crate) fn from_id(id: T::Id) -> Self {
        Self(id, PhantomData)
    }

    /// Returns the id by value.
    pub fn into_id(self) -> T::Id {
        self.0
    }
}

impl<T: Document> Stored for Ref<T> {
    type Kind = kind::Reference;
    type Fields<M: 'static, R: 'static, S: 'static> = Field<M, Self, R, S>;
    type ShapeWithDefault<S: 'static> = crate::language::field::shape::Defaulted<S>;
    type New = Self;
    const BRACKETS: Brackets = T::Id::BRACKETS;

    fn variants(&self, variants: &mut VariantMap) {
        variants.add_reference::<T>(&self.0);
    }
}

impl<S: ContainsTarget<T>, T: Document> TargetsInSchema<S> for Ref<T> {}

impl<T: Document> Clone for Ref<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

impl<T: Document<Id: Copy>> Copy for Ref<T> {}

impl<T: Document<Id: fmt::Debug>> fmt::Debug for Ref<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ref<{}>({:?})", T::MODEL.name, self.0)
    }
}

impl<T: Document<Id: fmt::Display>> fmt::Display for Ref<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: Document<Id: PartialEq>> PartialEq for Ref<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T: Document<Id: Eq>> Eq for Ref<T> {}

impl<T: Document<Id: PartialOrd>> PartialOrd for Ref<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.0.partial_cmp(&other.0)
    }
}

impl<T: Document<Id: Ord>> Ord for Ref<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

impl<T: Document<Id: hash::Hash>> hash::Hash for Ref<T> {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl<T: Document> Serialize for Ref<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize_stored(serializer)
    }
}

impl<'de, T: Document> Deserialize<'de> for Ref<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::Id::deserialize_stored(deserializer).map(Self::of_id)
    }
}
