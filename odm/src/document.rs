//! Documents, what can stand in them, and references between them.

mod draft;
mod id;
mod overflow;
mod variant;

use std::{fmt, hash, marker::PhantomData};

use bson::RawDocument;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};

pub(crate) use draft::Drafted;
#[doc(hidden)]
pub use draft::{Draft, NativeValue, NewFields, RawDraft, encode_new};
pub(crate) use id::behind;
pub use id::{IdPart, IntoIdPart};
#[doc(hidden)]
pub use id::{IdPrefix, IdReader, IdText, Integer, Number, OneSegment, numbered};
pub use overflow::{Overflow, OverflowArray};
pub(crate) use variant::with_tag;
#[doc(hidden)]
pub use variant::{HasVariant, stored_tag, variant_indexes};
pub use variant::{InKind, OfKind, VariantOf};

use crate::{
    Result,
    backend::operation::Index,
    check::ModelCheck,
    decode,
    field::{Checked, Field, FromPath, Path, Variants},
    hook::RunHooks,
    query::{Brackets, IntoKey, Key},
    relation::{Children, FoundByIt, Reference},
    rule,
    schema::{Closed, ContainsTarget, Copies, LinksInside, LinksWalk, Model},
    scope::Scope,
};

/// A type whose values are the documents of a collection: derive it.
///
/// The [derive](derive@crate::Document) lists its attributes; here each of them is used.
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
/// With a shard key, a write says on which shard of a cluster its document is:
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
/// // What is read may be on any shard. The key finds it on the one.
/// assert_eq!(db.get::<Order>(order.id).await?.total, 20);
/// assert_eq!(db.get::<Order>(&key).await?.total, 20);
/// db.delete::<Order>(key).await?;
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "engine"))]
/// # fn main() {}
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no document",
    label = "not a `Document`",
    note = "derive it: `#[derive(Serialize, Deserialize, Document)]` with `#[document(collection = \"…\")]`"
)]
pub trait Document: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The type of the field that is stored as `_id`.
    type Id: Stored + Clone;
    /// The fields, for filters, sorts, updates and joins.
    type Fields: FromPath;
    /// What a schema lists so that it has this model: the model itself or, for one of a variant, its enum.
    type Listed;
    /// Itself, for bounds that are no matter where it is no document at all.
    #[doc(hidden)]
    type Itself;
    /// Whether its id says on which shard of a cluster it is.
    #[doc(hidden)]
    type Sharding;
    /// The name of the collection.
    const COLLECTION: &'static str;
    /// What the schema knows of the model.
    const MODEL: Model;

    /// The `_id`.
    fn id(&self) -> &Self::Id;

    /// Checks what the types cannot: the `max` of arrays, the keys of maps.
    ///
    /// # Errors
    ///
    /// [`TooManyElements`](crate::ErrorKind::TooManyElements) or [`Invalid`](crate::ErrorKind::Invalid), with the path.
    fn check_bounds(&self) -> Result<()> {
        self.check_bounds_of(&Checked::WHOLE)
    }

    /// Checks the bounds of the paths that a save writes.
    #[doc(hidden)]
    fn check_bounds_of(&self, root: &Checked<'_>) -> Result<()> {
        let _ = root;
        Ok(())
    }

    /// The declared indexes.
    #[must_use]
    fn indexes() -> Vec<Index> {
        Vec::new()
    }

    /// Its id, with the shard key.
    #[doc(hidden)]
    fn routed_key(&self) -> Key<Self>
    where
        Self: Sized,
    {
        Key::of_id(self.id().clone())
    }

    /// The rules of its values.
    #[doc(hidden)]
    const RULES: Option<&'static rule::Whole<Self>> = None;

    /// How its documents are checked.
    #[doc(hidden)]
    fn model_check() -> ModelCheck
    where
        Self: Sized,
    {
        ModelCheck::of::<Self>()
    }

    /// Whether something is done before and after its writes: known where it is compiled, so that nothing of that is in a program without.
    #[doc(hidden)]
    const HAS_HOOKS: bool = false;

    /// What is done before and after its writes.
    #[doc(hidden)]
    fn hooks() -> Option<&'static dyn RunHooks<Self>> {
        None
    }

    /// Where its enums are, and of which variants.
    #[doc(hidden)]
    fn variants(&self, found: &mut Variants) {
        let _ = found;
    }

    /// The references with rules in its embedded structs.
    #[doc(hidden)]
    fn links(found: &mut LinksWalk) {
        let _ = found;
    }

    /// Takes over what the framework has filled.
    #[doc(hidden)]
    fn take_filled(&mut self, from: Self)
    where
        Self: Sized,
    {
        let _ = from;
    }

    /// An error if it was read and has arrays with elements that were not: inserted, it would lose them.
    #[doc(hidden)]
    fn refuse_partial(&self) -> Result<()> {
        Ok(())
    }

    /// Leaves in the arrays that overflow what stays in the document, which is about to be inserted as this.
    #[doc(hidden)]
    fn keep_inside(&mut self, raw: &RawDocument) {
        let _ = raw;
    }

    /// Of how many segments its id is, if it is made of fields; none otherwise.
    #[doc(hidden)]
    const ID_SEGMENTS: usize = 0;

    /// Refuses what is no id of the model, if these are made of fields.
    #[doc(hidden)]
    fn check_id(id: &Self::Id) -> Result<()> {
        let _ = id;
        Ok(())
    }

    /// Makes the id of its fields, if it is made of them.
    #[doc(hidden)]
    fn fill_id(&mut self) -> Result<()> {
        Ok(())
    }

    /// What stands in the id before the number that the framework gives, if there is one.
    #[doc(hidden)]
    fn id_before_number(&self) -> Result<String> {
        Ok(String::new())
    }

    /// Takes that number.
    #[doc(hidden)]
    fn set_number(&mut self, number: i64) -> Result<()> {
        let _ = number;
        Ok(())
    }

    /// Reads a stored document.
    #[doc(hidden)]
    fn from_stored(raw: &RawDocument) -> Result<Self> {
        decode::as_one(raw)
    }

    /// The fields, from which filters and updates are built.
    fn fields() -> Self::Fields {
        Self::Fields::from_path(Path::ROOT)
    }

    /// A reference to this document.
    fn to_ref(&self) -> Ref<Self>
    where
        Self: Sized,
    {
        Ref(self.id().clone(), PhantomData)
    }

    /// The documents of this model that refer to others, for
    /// [`Find::with_children`](crate::action::Find::with_children): `LogMessage::by(|m| m.host())`.
    fn by<P>(field: impl FnOnce(Self::Fields) -> P) -> Children<Self, P::Target>
    where
        Self: Sized,
        P: Reference<Scope = Self, Inside: FoundByIt>,
    {
        Children::new(field(Self::fields()).path())
    }
}

/// What can be inserted: a document or, if the framework fills some of its fields, the companion without them.
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
    label = "not what is inserted",
    note = "a document is inserted as itself; one with fields that the framework fills (`version`, `timestamps`, `soft_delete`, `scope`, `id`, copies, snapshots, computed fields, counts) as its companion without them: `New…`"
)]
pub trait Insertable: Send + Sync + 'static {
    /// The model.
    type Document: Document;

    /// The document, with what the framework fills as far as it knows that without asking.
    ///
    /// # Errors
    ///
    /// The model belongs to a scope, and this is none of its type.
    #[doc(hidden)]
    fn into_draft(self, scope: &Scope) -> Result<Draft<Self::Document>>;
}

/// A document in which the framework fills nothing, so that it is inserted as itself.
#[doc(hidden)]
pub trait Whole {}

#[diagnostic::do_not_recommend]
impl<T: Document + Whole> Insertable for T {
    type Document = T;
    fn into_draft(self, _: &Scope) -> Result<Draft<T>> {
        Ok(Draft::of(self))
    }
}

/// A type whose values can stand in a document: scalars, what derives [`Embedded`], and options, arrays, maps and
/// references of these.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be stored in a document",
    label = "no `Stored` type",
    note = "derive `Embedded` for it; a type that derives `Document` is referred to by `Ref<{Self}>`"
)]
pub trait Stored: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// How it is laid out: one of [`kind`].
    type Kind: kind::Element;
    /// The operators and fields of a place in `M` that holds it, with the role `R` and the shape `S`.
    type Fields<M: 'static, R: 'static, S: 'static>: FromPath;

    /// The shape of a field of this type with serde's `default`, for the shape `S` without it. It is `S` if the database treats a missing
    /// value like the default.
    #[doc(hidden)]
    type ShapeWithDefault<S: 'static>: 'static;

    /// What is written for a value that is new: itself or, if the framework fills some of its fields, the companion without them.
    type New: Serialize + Send + Sync + 'static;

    /// What is in it of other documents.
    #[doc(hidden)]
    const COPIES: &'static Copies = &Copies::NONE;

    /// Whether it is an array.
    #[doc(hidden)]
    const IS_ARRAY: bool = false;

    /// The operators and fields of the place that `path` leads to.
    fn fields<M: 'static, R: 'static, S: 'static>(path: Path) -> Self::Fields<M, R, S> {
        FromPath::from_path(path)
    }

    /// Whether a stored value may hold a field under another name, or not at all: serde's `alias` and `default`.
    const REWRITES: bool = false;

    /// Whether a value may be stored less exactly than it is: see [`native`](crate::native).
    const ROUNDS: bool = false;

    /// Whether there may be no value: of an `Option`.
    #[doc(hidden)]
    const MAY_BE_NONE: bool = false;

    /// Writes the value as it is stored, where that is not what serde would write by itself.
    #[doc(hidden)]
    fn serialize_stored<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.serialize(serializer)
    }

    /// Reads what [`serialize_stored`](Self::serialize_stored) has written.
    #[doc(hidden)]
    fn deserialize_stored<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
    /// Among which values BSON sorts the stored ones.
    const BRACKETS: Brackets = Brackets::ANY;

    /// Checks what the types cannot, see [`Document::check_bounds`].
    ///
    /// # Errors
    ///
    /// The first violation, with its path.
    #[doc(hidden)]
    fn validate(&self, place: &Checked<'_>) -> Result<()> {
        let _ = place;
        Ok(())
    }

    /// How many elements it has, if it is an array; 0 otherwise.
    fn count(&self) -> usize {
        0
    }

    /// Where enums are in it, and of which variants.
    #[doc(hidden)]
    fn variants(&self, found: &mut Variants) {
        let _ = found;
    }

    /// What there is of references with rules inside of it.
    #[doc(hidden)]
    const LINKS: LinksInside = LinksInside::NONE;

    /// The references with rules inside of it.
    #[doc(hidden)]
    fn links(found: &mut LinksWalk) {
        let _ = found;
    }

    /// The rules of what is inside of it.
    #[doc(hidden)]
    const RULES: rule::Rules = rule::Rules::UNKNOWN;

    /// The stored names of a struct's fields.
    #[doc(hidden)]
    const NAMES: &'static [&'static str] = &[];
}

/// A struct or an enum that is stored inside a document, or a newtype that is stored as one value: derive it.
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
/// The variants of an enum are reached by closures:
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
/// // An invoice with this number; a card with it is none.
/// let order = db.find::<Order>().filter(|o| o.payment().invoice(|i| i.number().eq("7"))).one().await?;
///
/// // One element is a card that has expired, or cash.
/// let now = DateTime::now();
/// let some = db
///     .find::<Order>()
///     .filter(|o| o.deposits().any(|d| d.card(|c| c.expires().lt(now)) | d.is_cash()))
///     .all()
///     .await?;
/// # assert_eq!(some.len(), 1);
///
/// // Written only if the payment is an invoice: if it has become something else, nothing happens.
/// let reminded = db.update::<Order>(order.id).inc(|o| o.payment().invoice(|i| i.reminders()), 1).await?.applied();
/// # assert!(reminded);
/// db.update::<Order>(order.id).set(|o| o.payment(), Payment::Cash).await?;
/// # assert!(!db.update::<Order>(1).inc(|o| o.payment().invoice(|i| i.reminders()), 1).await?.applied());
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "engine"))]
/// # fn main() {}
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not embedded",
    note = "derive `Embedded` for it; a type that derives `Document` is referred to by `Ref<{Self}>`"
)]
pub trait Embedded: Stored<Kind: kind::Element<Many = kind::Array>> {}

/// How a stored type is laid out: the values of [`Stored::Kind`].
pub mod kind {
    /// One value.
    #[derive(Debug)]
    pub struct Value;
    /// An embedded struct.
    #[derive(Debug)]
    pub struct Struct;
    /// An enum whose variants hold something that can be reached.
    #[derive(Debug)]
    pub struct Enum;
    /// An array of something else than references.
    #[derive(Debug)]
    pub struct Array;
    /// A document with keys that are not known beforehand.
    #[derive(Debug)]
    pub struct Map;
    /// One value of another crate, which serde would store as a text: see [`native`](crate::native).
    #[derive(Debug)]
    pub struct Native;
    /// An array of such values.
    #[derive(Debug)]
    pub struct NativeArray;
    /// A map of such values.
    #[derive(Debug)]
    pub struct NativeMap;
    /// The id of another document.
    #[derive(Debug)]
    pub struct Reference;
    /// An array of ids of other documents.
    #[derive(Debug)]
    pub struct References;

    /// An array whose elements overflow into another collection.
    #[derive(Debug)]
    pub struct Overflowing;

    /// The kinds of arrays and of maps of elements of this kind.
    pub trait Element {
        /// [`References`], [`NativeArray`] or [`Array`].
        type Many: Element;
        /// [`NativeMap`] or [`Map`].
        type Mapped: Element;
    }
    impl Element for Value {
        type Many = Array;
        type Mapped = Map;
    }
    impl Element for Struct {
        type Many = Array;
        type Mapped = Map;
    }
    impl Element for Enum {
        type Many = Array;
        type Mapped = Map;
    }
    impl Element for Array {
        type Many = Array;
        type Mapped = Map;
    }
    impl Element for Map {
        type Many = Array;
        type Mapped = Map;
    }
    impl Element for Native {
        type Many = NativeArray;
        type Mapped = NativeMap;
    }
    impl Element for NativeArray {
        type Many = NativeArray;
        type Mapped = NativeMap;
    }
    impl Element for NativeMap {
        type Many = NativeArray;
        type Mapped = NativeMap;
    }
    impl Element for Overflowing {
        type Many = Overflowing;
        type Mapped = Overflowing;
    }
    impl Element for Reference {
        type Many = References;
        type Mapped = Map;
    }
    impl Element for References {
        type Many = References;
        type Mapped = Map;
    }
}

/// The id of a document of another collection, stored as the bare id.
///
/// It loads nothing by itself: [`Find::with`](crate::action::Find::with) joins what it refers to.
pub struct Ref<T: Document>(T::Id, PhantomData<fn() -> T>);

impl<T: Document> Ref<T> {
    /// A reference to the document with this id.
    pub fn new(id: impl IntoKey<T>) -> Self {
        Self(id.into_key().into_id(), PhantomData)
    }

    pub(crate) fn of_id(id: T::Id) -> Self {
        Self(id, PhantomData)
    }

    /// The id.
    pub fn id(&self) -> &T::Id {
        &self.0
    }

    /// The id, by value.
    pub fn into_id(self) -> T::Id {
        self.0
    }
}

impl<T: Document> Stored for Ref<T> {
    type Kind = kind::Reference;
    type Fields<M: 'static, R: 'static, S: 'static> = Field<M, Self, R, S>;
    type ShapeWithDefault<S: 'static> = crate::field::shape::Defaulted<S>;
    type New = Self;
    const BRACKETS: Brackets = T::Id::BRACKETS;

    fn variants(&self, found: &mut Variants) {
        found.reference::<T>(&self.0);
    }
}

impl<S: ContainsTarget<T>, T: Document> Closed<S> for Ref<T> {}

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
        self.0.serialize(serializer)
    }
}

impl<'de, T: Document> Deserialize<'de> for Ref<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::Id::deserialize(deserializer).map(|id| Self(id, PhantomData))
    }
}
