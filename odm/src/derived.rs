//! What derived code asks of the types in a model: the compiler names it when a type does not fit.
//!
//! Nothing here is to be called or implemented by anybody else, and it may change in every version.

use bson::{DateTime, RawBson};

#[cfg(feature = "garde")]
#[doc(hidden)]
pub use crate::rule::{Validated, broken, checked};
use crate::{
    Result,
    backend::operation::{Direction, Index},
    decode,
    document::{Document, Embedded, Stored, VariantOf, kind},
    error::too_many,
    field::{AlwaysStored, Checked, Date, Field, FromPath, Path, Place, Variants, shape},
    hook::{Erased, Hooks, RunHooks},
    projection::{Holds, Projected},
    query::{IntoFilter, IntoKey},
    schema::{Closed, InverseFrom, LeadsTo, LinksInside, Model, RefersTo, Schema, same},
};

/// Whether a field's attribute fits its type: each is implemented by the kinds of types that it is for, `T` is there for
/// the message.
macro_rules! layouts {
    ($($(#[$attr:meta])* $layout:ident: $($kind:ident)*;)*) => {$(
        $(#[$attr])*
        #[doc(hidden)]
        pub trait $layout<T> {
            fn check() {}
        }
        $(
            #[diagnostic::do_not_recommend]
            impl<T> $layout<T> for kind::$kind {}
        )*
    )*};
}

layouts! {
    /// A field without an attribute.
    #[diagnostic::on_unimplemented(
        message = "how is a `{T}` stored? Its field needs an attribute that says so",
        label = "more than one value, or a reference",
        note = "`#[embed]` for an embedded struct, an enum with data or a map, `#[embed(max = N)]` or `#[embed(unbounded)]` for an array, `#[reference]` for a `Ref` or an array of them",
        note = "a date or a decimal of another crate is stored as BSON's own by `#[serde(with = \"odm::native\")]`"
    )]
    Plain: Value;

    /// A field with `#[embed]`.
    #[diagnostic::on_unimplemented(
        message = "`#[embed]` is for an embedded struct, an enum with data or a map, not for a `{T}`",
        label = "nothing with fields of its own",
        note = "an array says how long it can get: `#[embed(max = N)]`, or `#[embed(unbounded)]`; a `Ref` is a `#[reference]`; a single value needs no attribute"
    )]
    Embeds: Struct Enum Map;

    /// A field with `#[embed(max = N)]` or `#[embed(unbounded)]`.
    #[diagnostic::on_unimplemented(
        message = "`max` and `unbounded` are for an array of embedded values, not for a `{T}`",
        label = "no array of embedded values",
        note = "an embedded struct, an enum with data or a map has `#[embed]` alone; an array of `Ref` is a `#[reference]`; a single value needs no attribute",
        note = "dates and decimals of another crate are stored as BSON's own by `#[serde(with = \"odm::native\")]` beside it"
    )]
    EmbedsMany: Array;

    /// A field of a projection without an attribute.
    #[diagnostic::on_unimplemented(
        message = "a `{T}` is read from BSON's own by an attribute of its field",
        label = "serde would look for a text",
        note = "write `#[serde(with = \"odm::native\")]` as in the model"
    )]
    ReadPlainly: Value Struct Enum Array Map Overflowing Reference References;

    /// A field of a projection with `with = "odm::native"`.
    #[diagnostic::on_unimplemented(
        message = "`odm::native` is for dates and decimals of other crates, not for a `{T}`",
        label = "is stored as BSON's own by itself",
        note = "leave the `with` out"
    )]
    ReadNatively: Native NativeArray;

    /// A field with `with = "odm::native"`.
    #[diagnostic::on_unimplemented(
        message = "`odm::native` is for dates and decimals of other crates, not for a `{T}`",
        label = "is stored as BSON's own by itself, or by an attribute of its own",
        note = "leave the `with` out; an array of dates says how long it can get as well: `#[embed(max = N)]`"
    )]
    Native: Native;

    /// An array with `with = "odm::native"`.
    #[diagnostic::on_unimplemented(
        message = "`odm::native` is for dates and decimals of other crates, not for a `{T}`",
        label = "is stored as BSON's own by itself, or by an attribute of its own",
        note = "leave the `with` out"
    )]
    Natives: NativeArray;

    /// A field with `#[reference]`.
    #[diagnostic::on_unimplemented(
        message = "`#[reference]` is for `Ref<…>`, `Option<Ref<…>>` and `Vec<Ref<…>>`, not for a `{T}`",
        label = "no reference",
        note = "an embedded struct, an enum with data or a map has `#[embed]`; a single value needs no attribute"
    )]
    Refers: Reference References;

    /// A field with `#[reference(max = N)]`.
    #[diagnostic::on_unimplemented(
        message = "only an array of references has a `max`, not a `{T}`",
        label = "no array of references",
        note = "leave the `max` out"
    )]
    RefersMany: References;

    /// A field of a shard key.
    #[diagnostic::on_unimplemented(
        message = "a `{T}` cannot be part of a shard key",
        label = "no single value",
        note = "a shard key is of numbers, texts, dates, ids, and enums or newtypes of these; one reference is fine too"
    )]
    Shards: Value Native Reference;

    /// The content of a variant, without an attribute.
    #[diagnostic::on_unimplemented(
        message = "how is the `{T}` of this variant stored? It needs an attribute that says so",
        label = "an array, or a reference",
        note = "`#[embed(max = N)]` or `#[embed(unbounded)]` for an array, `#[reference]` for a `Ref` or an array of them, before the type: `Tags(#[embed(max = 20)] Vec<String>)`",
        note = "a date or a decimal of another crate is stored as BSON's own by `#[serde(with = \"odm::native\")]` there"
    )]
    PlainContent: Value Struct Enum Map;
}

/// The content of a newtype variant of an internally tagged enum.
#[diagnostic::on_unimplemented(
    message = "a `{T}` cannot be stored beside the tag of an enum",
    label = "no embedded struct",
    note = "in an internally tagged enum a newtype variant holds an embedded struct, whose fields stand beside the tag; name the field, `Note {{ text: String }}`, or give the enum a `content` too, `#[serde(tag = \"type\", content = \"value\")]`"
)]
#[doc(hidden)]
pub trait BesideTag<T> {
    fn check() {}
}
#[diagnostic::do_not_recommend]
impl<T: Embedded> BesideTag<T> for kind::Struct {}

/// Whether none of the names is that of a tag.
#[must_use]
#[doc(hidden)]
pub const fn leaves_to_tag(names: &[&str], tag: &str) -> bool {
    let mut i = 0;
    while i < names.len() {
        if same(names[i], tag) {
            return false;
        }
        i += 1;
    }
    true
}

/// The field that is stored as `_id`.
#[diagnostic::on_unimplemented(
    message = "a `{Self}` cannot be an `_id`",
    label = "no type of ids",
    note = "an id is an `ObjectId`, a `Uuid`, a `String`, an `i32`, `i64`, `u32` or `u64`, or a newtype of one that derives `Embedded`"
)]
#[doc(hidden)]
pub trait Identifies<T> {
    fn check() {}
}
#[diagnostic::do_not_recommend]
impl<T: Document, K: IntoKey<T>> Identifies<T> for K {}

/// The field in which the framework counts the writes of a document.
#[diagnostic::on_unimplemented(
    message = "a version is an `i64`, not a `{Self}`",
    label = "no type of versions"
)]
#[doc(hidden)]
pub trait Version {
    /// The version of a document that has just been inserted.
    const FIRST: Self;
}
#[diagnostic::do_not_recommend]
impl Version for i64 {
    const FIRST: Self = 1;
}

/// A field in which the framework keeps a time.
#[diagnostic::on_unimplemented(
    message = "a timestamp is a `DateTime`, not a `{Self}`",
    label = "no type of timestamps"
)]
#[doc(hidden)]
pub trait Timestamp {
    /// This moment.
    fn at(moment: DateTime) -> Self;
}
#[diagnostic::do_not_recommend]
impl Timestamp for DateTime {
    fn at(moment: DateTime) -> Self {
        moment
    }
}

/// The field in which the framework keeps when a document was deleted.
#[diagnostic::on_unimplemented(
    message = "a soft delete is an `Option<DateTime>`, not a `{Self}`",
    label = "no type of a date that may be missing"
)]
#[doc(hidden)]
pub trait DeletedAt {
    /// That of a document that is not deleted.
    const NEVER: Self;
}
#[diagnostic::do_not_recommend]
impl<T: Timestamp> DeletedAt for Option<T> {
    const NEVER: Self = None;
}

/// What a field of a model holds.
#[doc(hidden)]
pub struct Held<T>(std::marker::PhantomData<T>);

impl<T> Held<T> {
    /// A projection may hold it as a `P`.
    pub fn fits<P: Holds<T>>(&self) -> &Self {
        self
    }

    /// It is read by serde itself.
    pub fn plainly(&self)
    where
        T: Stored<Kind: ReadPlainly<T>>,
    {
    }

    /// It is read by `odm::native`.
    pub fn natively(&self)
    where
        T: Stored<Kind: ReadNatively<T>>,
    {
    }
}

/// The `_id` of a variant, which is of one type with those of the others.
#[diagnostic::on_unimplemented(
    message = "the `_id` of this variant is a `{Self}`, and that of the first one a `{T}`",
    label = "another type of ids",
    note = "the documents of one collection have ids of one type: give the structs of all variants the same"
)]
#[doc(hidden)]
pub trait SameId<T> {
    /// The id.
    fn same(&self) -> &T;
}
#[diagnostic::do_not_recommend]
impl<T> SameId<T> for T {
    fn same(&self) -> &T {
        self
    }
}

/// A field of a variant's model that all variants share.
#[doc(hidden)]
pub struct Shared<T>(std::marker::PhantomData<T>);

/// The field of one variant.
#[doc(hidden)]
pub fn shared<P: Place>(_: P) -> Shared<P::Value> {
    Shared(std::marker::PhantomData)
}

impl<T> Shared<T> {
    /// It holds a `U` in the variant with the model `V`.
    pub fn holds<U, V>(&self)
    where
        T: SharedAs<U, V>,
    {
    }
}

/// What a variant holds in a shared field.
#[diagnostic::on_unimplemented(
    message = "the variant `{V}` has a `{Self}` where the enum shares a `{U}`",
    label = "not the type of the field in every variant",
    note = "a field that is shared has the same name and the same type in the struct of each variant"
)]
#[doc(hidden)]
pub trait SharedAs<U, V> {}
#[diagnostic::do_not_recommend]
impl<T, V> SharedAs<T, V> for T {}

/// The path of a field that all variants share, as each has it: an array holds no more than the least bound allows.
#[must_use]
#[doc(hidden)]
pub fn shared_path<const N: usize>(paths: [Path; N]) -> Path {
    let least = paths
        .into_iter()
        .min_by_key(|path| path.max().unwrap_or(usize::MAX));
    least.unwrap_or(Path::ROOT)
}

/// The path of a field.
#[doc(hidden)]
pub fn path_of<P: Place>(place: P) -> Path {
    place.path()
}

/// A field is the inverse of a reference of type `R` in the model `M`.
#[doc(hidden)]
pub fn inverse_side<M, R: RefersTo, P: InverseFrom<M>>(
    _: impl FnOnce(<R::Target as Document>::Fields) -> P,
) {
}

/// A field is the reference of which one of type `R` in the model `M` is the inverse.
#[doc(hidden)]
pub fn owning_side<M, R: RefersTo, P: LeadsTo<M>>(
    _: impl FnOnce(<R::Target as Document>::Fields) -> P,
) {
}

/// The type is the model of a variant.
#[doc(hidden)]
pub fn variant<V: VariantOf<E>, E>() {}

/// Whether a field is stored under this name; true for a field that does not exist, which is another error.
#[must_use]
#[doc(hidden)]
pub const fn stores_as<T: Projected>(field: &str, stored: &str) -> bool {
    let names = T::NAMES;
    let mut i = 0;
    while i < names.len() {
        if same(names[i].0, field) {
            return same(names[i].1, stored);
        }
        i += 1;
    }
    true
}

/// The field tree of what a projection is of.
#[must_use]
#[doc(hidden)]
pub fn tree_of<T: Projected>() -> T::Tree {
    FromPath::from_path(Path::ROOT)
}

#[doc(hidden)]
pub fn value_of<F: Place<Shape: AlwaysStored>>(_: F) -> Held<F::Value> {
    Held(std::marker::PhantomData)
}

/// The same of a field of a projection with serde's `default`.
#[doc(hidden)]
pub fn value_or_default_of<F: Place>(_: F) -> Held<F::Value> {
    Held(std::marker::PhantomData)
}

/// Whether serde's `skip_serializing_if` leaves a stored value out.
#[doc(hidden)]
pub fn is_omitted<T: Stored>(value: &RawBson, omits: impl Fn(&T) -> bool) -> bool {
    decode::value(value).is_ok_and(|value| omits(&value))
}

/// Whether `None` is left out: no, where there is no `skip_serializing_if`.
#[doc(hidden)]
#[must_use]
pub fn omits_nothing() -> bool {
    false
}

/// Whether serde's `skip_serializing_if` leaves `None` out.
#[doc(hidden)]
pub fn omits_none<T: Stored>(omits: impl Fn(&T) -> bool) -> bool {
    T::MAY_BE_NONE && is_omitted(&RawBson::Null, omits)
}

/// A missing value of the type reads as nothing: no value, or no elements.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a missing `{Self}` would read as one whose fields are nowhere stored",
    label = "has serde's `default`, and fields of its own",
    note = "no condition sees these fields, and no update writes to one of them: make it an `Option`, or bring older documents up to date by a \
            `schema_version` with an `upgrade`"
)]
pub trait ReadsAsNothing {}
#[diagnostic::do_not_recommend]
impl<T: Stored<ShapeWithDefault<shape::One> = shape::One>> ReadsAsNothing for T {}

/// Checks that a missing value of the type reads as nothing; called by derived code, at compile time.
#[doc(hidden)]
pub fn reads_as_nothing<T: ReadsAsNothing>() {}

/// The hooks of a model.
#[must_use]
#[doc(hidden)]
pub fn hooks<T: Hooks>() -> &'static dyn RunHooks<T> {
    &Erased(std::marker::PhantomData)
}

/// The compiler's answer is at the type that the user wrote.
#[doc(hidden)]
pub fn closed<S: Schema, T: Closed<S>>() {}

/// Checks the length of an array.
///
/// # Errors
///
/// [`TooManyElements`](crate::ErrorKind::TooManyElements).
#[doc(hidden)]
pub fn validate_len(found: usize, place: &Checked<'_>, max: usize) -> Result<()> {
    if found > max {
        return place.refuse(too_many(max, found));
    }
    crate::trace::length(place.path(), found, max);
    Ok(())
}

/// A path of an index.
#[doc(hidden)]
pub fn index_key<P: Place>(place: P, direction: Direction) -> (String, Direction) {
    (place.path().to_string(), direction)
}

/// A path of a unique index of all documents.
#[doc(hidden)]
pub fn unique_key<P: AlwaysThere>(place: P, direction: Direction) -> (String, Direction) {
    index_key(place, direction)
}

/// Places with exactly one value in every document.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a second document without a value would be a duplicate in this unique index",
    label = "optional, an array, or inside of an array",
    note = "limit the index to documents with a value: `partial = |m| m.address().zip().gt(\"\")`"
)]
pub trait AlwaysThere: Place {}
#[diagnostic::do_not_recommend]
impl<M, T, R> AlwaysThere for Field<M, T, R, shape::One> where Self: Place {}

/// The path of an index that deletes documents some time after the date in it.
#[doc(hidden)]
pub fn index_date<P: Place<Value: Date>>(place: P, direction: Direction) -> (String, Direction) {
    index_key(place, direction)
}

/// The index by which documents of older versions are found.
#[doc(hidden)]
pub fn index_of_versions() -> Index {
    Index::new(vec![(
        crate::schema::upgrade::MARK.to_owned(),
        Direction::Ascending,
    )])
}

/// What a newtype holds: a stored value is looked into, any other is [`Opaque`].
#[derive(Debug)]
#[doc(hidden)]
pub struct Inside<'v, T>(pub &'v T);

impl<T: Stored> Inside<'_, T> {
    pub fn variants(&self, found: &mut Variants) {
        self.0.variants(found);
    }
}

impl<T: Stored> Inside<'_, T> {
    pub const LINKS: LinksInside = T::LINKS;
}

/// Where nothing is found.
#[doc(hidden)]
pub trait Opaque {
    const LINKS: LinksInside = LinksInside::NONE;
    fn variants(&self, _: &mut Variants) {}
}
impl<T> Opaque for Inside<'_, T> {}

/// The declared indexes, with that by which what writes to links have begun is found, and for each reference with a rule one by which
/// the documents are found that refer to another one, where that does not list them all.
#[must_use]
#[doc(hidden)]
pub fn with_references(model: &Model, mut declared: Vec<Index>) -> Vec<Index> {
    let links = model.links();
    if !links.is_empty() || !model.inverses.is_empty() {
        declared.push(Index::sparse_on("_odm.due"));
    }
    for link in links.iter().filter(|link| link.lister().is_none()) {
        Index::declare_on(link.side.stored, &mut declared);
    }
    declared
}

/// The declared indexes, with one that begins with the shard key.
#[must_use]
#[doc(hidden)]
pub fn with_shard_key(model: &Model, mut declared: Vec<Index>) -> Vec<Index> {
    if let Some(key) = model.shard_key() {
        let has_own = key.fields == ["_id"] && key.hashed.is_none();
        if !has_own && !declared.iter().any(|index| index.begins_with(&key)) {
            declared.push(key.index());
        }
    }
    declared
}

/// The condition of a partial index.
///
/// # Panics
///
/// When the condition has a value that cannot be stored: it is part of the declaration, so no run can go well.
#[doc(hidden)]
pub fn index_partial<T: Document, F: IntoFilter<T>>(
    condition: impl FnOnce(T::Fields) -> F,
) -> Option<bson::RawDocumentBuf> {
    condition(T::fields()).into_filter().map(|filter| {
        filter
            .to_raw()
            .unwrap_or_else(|error| panic!("the partial index of `{}`: {error}", T::MODEL.name))
    })
}
