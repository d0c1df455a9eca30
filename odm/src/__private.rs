//! What derived code calls. Not part of the API.

pub use std::{
    option::Option::{self, None, Some},
    result::Result::Ok,
    time::Duration,
    vec::Vec,
};

pub use crate::{
    Result,
    backend::operation::{Direction, Index},
    document::{Document, Embedded, Stored, kind},
    field::{Field, FromPath, Ordered, Path, Place, role, shape},
    projection::{Holds, Projection},
    query::{Filter, IntoKey},
    schema::{Closed, Contains, Model, Schema, is_first_on_its_collection},
};
use crate::{error::too_many, field::Date, query::IntoFilter};

/// A field without an attribute.
#[diagnostic::on_unimplemented(
    message = "how is a `{Self}` stored? Its field needs an attribute that says so",
    label = "more than one value",
    note = "`#[embed]` for an embedded struct or a map, `#[embed(max = N)]` or `#[embed(unbounded)]` for an array, `#[reference]` for a `Ref` or an array of them"
)]
pub trait Plain {}
#[diagnostic::do_not_recommend]
impl<T: Stored<Kind = kind::Value>> Plain for T {}

/// A field with `#[embed]`.
#[diagnostic::on_unimplemented(
    message = "`#[embed]` is for embedded structs and maps, not for a `{Self}`",
    label = "neither an embedded struct nor a map",
    note = "an array says how long it can get: `#[embed(max = N)]`, or `#[embed(unbounded)]`; a `Ref` is a `#[reference]`; a single value needs no attribute"
)]
pub trait Embeds {}
#[diagnostic::do_not_recommend]
impl<T: Stored<Kind: Whole>> Embeds for T {}

/// The kinds of `#[embed]`.
pub trait Whole {}
impl Whole for kind::Struct {}
impl Whole for kind::Map {}

/// A field with `#[embed(max = …)]` or `#[embed(unbounded)]`.
#[diagnostic::on_unimplemented(
    message = "only an array has a length: a `{Self}` has neither `max` nor `unbounded`",
    label = "no array of embedded values",
    note = "an array of `Ref` is a `#[reference]`"
)]
pub trait EmbedsMany {}
#[diagnostic::do_not_recommend]
impl<T: Stored<Kind = kind::Array>> EmbedsMany for T {}

/// A field with `#[reference]`.
#[diagnostic::on_unimplemented(
    message = "`#[reference]` is for `Ref<…>`, `Option<Ref<…>>` and `Vec<Ref<…>>`, not for a `{Self}`",
    label = "no reference"
)]
pub trait Refers {}
#[diagnostic::do_not_recommend]
impl<T: Stored<Kind: Referring>> Refers for T {}

/// The kinds of `#[reference]`.
pub trait Referring {}
impl Referring for kind::Reference {}
impl Referring for kind::References {}

/// An array that is counted against its `max`.
#[diagnostic::on_unimplemented(
    message = "only an array has a `max`, not a `{Self}`",
    label = "no array"
)]
pub trait Counted {
    /// How many elements it has.
    fn count(&self) -> usize;
}
impl<T> Counted for Vec<T> {
    fn count(&self) -> usize {
        self.len()
    }
}
impl<T> Counted for Option<Vec<T>> {
    fn count(&self) -> usize {
        self.as_ref().map_or(0, Vec::len)
    }
}

// One function for each question, so that the compiler's answer is at the type that the user wrote.
pub fn plain<T: Plain>() {}
pub fn embeds<T: Embeds>() {}
pub fn embeds_many<T: EmbedsMany>() {}
pub fn refers<T: Refers>() {}
pub fn closed<S: Schema, T: Closed<S>>() {}
pub fn holds<P: Holds<F::Value>, F: Place>(_: F) {}

/// Checks a value below `path`.
///
/// # Errors
///
/// What the value's type finds.
pub fn validate<T: Stored>(value: &T, path: &Path) -> Result<()> {
    value.validate(path)
}

/// Checks the length of an array.
///
/// # Errors
///
/// [`TooManyElements`](crate::ErrorKind::TooManyElements).
pub fn validate_len<T: Counted>(value: &T, path: &Path, max: usize) -> Result<()> {
    let found = value.count();
    if found > max {
        return Err(too_many(max, found).with_path(path.to_string()));
    }
    Ok(())
}

/// A path of an index.
pub fn index_key<P: Place>(place: P, direction: Direction) -> (String, Direction) {
    (place.path().to_string(), direction)
}

/// The path of an index that deletes documents some time after the date in it.
pub fn index_date<P: Place<Value: Date>>(place: P, direction: Direction) -> (String, Direction) {
    index_key(place, direction)
}

/// The condition of a partial index.
///
/// # Panics
///
/// When the condition has a value that cannot be stored: it is part of the declaration, so no run can go well.
pub fn index_partial<T: Document, F: IntoFilter<T>>(
    condition: impl FnOnce(T::Fields) -> F,
) -> Option<bson::RawDocumentBuf> {
    condition(T::fields()).into_filter().map(|filter| {
        filter
            .to_raw()
            .unwrap_or_else(|error| panic!("the partial index of `{}`: {error}", T::MODEL.name))
    })
}
