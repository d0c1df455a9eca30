//! Traits and functions that derived code requires of the types in a model. The compiler names these items when a type does not
//! fit.
//!
//! Only derived code calls or implements these items. The items can change in every version.

use bson::{Bson, DateTime, RawBson, doc};
use serde::{Deserialize, Deserializer};

#[cfg(feature = "garde")]
#[doc(hidden)]
pub use crate::model::validation::{Validated, checked, find_violations};
use crate::{
    Result,
    backend::operation::{Direction, Index},
    error::too_many_elements,
    language::{
        field::{
            AlwaysStored, CheckedPlace, Date, Field, FromPath, Path, Place, VariantMap, shape,
        },
        query::{IntoFilter, IntoKey},
    },
    metadata::{SCHEMA_VERSION, caseless_path, text_of_caseless},
    model::{
        decode,
        document::{Document, Embedded, Stored, VariantOf, kind},
        hook::{ErasedHooks, Hooks, RunHooks},
        projection::{FitsField, Projected},
        stored::to_raw_document,
    },
    schema::{
        EmbeddedLinks, InverseFrom, Model, ReferenceTo, RefersTo, Schema, TargetsInSchema, str_eq,
    },
};

/// Defines traits that check a field's attribute against the type of the field. Each trait is implemented for the kinds of types
/// that accept the attribute. `T` appears in the error message.
macro_rules! layouts {
    ($($(#[$attr:meta])* $layout:ident: $($kind:ident)*;)*) => {$(
        $(#[$attr])*
        #[doc(hidden)]
        pub trait $layout<T> {
            fn check_layout() {}
        }
        $(
            #[diagnostic::do_not_recommend]
            impl<T> $layout<T> for kind::$kind {}
        )*
    )*};
}

layouts! {
    /// The type of a field without an attribute.
    #[diagnostic::on_unimplemented(
        message = "a field of type `{T}` needs an attribute that says how it is stored",
        label = "not a single value",
        note = "write `#[embed]` for an embedded struct, an enum with data, a map or a `[T; N]`, `#[embed(max = N)]` or `#[embed(unbounded)]` for an array, `#[reference]` for a `Ref` or an array of `Ref`",
        note = "for a date, a decimal or a UUID of another crate, and for a `Duration`, write `#[serde(with = \"odm::native\")]`"
    )]
    Plain: Value;

    /// The type of a field with `#[embed]`.
    #[diagnostic::on_unimplemented(
        message = "`#[embed]` is for an embedded struct, an enum with data, a map or a `[T; N]`, not for a `{T}`",
        label = "has no fields to embed",
        note = "for an array, write `#[embed(max = N)]` or `#[embed(unbounded)]`; for a `Ref`, write `#[reference]`; a single value needs no attribute",
        note = "for a map with integers or ids as keys, or with values of another crate, also write `#[serde(with = \"odm::native\")]`"
    )]
    Embeds: Struct Enum Map FixedArray;

    /// The type of a field with `#[embed(max = N)]` or `#[embed(unbounded)]`.
    #[diagnostic::on_unimplemented(
        message = "`max` and `unbounded` are for an array of embedded values, not for a `{T}`",
        label = "not an array of embedded values",
        note = "for an embedded struct, an enum with data or a map, write `#[embed]`; for an array of `Ref`, write `#[reference]`; a single value needs no attribute",
        note = "for dates, decimals and UUIDs of another crate, and for `Duration`s, also write `#[serde(with = \"odm::native\")]`"
    )]
    EmbedsMany: Array;

    /// The type of a projection field without an attribute.
    #[diagnostic::on_unimplemented(
        message = "a `{T}` field of a projection needs `#[serde(with = \"odm::native\")]`",
        label = "serde would expect another form than the stored one",
        note = "write the same attribute as in the model"
    )]
    ReadPlainly: Value Struct Enum Array FixedArray Map Overflowing Reference References;

    /// The type of a projection field with `with = "odm::native"`.
    #[diagnostic::on_unimplemented(
        message = "`odm::native` is for dates, decimals and UUIDs of other crates, durations, and maps with integers or ids as keys, not for a `{T}`",
        label = "serde's own form is stored",
        note = "remove the `with`"
    )]
    ReadNatively: Native NativeArray NativeFixedArray NativeMap;

    /// The type of a field with `with = "odm::native"`.
    #[diagnostic::on_unimplemented(
        message = "`odm::native` is for dates, decimals and UUIDs of other crates, durations, and maps with integers or ids as keys, not for a `{T}`",
        label = "serde's own form is stored",
        note = "remove the `with`; for an array of dates, also write `#[embed(max = N)]`"
    )]
    Native: Native;

    /// The type of an array field with `with = "odm::native"`.
    #[diagnostic::on_unimplemented(
        message = "`odm::native` is for dates, decimals and UUIDs of other crates, durations, and maps with integers or ids as keys, not for a `{T}`",
        label = "serde's own form is stored",
        note = "remove the `with`"
    )]
    Natives: NativeArray;

    /// The type of a field with `#[embed]` and `with = "odm::native"`.
    #[diagnostic::on_unimplemented(
        message = "`odm::native` is for dates, decimals and UUIDs of other crates, durations, and maps with integers or ids as keys, not for a `{T}`",
        label = "serde's own form is stored",
        note = "remove the `with`; a single value and an array have no `#[embed]` without settings"
    )]
    EmbedsNatives: NativeMap NativeFixedArray;

    /// The type of a field with `#[reference]`.
    #[diagnostic::on_unimplemented(
        message = "`#[reference]` is for `Ref<…>`, `Option<Ref<…>>` and `Vec<Ref<…>>`, not for a `{T}`",
        label = "not a reference",
        note = "for an embedded struct, an enum with data or a map, write `#[embed]`; a single value needs no attribute"
    )]
    Refers: Reference References;

    /// The type of a field with `#[reference(max = N)]`.
    #[diagnostic::on_unimplemented(
        message = "`max` is for an array of references, not for a `{T}`",
        label = "not an array of references",
        note = "remove the `max`"
    )]
    RefersMany: References;

    /// The type of a shard key field.
    #[diagnostic::on_unimplemented(
        message = "a `{T}` cannot be part of a shard key",
        label = "not a single value",
        note = "the fields of a shard key are numbers, texts, dates, ids, single references, and enums or newtypes of these"
    )]
    Shards: Value Native Reference;

    /// The type of a variant's content without an attribute.
    #[diagnostic::on_unimplemented(
        message = "the `{T}` of this variant needs an attribute that says how it is stored",
        label = "is an array or a reference",
        note = "before the type, write `#[embed(max = N)]` or `#[embed(unbounded)]` for an array, `#[reference]` for a `Ref` or an array of `Ref`: `Tags(#[embed(max = 20)] Vec<String>)`",
        note = "for a date or a decimal of another crate, write `#[serde(with = \"odm::native\")]` before the type"
    )]
    PlainContent: Value Struct Enum Map FixedArray;
}

/// The content type of a newtype variant of an internally tagged enum.
#[diagnostic::on_unimplemented(
    message = "a `{T}` cannot be stored beside the tag of an enum",
    label = "not an embedded struct",
    note = "an internally tagged enum stores the fields of a newtype variant beside the tag, so the variant must hold an embedded struct: name the field, `Note {{ text: String }}`, or add `content`, `#[serde(tag = \"type\", content = \"value\")]`"
)]
#[doc(hidden)]
pub trait BesideTag<T> {
    fn check_layout() {}
}
#[diagnostic::do_not_recommend]
impl<T: Embedded> BesideTag<T> for kind::Struct {}

/// Whether no name equals the tag.
#[must_use]
#[doc(hidden)]
pub const fn leaves_to_tag(names: &[&str], tag: &str) -> bool {
    let mut i = 0;
    while i < names.len() {
        if str_eq(names[i], tag) {
            return false;
        }
        i += 1;
    }
    true
}

/// The type of the field that is stored as `_id`.
#[diagnostic::on_unimplemented(
    message = "a `{Self}` cannot be an `_id`",
    label = "not an id type",
    note = "an id is an `ObjectId`, a `Uuid` (also of the crate `uuid`, by the feature `uuid`), a `String`, an `i32`, `i64`, `u32` or `u64`, or a newtype of one that derives `Embedded`"
)]
#[doc(hidden)]
pub trait Identifies<T> {
    fn check_id_type() {}
}
#[diagnostic::do_not_recommend]
impl<T: Document, K: IntoKey<T>> Identifies<T> for K {}

/// The type of a version field, which counts the writes of a document.
#[diagnostic::on_unimplemented(
    message = "a version is an `i64`, not a `{Self}`",
    label = "not a version type"
)]
#[doc(hidden)]
pub trait Version {
    /// The version of a new document.
    const FIRST: Self;
}
#[diagnostic::do_not_recommend]
impl Version for i64 {
    const FIRST: Self = 1;
}

/// The type of a timestamp field.
#[diagnostic::on_unimplemented(
    message = "a timestamp is a `DateTime`, not a `{Self}`",
    label = "not a timestamp type",
    note = "a timestamp is a `DateTime` or, with `#[serde(with = \"odm::native\")]` and the feature of the crate, a \
         `chrono::DateTime<Utc>`, a `time::OffsetDateTime` or a `jiff::Timestamp`; a newtype or a date without a time is none"
)]
#[doc(hidden)]
pub trait Timestamp {
    /// Converts a date to this type.
    fn from_datetime(moment: DateTime) -> Self;
}
#[diagnostic::do_not_recommend]
impl Timestamp for DateTime {
    fn from_datetime(moment: DateTime) -> Self {
        moment
    }
}

/// The type of a soft delete field.
#[diagnostic::on_unimplemented(
    message = "a soft delete is an `Option<DateTime>`, not a `{Self}`",
    label = "not an optional date",
    note = "the date is a `DateTime` or, with `#[serde(default, with = \"odm::native\")]` and the feature of the crate, a \
         `chrono::DateTime<Utc>`, a `time::OffsetDateTime` or a `jiff::Timestamp`; a newtype or a date without a time is none"
)]
#[doc(hidden)]
pub trait DeletedAt {
    /// The value of a document that is not deleted.
    const NEVER: Self;
}
#[diagnostic::do_not_recommend]
impl<T: Timestamp> DeletedAt for Option<T> {
    const NEVER: Self = None;
}

/// The type of a model field, for checks of projections.
#[doc(hidden)]
pub struct FieldValue<T>(std::marker::PhantomData<T>);

impl<T> FieldValue<T> {
    /// Checks that a projection can read the field as a `P`.
    pub fn fits<P: FitsField<T>>(&self) -> &Self {
        self
    }

    /// Checks that serde can read the field.
    pub fn plainly(&self)
    where
        T: Stored<Kind: ReadPlainly<T>>,
    {
    }

    /// Checks that `odm::native` can read the field.
    pub fn natively(&self)
    where
        T: Stored<Kind: ReadNatively<T>>,
    {
    }
}

/// The `_id` type of a variant, which must be the same in all variants.
#[diagnostic::on_unimplemented(
    message = "the `_id` of this variant is a `{Self}`, but the `_id` of the first variant is a `{T}`",
    label = "a different id type",
    note = "all documents of a collection have the same `_id` type: use one type in the structs of all variants"
)]
#[doc(hidden)]
pub trait SameId<T> {
    /// Returns the id.
    fn same_id(&self) -> &T;
}
#[diagnostic::do_not_recommend]
impl<T> SameId<T> for T {
    fn same_id(&self) -> &T {
        self
    }
}

/// The type of a field that all variants share.
#[doc(hidden)]
pub struct SharedField<T>(std::marker::PhantomData<T>);

/// Returns the type of a field of one variant.
#[doc(hidden)]
pub fn shared<P: Place>(_: P) -> SharedField<P::Value> {
    SharedField(std::marker::PhantomData)
}

impl<T> SharedField<T> {
    /// Checks that the field has the type `U` in the variant with the model `V`.
    pub fn holds<U, V>(&self)
    where
        T: SharedAs<U, V>,
    {
    }
}

/// The type of a shared field in one variant.
#[diagnostic::on_unimplemented(
    message = "the variant `{V}` has a `{Self}` where the enum shares a `{U}`",
    label = "a different type",
    note = "a shared field has the same name and the same type in the struct of each variant"
)]
#[doc(hidden)]
pub trait SharedAs<U, V> {}
#[diagnostic::do_not_recommend]
impl<T, V> SharedAs<T, V> for T {}

/// Returns the path of a field that all variants share. The bound of an array is the smallest bound of the variants.
#[must_use]
#[doc(hidden)]
pub fn shared_path<const N: usize>(paths: [Path; N]) -> Path {
    let path = paths
        .into_iter()
        .min_by_key(|path| path.max().unwrap_or(usize::MAX));
    path.unwrap_or(Path::ROOT)
}

/// Returns the path of a field.
#[doc(hidden)]
pub fn path_of<P: Place>(place: P) -> Path {
    place.path()
}

/// Checks that a field is the inverse of a reference of type `R` in the model `M`.
#[doc(hidden)]
pub fn check_inverse<M, R: RefersTo, P: InverseFrom<M>>(
    _: impl FnOnce(<R::Target as Document>::Fields) -> P,
) {
}

/// Checks that a field is the reference for an inverse of type `R` in the model `M`.
#[doc(hidden)]
pub fn check_reference<M, R: RefersTo, P: ReferenceTo<M>>(
    _: impl FnOnce(<R::Target as Document>::Fields) -> P,
) {
}

/// Checks that a type is the model of a variant.
#[doc(hidden)]
pub fn variant<V: VariantOf<E>, E>() {}

/// Whether a field has this stored name. Also true for a field that does not exist, because another check reports that error.
#[must_use]
#[doc(hidden)]
pub const fn stores_as<T: Projected>(field: &str, stored: &str) -> bool {
    let names = T::NAMES;
    let mut i = 0;
    while i < names.len() {
        if str_eq(names[i].0, field) {
            return str_eq(names[i].1, stored);
        }
        i += 1;
    }
    true
}

/// Reads a present value of a patch: a missing value is `None`, and null is `Some(None)` for an option of an option.
///
/// # Errors
///
/// The errors of the deserializer.
#[doc(hidden)]
pub fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Returns the field tree of a projection's model.
#[must_use]
#[doc(hidden)]
pub fn tree_of<T: Projected>() -> T::Tree {
    FromPath::from_path(Path::ROOT)
}

#[doc(hidden)]
pub fn value_of<F: Place<Shape: AlwaysStored>>(_: F) -> FieldValue<F::Value> {
    FieldValue(std::marker::PhantomData)
}

/// Returns the type of a field for a projection field with serde's `default`.
#[doc(hidden)]
pub fn value_or_default_of<F: Place>(_: F) -> FieldValue<F::Value> {
    FieldValue(std::marker::PhantomData)
}

/// Whether serde's `skip_serializing_if` omits a stored value.
#[doc(hidden)]
pub fn is_omitted<T: Stored>(value: &RawBson, omits: impl Fn(&T) -> bool) -> bool {
    decode::decode_value(value).is_ok_and(|value| omits(&value))
}

/// Returns `false`: without `skip_serializing_if`, `None` is stored.
#[doc(hidden)]
#[must_use]
pub fn omits_nothing() -> bool {
    false
}

/// Whether serde's `skip_serializing_if` omits `None`.
#[doc(hidden)]
pub fn omits_none<T: Stored>(omits: impl Fn(&T) -> bool) -> bool {
    T::MAY_BE_NONE && is_omitted(&RawBson::Null, omits)
}

/// A type for which a missing field means no value or no elements.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a missing `{Self}` would be read with default fields that are not stored",
    label = "an embedded type with serde's `default`",
    note = "filters and updates do not see the default fields: make the field an `Option`, or upgrade older documents by a `schema_version` with an `upgrade`"
)]
pub trait ReadsAsNothing {}
#[diagnostic::do_not_recommend]
impl<T: Stored<ShapeWithDefault<shape::One> = shape::One>> ReadsAsNothing for T {}

/// Checks at compile time that a missing field of this type means no value or no elements; called by derived code.
#[doc(hidden)]
pub fn reads_as_nothing<T: ReadsAsNothing>() {}

/// Returns the hooks of a model.
#[must_use]
#[doc(hidden)]
pub fn hooks<T: Hooks>() -> &'static dyn RunHooks<T> {
    &ErasedHooks(std::marker::PhantomData)
}

/// Checks the schema of a model, so that the compiler reports an error at the user's type.
#[doc(hidden)]
pub fn closed<S: Schema, T: TargetsInSchema<S>>() {}

/// Checks the length of an array.
///
/// # Errors
///
/// [`TooManyElements`](crate::ErrorKind::TooManyElements).
#[doc(hidden)]
pub fn validate_len(len: usize, place: &CheckedPlace<'_>, max: usize) -> Result<()> {
    if len > max {
        return place.fail_if_written(too_many_elements(max, len));
    }
    crate::session::trace::warn_near_max(place.path(), len, max);
    Ok(())
}

/// Returns a key of an index.
#[doc(hidden)]
pub fn index_key<P: Place>(place: P, direction: Direction) -> (String, Direction) {
    (place.path().to_string(), direction)
}

/// Returns a key of a unique index over all documents.
#[doc(hidden)]
pub fn unique_key<P: AlwaysThere>(place: P, direction: Direction) -> (String, Direction) {
    index_key(place, direction)
}

/// Returns a key of an index that ignores case: the caseless text.
#[doc(hidden)]
pub fn caseless_key<P: Place<Value: CaselessText>>(
    place: P,
    direction: Direction,
) -> (String, Direction) {
    (caseless_path(&place.path().to_string()), direction)
}

/// Lets a unique index leave out documents without the caseless text, which an older program has written. Without the text, the
/// second such document would be a duplicate.
#[doc(hidden)]
pub fn leave_out_missing_texts(index: &mut Index) {
    if index.keys.len() == 1 {
        index.sparse = true;
        return;
    }
    let caseless = index.keys.iter().map(|(path, _)| path.as_str());
    let caseless = caseless.filter(|path| text_of_caseless(path) != *path);
    let is_present = |path: &str| (path.to_owned(), Bson::from(doc! { "$exists": true }));
    let condition: bson::Document = caseless.map(is_present).collect();
    let condition = to_raw_document(&condition).unwrap_or_else(|error| panic!("{error}"));
    index.partial = Some(condition);
}

/// Lets an index on the scope and another field leave out documents without the other field. In a sparse index, the scope would keep
/// every document.
#[doc(hidden)]
pub fn leave_out_missing(index: &mut Index) {
    let others = index.keys.iter().skip(1);
    let present = others.map(|(path, _)| (path.clone(), Bson::from(doc! { "$exists": true })));
    let condition: bson::Document = present.collect();
    let condition = to_raw_document(&condition).unwrap_or_else(|error| panic!("{error}"));
    index.partial = Some(condition);
}

/// The type of a text with an index that ignores case.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "an index of a `{Self}` cannot ignore case",
    label = "not a text",
    note = "`ignore_case` needs a `String` or an `Option<String>`"
)]
pub trait CaselessText {}
#[diagnostic::do_not_recommend]
impl CaselessText for String {}
#[diagnostic::do_not_recommend]
impl CaselessText for Option<String> {}

/// A path with exactly one value in every document.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a second document without a value would be a duplicate in this unique index",
    label = "optional, an array, or inside an array",
    note = "limit the index to documents with a value: `partial = |m| m.address().zip().gt(\"\")`"
)]
pub trait AlwaysThere: Place {}
#[diagnostic::do_not_recommend]
impl<M, T, R> AlwaysThere for Field<M, T, R, shape::One> where Self: Place {}

/// Returns the key of a TTL index, which deletes documents some time after the date.
#[doc(hidden)]
pub fn index_date<P: Place<Value: Date>>(place: P, direction: Direction) -> (String, Direction) {
    index_key(place, direction)
}

/// Returns the index that finds documents of older versions.
#[doc(hidden)]
pub fn index_of_versions() -> Index {
    Index::new(vec![(SCHEMA_VERSION.to_owned(), Direction::Ascending)])
}

/// The content of a newtype: variants are collected from stored types, and any other type is [`Opaque`].
#[derive(Debug)]
#[doc(hidden)]
pub struct NewtypeContent<'v, T>(pub &'v T);

impl<T: Stored> NewtypeContent<'_, T> {
    pub fn variants(&self, variants: &mut VariantMap) {
        self.0.variants(variants);
    }
}

impl<T: Stored> NewtypeContent<'_, T> {
    pub const LINKS: EmbeddedLinks = T::LINKS;
}

/// A newtype content without variants.
#[doc(hidden)]
pub trait Opaque {
    const LINKS: EmbeddedLinks = EmbeddedLinks::NONE;
    fn variants(&self, _: &mut VariantMap) {}
}
impl<T> Opaque for NewtypeContent<'_, T> {}

/// Adds indexes for references to the declared indexes: each reference with a delete rule and without an inverse gets an index,
/// which finds the referrers of a deleted target.
#[must_use]
#[doc(hidden)]
pub fn with_references(model: &Model, mut declared: Vec<Index>) -> Vec<Index> {
    for link in model
        .links()
        .iter()
        .filter(|link| link.complete_inverse().is_none())
    {
        Index::declare_on(link.link_field.stored, &mut declared);
    }
    declared
}

/// Adds an index that begins with the shard key to the declared indexes.
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

/// Returns the condition of a partial index.
///
/// # Panics
///
/// Panics if the condition has a value that cannot be stored. The condition is part of the declaration, so every run would fail.
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
